"""What the EC2 and EKS control planes say, read-only. Never objects: those are the store's."""
