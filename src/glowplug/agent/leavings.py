"""What is left on the node of trust domains that its agent does not keep: their directories, once no pod of them is here.

Their keys went when the agent began. The directory itself stays as long as a pod may have it mounted, and `GRACE_SECONDS` longer:
kubelet makes it for such a pod, and a container that starts again needs it. It loses its name first; what was mounted of it stays
what it was.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from typing import TYPE_CHECKING, Final

from glowplug.agent import housekeeping
from glowplug.core.clock import SYSTEM
from glowplug.nodestore import layout

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.agent.troubles import Troubles
    from glowplug.agent.watching import Pods
    from glowplug.core.clock import Clock

GRACE_SECONDS: Final = 600.0
_EVERY_SECONDS: Final = 5.0


class Leavings:
    """Of one agent. Used by one thread."""

    def __init__(
        self, settings: Settings, pods: Pods, troubles: Troubles, telling: Telling, clock: Clock = SYSTEM
    ) -> None:
        self._settings = settings
        self._pods = pods
        self._troubles = troubles
        self._telling = telling
        self._clock = clock
        self._unused: dict[str, float] = {}

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Look again and again until `stop` is set. Raises nothing foreseeable."""
        while not stop.wait(_EVERY_SECONDS):
            tick()
            self.round()

    def round(self) -> None:
        """Look once. Raises nothing foreseeable."""
        if not self._pods.synced.is_set() or not self._settings.kept:
            return
        self._troubles.strangers(self._pods.strangers())
        try:
            there = [one for one in housekeeping.domains(self._settings.root) if one not in self._settings.domains]
            now = self._clock.monotonic()
            self._unused = {one: self._unused.get(one, now) for one in there if not self._pods.may_use(one)}
            for domain, since in self._unused.items():
                if now - since >= GRACE_SECONDS:
                    self._remove(domain)
        except OSError as error:
            self._telling.failed("disk", error)

    def _remove(self, domain: str) -> None:
        root = self._settings.root
        for digest in housekeeping.keys(root, domain):
            housekeeping.drop(root, domain, digest, "domain", self._telling)
        gone = layout.stores(root) / f"{layout.GONE}{secrets.token_hex(8)}"
        layout.store(root, domain).rename(gone)
        _discard_all(layout.stores(root))


def _discard_all(stores: Path) -> None:
    """What has lost its name, by this agent or one that was killed over it."""
    with os.scandir(stores) as found:
        for item in list(found):
            if item.name.startswith(layout.GONE):
                with contextlib.suppress(OSError):
                    shutil.rmtree(item.path)
