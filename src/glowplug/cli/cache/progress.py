"""What is going on, for a person who waits: one line on stderr that is drawn anew, on a terminal only."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from glowplug.core import units
from glowplug.store.counting import Counter

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_SECONDS: Final = 1.0
_EVERY_SECONDS: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


@contextlib.contextmanager
def progress(doing: str) -> Iterator[Counter]:
    """A counter to open the store with; while the block runs, what it counts is shown after a second."""
    counter = Counter()
    if not _watched():
        yield counter
        return
    done = threading.Event()
    worker = threading.Thread(target=_draw, args=(doing, counter, done), daemon=True)
    worker.start()
    try:
        yield counter
    finally:
        done.set()
        worker.join(1.0)


def _watched() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _draw(doing: str, counter: Counter, done: threading.Event) -> None:
    began = time.monotonic()
    if done.wait(_PATIENCE_SECONDS):
        return
    with contextlib.suppress(OSError, ValueError):
        while True:
            counts = counter.counts
            moved = units.format_size(counts.bytes_read + counts.bytes_written)
            sys.stderr.write(f"{_CLEAR}{doing}: {moved}, {time.monotonic() - began:.0f} s")
            sys.stderr.flush()
            if done.wait(_EVERY_SECONDS):
                break
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
