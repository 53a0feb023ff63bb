"""The pods of this node, kept up to date by a watch, and those that are gone for an hour longer.

Whatever an outbox holds is judged by what stands here, so this is the API's word and nobody else's. A pod that is gone is
remembered: its watcher hands over what it compiled in the last second of its life, and that belongs to somebody still. The
trust domain is that of the moment when the pod was first seen: a namespace that gets another label later does not move what
runs in it already.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Final

from glowplug.agent.backoff import Backoff
from glowplug.agent.pods import Pod
from glowplug.core.clock import SYSTEM
from glowplug.core.errors import GlowplugError, NotFoundError
from glowplug.kube.contract import Seen
from glowplug.manifests.marks import DOMAIN_LABEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api, Change, Object

REMEMBERED_SECONDS: Final = 3600.0
_REMEMBERED: Final = 5000
_WAITS: Final = (1.0, 60.0)
_ASK_AGAIN_SECONDS: Final = 5.0


class Pods:
    """Pods of one node, by UID. `run` fills it in a thread of its own; the rest may be called from any."""

    def __init__(self, api: Api, settings: Settings, telling: Telling, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._settings = settings
        self._telling = telling
        self._clock = clock
        self._lock = threading.Lock()
        self._here: dict[str, Pod] = {}
        self._gone: dict[str, tuple[float, Pod]] = {}
        self._told: set[str] = set()
        self._asked: dict[str, float] = {}
        self.synced = threading.Event()
        """Set when all pods have been listed once: a UID that is not here then is none of this node's pods."""

    def run(self, stop: threading.Event) -> None:
        """Watch until `stop` is set. Raises nothing foreseeable."""
        backoff = Backoff(*_WAITS)
        while not stop.is_set():
            try:
                for change in self._api.watch_pods(node=self._settings.node_name, stop=stop):
                    self.take(change)
                    backoff.reset()
            except GlowplugError as error:
                self._telling.failed("api", error)
            stop.wait(backoff.next())

    def take(self, change: Change) -> None:
        """One word of the watch."""
        match change.seen:
            case Seen.LISTING:
                with self._lock:
                    self._told.clear()  # what changes told before says nothing of who is here still
            case Seen.SYNCED:
                with self._lock:
                    for uid in self._here.keys() - self._told:
                        self._forget(uid)
                self.synced.set()
            case Seen.GONE:
                with self._lock:
                    self._forget(_uid(change.object), change.object)
            case Seen.HERE:
                self._keep(change.object)

    def get(self, uid: str) -> Pod | None:
        """The pod of a UID, also one that went within the last hour; None where the API never spoke of it.

        Its `domain` is "" while the API does not say what its namespace means.
        """
        with self._lock:
            pod = self._here.get(uid)
            if pod is None:
                self._expire()
                _, pod = self._gone.get(uid, (0.0, None))
        return pod if pod is None or pod.domain else self._with_domain(pod)

    def _keep(self, found: Object) -> None:
        uid = _uid(found)
        metadata = found.get("metadata", {})
        if not uid:
            return
        with self._lock:
            before = self._here.get(uid)
        namespace = str(metadata.get("namespace", ""))
        pod = Pod(
            uid=uid,
            namespace=namespace,
            name=str(metadata.get("name", "")),
            account=str(found.get("spec", {}).get("serviceAccountName", "")),
            domain=before.domain if before else "",
            object=_without_fields(found),
        )
        if not pod.domain:
            pod = dataclasses.replace(pod, domain=self._domain(namespace))
        with self._lock:
            self._here[uid] = pod
            self._told.add(uid)
            self._gone.pop(uid, None)

    def _with_domain(self, pod: Pod) -> Pod:
        """The same pod, its namespace asked for once more."""
        known = dataclasses.replace(pod, domain=self._domain(pod.namespace))
        with self._lock:
            if known.domain and self._here.get(pod.uid) is pod:
                self._here[pod.uid] = known
            elif known.domain and pod.uid in self._gone:
                self._gone[pod.uid] = (self._gone[pod.uid][0], known)
        return known

    def _domain(self, namespace: str) -> str:
        """The trust domain of a namespace, "" where that cannot be known now."""
        now = self._clock.monotonic()
        with self._lock:
            if now < self._asked.get(namespace, -_ASK_AGAIN_SECONDS) + _ASK_AGAIN_SECONDS:
                return ""
        try:
            labels: Mapping[str, Any] = self._api.namespace(namespace).get("metadata", {}).get("labels") or {}
        except NotFoundError:
            labels = {}
        except GlowplugError as error:
            with self._lock:
                asked = {name: at for name, at in self._asked.items() if now < at + _ASK_AGAIN_SECONDS}
                self._asked = {**asked, namespace: now}
            self._telling.failed("api", error)
            return ""
        return self._settings.domain_of(namespace, str(labels.get(DOMAIN_LABEL, "")))

    def _forget(self, uid: str, last: Object | None = None) -> None:
        pod = self._here.pop(uid, None)
        if pod is None:
            return
        gone = dataclasses.replace(pod, gone=True, object=_without_fields(last) if last else pod.object)
        self._gone[uid] = (self._clock.monotonic(), gone)
        self._expire()

    def _expire(self) -> None:
        """Oldest first: the order in which they went."""
        now = self._clock.monotonic()
        for uid in [uid for uid, (at, _) in self._gone.items() if now - at > REMEMBERED_SECONDS]:
            del self._gone[uid]
        while len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]


def _uid(found: Object) -> str:
    return str(found.get("metadata", {}).get("uid", ""))


def _without_fields(found: Object) -> Object:
    """Without the record of who set which field, which is half of an object and says nothing here."""
    metadata = {name: value for name, value in found.get("metadata", {}).items() if name != "managedFields"}
    return {**found, "metadata": metadata}
