"""How much text references may bring to where they stand.

Ten variables, each ten times the one before it, are a few lines to write and gigabytes to read. No program starts with so much
(the kernel takes 128 KiB for one argument), so whoever follows references stops there instead of reading on.
"""

from __future__ import annotations

from typing import Final

from glowplug.engines.written import Written

LARGEST: Final = 1 << 20
"""Characters that all references of one command, or of one container's variables, bring together."""
_PIECE: Final = 16
"""What a piece counts beside its characters: pieces that know their places take time even where they are short."""


class Room:
    """What is left of it."""

    def __init__(self, left: int = LARGEST) -> None:
        self._left = left

    def takes(self, text: str) -> bool:
        """Whether there is room for it; then there is less."""
        self._left -= len(text) + _PIECE * (len(text.marks) if isinstance(text, Written) else 1)
        return self._left >= 0
