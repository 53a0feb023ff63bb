"""Connections to one API server, made anew when the files have changed that say whom to believe and who asks.

kubelet puts another `ca.crt` into a pod when the cluster's authority is rotated, and a kubeconfig's certificate is renewed in its
file. TLS is set up once for a client; so there is another client then, and the old one goes with its last answer. The files are
looked at once a minute, and at once where a certificate is not believed. What cannot be read (it is being written) is left for the
next look.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from glowplug.core.clock import SYSTEM
from glowplug.core.errors import GlowplugError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import httpx2

    from glowplug.core.clock import Clock

LOOK_SECONDS: Final = 60.0
_Stamp: TypeAlias = "tuple[int, int, int] | None"


@dataclass
class _Used:
    http: httpx2.Client
    users: int = 0
    old: bool = False


class Pool:
    """The client of the moment. May be used from several threads."""

    def __init__(self, make: Callable[[], httpx2.Client], files: Sequence[str] = (), clock: Clock = SYSTEM) -> None:
        """`make` gives a client by what is in `files` then. Raises what it raises."""
        self._make = make
        self._files = tuple(files)
        self._clock = clock
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._looked = clock.monotonic()
        self._used = _Used(make())

    @contextlib.contextmanager
    def client(self) -> Iterator[httpx2.Client]:
        """One to ask by, which stays open for as long as the block."""
        if self._files and self._clock.monotonic() - self._looked >= LOOK_SECONDS:
            self.renew()
        with self._lock:
            used = self._used
            used.users += 1
        try:
            yield used.http
        finally:
            with self._lock:
                used.users -= 1
                done = used.old and not used.users
            if done:
                used.http.close()

    def renew(self) -> bool:
        """Look at the files now; whether there is another client since."""
        with self._lock:
            self._looked = self._clock.monotonic()
            stamps = self._look()
            if stamps == self._stamps or None in stamps:
                return False
            try:
                made = _Used(self._make())
            except GlowplugError:
                return False
            self._stamps = stamps
            before, self._used = self._used, made
            before.old = True
            idle = not before.users
        if idle:
            before.http.close()
        return True

    def close(self) -> None:
        """Close all connections that nobody uses, and the others too."""
        self._used.http.close()

    def _look(self) -> tuple[_Stamp, ...]:
        return tuple(_stamp(path) for path in self._files)


def _stamp(path: str) -> _Stamp:
    """Changes when the file does; None where it is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
