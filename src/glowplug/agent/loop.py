"""The agent as a whole: its loops, each on a thread of its own, and how they end.

Loops know nothing of each other but what is handed to them here. Any thread that dies of a fault of ours shows in /healthz, and
kubelet begins anew; so does a loop that hangs. All of them stand a kill at any moment. At SIGTERM every deadline passes at once
(`stopping.py`); what still hangs in the network after `_END_SECONDS` is left behind, since who waits for us would kill us anyway.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.agent import asking, candidates, shared
from glowplug.agent.bringing import FETCH_SECONDS, LIST_SECONDS
from glowplug.agent.collecting import Collector
from glowplug.agent.damage import Damage
from glowplug.agent.health import Health, Pulse
from glowplug.agent.leavings import Leavings
from glowplug.agent.prewarm import Prewarm, Source
from glowplug.agent.program import program
from glowplug.agent.settings import Mode
from glowplug.agent.stopping import StoppableClock
from glowplug.agent.troubles import Troubles
from glowplug.agent.voice import Voice
from glowplug.agent.watching import Pods
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import GlowplugError, UnavailableError
from glowplug.kube.backoff import Backoff
from glowplug.store.readonly import ReadOnly

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.agent.root import Root
    from glowplug.agent.settings import Settings
    from glowplug.cache.format import Manifest
    from glowplug.kube.contract import Api
    from glowplug.store.contract import Store

_END_SECONDS: Final = 7.0
_EVENTS_SECONDS: Final = 2.0
_SLACK_SECONDS: Final = 120.0
_ANNOTATE_WAITS: Final = (2.0, 300.0)
_EVERY_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 1200.0
_SHARED_SECONDS: Final = 900.0
_GPUS_SECONDS: Final = 60.0
_PODS_SECONDS: Final = 60.0
_PODS_POLL_SECONDS: Final = 0.2
NVME_ANNOTATION: Final = "glowplug.dev/nvme-backed"


@dataclass(frozen=True)
class Outside:
    """What an agent speaks to. `open_store` opens the store and may raise GlowplugError; `verify` as for `cache.node.fetch`."""

    api: Api
    open_store: Callable[[], Store]
    root: Root
    verify: Callable[[Manifest], None] | None = None


class Agent:
    """One agent, put together and not yet at work."""

    def __init__(self, settings: Settings, outside: Outside, stop: threading.Event) -> None:
        """`stop` ends it. Raises UsageError (`missing-extra`)."""
        clock = StoppableClock(stop)
        self._settings = settings
        self._outside = outside
        self._stop = stop
        self.voice = Voice(outside.api, settings)
        self.voice.nvme(backed=outside.root.nvme_backed, where=outside.root.why)
        self._store = _kept(outside.open_store)
        gpus = _Gpus(outside.api, settings.node_name)
        damage = Damage(clock)
        troubles = Troubles(settings, self.voice)
        self.prewarm = Prewarm(
            settings,
            self.voice,
            Source(
                store=lambda: ReadOnly(self._store()),  # fetching writes nothing
                gpus=gpus,
                wishes=asking.Asking(outside.api, settings, tick=lambda: self._beat("prewarm")),
                program=program,
            ),
            verify=outside.verify,
            clock=clock,
            draw=random.random,
            damage=damage,
            troubles=troubles,
        )
        self.pods = Pods(outside.api, settings, self.voice, arrived=self.prewarm.looking.arrived)
        self.collector = Collector(
            settings, self.pods, outside.open_store, gpus, self.voice, self.prewarm.wanting, damage=damage
        )
        self._leavings = Leavings(settings, self.pods, troubles, self.voice)
        self._clock = clock
        self._pulses: dict[str, Pulse] = {}
        self._threads: list[_Worker] = []

    def once(self) -> bool:
        """One pass of all that an agent does: fetch, then publish and tell what pods handed over; whether all of it succeeded.

        In shared mode what was fetched is put into the directory and the taint goes. What a start is still sealing is left to the
        next pass, and so is what failed: nothing is waited for but the answers. Raises nothing foreseeable.
        """
        settings, api = self._settings, self._outside.api
        done = self.prewarm.begin() and self.prewarm.round()
        if settings.mode is Mode.SHARED:
            done = shared.once(settings, api, self.voice, clock=self._clock) and done
        elif settings.kept:
            done = self._collect_once() and done
            done = self.prewarm.wanting.serve() and done
        self.voice.close(Deadline.after(_EVENTS_SECONDS))
        return done

    def _collect_once(self) -> bool:
        """A round over the outboxes, once the API has said which pods the node has."""
        over = threading.Event()
        watch = _Worker("pods", lambda: self.pods.run(over))
        watch.start()
        try:
            soon = Deadline.after(_PODS_SECONDS, self._clock)
            while not self.pods.synced.wait(min(_PODS_POLL_SECONDS, soon.remaining())):
                if self._stop.is_set():
                    return False
                if soon.passed():
                    what = f"the Kubernetes API did not say within {_PODS_SECONDS:.0f} s which pods this node has"
                    self.voice.failed("api", UnavailableError(what))
                    return False
            done = self.collector.round(Deadline.after(_ROUND_SECONDS, self._clock))
            self.collector.close()
            return done
        finally:
            over.set()
            watch.join(_END_SECONDS)

    def run(self, started: Callable[[int], None] = lambda _: None) -> bool:
        """Work until `stop` is set; whether every loop ended in time. `started` is told the port once all loops run.

        Raises UnavailableError where the port is taken.
        """
        settings, stop = self._settings, self._stop
        fetching = FETCH_SECONDS + LIST_SECONDS + _SLACK_SECONDS
        metrics = self.voice.metrics.render
        health = Health(settings.host, settings.port, self._pulses, self.prewarm.unready, metrics, self._fallen)
        self._loop("prewarm", fetching, lambda tick: self.prewarm.run(stop, tick))
        self._loop("wanted", fetching, lambda tick: self.prewarm.wanting.run(stop, tick))
        self._loop("looking", fetching, lambda tick: self.prewarm.looking.run(stop, tick))
        self._loop("switch", _SLACK_SECONDS, lambda tick: self.prewarm.run_switch(stop, tick))
        self._thread("patience", lambda: self.prewarm.run_patience(stop))
        self._thread("pods", lambda: self.pods.run(stop))
        self._thread("node", self._annotate)
        self._loop("leavings", _SLACK_SECONDS, lambda tick: self._leavings.run(stop, tick))
        if settings.mode is Mode.SHARED:
            self._loop("shared", _SHARED_SECONDS, self._share)
        elif settings.kept:
            self._loop("outboxes", 2 * _ROUND_SECONDS, self._collect)
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

    def _share(self, tick: Callable[[], None]) -> None:
        settings, api = self._settings, self._outside.api
        shared.run(settings, api, self.voice, self.prewarm.unready, self._stop, tick, draw=random.random)

    def _collect(self, tick: Callable[[], None]) -> None:
        while not self._stop.is_set():
            tick()
            self.collector.round(Deadline.after(_ROUND_SECONDS, self._clock))
            self._stop.wait(_EVERY_SECONDS)
        self.collector.close()

    def _annotate(self) -> None:
        """Say on the node itself when its cache lies on a network disk. Tried until it succeeds."""
        value = None if self._outside.root.nvme_backed else "false"
        backoff = Backoff(*_ANNOTATE_WAITS)
        while not self._stop.is_set():
            try:
                self._outside.api.annotate_node(self._settings.node_name, {NVME_ANNOTATION: value})
            except GlowplugError as error:
                self.voice.failed("annotate", error)
            else:
                return
            self._stop.wait(backoff.next())

    def _loop(self, name: str, seconds: float, work: Callable[[Callable[[], None]], None]) -> None:
        pulse = self._pulses[name] = Pulse(seconds)
        self._thread(name, lambda: work(pulse.tick))

    def _beat(self, name: str) -> None:
        """For what works within a loop and was not handed its tick."""
        if name in self._pulses:
            self._pulses[name].tick()

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        self._threads.append(_Worker(name, work))

    def _fallen(self) -> list[str]:
        """Threads that died of a fault of ours."""
        fallen = [thread.name for thread in self._threads if thread.fell]
        return fallen if self.voice.posts() or self._stop.is_set() else [*fallen, "events"]


class _Worker(threading.Thread):
    """A thread that says whether it ended by an exception, which nothing foreseeable raises."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.fell = False

    def run(self) -> None:
        """What it was given; the traceback is for stderr."""
        try:
            self._work()
        except BaseException:
            self.fell = True
            raise


class _Gpus:
    """The GPUs that this node may have, asked of the API no more than once a minute."""

    def __init__(self, api: Api, node: str) -> None:
        self._api = api
        self._node = node
        self._known: tuple[float, tuple[str, ...]] = (0.0, ())
        self._lock = threading.Lock()

    def __call__(self) -> tuple[str, ...]:
        """Raises the API's errors, and UnavailableError where it does not say yet."""
        with self._lock:
            until, found = self._known
            if not found or SYSTEM.monotonic() >= until:
                found = candidates.gpus(self._api.node(self._node))
                self._known = (SYSTEM.monotonic() + _GPUS_SECONDS, found)
        if not found:
            raise UnavailableError(f"neither node {self._node}'s labels nor its driver say yet which GPUs it has")
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
