"""Which process this is, beyond its number: numbers come back, in a restarted container at once."""

from __future__ import annotations

from pathlib import Path


def born(pid: int) -> str:
    """The moment a process was started, in the kernel's ticks; "" where there is none, or one that nobody has reaped yet."""
    try:
        # The name in parentheses may hold anything, parentheses too.
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return "" if words[0] in (b"Z", b"X") else words[19].decode("ascii")
    except (OSError, IndexError, UnicodeDecodeError):
        return ""
