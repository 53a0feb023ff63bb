"""The agent as a whole: its loops, each on a thread of its own, and how they end.

Loops know nothing of each other but what is handed to them here. One that dies of a fault of ours shows in /healthz, and
kubelet begins anew; all of them stand a kill at any moment. At SIGTERM every deadline passes at once (`stopping.py`); what
still hangs in the network after `_END_SECONDS` is left behind, since who waits for us would kill us anyway.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.agent import asking, candidates
from glowplug.agent.bringing import FETCH_SECONDS, LIST_SECONDS
from glowplug.agent.health import Health, Pulse
from glowplug.agent.prewarm import Prewarm, Source
from glowplug.agent.program import program
from glowplug.agent.stopping import StoppableClock
from glowplug.agent.voice import Voice
from glowplug.agent.watching import Pods
from glowplug.core.clock import Deadline
from glowplug.core.errors import UnavailableError
from glowplug.store.readonly import ReadOnly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from glowplug.agent.settings import Settings
    from glowplug.cache.format import Manifest
    from glowplug.kube.contract import Api
    from glowplug.store.contract import Store

_END_SECONDS: Final = 7.0
_EVENTS_SECONDS: Final = 2.0
_SLACK_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Outside:
    """What an agent speaks to. `open_store` opens the store and may raise GlowplugError; `verify` as for `cache.node.fetch`."""

    api: Api
    open_store: Callable[[], Store]
    verify: Callable[[Manifest], None] | None = None


class Agent:
    """One agent, put together and not yet at work."""

    def __init__(self, settings: Settings, outside: Outside, stop: threading.Event) -> None:
        """`stop` ends it. Raises UsageError (`missing-extra`)."""
        clock = StoppableClock(stop)
        self._settings = settings
        self._stop = stop
        self.voice = Voice(outside.api, settings)
        self.pods = Pods(outside.api, settings, self.voice)
        self._store = _kept(outside.open_store)
        self.prewarm = Prewarm(
            settings,
            self.voice,
            Source(
                store=lambda: ReadOnly(self._store()),  # fetching writes nothing
                gpus=lambda: _gpus(outside.api, settings.node_name),
                wishes=lambda: asking.wishes(outside.api, settings),
                program=program,
            ),
            verify=outside.verify,
            clock=clock,
            draw=random.random,
        )
        self._pulses: dict[str, Pulse] = {}
        self._threads: list[threading.Thread] = []

    def once(self) -> bool:
        """One round of everything, for a machine that prepares its disk before it joins; whether all of it succeeded."""
        done = self.prewarm.begin() and self.prewarm.round() and self.prewarm.serve_wanted()
        self.voice.close(Deadline.after(_EVENTS_SECONDS))
        return done

    def run(self, started: Callable[[int], None] = lambda _: None) -> bool:
        """Work until `stop` is set; whether every loop ended in time. `started` is told the port once all loops run.

        Raises UnavailableError where the port is taken.
        """
        settings, stop = self._settings, self._stop
        fetching = FETCH_SECONDS + LIST_SECONDS + _SLACK_SECONDS
        health = Health(settings.host, settings.port, self._pulses, self.prewarm.unready, self.voice.metrics.render)
        self._loop("prewarm", fetching, lambda tick: self.prewarm.run(stop, tick))
        self._loop("wanted", fetching, lambda tick: self.prewarm.run_wanted(stop, tick))
        self._thread("patience", lambda: self.prewarm.run_patience(stop))
        self._thread("pods", lambda: self.pods.run(stop))
        for thread in self._threads:
            thread.start()
        health.start()
        started(health.port)
        stop.wait()
        health.close()
        deadline = Deadline.after(_END_SECONDS)
        for thread in self._threads:
            thread.join(deadline.remaining())
        self.voice.close(Deadline.after(_EVENTS_SECONDS))
        return not any(thread.is_alive() for thread in self._threads)

    def _loop(self, name: str, seconds: float, work: Callable[[Callable[[], None]], None]) -> None:
        pulse = self._pulses[name] = Pulse(seconds)
        self._thread(name, lambda: work(pulse.tick))

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, name=name, daemon=True))


def _gpus(api: Api, node: str) -> Sequence[str]:
    found = candidates.gpus(api.node(node))
    if not found:
        raise UnavailableError(f"no label of node {node} and no driver's file says yet which GPUs it has")
    return found


def _kept(open_store: Callable[[], Store]) -> Callable[[], Store]:
    """One store for all, opened when it is first needed: credentials may come later than the agent."""
    lock = threading.Lock()
    found: list[Store] = []

    def store() -> Store:
        with lock:
            if not found:
                found.append(open_store())
            return found[0]

    return store
