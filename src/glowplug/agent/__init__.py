"""The agent of a node: what it fetches, gives, takes back, publishes and tells. One concern a file; `loop.py` joins them."""
