"""Compile caches: where they lie, who writes them, and what makes an engine miss."""
