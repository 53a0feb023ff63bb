"""What glowplug knows about engines: one folder each, behind the contract of `adapter.py`. Tables explain, they gate
nothing.
"""
