"""What an agent counts. Each metric stands in `METRICS` with what it means and what to do about it: the reference is made of that.

Names and units by Prometheus' conventions. Label values come from fixed sets (`agent/bounding.py`), since what pods write must not
decide how many time series there are. The registry is this object's own: two agents in one process do not meet.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.agent.settings import Mode
from glowplug.core.errors import UsageError
from glowplug.nodestore.layout import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(enum.Enum):
    """The kinds of metrics that are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One metric. `name` as it is scraped (a histogram has `_bucket`, `_sum` and `_count` of it); `advice`: what to do about it.

    `mode`: whose agents have it, None for those of both; a number that can only be 0 says what is not so.
    """

    name: str
    kind: Kind
    means: str
    labels: tuple[str, ...] = ()
    advice: str = ""
    buckets: tuple[float, ...] = ()
    mode: Mode | None = None


_START: Final = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0)
_SHORT: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0)
_LONG: Final = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

STARTS: Final = Metric(
    "glowplug_starts_total",
    Kind.COUNTER,
    "Starts of pods that have a verdict: what really happened to compilation.",
    ("domain", "verdict", "restore"),
    "The share of `hit` is what glowplug is for. `miss` after the first start of a workload: look at the two metrics below it. "
    "`rejected`: the engine threw away what it was given; `glowplug cache show` says by which starts.",
    mode=Mode.NODE,
)
MISSES: Final = Metric(
    "glowplug_restore_misses_total",
    Kind.COUNTER,
    "Starts that were given nothing, by the reason.",
    ("domain", "reason"),
    "`no_keys`, `key`: nobody has compiled this yet, or under other facts. `deadline`: pods start before the agent has fetched; "
    "compare `glowplug_prewarm_seconds`. `key_blocked`: `glowplug cache show` says why.",
    mode=Mode.NODE,
)
MISS_FIELDS: Final = Metric(
    "glowplug_restore_miss_fields_total",
    Kind.COUNTER,
    "Fields in which a start differed from the nearest key.",
    ("domain", "field"),
    "One field that goes up with every start is one that changes from pod to pod: make it the same, or bake it.",
    mode=Mode.NODE,
)
RESTORED_BYTES: Final = Metric(
    "glowplug_restored_bytes_total",
    Kind.COUNTER,
    "Bytes that pods copied from the node store before their engines started.",
    ("domain",),
    mode=Mode.NODE,
)
RESTORE_SECONDS: Final = Metric(
    "glowplug_restore_seconds",
    Kind.HISTOGRAM,
    "How long pods waited before their engines started: for the agent, and for the copy.",
    ("domain", "restore"),
    f"{WAIT_SECONDS} s is where pods stop to wait for an agent: a node that is not ready with its prewarm by then, or has no "
    "agent.",
    _SHORT,
    mode=Mode.NODE,
)
READY_SECONDS: Final = Metric(
    "glowplug_start_ready_seconds",
    Kind.HISTOGRAM,
    "Seconds from a container's start to its engine being ready, by verdict.",
    ("domain", "verdict"),
    "What a hit saves is the difference between the verdicts. `glowplug startup pod/NAME` shows where the rest goes.",
    _START,
    mode=Mode.NODE,
)
COMPILE_SECONDS: Final = Metric(
    "glowplug_start_compile_seconds",
    Kind.HISTOGRAM,
    "Seconds that engines say they compiled, by verdict; starts whose engine does not say it are not in it.",
    ("domain", "verdict"),
    "",
    _START,
    mode=Mode.NODE,
)
WAITS: Final = "waiting"
"""The outcome of a publish that is tried again; the others are those of start documents."""
PUBLISHES: Final = Metric(
    "glowplug_publishes_total",
    Kind.COUNTER,
    "What became of artifacts that pods handed over: all of one start are one, unless a part of them waits.",
    ("domain", "outcome", "reason"),
    "`waiting`: not now, and the agent tries again by itself, more and more rarely, while the outbox holds them: `no_credentials` "
    "until there are some, `store_unavailable` and `access_denied` until the store or the agent's role is mended. `failed` and "
    "`skipped` are for good: a fault of what was handed over, and a decision; the reason names it.",
    mode=Mode.NODE,
)
PUBLISHED_BYTES: Final = Metric(
    "glowplug_published_bytes_total",
    Kind.COUNTER,
    "Packed bytes that were new in the store.",
    ("domain",),
    mode=Mode.NODE,
)
PUBLISH_SECONDS: Final = Metric(
    "glowplug_publish_seconds",
    Kind.HISTOGRAM,
    "Seconds of a publish that brought something.",
    ("domain",),
    "",
    _LONG,
    mode=Mode.NODE,
)
REFUSALS: Final = Metric(
    "glowplug_outbox_refusals_total",
    Kind.COUNTER,
    "Things in outboxes that were not believed; of the artifacts of one start each reason counts once.",
    ("reason",),
    "`publisher`: the service account is in no `--publish-from`; add it, or let it be. `claim:<field>`: the pod says something "
    "else of itself than the API does: an image that sets variables, or a pod that means harm. `damaged`, `too_large`: the event.",
    mode=Mode.NODE,
)
WAITING_BYTES: Final = Metric(
    "glowplug_outbox_waiting_bytes",
    Kind.GAUGE,
    "Bytes in outboxes that wait to be published.",
    (),
    "Stays above 0 while the store cannot be reached; beyond a bound the oldest are dropped.",
    mode=Mode.NODE,
)
WAITING: Final = Metric(
    "glowplug_outbox_waiting_archives",
    Kind.GAUGE,
    "Archives in outboxes that wait to be published.",
    mode=Mode.NODE,
)
FETCHES: Final = Metric(
    "glowplug_fetches_total", Kind.COUNTER, "Keys of which something was fetched into the node store.", ("domain",)
)
FETCHED_PARTS: Final = Metric(
    "glowplug_fetched_parts_total", Kind.COUNTER, "Parts that came into the node store.", ("domain",)
)
FETCHED_BYTES: Final = Metric(
    "glowplug_fetched_bytes_total", Kind.COUNTER, "Unpacked bytes that came into the node store.", ("domain",)
)
FETCH_SECONDS: Final = Metric(
    "glowplug_fetch_seconds",
    Kind.HISTOGRAM,
    "Seconds that a key took from the store to the node.",
    ("domain",),
    "Long ones: is S3 reached through a NAT gateway? `glowplug check network` says it.",
    _LONG,
)
REMOVALS: Final = Metric(
    "glowplug_removals_total",
    Kind.COUNTER,
    "Keys that left the node store, by the reason.",
    ("domain", "reason"),
    "`space` all the time: the node store is too small (`--max-bytes`). `damaged`: the disk, or somebody, changes files.",
)
SET_ASIDE: Final = Metric(
    "glowplug_set_aside_total",
    Kind.COUNTER,
    "Times that this node set parts of a key aside, since a start ended before it was ready with them.",
    ("domain",),
    "Goes up on one node: that machine. On many: the key; `glowplug cache quarantine` blocks it for all. Look at the event.",
    mode=Mode.NODE,
)
PREWARM_SECONDS: Final = Metric(
    "glowplug_prewarm_seconds",
    Kind.GAUGE,
    "Seconds that the first fetch of a domain took, after which pods wait for nothing.",
    ("domain",),
    f"Above {WAIT_SECONDS} s first pods start cold. Fewer or smaller keys, a gateway endpoint for S3, or shared mode's startup "
    "taint help.",
)
PREWARMED_KEYS: Final = Metric(
    "glowplug_prewarmed_keys",
    Kind.GAUGE,
    "Keys of a domain that were on the node when its first fetch was done.",
    ("domain",),
)
STORE_BYTES: Final = Metric(
    "glowplug_node_store_bytes", Kind.GAUGE, "Bytes of the node store on the disk.", (), "Compare with `--max-bytes`."
)
STORE_KEYS: Final = Metric("glowplug_node_store_keys", Kind.GAUGE, "Keys in the node store.")
STORE_INODES: Final = Metric("glowplug_node_store_inodes", Kind.GAUGE, "Inodes of the node store.")
SHARED_ENTRIES: Final = Metric(
    "glowplug_shared_entries",
    Kind.GAUGE,
    "Entries of the node store when the shared directory was filled: `put` there, `left` alone since something of them was there, "
    "`failed`.",
    ("outcome",),
    "`put` 0 on a new node: its store has nothing for it; is there a bake job for this workload, engine image and GPU?",
    mode=Mode.SHARED,
)
SHARED_BYTES: Final = Metric(
    "glowplug_shared_bytes", Kind.GAUGE, "Bytes that were put into the shared directory.", mode=Mode.SHARED
)
NVME: Final = Metric(
    "glowplug_nvme_backed",
    Kind.GAUGE,
    "1 where the agent's root lies on an NVMe instance store, 0 where it does not.",
    (),
    "0: the instance has none, or nobody has set it up (the node class needs `instanceStorePolicy: RAID0`); "
    "`glowplug check node` says which.",
)
TAINTS: Final = Metric(
    "glowplug_startup_taints_total",
    Kind.COUNTER,
    "What became of the startup taint (shared mode).",
    ("outcome",),
    "`failed`: the node takes no pods until `glowplug agent release` frees it; look at the role and the admission policy.",
    mode=Mode.SHARED,
)
TAINT_SECONDS: Final = Metric(
    "glowplug_startup_taint_seconds",
    Kind.GAUGE,
    "Seconds from the node's creation to the taint's removal.",
    mode=Mode.SHARED,
)
DAMAGED: Final = Metric(
    "glowplug_damaged_parts_total",
    Kind.COUNTER,
    "Parts that are damaged in the store: read twice, and not what their digest says.",
    ("domain",),
    "They are left out, and looked at again within hours, or when the store has other bytes. The next pod that compiles what is in "
    "them mends it, where it may publish; `glowplug cache verify` finds all of them.",
)
UNKEPT: Final = Metric(
    "glowplug_unkept_pods_total",
    Kind.COUNTER,
    "Pods of node mode that came to this node and are of a trust domain that its agent does not keep.",
    (),
    "They start cold after 15 s: `--domain` of the agent, or the namespace's label. Event and log line have the name.",
    mode=Mode.NODE,
)
FAILURES: Final = Metric(
    "glowplug_failures_total",
    Kind.COUNTER,
    "Things that did not work and are tried again.",
    ("what", "code"),
    "The codes are those of [errors](../errors.md). `api`: Kubernetes; `list`, `fetch`, `publish`: the store; `event`: pods lack "
    "their events, nothing else.",
)
EVENTS: Final = Metric(
    "glowplug_events_total",
    Kind.COUNTER,
    "Kubernetes events: `posted`, `known` (there already), `dropped` (too many, or the server did not take them).",
    ("outcome",),
)
BUILD: Final = Metric("glowplug_build_info", Kind.GAUGE, "1, with the agent's version.", ("version",))

METRICS: Final = (
    STARTS,
    MISSES,
    MISS_FIELDS,
    RESTORED_BYTES,
    RESTORE_SECONDS,
    READY_SECONDS,
    COMPILE_SECONDS,
    PUBLISHES,
    PUBLISHED_BYTES,
    PUBLISH_SECONDS,
    REFUSALS,
    WAITING_BYTES,
    WAITING,
    FETCHES,
    FETCHED_PARTS,
    FETCHED_BYTES,
    FETCH_SECONDS,
    REMOVALS,
    SET_ASIDE,
    UNKEPT,
    PREWARM_SECONDS,
    PREWARMED_KEYS,
    STORE_BYTES,
    STORE_KEYS,
    STORE_INODES,
    SHARED_ENTRIES,
    SHARED_BYTES,
    NVME,
    TAINTS,
    TAINT_SECONDS,
    DAMAGED,
    FAILURES,
    EVENTS,
    BUILD,
)


class Metrics:
    """The numbers of one agent, of its mode (None: of both). May be used from several threads. Raises UsageError
    (`missing-extra`)."""

    def __init__(self, mode: Mode | None = None) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as error:
            raise UsageError(
                "the agent's metrics need prometheus-client",
                code="missing-extra",
                hint="pip install 'glowplug[agent]'",
            ) from error
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody reads
        self._text = prometheus.generate_latest
        self._registry = prometheus.CollectorRegistry()
        self._made: Mapping[str, Any] = {
            metric.name: self._make(prometheus, metric)
            for metric in METRICS
            if mode is None or metric.mode in (None, mode)
        }

    def _make(self, prometheus: Any, metric: Metric) -> Any:
        more: dict[str, Any] = {"labelnames": metric.labels, "registry": self._registry}
        if metric.kind is Kind.COUNTER:
            return prometheus.Counter(metric.name, metric.means, **more)
        if metric.kind is Kind.GAUGE:
            return prometheus.Gauge(metric.name, metric.means, **more)
        return prometheus.Histogram(metric.name, metric.means, buckets=metric.buckets, **more)

    def add(self, metric: Metric, amount: float = 1, **labels: str) -> None:
        """Count up; less than nothing counts as nothing."""
        if metric.name in self._made:
            self._of(metric, labels).inc(max(amount, 0))

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        if metric.name in self._made:
            self._of(metric, labels).set(value)

    def observe(self, metric: Metric, value: float | None, **labels: str) -> None:
        """One more value of a histogram; None is none."""
        if value is not None and metric.name in self._made:
            self._of(metric, labels).observe(value)

    def render(self) -> bytes:
        """What /metrics answers."""
        text: bytes = self._text(self._registry)
        return text

    def _of(self, metric: Metric, labels: Mapping[str, str]) -> Any:
        made = self._made[metric.name]
        return made.labels(**labels) if metric.labels else made
