"""Where the words for restore and publish reasons were before the pod's launcher needed them too: `core.faults`."""

from __future__ import annotations

from glowplug.core.faults import reason_of

__all__ = ["reason_of"]
