"""Kubernetes around the engine: GPUs, probes, taints, node pools."""
