"""One key at a time onto the node: how much it would take, the fetch itself, and whether what is here is what it was.

Remembers by the store's token of each manifest what became of it, so that a key which has not changed is not asked for again,
and one that is damaged in the store is not downloaded at every round.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.agent import housekeeping, quarantine, ranking
from glowplug.agent.ranking import Size
from glowplug.cache import format as manifests
from glowplug.cache import layout
from glowplug.cache.node import fetch
from glowplug.cache.workers import workers
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError, UnavailableError
from glowplug.nodestore import layout as nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glowplug.agent.ranking import Listed
    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Clock
    from glowplug.store.contract import Store

FETCH_SECONDS: Final = 900.0
"""For one key: 8 GiB at 10 MB/s."""
LIST_SECONDS: Final = 30.0
_READ_AT_ONCE: Final = 16
_SPOILED: Final = 3
_FOLDERS: Final = 4
"""Of so many files one more inode is counted for the folders that they lie in."""


@dataclass(frozen=True)
class Key:
    """A key of a domain, as the store listed it."""

    domain: str
    listed: Listed

    @property
    def digest(self) -> str:
        """The key's digest."""
        return self.listed.place.key_digest


@dataclass
class _Tried:
    """A manifest of one version: what it takes, whether all of it is here, how often something of it was damaged."""

    version: str
    size: Size | None = None
    whole: bool = False
    spoiled: int = 0


class Bringing:
    """See the module's text. May be used from several threads: two of them never bring the same key at once.

    `clock` is one that stops with the agent: what ends with it is no failure and is not told.
    """

    def __init__(
        self,
        settings: Settings,
        telling: Telling,
        *,
        verify: Callable[[Manifest], None] | None,
        clock: Clock,
    ) -> None:
        self._root = settings.root
        self._telling = telling
        self._verify = verify
        self._clock = clock
        self._tried: dict[str, _Tried] = {}
        self._busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def sizes(self, store: Store, keys: Sequence[Key]) -> dict[str, Size]:
        """What each key takes, by digest; only manifests that changed are read. One that cannot be read is left out."""
        soon = Deadline.after(LIST_SECONDS, self._clock)

        def read(key: Key) -> tuple[str, Size | None]:
            tried = self._tried.get(key.digest)
            if tried is not None and tried.version == key.listed.version:
                return key.digest, tried.size
            size = None
            try:
                data = store.get(key.listed.place.path, soon, max_bytes=manifests.MANIFEST_BYTES).data
                size = _size(manifests.decode(data, path=key.listed.place.path))
            except NotFoundError:
                pass  # removed since it was listed, or only a newer glowplug can read it
            except IntegrityError as error:
                self.failed("list", error)
            except GlowplugError as error:
                self.failed("list", error)
                return key.digest, None  # not remembered: it is asked for again
            self._tried[key.digest] = _Tried(key.listed.version, size)
            return key.digest, size

        with workers(_READ_AT_ONCE) as pool:
            return {digest: size for digest, size in pool.map(read, keys) if size is not None}

    def size(self, key: Key) -> Size:
        """What a key takes, as `sizes` found it."""
        tried = self._tried.get(key.digest)
        return (tried and tried.size) or Size(0, 0)

    def is_whole(self, key: Key) -> bool:
        """Whether nothing has to be fetched of it, or that was tried often enough in vain."""
        tried = self._tried.get(key.digest)
        if tried is None or tried.spoiled >= _SPOILED:
            return tried is not None
        return tried.whole and self.is_here(key)

    def is_here(self, key: Key) -> bool:
        """Whether the node has anything of it."""
        return nodes.key_document(nodes.store(self._root, key.domain), key.digest).exists()

    def is_busy(self, digest: str) -> bool:
        """Whether it is being brought just now."""
        return self._busy[digest].locked()

    def bring(self, store: Store, domain: str, path: str, *, anew: bool = False) -> bool:
        """Fetch what is missing of the key whose manifest lies at `path`; False where it has to be tried again soon.

        `anew`: whatever was known of it, it has changed. Raises nothing foreseeable.
        """
        place = layout.parse_manifest_path(path)
        if place is None:
            return True
        if self._ending:
            return False
        digest = place.key_digest
        with self._busy[digest]:
            if anew or digest not in self._tried:
                self._tried[digest] = _Tried("")
            tried = self._tried[digest]
            began = SYSTEM.monotonic()
            try:
                deadline = Deadline.after(FETCH_SECONDS, self._clock)
                skip = quarantine.left_out(self._root)
                done = fetch(store, path, domain, self._root, deadline=deadline, verify=self._verify, skip=skip)
            except NotFoundError:
                return True  # removed since it was listed: the next listing shows it
            except (GlowplugError, OSError) as error:
                return self._unfetched(domain, digest, tried, error)
            if done.parts:
                self._telling.fetched(domain, digest, done.bytes, len(done.parts), SYSTEM.monotonic() - began)
            tried.whole = not done.faults
            for fault in done.faults:
                self.failed("fetch", fault)
            tried.spoiled += any(isinstance(fault, IntegrityError) for fault in done.faults)
            return all(isinstance(fault, IntegrityError) for fault in done.faults)

    def examine(self, domain: str, digest: str) -> bool:
        """Read every byte of a key that is here; whether it was damaged and is gone. Raises nothing foreseeable."""
        with self._busy[digest]:
            try:
                if housekeeping.intact(self._root, domain, digest, Deadline.after(FETCH_SECONDS, self._clock)):
                    return False
                housekeeping.drop(self._root, domain, digest, "damaged", self._telling)
            except (OSError, GlowplugError) as error:
                self.failed("disk", error)
                return False
            self._tried[digest] = _Tried("")
            return True

    def failed(self, what: str, error: BaseException) -> None:
        """Tell it, unless the agent's end is what broke it off."""
        if not self._ending:
            self._telling.failed(what, error)

    @property
    def _ending(self) -> bool:
        return self._clock.monotonic() == float("inf")

    def _unfetched(self, domain: str, digest: str, tried: _Tried, error: GlowplugError | OSError) -> bool:
        self.failed("fetch", error)
        if not isinstance(error, IntegrityError):
            return isinstance(error, UnavailableError) and error.code == "no-space"
        tried.spoiled += 1
        if error.code == "signature":
            with contextlib.suppress(OSError):
                housekeeping.drop(self._root, domain, digest, "signature", self._telling)
        return True


def _size(manifest: Manifest) -> Size:
    """What becomes of a manifest on a disk, rather too much than too little."""
    if manifest.blocked is not None:
        return Size(ranking.BLOCK, _FOLDERS)
    files = sum(part.files for part in manifest.parts)
    unpacked = sum(part.unpacked_bytes for part in manifest.parts)
    folders = files // _FOLDERS + _FOLDERS
    return Size(unpacked + (files + folders) * ranking.BLOCK, files + folders)
