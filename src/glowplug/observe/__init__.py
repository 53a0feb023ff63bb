"""What happened after the engine was started: opened files, readiness, what is new, the verdict. Used by `run` and in pods.

Standard library only, since the pod's watcher runs on the engine's interpreter. Modules here look and conclude; they never
publish, print or count.
"""
