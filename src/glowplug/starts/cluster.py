"""Which pods are meant, and their starts: what is asked of a cluster for `glowplug startup pod/… deploy/… -l …`.

Four questions a pod: itself (with the list), its events, its node, its log; nothing is written. Who may read pods and logs but
no nodes or events learns less, not nothing.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from glowplug.core.errors import AccessDeniedError, NotFoundError, UnavailableError, UsageError
from glowplug.starts import from_log, from_pod, pod_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from glowplug.core.documents.start import Start
    from glowplug.engines.adapter import LogReader
    from glowplug.kube.contract import Api, Object

MOST_PODS: Final = 20
"""Of more, the newest: whoever compares starts means those of now, and each costs the reading of a log."""
LOG_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Found:
    """Pods, and how many there were."""

    pods: Sequence[Object]
    of: int


@dataclass(frozen=True)
class Named:
    """A start and what to call it: `pod/vllm-0`, `pod/vllm-0#2` for its second run."""

    name: str
    start: Start


class Reading(Protocol):
    """How a log is read: `from_log` with its engines."""

    def __call__(self, log: Iterable[str], name: str) -> Start:
        """The start in the lines of a log."""
        ...


def reading(readers: Mapping[str, Callable[[], LogReader]], engine: str | None, now: float) -> Reading:
    """Logs read by these adapters."""

    def read(log: Iterable[str], name: str) -> Start:
        return from_log.from_log(log, name=name, now=now, readers=readers, engine=engine)

    return read


def pods_of(api: Api, namespace: str, kind: str, name: str) -> Found:
    """The pods of an object. Raises NotFoundError, also where it has none."""
    if kind == "pod":
        return Found((api.pod(namespace, name),), 1)
    workload = api.workload(kind, namespace, name)
    selector = _selector(workload)
    if not selector:
        raise UsageError(f"{kind}/{name} selects its pods by nothing that can be asked for")
    try:
        return pods_by(api, namespace, selector, f"{kind}/{name}")
    except NotFoundError as error:
        refused = _refused(api, workload, namespace)
        if not refused:
            raise
        raise NotFoundError(f"{error.message}: {refused}") from None


def pods_by(api: Api, namespace: str, selector: str, what: str) -> Found:
    """The pods of a label selector, oldest first. Raises NotFoundError where there are none."""
    found = sorted(api.pods(namespace=namespace, labels=selector), key=lambda pod: pod_status.created(pod) or 0.0)
    if not found:
        raise NotFoundError(f"{what} has no pods in namespace {namespace}")
    return Found(found[-MOST_PODS:], len(found))


def starts(
    api: Api, pod: Object, read: Reading, now: float, note: Callable[[str], None] = lambda _: None
) -> Iterator[Named]:
    """The starts of a pod, the latest last: one for each run of its engine's container, or one that has not begun.

    A log that cannot be had now (its node does not answer) leaves what the API says, and a note.
    """
    own = pod_status.identity(pod)
    around = pod_status.Around(_events(api, own.namespace, own.uid), _node(api, own.node), now)
    container = pod_status.container_of(pod)
    known = pod_status.runs(pod, container)
    for run in known or (None,):
        label = f"pod/{own.name}" if len(known) < 2 or run is None else f"pod/{own.name}#{run.number}"
        text, without = None, from_pod.NO_LOG
        try:
            text = _log(api, own.namespace, own.name, container, previous=run.previous) if run else None
        except UnavailableError as error:
            without = from_pod.UNREAD
            note(f"{label}: {error.message}")
        log = None if text is None else read(from_log.lines(io.BytesIO(text.encode("utf-8", "replace"))), label)
        yield Named(label, from_pod.from_pod(pod, container, run, log, text or "", around, without=without))


def _log(api: Api, namespace: str, name: str, container: str, *, previous: bool) -> str | None:
    try:
        return api.log(namespace, name, container, previous=previous, most_bytes=LOG_BYTES) or None
    except NotFoundError:
        return None


def _events(api: Api, namespace: str, uid: str) -> Sequence[Object]:
    try:
        return tuple(api.events(namespace, uid)) if uid else ()
    except (AccessDeniedError, UnavailableError):
        return ()


def _node(api: Api, name: str) -> Object | None:
    try:
        return api.node(name) if name else None
    except (AccessDeniedError, NotFoundError, UnavailableError):
        return None


def _refused(api: Api, workload: Object, namespace: str) -> str:
    """Why an object has no pods: what the API server answered to whoever was to make them, "" where nobody says.

    A Deployment has it in a condition (its ReplicaSet's events are about another object), the others in events of their own.
    """
    conditions = workload.get("status", {}).get("conditions") or ()
    for one in conditions:
        if one.get("type") == "ReplicaFailure" and one.get("status") == "True":
            return pod_status.said(one.get("reason"), one.get("message"))
    failed = [
        one
        for one in _events(api, namespace, workload.get("metadata", {}).get("uid", ""))
        if one.get("reason") == "FailedCreate"
    ]
    newest = max(failed, key=lambda one: pod_status.event_moment(one) or 0.0, default={})
    return pod_status.said(newest.get("reason"), newest.get("message"))


def _selector(workload: Object) -> str:
    """A workload's selector as a query has it."""
    selector = workload.get("spec", {}).get("selector") or {}
    terms = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        name, values = one.get("key", ""), ",".join(one.get("values") or ())
        operators = {"In": f"{name} in ({values})", "NotIn": f"{name} notin ({values})", "DoesNotExist": f"!{name}"}
        terms.append(operators.get(one.get("operator", ""), name))
    return ",".join(terms)
