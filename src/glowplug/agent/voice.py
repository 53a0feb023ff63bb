"""What an agent tells, said three times: a number for the dashboard, an event for `kubectl describe`, a line for the log.

The one `Telling` that is not a test's. A start or a refusal is told once however often it is reported; what comes from a pod is a
claim and is treated as one: label values are from fixed sets, durations such as can be, texts quoted.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

import glowplug
from glowplug.agent import bounding, events, metrics, outboxes
from glowplug.agent.decisions import Decisions
from glowplug.agent.metrics import Metrics
from glowplug.agent.posting import Posting
from glowplug.agent.repeating import Repeating
from glowplug.core import units
from glowplug.core.clock import SYSTEM
from glowplug.core.documents.start import Compile, PublishOutcome, RestoreOutcome
from glowplug.core.errors import GlowplugError
from glowplug.launch.words import explained

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import TextIO

    from glowplug.agent.events import Reason
    from glowplug.agent.pods import Pod
    from glowplug.agent.settings import Settings
    from glowplug.core.clock import Clock, Deadline
    from glowplug.core.documents.start import PublishResult, Start
    from glowplug.kube.contract import Api

_REMEMBERED: Final = 10_000
_REASONS: Final = {
    Compile.HIT: events.HIT,
    Compile.PARTIAL: events.PARTIAL,
    Compile.MISS: events.MISS,
    Compile.REJECTED: events.REJECTED,
    Compile.DISABLED: events.DISABLED,
    Compile.UNKNOWN: events.UNKNOWN,
}
_WHAT: Final = frozenset(["annotate", "api", "disk", "event", "fetch", "list", "outbox", "program", "shared", "taint"])
_TAINT: Final = frozenset(("removed", "absent", "put_back", "failed", "unregistered"))
_MEANT: Final = frozenset(("observe", "read_only", "no_store", "publish_off"))
"""Why nothing is published that somebody wanted so: no event says it at each start."""
UNKEPT_A_MINUTE: Final = 30
"""Events about pods that nobody serves here; each of them has one."""
_LASTING_SECONDS: Final = 3600.0
_MOST_BYTES: Final = 1 << 50
_DIGITS: Final = 12


class Voice:
    """A `Telling`. `api` None: no events. `metrics.render()` is what /metrics answers. Raises UsageError (`missing-extra`)."""

    def __init__(
        self, api: Api | None, settings: Settings, *, stream: TextIO | None = None, clock: Clock = SYSTEM
    ) -> None:
        self.metrics = Metrics(settings.mode)
        self._node = settings.node_name
        self._domains = frozenset(settings.domains)
        self._clock = clock
        self._log = Decisions(settings.node_name, stream or sys.stderr, clock)
        self._told: OrderedDict[Hashable, None] = OrderedDict()
        self._unkept: deque[float] = deque(maxlen=UNKEPT_A_MINUTE)
        self._lasting = float("-inf")
        self._repeating = Repeating(clock)
        self._lock = threading.Lock()
        self._posting = Posting(api, self._counted, self._event_failed, clock) if api is not None else None
        self.metrics.set(metrics.BUILD, 1, version=glowplug.__version__)

    def posts(self) -> bool:
        """Whether events are posted still: the thread that does it works, or none is needed."""
        return self._posting is None or self._posting.is_alive()

    def close(self, deadline: Deadline) -> None:
        """Post the events that wait; the agent ends."""
        if self._posting is not None:
            self._posting.close(deadline)

    # --- Telling ----------------------------------------------------------------------------------------------------

    def started(self, pod: Pod, start: Start) -> None:
        """A pod's start has a verdict."""
        if not self._first("start", pod.uid, start.id):
            return
        self._count_start(pod, start)
        verdict, restore = start.verdict, start.restore
        self._log.write(
            "start",
            pod=pod,
            domain=pod.domain,
            start=start.id,
            key=(start.key_digest or "")[:_DIGITS],
            verdict=verdict.compile.value,
            reason=verdict.reason,
            compile_seconds=verdict.compile_seconds,
            ready_seconds=start.ready_seconds,
            restore=restore.outcome.value,
            restore_reason=restore.reason,
            restored_bytes=restore.bytes or None,
            restore_seconds=restore.seconds,
            handed_over=_handed_over(start),
            exit_status=start.exit_status,
        )
        self._about_pod(pod, _REASONS[verdict.compile], _sentence(start), start.id)

    def published(
        self, pod: Pod | None, domain: str, key: str, result: PublishResult, *, again: float | None = None
    ) -> None:
        """What a pod compiled was published, or why not."""
        where = self._domain(domain)
        outcome, reason = result.outcome, result.reason
        said = outcome.value if again is None else metrics.WAITS
        self.metrics.add(metrics.PUBLISHES, domain=where, outcome=said, reason=bounding.word(reason))
        if outcome is PublishOutcome.PUBLISHED:
            self.metrics.add(metrics.PUBLISHED_BYTES, result.bytes, domain=where)
            self.metrics.observe(metrics.PUBLISH_SECONDS, result.seconds, domain=where)
        self._log.write(
            "publish",
            pod=pod,
            domain=domain,
            key=key[:_DIGITS],
            outcome=said,
            reason=reason,
            again_seconds=again,
            parts=[part[:_DIGITS] for part in result.parts],
            bytes=result.bytes or None,
            seconds=result.seconds,
        )
        if pod is None:
            return
        if outcome is PublishOutcome.PUBLISHED:
            text = f"{_parts(len(result.parts))}, {units.format_size(result.bytes)}, under the key {key[:_DIGITS]}"
            self._about_pod(pod, events.PUBLISHED, f"published {text}", key + "".join(result.parts))
        elif again is not None:
            text = f"not published yet under the key {key[:_DIGITS]}, {_later(again)}: {explained(reason)}"
            self._about_pod(pod, events.UNPUBLISHED, text, f"{key} {bounding.word(reason)}")
        elif outcome is not PublishOutcome.UNCHANGED and reason not in _MEANT:
            text = f"not published under the key {key[:_DIGITS]}: {explained(reason)}"
            self._about_pod(pod, events.UNPUBLISHED, text, f"{key} {bounding.word(reason)}")

    def refused(self, pod: Pod | None, uid: str, reason: str, detail: str) -> None:
        """Something in an outbox was not believed."""
        self.metrics.add(metrics.REFUSALS, reason=bounding.word(reason))
        self._log.write("refused", pod=pod, uid=uid, reason=reason, detail=detail)
        if pod is not None:
            text = f"{reason}: {detail}" if detail else reason
            self._about_pod(pod, events.REFUSED, text, f"{reason} {detail}")

    def set_aside(self, pod: Pod, domain: str, key: str, detail: str) -> None:
        """This node does without parts of a key from now on."""
        self.metrics.add(metrics.SET_ASIDE, domain=self._domain(domain))
        self._log.write("set_aside", pod=pod, domain=domain, key=key[:_DIGITS], detail=detail)
        self._about_pod(pod, events.SET_ASIDE, f"under the key {key[:_DIGITS]}: {detail}", f"{key} {detail}")

    def unkept(self, pod: Pod) -> None:
        """A pod is of a trust domain that this agent does not keep: an event for each, a line for each domain."""
        if not self._first("unkept", pod.uid):
            return
        self.metrics.add(metrics.UNKEPT)
        text = f"pod {pod.namespace}/{pod.name} is of domain {pod.domain}, which this agent does not keep (--domain)"
        if self._first("unkept domain", pod.domain):
            self._log.write("unkept", pod=pod, domain=pod.domain, detail=text, keeps=sorted(self._domains))
        now = self._clock.monotonic()
        if len(self._unkept) == UNKEPT_A_MINUTE and now - self._unkept[0] < 60.0:
            self._counted("dropped")
            return
        self._unkept.append(now)
        self._about_pod(pod, events.UNKEPT, text, pod.domain)

    def lasting(self, domains: Sequence[str], error: BaseException, seconds: float) -> None:
        """The store has given nothing for a while: an event of the node, once an hour."""
        now = self._clock.monotonic()
        if not domains or now - self._lasting < _LASTING_SECONDS:
            return
        self._lasting = now
        code = (error.code if isinstance(error, GlowplugError) else type(error).__name__).replace("-", "_")
        which = f"domain {domains[0]}" + (f" and {len(domains) - 1} more" if len(domains) > 1 else "")
        text = f"{which}: not fetched for {units.format_seconds(seconds)}: {code}: {error}"
        self._about_node(events.NOT_FETCHING, text, f"{code} {self._clock.now() // _LASTING_SECONDS:.0f}")

    def damaged(self, domain: str, key: str, part: str) -> None:
        """A part of a key is damaged in the store itself."""
        self.metrics.add(metrics.DAMAGED, domain=self._domain(domain))
        self._log.write("damaged", domain=domain, key=key[:_DIGITS], part=part[:_DIGITS])
        text = (
            f"part {part[:_DIGITS]} of the key {key[:_DIGITS]} in the domain {domain} is not what its digest says: it is left out "
            "here, and what the next pod compiles takes its place"
        )
        self._about_node(events.DAMAGED, text, f"{domain} {part}")

    def waiting(self, size: int, archives: int) -> None:
        """What lies in outboxes and is not published yet."""
        self.metrics.set(metrics.WAITING_BYTES, size)
        self.metrics.set(metrics.WAITING, archives)

    def fetched(self, domain: str, key: str, size: int, parts: int, seconds: float) -> None:
        """Parts of a key came into the node store."""
        where = self._domain(domain)
        self.metrics.add(metrics.FETCHES, domain=where)
        self.metrics.add(metrics.FETCHED_PARTS, parts, domain=where)
        self.metrics.add(metrics.FETCHED_BYTES, size, domain=where)
        self.metrics.observe(metrics.FETCH_SECONDS, seconds, domain=where)
        self._log.write("fetch", domain=domain, key=key[:_DIGITS], bytes=size, parts=parts, seconds=seconds)

    def removed(self, domain: str, key: str, reason: str) -> None:
        """A key left the node store."""
        self.metrics.add(metrics.REMOVALS, domain=self._domain(domain), reason=bounding.word(reason))
        self._log.write("remove", domain=domain, key=key[:_DIGITS], reason=reason)

    def prewarmed(self, domain: str, keys: int, size: int, seconds: float) -> None:
        """The first fetch of a domain is done."""
        where = self._domain(domain)
        self.metrics.set(metrics.PREWARM_SECONDS, seconds, domain=where)
        self.metrics.set(metrics.PREWARMED_KEYS, keys, domain=where)
        self._log.write("prewarm", domain=domain, keys=keys, bytes=size, seconds=seconds)
        held = f"{keys} key{'' if keys == 1 else 's'}, {units.format_size(size)}"
        text = f"domain {domain}: {held}, after {units.format_seconds(seconds)}"
        self._about_node(events.PREWARMED, text, domain)

    def held(self, size: int, keys: int, inodes: int) -> None:
        """What the node store is now."""
        self.metrics.set(metrics.STORE_BYTES, size)
        self.metrics.set(metrics.STORE_KEYS, keys)
        self.metrics.set(metrics.STORE_INODES, inodes)

    def filled(self, put: int, left: int, faults: int, size: int, seconds: float) -> None:
        """Shared mode's directory was filled."""
        for outcome, count in (("put", put), ("left", left), ("failed", faults)):
            self.metrics.set(metrics.SHARED_ENTRIES, count, outcome=outcome)
        self.metrics.set(metrics.SHARED_BYTES, size)
        self._log.write("fill", put=put, left=left, failed=faults, bytes=size, seconds=seconds)

    def nvme(self, *, backed: bool, where: str) -> None:
        """Whether the root lies on an NVMe instance store."""
        self.metrics.set(metrics.NVME, int(backed))
        if not self._first("nvme", backed, where):
            return
        self._log.write("nvme", backed=backed, where=where)
        if not backed:
            self._about_node(events.NOT_NVME, where, where)

    def taint(self, outcome: str, seconds: float) -> None:
        """What became of the startup taint."""
        self.metrics.add(metrics.TAINTS, outcome=bounding.among(outcome, _TAINT))
        if outcome == "removed":
            self.metrics.set(metrics.TAINT_SECONDS, seconds)
        self._log.write("taint", outcome=outcome, seconds=seconds)
        since = f"{units.format_seconds(seconds)} after the node's creation"
        if outcome == "removed":
            self._about_node(events.TAINT_REMOVED, f"removed {since}", f"{self._clock.now():.0f}")
        elif outcome == "failed":
            self._about_node(events.TAINT_FAILED, f"not removed {since}", "")

    def failed(self, what: str, error: BaseException) -> None:
        """Something did not work and will be tried again."""
        code = error.code if isinstance(error, GlowplugError) else "disk" if isinstance(error, OSError) else "internal"
        self.metrics.add(metrics.FAILURES, what=bounding.among(what, _WHAT), code=bounding.word(code.replace("-", "_")))
        text = str(error) if isinstance(error, GlowplugError) else f"{type(error).__name__}: {error}"
        repeated = self._repeating.again(what, code, text)
        if repeated is not None:
            self._log.write("failure", of=what, code=code, error=text, repeated=repeated or None)

    # --- beneath ----------------------------------------------------------------------------------------------------

    def _count_start(self, pod: Pod, start: Start) -> None:
        where, verdict, restore = self._domain(pod.domain), start.verdict, start.restore
        said, outcome = verdict.compile.value, restore.outcome.value
        self.metrics.add(metrics.STARTS, domain=where, verdict=said, restore=outcome)
        if restore.outcome is RestoreOutcome.RESTORED:
            self.metrics.add(metrics.RESTORED_BYTES, min(restore.bytes, _MOST_BYTES), domain=where)
        elif not _was_there(start):
            self.metrics.add(metrics.MISSES, domain=where, reason=bounding.word(restore.reason))
            for name in bounding.fields(restore.reason):
                self.metrics.add(metrics.MISS_FIELDS, domain=where, field=name)
        self.metrics.observe(metrics.RESTORE_SECONDS, bounding.seconds(restore.seconds), domain=where, restore=outcome)
        self.metrics.observe(metrics.READY_SECONDS, bounding.seconds(start.ready_seconds), domain=where, verdict=said)
        self.metrics.observe(
            metrics.COMPILE_SECONDS, bounding.seconds(verdict.compile_seconds), domain=where, verdict=said
        )

    def _domain(self, domain: str) -> str:
        """A namespace makes a domain, so there may be any number: those that this agent keeps have a name here."""
        return bounding.among(domain, self._domains)

    def _about_pod(self, pod: Pod, reason: Reason, message: str, once: str) -> None:
        if self._posting is not None:
            now = self._clock.now()
            self._posting.put(events.about_pod(pod, reason, message, node=self._node, now=now, once=once))

    def _about_node(self, reason: Reason, message: str, once: str) -> None:
        if self._posting is not None and self._node:
            self._posting.put(events.about_node(self._node, reason, message, now=self._clock.now(), once=once))

    def _counted(self, outcome: str) -> None:
        self.metrics.add(metrics.EVENTS, outcome=outcome)

    def _event_failed(self, error: BaseException) -> None:
        self.failed("event", error)

    def _first(self, *about: Hashable) -> bool:
        with self._lock:
            if about in self._told:
                return False
            self._told[about] = None
            while len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
            return True


def _was_there(start: Start) -> bool:
    """Whether there was nothing to restore, since all of it lies in the cache root already: a container that was started again."""
    restore = start.restore
    if restore.outcome is RestoreOutcome.RESTORED:
        return restore.bytes <= 0
    return restore.outcome is RestoreOutcome.SKIPPED and restore.reason == "already_present"


def _handed_over(start: Start) -> str:
    """What became of what the start compiled, as far as its pod can know: what it sealed is judged by the agent, after this."""
    if start.publish is None:
        return ""
    return "sealed" if start.publish.outcome is PublishOutcome.PUBLISHED else start.publish.outcome.value


def _sentence(start: Start) -> str:
    """A start in one sentence: what happened, how long it took, and why."""
    verdict, restore = start.verdict, start.restore
    said: list[str] = []
    if restore.outcome is RestoreOutcome.RESTORED and restore.bytes > 0:
        size, seconds = units.format_size(max(restore.bytes, 0)), _seconds(restore.seconds)
        said.append(f"restored {size} in {seconds}")
    elif _was_there(start):
        said.append("what was restored before is still there")
    elif restore.reason:
        said.append(f"nothing restored: {explained(restore.reason)}")
    if restore.aside:
        said.append(f"{_parts(len(restore.aside))} left out, since a start ended before it was ready with them")
    if verdict.reason:
        said.append(explained(verdict.reason))
    if verdict.compile_seconds is not None:
        said.append(f"compiled for {_seconds(verdict.compile_seconds)}")
    if start.ready_seconds is not None:
        said.append(f"ready after {_seconds(start.ready_seconds)}")
    return "; ".join(said) or verdict.compile.value


def _seconds(number: float) -> str:
    return units.format_seconds(bounding.seconds(number) or 0.0)


def _later(seconds: float) -> str:
    hours = outboxes.BOUNDS.age_seconds / 3600
    return f"tried again by itself, next in {_seconds(seconds)}, for {hours:.0f} hours at most"


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"
