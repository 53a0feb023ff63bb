"""Profile `auto`: settings for the versions and the machine at hand, each with its reason and where that is known from.

It departs from the guide where measurements or sources say so (docs/guide-errata.md). The rules, in the order in which they
decide: is `distributed` right and safe; how large a chunk; how many clients gain something; how many the host can hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog.limits import fact
from glowplug.core.units import format_size
from glowplug.models.contents import Finding
from glowplug.plan import hosting
from glowplug.plan.assumptions import assumed
from glowplug.plan.guide import CHUNK, LOW_SPEED, TIMEOUT, corruption, extra_config, loader_args
from glowplug.plan.hosting import Reading, Streamer
from glowplug.plan.loaders import STREAMER, Loader
from glowplug.plan.outcome import Reason, Resources, Streaming

if TYPE_CHECKING:
    from glowplug.models.contents import Severity
    from glowplug.plan.request import Machine, Request

LIMIT: Final = "RUNAI_STREAMER_MEMORY_LIMIT"
RETRY: Final = "RUNAI_STREAMER_S3_TIMEOUT"
PATH_STYLE: Final = "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING"
UNSIGNED: Final = "RUNAI_STREAMER_S3_UNSIGNED"
UNSIGNED_SINCE: Final = "0.15.9"
CREDENTIALS: Final = ("0.14.0", "0.16.1")
_LEAST_CHUNKS: Final = 8
_SMALLEST_LIMIT: Final = 1 << 30


@dataclass
class _Notes:
    """Reasons and findings as they come up."""

    reasons: list[Reason] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def reason(self, setting: str, value: Any, why: str, source: str) -> None:
        self.reasons.append(Reason(setting, value, why, source))

    def finding(self, rule: str, severity: Severity, message: str, hint: str = "") -> None:
        self.findings.append(Finding(rule, severity, message, hint))


@dataclass(frozen=True)
class Decided:
    """The streaming part of a plan."""

    streaming: Streaming
    resources: Resources
    reasons: tuple[Reason, ...]
    findings: tuple[Finding, ...]


def streaming(request: Request, machine: Machine, ranks: int, pods: int, loader: Loader, streamer: Streamer) -> Decided:
    """Everything about how the weights come. `pods` is how many of these pods a node holds."""
    notes = _Notes()
    _about_versions(request, loader, streamer, notes)
    distributed = _distributed(request, machine, ranks, loader, notes)
    rank_bytes = request.model.weights_bytes / (ranks if distributed else 1)
    chunk = _chunk(request, machine, rank_bytes, streamer, notes)
    load = Reading(request.model.weights_bytes, ranks, distributed, chunk, 1)
    wanted, why, source = _clients(machine, load, streamer)
    reading = _with(load, clients=wanted)
    reading, why = _held(reading, request, machine, pods, streamer, why, notes)
    notes.reason("concurrency", reading.clients, why, source)
    extra = extra_config(reading.clients, distributed=distributed)
    env = {CHUNK: str(chunk), **_environment(request, reading, streamer, notes)}
    settings = Streaming(STREAMER, chunk, reading.clients, distributed, extra, loader_args(STREAMER, extra), env)
    return Decided(settings, hosting.resources(reading, streamer), tuple(notes.reasons), tuple(notes.findings))


def unstreamed(request: Request, ranks: int, loader: Loader) -> Decided:
    """An engine without a Run:ai loader: its own way, with what can be done instead. Nothing is known of chunks and clients."""
    source = loader.behaviour("load_format").source
    first = loader.first_with("load_format", STREAMER)
    newer = f"{loader.engine} {first} and newer streams from S3; " if first else ""
    finding = Finding(
        "streamer-missing",
        "warning",
        f"{loader.name} has no Run:ai loader: it cannot stream weights from S3 ({source})",
        newer
        + "copy the model to the node's disk before the engine starts, as the init container of `glowplug render` does",
    )
    none = "no streamer: the model is copied to the node's disk, and loaded from there"
    reasons = (
        Reason("--load-format", "auto", "the engine's own loader is the only one", source),
        *(Reason(setting, 0, none, source) for setting in ("chunk_bytes", "concurrency")),
    )
    settings = Streaming("auto", 0, 0, False, {}, (), {})
    memory = Resources(round(request.model.weights_bytes + hosting.base_bytes(ranks)), 0, 0)
    return Decided(settings, memory, reasons, (finding,))


def _about_versions(request: Request, loader: Loader, streamer: Streamer, notes: _Notes) -> None:
    source = loader.behaviour("load_format").source
    notes.reason("--load-format", STREAMER, "weights are streamed into GPU memory, with no copy on disk", source)
    first, fixed = CREDENTIALS
    if request.scheme == "s3" and streamer.at_least(first) and not streamer.at_least(fixed):
        notes.finding(
            "streamer-credentials",
            "info",
            f"streamer {streamer.version} lists with credentials of a profile, SSO or a process, but cannot read objects with them",
            f"Pod Identity, IRSA and AWS_ACCESS_KEY_ID work; streamer {fixed} has the fix",
        )
    hits = loader.behaviour("streamed_model_hits")
    if hits.value == "no":
        notes.finding(
            "engine-never-hits",
            "warning",
            f"{loader.name} compiles a streamed model anew at every start ({hits.source})",
            f"use {loader.engine} {loader.first_with('streamed_model_hits', 'yes')} or newer",
        )
    url = loader.behaviour("model_url")
    if url.value and not request.model.source.endswith("/"):
        notes.finding(
            "model-url-slash",
            "warning",
            f"{loader.name} needs s3://bucket/dir/ with a slash at its end",
        )


def _distributed(request: Request, machine: Machine, ranks: int, loader: Loader, notes: _Notes) -> bool:
    """On only where it helps, is understood, is safe, and has room for its staging buffers."""
    key = loader.behaviour("distributed_key")
    if ranks == 1:
        notes.reason("distributed", False, "one rank has nobody to share the reading with", key.source)
        return False
    repeated = f"each of {ranks} ranks reads the whole model"
    if not loader.shares:
        notes.reason("distributed", False, f"{loader.name} does not know the key", key.source)
        newer = f"use {loader.engine} {loader.first_with('distributed_key', 'yes')} or newer"
        notes.finding(
            "distributed-missing",
            "warning",
            f"{repeated}: {loader.name} has no `distributed`",
            newer,
        )
        return False
    for unsafe in corruption(loader):
        source = loader.behaviour("distributed_safe").source
        notes.reason("distributed", False, "this version can silently corrupt weights with it", source)
        notes.finding(
            unsafe.rule,
            "info",
            f"`distributed` stays off: {unsafe.message.replace('`distributed`', 'it')}",
            unsafe.hint,
        )
        notes.finding("distributed-missing", "info", f"{repeated}, since `distributed` stays off", unsafe.hint)
        return False
    staging = fact("streamer.staging_buffers").value * max(
        fact("streamer.staging_bytes_min").value, request.model.largest_tensor_bytes or 0
    )
    free = machine.gpu_memory_bytes - request.model.weights_bytes / ranks
    source = "model-streamer distributed_streamer.py"
    if free < staging:
        notes.reason("distributed", False, "no room on the GPUs for its two staging buffers", source)
        notes.finding(
            "distributed-missing",
            "warning",
            f"{repeated}: `distributed` needs {format_size(int(staging))} free on each GPU beside the weights",
        )
        return False
    notes.reason("distributed", True, f"the {ranks} ranks share the reading; without it {repeated}", key.source)
    return True


def _chunk(request: Request, machine: Machine, rank_bytes: float, streamer: Streamer, notes: _Notes) -> int:
    """Bytes of one ranged read."""
    default = int(fact("streamer.chunk_bytes").value)
    if request.chunk_bytes is not None:
        notes.reason(CHUNK, request.chunk_bytes, "as asked for", "--chunk-size")
        least = int(fact("streamer.chunk_bytes_min").value)
        if request.chunk_bytes < least:
            notes.finding("chunk-raised", "info", f"the streamer reads {least} bytes at least, whatever {CHUNK} says")
        return request.chunk_bytes
    if request.custom_endpoint or request.scheme != "s3":
        why = "the streamer's default: large chunks were measured on AWS's S3 only"
        notes.reason(CHUNK, default, why, "model-streamer issue 120")
        return default
    smallest = assumed("streamer.chunk_bytes_measured_min")
    large = int(fact("guide.chunk_bytes").value)
    if machine.network_bps is None or machine.network_bps < assumed("network.fast_bits_per_second").value:
        slow = (
            "how fast the network is, is not known" if machine.network_bps is None else "4 GiB pays from 50 Gbit/s on"
        )
        why = f"half the requests of the default 8 MiB, of which each needs two GETs, and small enough for many clients; {slow}"
        notes.reason(CHUNK, int(smallest.value), why, smallest.source)
        return int(smallest.value)
    chunk = large
    # A ring cuts large chunks by itself; without one, a chunk is the work of one client.
    while not streamer.rings and chunk > smallest.value and math.ceil(rank_bytes / chunk) < _LEAST_CHUNKS:
        chunk //= 2
    why = "fewest requests, and best in AWS's measurements on a fast link"
    if chunk < large:
        why = f"eight chunks for each rank, so that eight clients have work; {why} are sizes from 256 MB to 4 GB alike"
    notes.reason(CHUNK, chunk, why, smallest.source)
    return chunk


def _clients(machine: Machine, load: Reading, streamer: Streamer) -> tuple[int, str, str]:
    """How many clients of one rank gain something."""
    ranks = load.ranks
    gbps = None if machine.network_bps is None else machine.network_bps / 1e9
    least = int(fact("streamer.concurrency").value)
    fast = machine.network_bps is not None and machine.network_bps >= assumed("network.fast_bits_per_second").value
    most = assumed("streamer.useful_clients_fast" if fast else "streamer.useful_clients_slow")
    per_client = assumed("streamer.client_bits_per_second_seen")
    node = int(most.value)
    why = f"{node} clients on a node were the most that gained"
    source = most.source
    if not fast and machine.network_bps is not None:
        node = min(node, max(least, math.ceil(machine.network_bps / per_client.value)))
        why = f"a client brings about 1 Gbit/s, the network card has {gbps:g}"
        source = per_client.source
    clients = max(least, math.ceil(node / ranks))
    if ranks > 1:
        why += f", shared by {ranks} ranks (eight each at least)"
    sharing = ranks if load.has_one_limit(streamer) else 1
    useful = useful_clients(load.rank_bytes, sharing, load.chunk_bytes, streamer)
    if useful < clients:
        clients = useful
        if streamer.rings:
            why = f"streamer {streamer.version} has 18 ring buffers, more clients than chunks in flight gain nothing"
            source = fact("streamer.ring_buffers").source
        else:
            why = "one client for each chunk of a rank; more have nothing to read"
            source = "model-streamer cpp/streamer/impl/assigner"
    return max(1, min(clients, int(fact("streamer.concurrency_max").value))), why, source


def useful_clients(
    rank_bytes: float,
    sharing: int,
    chunk: int,
    streamer: Streamer,
    *,
    memory_limit: float | None = None,
    rings: int | None = None,
) -> int:
    """How many reads a rank can have in flight: more clients gain nothing.

    `rank_bytes` is what one rank reads (infinite: at most, whatever the model). `sharing` is how many ranks have one memory limit
    together (`Reading.has_one_limit`). `memory_limit` and `rings` are what
    RUNAI_STREAMER_MEMORY_LIMIT and RUNAI_STREAMER_RING_BUFFERS say, None for the defaults.
    """
    if not streamer.rings:
        return max(1, math.ceil(rank_bytes / chunk))
    buffers = int(fact("streamer.ring_buffers").value) if rings is None else max(1, rings)
    limit = streamer.memory_limit if memory_limit is None else memory_limit
    buffer = min(limit / sharing, rank_bytes) / buffers
    return buffers * max(1, int(buffer // chunk))


def _held(
    reading: Reading, request: Request, machine: Machine, pods: int, streamer: Streamer, why: str, notes: _Notes
) -> tuple[Reading, str]:
    """As many clients, and as large a buffer, as the host has memory for."""
    budget = hosting.budget_bytes(machine, pods)
    if budget is None or hosting.resources(reading, streamer).host_memory_bytes <= budget:
        return reading, why
    fewer = _fewer(reading, streamer, budget)
    least = min(reading.clients, int(fact("streamer.concurrency").value))
    if fewer.clients < least and not streamer.unlimited(distributed=reading.distributed):
        fewer = _fewer(_limited(reading, request, streamer, budget), streamer, budget)
        notes.reason(
            LIMIT,
            str(int(fewer.memory_limit or 0)),
            f"the default, {format_size(int(streamer.memory_limit))}, and the clients' buffers are more than the "
            f"{format_size(int(budget))} of host memory that a pod can have",
            "model-streamer docs, RUNAI_STREAMER_MEMORY_LIMIT",
        )
    need = hosting.resources(fewer, streamer).host_memory_bytes
    if need > budget:
        notes.finding(
            "host-memory-bound",
            "warning",
            f"loading may take {format_size(need)} of host memory; a pod has {format_size(int(budget))}",
            "choose an instance with more memory, or fewer pods a node",
        )
    if fewer.clients < reading.clients:
        why = f"bounded by host memory: {format_size(int(budget))} a pod hold the buffers of so many clients"
    return fewer, why


def _fewer(reading: Reading, streamer: Streamer, budget: float) -> Reading:
    left = budget - hosting.base_bytes(reading.ranks) - hosting.ring_bytes(reading, streamer)
    each = hosting.window_bytes(reading.chunk_bytes, streamer) * reading.ranks
    clients = max(1, min(reading.clients, int(max(0.0, left) // each)))
    return _with(reading, clients=clients)


def _limited(reading: Reading, request: Request, streamer: Streamer, budget: float) -> Reading:
    """Half of what is left for the ring, the rest for the clients; never below the largest tensor of each rank."""
    left = max(0.0, budget - hosting.base_bytes(reading.ranks)) / 2
    one = reading.has_one_limit(streamer)
    processes = 1 if one else reading.ranks
    floor = max(_SMALLEST_LIMIT, request.model.largest_tensor_bytes or 0) * (reading.ranks if one else 1)
    return _with(reading, memory_limit=float(int(min(streamer.memory_limit, max(floor, left / processes)))))


def _with(reading: Reading, *, clients: int | None = None, memory_limit: float | None = None) -> Reading:
    return Reading(
        reading.weights_bytes,
        reading.ranks,
        reading.distributed,
        reading.chunk_bytes,
        reading.clients if clients is None else clients,
        reading.memory_limit if memory_limit is None else memory_limit,
    )


def _environment(request: Request, reading: Reading, streamer: Streamer, notes: _Notes) -> dict[str, str]:
    env: dict[str, str] = {}
    if reading.memory_limit is not None:
        env[LIMIT] = str(int(reading.memory_limit))
    if request.scheme != "s3":
        return env
    window = assumed("streamer.request_timeout_ms_helpful")
    env[TIMEOUT] = str(int(window.value))
    why = "survives a first byte that takes long (another region); under 3000 nothing changes"
    notes.reason(TIMEOUT, env[TIMEOUT], why, window.source)
    if streamer.at_least(hosting.RING_SINCE):
        retry = assumed("streamer.retry_seconds_helpful")
        env[RETRY] = str(int(retry.value))
        notes.reason(RETRY, env[RETRY], "503 is retried for so many seconds instead of six times", retry.source)
    why = "left out: it aborts each connection that is slow, which all of many on one slow link are"
    notes.reason(LOW_SPEED, None, why, "measured by glowplug")
    env |= _server(request, streamer, notes)
    return env


def _server(request: Request, streamer: Streamer, notes: _Notes) -> dict[str, str]:
    """Region, endpoint and signature."""
    env: dict[str, str] = {}
    if request.region and request.addressed:
        env["AWS_REGION"] = request.region
        notes.reason("AWS_REGION", request.region, "the region that this call used", "the environment of this call")
    else:
        notes.finding(
            "region-missing",
            "info",
            "the engine needs the bucket's region: where pods cannot reach the instance metadata (EKS Auto Mode), S3 is asked in "
            "us-east-1 otherwise",
            "set AWS_REGION in the pod, unless Pod Identity or IRSA sets it",
        )
    if request.endpoint and request.addressed:
        env["AWS_ENDPOINT_URL"] = request.endpoint.rstrip("/")
        if request.endpoint.endswith("/"):
            notes.finding(
                "endpoint-trailing-slash",
                "warning",
                f"the endpoint {request.endpoint} ends with a slash, with which the streamer fails",
                "the plan has it without",
            )
    if request.custom_endpoint:
        env[PATH_STYLE] = "0"
        notes.reason(PATH_STYLE, "0", "S3-compatible servers want the bucket in the path", "model-streamer issue 120")
    if request.unsigned and request.addressed:
        if streamer.at_least(UNSIGNED_SINCE):
            env[UNSIGNED] = "1"
            notes.reason(UNSIGNED, "1", "the bucket is read without credentials", "model-streamer issue 145")
        else:
            notes.finding(
                "streamer-unsigned",
                "warning",
                f"streamer {streamer.version} cannot read without credentials",
                f"streamer {UNSIGNED_SINCE} or newer can",
            )
    return env
