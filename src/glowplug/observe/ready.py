"""When is an engine ready: its health URL answers 200, or its cache has been quiet for a while.

A probe is asked again and again by a loop that its owner runs (`run`'s observer, the pod's watcher), so that the owner decides
how long to wait and what else ends the wait (the engine's exit, a signal).
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Callable, Final, Optional

if TYPE_CHECKING:
    from pathlib import Path

QUIET_SECONDS: Final = 5.0
"""How long nothing may change below the cache root to call it quiet (cli.md's promise)."""
_REST: Final = 20.0


class UrlProbe:
    """Asks a health URL. Any certificate is accepted: the address is the engine's own, on this machine.

    Made once the engine runs: what it imports (30 ms) must not delay that.
    """

    def __init__(self, url: str) -> None:
        import http.client
        import ssl
        import urllib.request

        self.url = url
        self._asking: Optional[threading.Thread] = None
        self._answered = False
        self._failures = (OSError, http.client.HTTPException, ValueError)
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        # Proxies of the environment are for the outside, never for the engine beside us.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def ready(self, timeout_seconds: float = 2.0) -> bool:
        """Whether it answers with a 2xx status just now, within this time in all.

        The library's time-out is one for each read, so a server that trickles would hold us; it is asked on a thread, and not
        again before that one has its answer.
        """
        if self._asking is None or not self._asking.is_alive():
            self._answered = False
            self._asking = threading.Thread(target=self._ask, args=(timeout_seconds,), name="ready", daemon=True)
            self._asking.start()
        self._asking.join(timeout_seconds)
        return self._answered and not self._asking.is_alive()

    def _ask(self, timeout_seconds: float) -> None:
        try:
            with self._opener.open(self.url, timeout=timeout_seconds) as answer:
                self._answered = bool(200 <= answer.status < 300)
        except self._failures:
            self._answered = False


class QuietProbe:
    """Whether the files that matter have had the same sizes and times for `QUIET_SECONDS`.

    `relevant` decides by relative path. Reads names and times only, so it leaves no trace in an `OpenWatch`.
    Nothing counts as quiet before the first relevant file exists: an engine that has not begun is quiet too. A tree that takes
    long to walk is walked less often: a twentieth of the time, whatever its size, so that the engine keeps its processors.
    """

    def __init__(self, root: Path, relevant: Callable[[str], bool], monotonic: Callable[[], float]) -> None:
        self._root = os.fspath(root)
        self._relevant = relevant
        self._monotonic = monotonic
        self._since = monotonic()
        self.seen: frozenset[tuple[str, int, int]] = frozenset(self._stamps(self._root))
        self._rest_until = self._since + _REST * (monotonic() - self._since)
        self.since_change = 0.0

    def ready(self) -> bool:
        """Whether it is quiet just now, and something is there."""
        now = self._monotonic()
        if now < self._rest_until:
            return False
        seen = frozenset(self._stamps(self._root))
        self._rest_until = now + _REST * (self._monotonic() - now)
        if seen != self.seen:
            self.seen, self._since = seen, now
        self.since_change = now - self._since
        return bool(seen) and self.since_change >= QUIET_SECONDS

    def _stamps(self, top: str) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = []
        waiting = [(top, "")]
        while waiting:
            folder, prefix = waiting.pop()
            try:
                with os.scandir(folder) as items:
                    for item in items:
                        path = prefix + item.name
                        if item.is_dir(follow_symlinks=False):
                            waiting.append((item.path, path + "/"))
                        elif item.is_file(follow_symlinks=False) and self._relevant(path):
                            status = item.stat(follow_symlinks=False)
                            found.append((path, status.st_size, status.st_mtime_ns))
            except OSError:
                # A directory that vanishes while it is read is a change that the next look will see.
                continue
        return found
