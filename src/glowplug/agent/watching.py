"""The pods of this node, kept up to date by a watch, and those that are gone for an hour longer.

Whatever an outbox holds is judged by what stands here, so this is the API's word and nobody else's. A pod that is gone is
remembered: its watcher hands over what it compiled in the last second of its life, and that belongs to somebody still. The
trust domain is that of the moment when the pod was first seen: a namespace that gets another label later does not move what
runs in it already.

Of a pod only what somebody here asks for is kept, as text, and of all of them together no more than `_MOST_BYTES`: whoever may
create pods decides how large they are. One that is too large for its own measure keeps its name and its status, and then what it
hands over is not believed. Where all of them are too large together, the largest keeps its name alone, whoever came last: small
pods are not to suffer for large ones. While it is here the API is asked for it again when somebody looks at it. Of those that are
gone, only pods that have an outbox are remembered.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.agent.pods import Pod, Said
from glowplug.agent.settings import Mode
from glowplug.core.clock import SYSTEM
from glowplug.core.errors import GlowplugError, NotFoundError
from glowplug.kube.backoff import Backoff
from glowplug.kube.contract import Seen
from glowplug.manifests import recipe
from glowplug.manifests.marks import DOMAIN_LABEL
from glowplug.nodestore import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from glowplug.agent.settings import Settings
    from glowplug.agent.telling import Telling
    from glowplug.core.clock import Clock
    from glowplug.kube.contract import Api, Change, Object

REMEMBERED_SECONDS: Final = 3600.0
_REMEMBERED: Final = 5000
_MOST_OF_A_POD: Final = 128 << 10
"""Characters. What an engine's start asks for takes a few thousand."""
_MOST_BYTES: Final = 16 << 20
_OVER: Final = frozenset(("Succeeded", "Failed"))
_METADATA: Final = ("uid", "name", "namespace", "labels", "ownerReferences")
_SPEC: Final = (
    "containers",
    "initContainers",
    "volumes",
    "serviceAccountName",
    "nodeName",
    "enableServiceLinks",
)
_OF_A_CONTAINER: Final = ("name", "image", "command", "args", "env", "envFrom", "volumeMounts")
_NAME: Final = ("uid", "name", "namespace")
_ANEW_SECONDS: Final = 10.0
_STATUS: Final = ("phase", "containerStatuses")
_OF_A_CONTAINER_STATUS: Final = ("name", "image", "imageID", "restartCount")
_WAITS: Final = (1.0, 60.0)
_ASK_AGAIN_SECONDS: Final = 5.0


class Pods:
    """Pods of one node, by UID. `run` fills it in a thread of its own; the rest may be called from any."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        telling: Telling,
        clock: Clock = SYSTEM,
        *,
        arrived: Callable[[Pod], None] = lambda _: None,
    ) -> None:
        """`arrived` is called with each pod of the agent's mode that comes to the node once all have been listed."""
        self._api = api
        self._arrived = arrived
        self._anew: tuple[str, float, Object] = ("", 0.0, {})
        self._settings = settings
        self._telling = telling
        self._clock = clock
        self._lock = threading.Lock()
        self._here: dict[str, _Kept] = {}
        self._gone: dict[str, tuple[float, _Kept]] = {}
        self._size = 0
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
            kept = self._here.get(uid)
            if kept is None:
                self._expire()
                _, kept = self._gone.get(uid, (0.0, None))
        if kept is None:
            return None
        return self._whole(kept if kept.pod.domain else self._with_domain(kept))

    def strangers(self) -> dict[str, str]:
        """Trust domains that this agent does not keep and of which pods of node mode are here, each with one of these pods."""
        with self._lock:
            here = [kept.pod for kept in self._here.values() if kept.ours]
        return {pod.domain: f"{pod.namespace}/{pod.name}" for pod in reversed(here) if self._is_strange(pod)}

    def may_use(self, domain: str) -> bool:
        """Whether a pod that is here may have the store of a trust domain mounted."""
        mounted = f"/{layout.STORE}/{domain}"
        with self._lock:
            return any(kept.pod.domain in ("", domain) or mounted in kept.text for kept in self._here.values())

    def _keep(self, found: Object) -> None:
        uid = _uid(found)
        metadata = _part(found, "metadata")
        if not uid:
            return
        with self._lock:
            before = self._here.get(uid)
        namespace = str(metadata.get("namespace") or "")
        pod = Pod(
            uid=uid,
            namespace=namespace,
            name=str(metadata.get("name") or ""),
            account=str(_part(found, "spec").get("serviceAccountName", "")),
            domain=before.pod.domain if before else "",
            object={},
        )
        if not pod.domain:
            pod = dataclasses.replace(pod, domain=self._domain(namespace))
        kept = _Kept(pod, _text(found), ours=self._is_ours(found))
        with self._lock:
            new = uid not in self._here and uid not in self._gone
            self._take(self._here.pop(uid, None), self._gone.pop(uid, (0.0, None))[1])
            self._here[uid] = kept
            self._size += len(kept.text)
            self._bound()
            kept = self._here[uid]
            self._told.add(uid)
        late = new or not (before is None or before.pod.domain)  # also where its domain was not known until now
        if late and pod.domain and self.synced.is_set() and kept.ours:
            self._arrived(self._whole(kept))
        self._greet(kept)

    def _greet(self, kept: _Kept) -> None:
        """Whom nobody serves here is told so; it would wait in vain, and could not say why."""
        if kept.ours and not kept.pod.gone and self._is_strange(kept.pod):
            self._telling.unkept(self._whole(kept))

    def _is_strange(self, pod: Pod) -> bool:
        settings = self._settings
        return settings.mode is Mode.NODE and bool(pod.domain) and pod.domain not in settings.domains

    def _is_ours(self, found: Object) -> bool:
        """Whether it is a pod that may ask this node's agent for something."""
        mode = _part(_part(found, "metadata"), "labels").get(recipe.MODE_LABEL)
        return mode == self._settings.mode.value and _part(found, "status").get("phase") not in _OVER

    def _bound(self) -> None:
        """All within what all may take: of the largest the name is kept, and nothing else."""
        while self._size > _MOST_BYTES:
            gone = ((uid, kept) for uid, (_, kept) in self._gone.items())
            uid, kept = max((*self._here.items(), *gone), key=lambda one: len(one[1].text))
            if kept.cut:
                return
            cut = dataclasses.replace(kept, text=_named(kept.pod), cut=True)
            self._size += len(cut.text) - len(kept.text)
            if uid in self._here:
                self._here[uid] = cut
            else:
                self._gone[uid] = (self._gone[uid][0], cut)

    def _whole(self, kept: _Kept) -> Pod:
        """The pod as others know it."""
        anew = functools.partial(self._asked_anew, kept.pod) if kept.cut and not kept.pod.gone else None
        return dataclasses.replace(kept.pod, object=Said(kept.text, anew))

    def _asked_anew(self, pod: Pod) -> Object:
        """What the API says of a pod of which the name alone was kept. Raises the API's errors."""
        with self._lock:
            uid, until, found = self._anew
        now = self._clock.monotonic()
        if uid == pod.uid and now < until:
            return found
        listed = self._api.pods(namespace=pod.namespace, node=self._settings.node_name)
        text = next((_text(one) for one in listed if _uid(one) == pod.uid), _named(pod))
        found = dict(json.loads(text))
        with self._lock:
            self._anew = (pod.uid, now + _ANEW_SECONDS, found)
        return found

    def _take(self, *kept: _Kept | None) -> None:
        """It is not kept any more."""
        self._size -= sum(len(one.text) for one in kept if one is not None)

    def _with_domain(self, kept: _Kept) -> _Kept:
        """The same pod, its namespace asked for once more."""
        pod = kept.pod
        known = dataclasses.replace(kept, pod=dataclasses.replace(pod, domain=self._domain(pod.namespace)))
        with self._lock:
            if known.pod.domain and self._here.get(pod.uid) is kept:
                self._here[pod.uid] = known
            elif known.pod.domain and self._gone.get(pod.uid, (0.0, None))[1] is kept:
                self._gone[pod.uid] = (self._gone[pod.uid][0], known)
        self._greet(known)
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
        kept = self._here.pop(uid, None)
        self._take(kept)
        if kept is None or not layout.is_pod_uid(uid) or not os.path.lexists(layout.outbox(self._settings.root, uid)):
            return
        pod = dataclasses.replace(kept.pod, gone=True)
        gone = _Kept(pod, _text(last)) if last else dataclasses.replace(kept, pod=pod)
        self._gone[uid] = (self._clock.monotonic(), gone)
        self._size += len(gone.text)
        self._bound()
        self._expire()

    def _expire(self) -> None:
        """Oldest first: the order in which they went, so that none but those that go is looked at."""
        now = self._clock.monotonic()
        while self._gone:
            uid, (at, _) = next(iter(self._gone.items()))
            if now - at <= REMEMBERED_SECONDS and len(self._gone) <= _REMEMBERED:
                return
            self._take(self._gone.pop(uid)[1])


def _uid(found: Object) -> str:
    return str(_part(found, "metadata").get("uid") or "")


def _part(found: Object, name: str) -> Object:
    """A part of an object; of what is no object, and of null, nothing: what the API says wrong ends no thread."""
    part = found.get(name)
    return part if isinstance(part, dict) else {}


@dataclass(frozen=True)
class _Kept:
    """A pod without its object, which is `text`; `cut`: of that there is the name alone. `ours`: it is of the agent's mode, and
    not over."""

    pod: Pod
    text: str
    ours: bool = False
    cut: bool = False


def _named(pod: Pod) -> str:
    name = {"uid": pod.uid, "name": pod.name, "namespace": pod.namespace}
    return json.dumps({"metadata": name, "spec": {}, "status": {}})


def _text(found: Object) -> str:
    """What somebody here asks for of an object; where that is too long: its name and its status."""
    metadata = _some(found.get("metadata"), _METADATA)
    spec = _some(found.get("spec"), _SPEC)
    status = _some(found.get("status"), _STATUS)
    for name, wanted, within in (
        ("containers", _OF_A_CONTAINER, spec),
        ("initContainers", ("name", "image"), spec),
        ("containerStatuses", _OF_A_CONTAINER_STATUS, status),
    ):
        if isinstance(within.get(name), list):
            within[name] = [_some(one, wanted) for one in within[name]]
    text = json.dumps({"metadata": metadata, "spec": spec, "status": status})
    if len(text) <= _MOST_OF_A_POD:
        return text
    text = json.dumps({"metadata": _some(metadata, _NAME), "spec": {}, "status": status})
    return text if len(text) <= _MOST_OF_A_POD else "{}"


def _some(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value} if isinstance(value, dict) else {}
