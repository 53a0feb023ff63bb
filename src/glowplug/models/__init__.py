"""What an engine would load, read where it lies without loading it."""
