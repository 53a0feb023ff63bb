"""A start on the engine's own interpreter: everything before the engine, the pod's watcher, and what `run` shares with them.

Standard library only. Where artifacts come from and where new ones go is handed in as functions, so that the same steps serve
the node store, a store in S3, and `run`. Nothing here may keep an engine from starting.
"""
