"""Read-only answers about what is outside."""
