"""Parts of `render/inject.py`: what a pod is to an edit, what of it is glowplug's, and the edit of each of its lists."""
