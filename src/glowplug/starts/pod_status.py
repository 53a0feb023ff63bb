"""What the API says of a pod's start: which container, which runs, and the moments of what came before the engine.

The API's moments are whole seconds, but for the scheduler's. Events are kept for an hour. Nothing here raises for what is in an
object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.clock import from_iso
from glowplug.core.documents.start import Phase
from glowplug.manifests import podspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.kube.contract import Object

SOURCE: Final = "pod"
INFERRED: Final = "pod, inferred"
_PREEMPTION: Final = " preemption: "
"""Where a scheduler's message goes on with why no other pod had to go: nothing that a person can act upon."""
_PAUSE: Final = 3.0
"""Seconds before a container from which on an image was pulled, where no event is left that would say so."""
_DURATION: Final = re.compile(
    r"(?=\d)(?:(\d{1,4})h)?(?:(\d{1,4})m)?(?:(\d{1,4}(?:\.\d{1,9})?)s)?(?:(\d{1,4}(?:\.\d{1,9})?)ms)?\Z"
)
_PULLED: Final = re.compile(
    r'Successfully pulled image "[^"]{0,1000}" in ([\dhms.]{1,40})(?: \(([\dhms.]{1,40}) including waiting\))?'
)
_IMAGE_BYTES: Final = re.compile(r"Image size: (\d{1,15}) bytes")
_PLACES: Final = {
    "instance_type": ("node.kubernetes.io/instance-type",),
    "zone": ("topology.kubernetes.io/zone",),
    "gpu": ("nvidia.com/gpu.product", "karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name"),
}


@dataclass(frozen=True)
class Run:
    """One run of a container. `number` counts from 1; `previous`: its log is that of the run before the present one.

    `began`, `ended`: seconds since the epoch. `exit_status`, `why`: of one that ended.
    """

    number: int
    previous: bool
    began: float | None
    ended: float | None = None
    exit_status: int | None = None
    why: str = ""


@dataclass(frozen=True)
class Around:
    """What is known beside the pod. `node` is None where nobody may read it; `now`: seconds since the epoch."""

    events: Sequence[Object]
    node: Object | None
    now: float


@dataclass(frozen=True)
class Identity:
    """What a pod is called, and on which node it is ("": on none)."""

    namespace: str
    name: str
    uid: str
    node: str


def identity(pod: Object) -> Identity:
    """Who the pod is."""
    metadata = _mapping(pod.get("metadata"))
    namespace, name, uid = (_text(metadata.get(field)) for field in ("namespace", "name", "uid"))
    return Identity(namespace, name, uid, _text(_at(pod, "spec", "nodeName")))


def container_of(pod: Object) -> str:
    """The engine's container: by what it starts, else the one shown by default, else one with a GPU, else the first."""
    asked = podspec.asked(pod)
    if asked is not None and asked.container:
        return asked.container
    containers = _items(_at(pod, "spec", "containers"))
    named = [_text(one.get("name")) for one in containers]
    default = _text(_at(pod, "metadata", "annotations", "kubectl.kubernetes.io/default-container"))
    if default in named:
        return default
    gpu = (
        _text(one.get("name")) for one in containers if "nvidia.com/gpu" in _mapping(_at(one, "resources", "limits"))
    )
    return next(gpu, named[0] if named else "")


def runs(pod: Object, container: str) -> tuple[Run, ...]:
    """The runs of which something is left, the latest last; none where the container has not begun."""
    status = _status(pod, container)
    restarts = status.get("restartCount")
    count = restarts if isinstance(restarts, int) and restarts > 0 else 0
    present = _run(count + 1, _mapping(status.get("state")), previous=False)
    if present is None:
        # It waits to be started again: what it wrote last is its present log.
        waiting = _run(count + 1, _mapping(status.get("lastState")), previous=False)
        return () if waiting is None else (waiting,)
    earlier = _run(count, _mapping(status.get("lastState")), previous=True) if count else None
    return (present,) if earlier is None else (earlier, present)


def created(pod: Object) -> float | None:
    """When the pod was made, in seconds since the epoch."""
    return _moment(_at(pod, "metadata", "creationTimestamp"))


def ready(pod: Object) -> float | None:
    """Since when the pod counts as ready, None where it does not."""
    return _since(pod, "Ready", "True")


def ready_patience(pod: Object, container: str) -> float:
    """Seconds that a pod may count as ready later than its engine said so: what its probes take to notice."""
    seconds = 5.0
    for one in _items(_at(pod, "spec", "containers")):
        if one.get("name") == container:
            for probe in (_mapping(one.get("startupProbe")), _mapping(one.get("readinessProbe"))):
                fields = (probe.get("periodSeconds"), probe.get("initialDelaySeconds"), probe.get("timeoutSeconds"))
                seconds += sum(field for field in fields if isinstance(field, int) and 0 < field < 3600)
    return seconds


def waiting(pod: Object, container: str, around: Around) -> str:
    """Why the container does not run, "" where it does or nobody says."""
    scheduled = next((one for one in _conditions(pod) if one.get("type") == "PodScheduled"), {})
    if scheduled.get("status") == "False":
        return said(scheduled.get("reason"), _text(scheduled.get("message")).partition(_PREEMPTION)[0])
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in _items(_at(pod, "status", kind)):
            state = _mapping(_at(one, "state", "waiting"))
            if (one.get("name") == container or kind != "containerStatuses") and state:
                name = "" if one.get("name") == container else f"{_text(one.get('name'))}: "
                return f"{name}{said(state.get('reason'), state.get('message') or _latest(around))}"
    return ""


def before(pod: Object, container: str, origin: float, began: float | None, around: Around) -> Iterator[Phase]:
    """What happened from the pod's creation until the container began (None: until now), in seconds since `origin`."""
    end = around.now if began is None else began
    scheduled = _scheduled(pod, around)
    chosen = end if scheduled is None else scheduled
    launched = _moment(_at(around.node or {}, "metadata", "creationTimestamp"))
    if launched is not None and launched >= origin and scheduled is not None:
        up = _since(around.node or {}, "Ready", "True")
        yield phase("node_launch", origin, min(chosen, up) if up is not None else chosen, origin)
    yield phase("schedule", origin, chosen, origin)
    if scheduled is None:
        return
    latest = chosen
    for one in _items(_at(pod, "status", "initContainerStatuses")):
        state = _run(1, _mapping(one.get("state")), previous=False)
        if state is not None and state.began is not None and state.began < end:
            done = state.ended if state.ended is not None else state.began
            yield phase("init", state.began, min(done, end), origin)
            latest = max(latest, min(done, end))
    pulls = [one for one in around.events if one.get("reason") in ("Pulling", "Pulled")]
    yield from (one for one in (_pull(event, origin, chosen, end) for event in pulls) if one is not None)
    pulling = _latest_pull(pulls, origin, began, end)
    if pulling is not None:
        yield pulling
    sandbox = _since(pod, "PodReadyToStartContainers", "True")
    idle = max(latest, sandbox if sandbox is not None and sandbox <= end else latest)
    if not pulls and began is not None and end - idle >= _PAUSE:
        yield phase("image_pull", idle, end, origin, source=INFERRED)


def where(pod: Object, container: str, run: Run | None, around: Around) -> dict[str, Any]:
    """`kubernetes` of a start: names and moments, without what is not known."""
    status = _status(pod, container)
    labels = _mapping(_at(around.node or {}, "metadata", "labels"))
    places = {
        name: next((_text(labels[label]) for label in keys if label in labels), "") for name, keys in _PLACES.items()
    }
    restarts = status.get("restartCount")
    own = identity(pod)
    known = {
        "namespace": own.namespace,
        "pod": own.name,
        "uid": own.uid,
        "node": own.node,
        **places,
        "container": container,
        "image": _text(status.get("image")) or _image(pod, container),
        "image_id": _text(status.get("imageID")),
        "phase": _text(_at(pod, "status", "phase")),
        "restarts": restarts if isinstance(restarts, int) else None,
        "run": run.number if run else None,
        "created": _text(_at(pod, "metadata", "creationTimestamp")),
        "ended": run.why if run else "",
        "waiting": waiting(pod, container, around) if run is None or not run.previous else "",
    }
    return {name: value for name, value in known.items() if value not in ("", None)}


def phase(
    name: str, start: float, end: float, origin: float, *, source: str = SOURCE, size: int | None = None
) -> Phase:
    """A claim from `start` to `end` (seconds since the epoch), none of it before `origin`."""
    begin = max(0.0, start - origin)
    return Phase(name, begin, max(0.0, end - origin - begin), size, source)


def _pull(event: Object, origin: float, scheduled: float, end: float) -> Phase | None:
    """A pull that ended before the container began; later ones are of its later runs."""
    pulled = _PULLED.match(_text(event.get("message")))
    at = event_moment(event)
    seconds = _duration(pulled.group(2) or pulled.group(1)) if pulled else None
    if event.get("reason") != "Pulled" or at is None or seconds is None or at > end + 1:
        return None
    return phase("image_pull", max(scheduled, at - seconds), min(at, end), origin)


def _latest_pull(pulls: Sequence[Object], origin: float, began: float | None, end: float) -> Phase | None:
    """A pull that goes on: begun, not ended, and its container has not begun."""
    times = {
        reason: max((event_moment(one) or 0.0 for one in pulls if one.get("reason") == reason), default=0.0)
        for reason in ("Pulling", "Pulled")
    }
    if began is not None or times["Pulling"] <= times["Pulled"]:
        return None
    return phase("image_pull", times["Pulling"], end, origin)


def _scheduled(pod: Object, around: Around) -> float | None:
    told = next((event_moment(one) for one in around.events if one.get("reason") == "Scheduled"), None)
    return told if told is not None else _since(pod, "PodScheduled", "True")


def _latest(around: Around) -> str:
    """What the newest warning about something that failed says; others warn of what does not keep a pod from starting."""
    warnings = [one for one in around.events if _text(one.get("reason")).startswith("Failed")]
    newest = max(warnings, key=lambda one: event_moment(one) or 0.0, default={})
    return _text(newest.get("message"))


def event_moment(event: Object) -> float | None:
    """When an event was seen last."""
    for name in ("lastTimestamp", "eventTime", "firstTimestamp"):
        moment = _moment(event.get(name))
        if moment is not None:
            return moment
    return None


def _duration(text: str) -> float | None:
    """Seconds of Go's `1m2.5s`, `345.6ms`."""
    found = _DURATION.match(text)
    if found is None:
        return None
    hours, minutes, seconds, thousandths = (float(part or 0.0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000


def _run(number: int, state: Mapping[str, Any], *, previous: bool) -> Run | None:
    running, ended = _mapping(state.get("running")), _mapping(state.get("terminated"))
    if not running and not ended:
        return None
    status = ended.get("exitCode")
    return Run(
        number,
        previous,
        _moment((ended or running).get("startedAt")),
        _moment(ended.get("finishedAt")),
        status if isinstance(status, int) else None,
        _text(ended.get("reason")),
    )


def _status(pod: Object, container: str) -> Mapping[str, Any]:
    statuses = _items(_at(pod, "status", "containerStatuses"))
    return next((one for one in statuses if one.get("name") == container), {})


def _image(pod: Object, container: str) -> str:
    containers = _items(_at(pod, "spec", "containers"))
    return next((_text(one.get("image")) for one in containers if one.get("name") == container), "")


def _conditions(item: Object) -> list[Mapping[str, Any]]:
    return _items(_at(item, "status", "conditions"))


def _since(item: Object, kind: str, status: str) -> float | None:
    held = (one for one in _conditions(item) if one.get("type") == kind and one.get("status") == status)
    return next((_moment(one.get("lastTransitionTime")) for one in held), None)


def said(reason: object, message: object) -> str:
    """`Reason: message`, as much of it as is there."""
    return ": ".join(one for one in (_text(reason), _text(message)) if one)


def _moment(value: object) -> float | None:
    if not isinstance(value, str) or not value:
        return None
    try:
        return from_iso(value)
    except (ValueError, OverflowError):
        return None


def _at(value: object, *path: str) -> object:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _items(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
