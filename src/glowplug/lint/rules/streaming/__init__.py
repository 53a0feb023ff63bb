"""Weights from S3: the streamer, its variables, and what it needs of the node."""
