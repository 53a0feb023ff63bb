"""What earlier starts in this cache root have taught: cold compile seconds of entries, and parts that have proved themselves.

A small file beside the caches. It tells a later start in the same root what an entry's cold compilation cost (the yardstick of
`partial`), and which restored parts have already carried a start to ready: when a later start fails for another reason, those
are not suspects. It is a help, never a condition: a damaged or missing history is an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core import atomic, files
from glowplug.core.documents import codec
from glowplug.core.errors import BadInputError
from glowplug.tree import paths
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE: Final = ".glowplug/history.json"
_MOST: Final = 1000
_LARGEST: Final = 1 << 20


@dataclass(frozen=True)
class History:
    """`cold_seconds`: entry name → seconds its compilation took here; `proved`: digests of parts that carried a start to ready."""

    cold_seconds: Mapping[str, float] = field(default_factory=dict)
    proved: tuple[str, ...] = ()

    def after_cold(self, entries: Iterable[str], seconds: float) -> History:
        """The history after these entries were compiled here in `seconds`."""
        known = {**self.cold_seconds, **dict.fromkeys(entries, seconds)}
        return History(dict(list(known.items())[-_MOST:]), self.proved)

    def after_ready(self, parts: Iterable[str]) -> History:
        """The history after a start with these parts in its tree became ready."""
        proved = dict.fromkeys((*self.proved, *parts))
        return History(self.cold_seconds, tuple(proved)[-_MOST:])

    def cold(self, entries: Iterable[str]) -> Optional[float]:
        """What compiling the slowest of these entries took here; None where none of them is known."""
        return max((self.cold_seconds[name] for name in entries if name in self.cold_seconds), default=None)

    def unproved(self, parts: Iterable[str]) -> tuple[str, ...]:
        """Those of the parts that no start has survived yet."""
        return tuple(part for part in parts if part not in self.proved)


def load(cache_root: Path) -> History:
    """The history of a cache root; an empty one where there is none or it is damaged."""
    try:
        if (cache_root / paths.OWN).is_symlink():
            return History()
        return codec.from_json(
            History, json.loads(files.read_small(cache_root / FILE, _LARGEST, follow=False)), "history"
        )
    except (OSError, ValueError, BadInputError, RecursionError):
        return History()


def save(cache_root: Path, history: History) -> None:
    """Replace the history of a cache root. Raises OSError, also where glowplug's directory in it is a link to elsewhere."""
    path = own_directory(cache_root) / FILE.rpartition("/")[2]
    atomic.write_bytes(path, json.dumps(codec.to_json(history)).encode(), durable=False)
