"""Parts set aside on this machine, on evidence.

An entry that kills the engine would kill it at every restart. But a start fails for many reasons, and a store full of good
entries is worth more than a suspicion. So it takes two observations: a start that failed before it was ready with certain restored
parts makes these *suspect*, and they are left out of the next start. When a start of the same key without them succeeds, they
are *quarantined*; when it fails too, the fault lies elsewhere and the suspicion is dropped. Evidence is about bytes (a part's
digest): an entry that is published anew is offered again.

The state is a value and its transitions are pure; the file around it is locked while it changes and replaced atomically. A
file that is damaged or cannot be written means no evidence, never a failed start.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from glowplug.cache import layout
from glowplug.core import atomic, canonical
from glowplug.core.clock import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from glowplug.core.clock import Clock

SCHEMA: Final = "glowplug.quarantine/1"
FILE: Final = "quarantine.json"
_LOCK: Final = "quarantine.lock"
_ROWS: Final = 1000
_LOCK_SECONDS: Final = 2.0
_LARGEST: Final = 1 << 20


class Standing(enum.Enum):
    """How a part stands on this machine; a part without a row is good."""

    SUSPECT = "suspect"
    QUARANTINED = "quarantined"


@dataclass(frozen=True)
class Row:
    """`since`: seconds since the epoch."""

    standing: Standing
    key_digest: str
    since: int


@dataclass(frozen=True)
class Evidence:
    """Part digest → row."""

    rows: Mapping[str, Row] = field(default_factory=dict)

    def left_out(self) -> frozenset[str]:
        """Digests of the parts that the next start does without: suspects too, else it would prove nothing."""
        return frozenset(self.rows)

    def quarantined(self) -> frozenset[str]:
        """Digests of the parts against which there is evidence."""
        return frozenset(digest for digest, row in self.rows.items() if row.standing is Standing.QUARANTINED)


def after_failure(evidence: Evidence, key_digest: str, parts: Iterable[str], now: int) -> Evidence:
    """A start of the key failed before it was ready, with these parts in its tree (restored now or before)."""
    used = frozenset(parts)
    rows = {
        digest: row
        for digest, row in evidence.rows.items()
        if digest in used or row.key_digest != key_digest or row.standing is not Standing.SUSPECT
    }
    for digest in used - rows.keys():
        rows[digest] = Row(Standing.SUSPECT, key_digest, now)
    return _bounded(rows)


def after_success(evidence: Evidence, key_digest: str, parts: Iterable[str], now: int) -> Evidence:
    """A start of the key became ready, with these parts in its tree."""
    used = frozenset(parts)
    rows: dict[str, Row] = {}
    for digest, row in evidence.rows.items():
        if digest in used:
            continue
        proven = row.standing is Standing.SUSPECT and row.key_digest == key_digest
        rows[digest] = Row(Standing.QUARANTINED, key_digest, now) if proven else row
    return _bounded(rows)


def lifted(evidence: Evidence, digests: Iterable[str]) -> Evidence:
    """A person says that these parts are good."""
    good = frozenset(digests)
    return Evidence({digest: row for digest, row in evidence.rows.items() if digest not in good})


def _bounded(rows: Mapping[str, Row]) -> Evidence:
    newest = sorted(rows.items(), key=lambda item: item[1].since, reverse=True)[:_ROWS]
    return Evidence(dict(newest))


# --- the file -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quarantine:
    """The evidence of one machine, in a state directory (`$XDG_STATE_HOME/glowplug`)."""

    directory: Path
    clock: Clock = SYSTEM

    def left_out(self) -> frozenset[str]:
        """What to pass to `restore` as `skip_parts`."""
        return self.read().left_out()

    def failed(self, key_digest: str, parts: Iterable[str]) -> Evidence:
        """Record a start that ended before it was ready."""
        known = tuple(parts)
        return self._change(lambda evidence: after_failure(evidence, key_digest, known, int(self.clock.now())))

    def succeeded(self, key_digest: str, parts: Iterable[str]) -> Evidence:
        """Record a start that became ready."""
        known = tuple(parts)
        return self._change(lambda evidence: after_success(evidence, key_digest, known, int(self.clock.now())))

    def lift(self, digests: Iterable[str]) -> Evidence:
        """Forget the evidence against these parts."""
        good = tuple(digests)
        return self._change(lambda evidence: lifted(evidence, good))

    def read(self) -> Evidence:
        """The evidence as it stands; none where the file is absent, damaged or unreadable."""
        try:
            with (self.directory / FILE).open("rb") as handle:
                return _decode(handle.read(_LARGEST))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return Evidence()

    def _change(self, decide: Callable[[Evidence], Evidence]) -> Evidence:
        try:
            with self._locked():
                before = self.read()
                after = decide(before)
                if after != before:
                    atomic.write_bytes(self.directory / FILE, _encode(after), mode=0o600)
        except OSError:
            return decide(self.read())
        return after

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            self._take(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        """Lock, for a moment's wait at the most: whoever holds it may be stopped. Raises BlockingIOError."""
        end = self.clock.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self.clock.monotonic() >= end:
                    raise
                self.clock.sleep(0.02)
            else:
                return


def _encode(evidence: Evidence) -> bytes:
    rows = {
        digest: {"standing": row.standing.value, "key_digest": row.key_digest, "since": row.since}
        for digest, row in evidence.rows.items()
    }
    return canonical.encode({"schema": SCHEMA, "parts": rows})


def _decode(data: bytes) -> Evidence:
    value = json.loads(data)
    if value["schema"] != SCHEMA:
        return Evidence()
    rows = {
        digest: Row(Standing(row["standing"]), str(row["key_digest"]), int(row["since"]))
        for digest, row in value["parts"].items()
        if layout.is_digest(digest)
    }
    return Evidence(rows)
