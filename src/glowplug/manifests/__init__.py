"""Kubernetes YAML as people write it, and the one statement of what a warmed pod carries."""
