"""Where notes about restored parts were kept before the pod's launcher needed them too: `tree.receipts`."""

from __future__ import annotations

from glowplug.tree.receipts import in_tree

__all__ = ["in_tree"]
