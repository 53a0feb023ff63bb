"""The machine as glowplug needs to know it: GPUs, processors, mounts, space, what can be written. Standard library
only.
"""
