"""Manifests ready to apply, one file a kind."""
