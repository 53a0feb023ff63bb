"""The startup taint of shared mode: taken away once the node is warm, and once Karpenter can no longer put it back.

Karpenter merges a node's startup taints onto it until `karpenter.sh/registered=true` is there. A taint that is removed before comes
back, and is looked for again afterwards; one that comes back after initialization would make Karpenter buy nodes, so it is looked
for as long as the agent runs. The list of taints is replaced by a JSON patch which tests that it is still the list that was read: a
merge patch would undo what others did to it meanwhile.

Whatever else fails, the taint goes: it blocks the node, and Karpenter buys no other one for the pods that wait. An agent that
is dead cannot do that; `release.py` is for then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.core.clock import SYSTEM, from_iso
from glowplug.core.errors import ConflictError, GlowplugError
from glowplug.kube.backoff import Backoff

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api, Object

REGISTERED: Final = "karpenter.sh/registered"
INITIALIZED: Final = "karpenter.sh/initialized"
UNSYNCED: Final = "karpenter.sh/do-not-sync-taints"
UNREGISTERED: Final = "karpenter.sh/unregistered"
_KARPENTER: Final = "karpenter.sh/"

_ATTEMPTS: Final = 5
_ASK_SECONDS: Final = 0.5
_SOON_SECONDS: Final = 2.0
_UNSETTLED_SECONDS: Final = 10.0
_SETTLED_SECONDS: Final = 300.0
_LONGEST_SECONDS: Final = 60.0


def is_tainted(node: Object, key: str) -> bool:
    """Whether the node has a taint of that key, of whatever effect."""
    return any(taint.get("key") == key for taint in _taints(node))


def is_registered(node: Object) -> bool:
    """Whether Karpenter puts no startup taint back any more; of a node that is none of Karpenter's, at once."""
    labels = node.get("metadata", {}).get("labels") or {}
    if is_tainted(node, UNREGISTERED):
        return False
    if labels.get(REGISTERED) == "true" or labels.get(UNSYNCED) == "true":
        return True
    return not any(name.startswith(_KARPENTER) for name in labels)


def is_settled(node: Object) -> bool:
    """Whether Karpenter is done with the node; of a node that is none of Karpenter's, at once."""
    labels = node.get("metadata", {}).get("labels") or {}
    return labels.get(INITIALIZED) == "true" or not any(name.startswith(_KARPENTER) for name in labels)


def age(node: Object, now: float) -> float:
    """Seconds since the node was created; 0.0 where it does not say when, since nothing is too old then."""
    try:
        return max(0.0, now - from_iso(str(node.get("metadata", {}).get("creationTimestamp") or "")))
    except ValueError:
        return 0.0


def remove(api: Api, node: Object, key: str) -> bool:
    """Take the taint away from a node that was just read; whether it was there. Raises the API's errors.

    Where somebody else changed the list meanwhile, it is read again.
    """
    name = str(node["metadata"]["name"])
    for attempt in range(_ATTEMPTS):
        if not is_tainted(node, key):
            return False
        try:
            api.patch_node(name, _without(_taints(node), key))
        except ConflictError:
            if attempt + 1 == _ATTEMPTS:
                raise
            node = api.node(name)
        else:
            return True
    return False


class Taint:
    """The taint of the agent's own node. `may()` says whether the node is warm, or has kept its pods waiting long enough."""

    def __init__(
        self,
        api: Api,
        node: str,
        key: str,
        telling: Telling,
        may: Callable[[], bool],
        *,
        clock: Clock = SYSTEM,
        draw: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """`draw` gives numbers in [0, 1): a thousand agents do not ask at the same moment."""
        self._api = api
        self._node = node
        self._key = key
        self._telling = telling
        self._may = may
        self._clock = clock
        self._draw = draw
        self._removed = False
        self._told = ""
        self._backoff = Backoff(_SOON_SECONDS, _LONGEST_SECONDS, draw)

    def run(self, stop: threading.Event, tick: Callable[[], None] = lambda: None) -> None:
        """Remove it, and look again, until `stop` is set. Raises nothing foreseeable."""
        while not stop.is_set():
            tick()
            wait = self.look()
            while wait > 0 and not stop.wait(min(wait, _UNSETTLED_SECONDS)):
                wait -= _UNSETTLED_SECONDS
                tick()

    def look(self) -> float:
        """Look once, and do what there is to do; seconds until the next look."""
        if not self._may():
            return _ASK_SECONDS
        try:
            node = self._api.node(self._node)
        except GlowplugError as error:
            return self._failed(error)
        if not is_tainted(node, self._key):
            self._backoff.reset()
            if not self._removed:
                self._say_once("absent", node)
            return _SETTLED_SECONDS * (0.5 + self._draw()) if is_settled(node) else _UNSETTLED_SECONDS
        if not is_registered(node):
            self._say_once("unregistered", node)
            return _SOON_SECONDS
        return self._remove(node)

    def _remove(self, node: Object) -> float:
        if self._removed:
            self._telling.taint("put_back", self._age(node))
        try:
            gone = remove(self._api, node, self._key)
        except GlowplugError as error:
            self._telling.taint("failed", self._age(node))
            return self._failed(error)
        self._backoff.reset()
        self._removed = True
        if gone:
            self._telling.taint("removed", self._age(node))
        return _SOON_SECONDS

    def _failed(self, error: GlowplugError) -> float:
        self._telling.failed("taint", error)
        return self._backoff.next()

    def _say_once(self, outcome: str, node: Object) -> None:
        if self._told != outcome:
            self._told = outcome
            self._telling.taint(outcome, self._age(node))

    def _age(self, node: Object) -> float:
        return age(node, self._clock.now())


def _taints(node: Object) -> Sequence[dict[str, Any]]:
    return node.get("spec", {}).get("taints") or ()


def _without(taints: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The JSON patch: the list is what it was, and becomes the same without these; an empty list goes whole."""
    left = [dict(taint) for taint in taints if taint.get("key") != key]
    test = {"op": "test", "path": "/spec/taints", "value": [dict(taint) for taint in taints]}
    if not left:
        return [test, {"op": "remove", "path": "/spec/taints"}]
    return [test, {"op": "replace", "path": "/spec/taints", "value": left}]
