"""Python's search for garbage, for commands that read many manifests and end."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def rarely() -> Iterator[None]:
    """Trees of a thousand manifests are kept to the end: to look through them for garbage again and again, and once more when the
    process ends, doubles the time."""
    before = gc.get_threshold()
    gc.set_threshold(2_000_000, 20, 100)
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(*before)
