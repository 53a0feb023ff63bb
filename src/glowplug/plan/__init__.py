"""From a model and a machine to settings: each with its reason, and what bounds the load."""
