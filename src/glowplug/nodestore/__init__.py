"""The directory through which a node's agent and the pods of that node hand artifacts to each other. Standard library only.

Two halves, for two sides that do not trust each other alike: the store, which the agent fills and pods only read, and the outbox,
which a pod fills and the agent reads as the work of an enemy. Either side works without the other: a pod without an agent waits a
little and starts as it always did, and an agent outlives whatever a pod leaves behind.
"""
