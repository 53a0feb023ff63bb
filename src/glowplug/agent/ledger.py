"""Which starts were told already, on the disk: an agent that is started again tells none of them twice.

A row is a pod's UID and the id of a start, both bounded in number: ids are a pod's own, and it may make up as many as it likes.
Losing the file costs a few counts; the events have names that meet themselves again.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

from glowplug.core import atomic, canonical
from glowplug.core.errors import GlowplugError
from glowplug.nodestore import documents, layout
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = "glowplug.told/1"
PER_POD: Final = 200
"""A container that restarts every minute takes hours to come here; nobody reads its events by then."""
_FILE: Final = "told.json"
_PODS: Final = 5000
_LARGEST: Final = 64 << 20
_ROW: Final = re.compile(r"[a-z]+ [A-Za-z0-9][A-Za-z0-9_]{0,62}")


class Ledger:
    """The rows of one agent's root. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rows = _read(root)
        self._changed = False

    def has(self, uid: str, what: str, start_id: str) -> bool:
        """Whether `what` was done about a start."""
        return f"{what} {start_id}" in self._rows.get(uid, ())

    def add(self, uid: str, what: str, start_id: str) -> bool:
        """Note it. False where a pod has had more of it than anybody wants to know, or there are too many pods."""
        rows = self._rows.get(uid)
        if rows is None:
            if len(self._rows) >= _PODS:
                return False
            rows = self._rows[uid] = set()
        if sum(row.startswith(f"{what} ") for row in rows) >= PER_POD:
            return False
        rows.add(f"{what} {start_id}")
        self._changed = True
        return True

    def keep(self, uids: frozenset[str]) -> None:
        """Forget all other pods."""
        for uid in self._rows.keys() - uids:
            del self._rows[uid]
            self._changed = True

    def write(self) -> None:
        """Put it on the disk where anything has changed. Raises OSError."""
        if not self._changed:
            return
        pods = {uid: sorted(rows) for uid, rows in self._rows.items()}
        data = canonical.encode({"schema": SCHEMA, "pods": pods})
        atomic.write_bytes(own_directory(self._root) / _FILE, data, durable=False)
        self._changed = False


def _read(root: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    with contextlib.suppress(GlowplugError, OSError, AttributeError, TypeError):
        value = documents.parse_json(documents.read_bytes(root / ".glowplug" / _FILE, _LARGEST), _FILE)
        if value.get("schema") != SCHEMA:
            return {}
        for uid, rows in value["pods"].items():
            if layout.is_pod_uid(uid):
                found[uid] = {row for row in rows if isinstance(row, str) and _ROW.fullmatch(row)}
    return found
