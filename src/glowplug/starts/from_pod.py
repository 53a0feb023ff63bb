"""A start as a pod's cluster saw it: what the API says of pod, events and node around what the engine's log says.

Who said what: the scheduler when it chose a node, the kubelet how long it pulled an image, when containers began and when the pod
counted as ready; the engine's own lines all between. A log's lines are exact where the API has whole seconds, so a container may
seem to begin up to a second before it did.

A container that was restarted has a start for each run of which something is left. The first counts from the pod's creation, a
later one from the container's own beginning. Data in, data out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from glowplug.core.clock import from_iso, iso
from glowplug.core.documents.start import Compile, Phase, Start, Verdict
from glowplug.launch.words import NOT_STARTED
from glowplug.observe.timeline import lined_up
from glowplug.starts import pod_status, told

if TYPE_CHECKING:
    from glowplug.kube.contract import Object
    from glowplug.starts.pod_status import Around, Run
    from glowplug.starts.told import Restored

NO_LOG: Final = "the container has no log"
UNREAD: Final = "the container's log cannot be read now"
NOT_BEGUN: Final = "the container has not begun"
STARTING: Final = "still starting"
ROTATED: Final = "the log's beginning was rotated away"
_ROTATED_SECONDS: Final = 120.0
"""Within this an engine, or glowplug before it, has said something; a log that begins later is not whole."""


def from_pod(
    pod: Object,
    container: str,
    run: Run | None,
    log: Start | None,
    text: str,
    around: Around,
    *,
    without: str = NO_LOG,
) -> Start:
    """The start of one run, `glowplug.start/1` with source `pod`.

    `run` None: the container has not begun. `log` is what `from_log` made of the run's log, `text` that log with a moment before
    each line; None and "" where there is none, and why is `without`. Never raises for what is in them.
    """
    origin = _origin(pod, run, around)
    began = run.began if run else None
    spoke = _moment(log.started_at) if log else None
    launcher = told.restored(text)
    claims = list(pod_status.before(pod, container, origin, began, around)) if run is None or run.number == 1 else []
    ready: float | None = None
    if began is not None and spoke is not None and log is not None:
        claims += [pod_status.phase("process", began, spoke, origin), *_restoring(launcher, origin, began)]
        lines = [replace(one, start_seconds=spoke - origin + one.start_seconds) for one in log.phases]
        if log.ready_seconds is not None:
            said = spoke + log.ready_seconds
            ready = _ready_after(pod, container, said) if run is not None and not run.previous else said
            # One stretch: the engine's own last seconds and those until its probes have noticed.
            until = min([said, *(origin + one.start_seconds for one in lines if one.name == "ready")])
            lines = [one for one in lines if one.name != "ready"]
            claims.append(pod_status.phase("ready", until, ready, origin))
        claims += lines
    elif began is not None and run is not None and not run.previous:
        ready = pod_status.ready(pod)
    seconds = None if ready is None else max(0.0, ready - origin)
    starting = run is not None and not run.previous and run.ended is None and ready is None
    known = log or Start(id="", source="pod", started_at="")
    return replace(
        known,
        id=f"pod-{pod_status.identity(pod).uid}-{run.number if run else 0}",
        source=pod_status.SOURCE,
        started_at=iso(origin),
        workload={name: value for name, value in known.workload.items() if name not in ("log", "starts_in_log")},
        restore=launcher.result,
        verdict=Verdict(Compile.UNKNOWN, reason=NOT_STARTED)
        if told.not_started(text)
        else _verdict(run, log, spoke, STARTING if starting and without == NO_LOG else without, starting=starting),
        phases=lined_up(claims, seconds),
        ready_seconds=seconds,
        kubernetes=pod_status.where(pod, container, run, around),
        publish=told.published(text),
        exit_status=run.exit_status if run else None,
    )


def _origin(pod: Object, run: Run | None, around: Around) -> float:
    created = pod_status.created(pod)
    if run is not None and run.number > 1 and run.began is not None:
        return run.began
    return created if created is not None else around.now


def _ready_after(pod: Object, container: str, said: float) -> float:
    """When the pod counted as ready, in whole seconds of the API.

    One that stopped being ready and is again says only since when; then the engine's word counts.
    """
    counted = pod_status.ready(pod)
    if counted is None or not said - 1 < counted <= said + pod_status.ready_patience(pod, container):
        return said
    return max(said, counted)


def _verdict(run: Run | None, log: Start | None, spoke: float | None, without: str, *, starting: bool) -> Verdict:
    if run is None:
        return Verdict(Compile.UNKNOWN, reason=NOT_BEGUN)
    if log is None:
        return Verdict(Compile.UNKNOWN, reason=without)
    late = run.began is not None and spoke is not None and spoke - run.began > _ROTATED_SECONDS
    if log.verdict.compile is Compile.UNKNOWN and late:
        return Verdict(Compile.UNKNOWN, log.verdict.compile_seconds, ROTATED)
    if log.verdict.compile is Compile.UNKNOWN and starting:
        return Verdict(Compile.UNKNOWN, log.verdict.compile_seconds, STARTING)
    return log.verdict


def _restoring(launcher: Restored, origin: float, began: float) -> list[Phase]:
    """The restore as a claim that ends when it was told, none of it before the container `began`."""
    if launcher.at is None:
        return []
    return [pod_status.phase("restore", max(launcher.at - launcher.result.seconds, began), launcher.at, origin)]


def _moment(text: str) -> float | None:
    try:
        return from_iso(text)
    except (ValueError, OverflowError):
        return None
