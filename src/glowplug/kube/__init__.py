"""What the Kubernetes API says of nodes and pods, and the little that is said to it."""
