"""Frees nodes whose agent is dead: a startup taint that nobody removes blocks a node without any limit of time.

One process for the cluster, off the nodes that it frees. It knows nothing of caches: a node whose startup taint is older than
`older_than` seconds, counted from the node's own creation, takes pods again, cold. Nodes that Karpenter has not registered yet are
left alone, since the taint would only come back (`taint.py`), and Karpenter itself removes a node that never registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.agent import events, metrics, taint
from glowplug.agent.health import Health, Pulse
from glowplug.core import units
from glowplug.core.clock import SYSTEM
from glowplug.core.errors import GlowplugError, NotFoundError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from glowplug.agent.decisions import Decisions
    from glowplug.agent.metrics import Metrics
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api, Object

EVERY_SECONDS: Final = 30.0
"""Between two looks at all nodes."""
_ONE_LOOK_SECONDS: Final = 600.0


class Release:
    """See the module's text."""

    def __init__(
        self, api: Api, key: str, older_than: float, *, log: Decisions, numbers: Metrics, clock: Clock = SYSTEM
    ) -> None:
        """`key` is the taint's; `older_than` in seconds."""
        self._api = api
        self._key = key
        self._older_than = older_than
        self._log = log
        self._numbers = numbers
        self._clock = clock
        self.freed = 0
        """Nodes, so far."""

    def look(self, tick: Callable[[], None] = lambda: None) -> bool:
        """Free what has to be freed now; whether that was done for every node. Raises nothing foreseeable."""
        good = True
        try:
            for node in self._api.nodes():
                tick()
                if self._is_overdue(node):
                    good = self._free(node) and good
        except GlowplugError as error:
            self._fault("api", "", error)
            return False
        return good

    def serve(
        self,
        host: str,
        port: int,
        stop: threading.Event,
        every: float = EVERY_SECONDS,
        started: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Look again and again until `stop` is set, and answer /healthz and /metrics; `started` is told at which port.

        Raises UnavailableError where the port is taken.
        """
        pulse = Pulse(_ONE_LOOK_SECONDS)
        health = Health(host, port, {"release": pulse}, lambda: "", self._numbers.render)
        health.start()
        started(health.port)
        try:
            while not stop.is_set():
                pulse.tick()
                self.look(pulse.tick)
                stop.wait(every)
        finally:
            health.close()

    def _is_overdue(self, node: Object) -> bool:
        return (
            taint.is_tainted(node, self._key)
            and taint.is_registered(node)
            and taint.age(node, self._clock.now()) >= self._older_than
        )

    def _free(self, node: Object) -> bool:
        name = str(node["metadata"]["name"])
        seconds = taint.age(node, self._clock.now())
        try:
            gone = taint.remove(self._api, node, self._key)
        except NotFoundError:
            return True  # the node itself has gone
        except GlowplugError as error:
            self._numbers.add(metrics.TAINTS, outcome="failed")
            self._fault("taint", name, error)
            return False
        if gone:
            self.freed += 1
            self._numbers.add(metrics.TAINTS, outcome="released")
            self._log.write("taint", outcome="released", about=name, seconds=seconds)
            self._tell(name, f"freed {units.format_seconds(seconds)} after the node's creation")
        return True

    def _tell(self, node: str, message: str) -> None:
        now = self._clock.now()
        event = events.about_node(node, events.TAINT_RELEASED, message, now=now, once=f"{now:.0f}")
        try:
            self._api.put_event(event)
        except GlowplugError as error:
            self._fault("event", node, error)

    def _fault(self, what: str, node: str, error: GlowplugError) -> None:
        self._numbers.add(metrics.FAILURES, what=what, code=error.code.replace("-", "_"))
        self._log.write("failure", of=what, about=node, code=error.code, error=str(error))
