"""What a plan says of a stream that a manifest describes: settings, useful clients, memory. The arithmetic is `glowplug.plan`'s."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.lint.rules.streaming.weights import RINGS, whole_number
from glowplug.models.contents import Model
from glowplug.plan import auto, hosting
from glowplug.plan.hosting import Reading
from glowplug.plan.loaders import STREAMER, Loader
from glowplug.plan.request import Machine, Request

if TYPE_CHECKING:
    from glowplug.lint.rules.streaming.weights import Stream
    from glowplug.plan.outcome import Streaming

_GPU: Final = "nvidia.com/gpu"


def settings(stream: Stream) -> Streaming | None:
    """What profile `auto` would set, None where the model's size, the machine or a version is not known."""
    size, streamer, ranks = stream.workload.weights_bytes, stream.streamer, stream.ranks
    machines = _machines(stream)
    if size is None or streamer is None or ranks is None or len(machines) != 1 or stream.load_format != STREAMER:
        return None
    endpoint = stream.endpoint.value if stream.endpoint is not None else ""
    if endpoint is None or stream.on_aws is None:
        return None
    name = stream.workload.engine.name
    asked = Request(
        Model(stream.model.value or "", size),
        machine=machines[0],
        engine=name,
        engine_version=stream.version,
        endpoint=endpoint,
    )
    loader = Loader(name, stream.version)
    pods = max(1, machines[0].gpus // ranks)
    return auto.streaming(asked, machines[0], ranks, pods, loader, streamer).streaming


def useful_clients(stream: Stream) -> int | None:
    """How many clients of a rank can read at once, None where that is not known."""
    streamer, chunk = stream.streamer, stream.chunk_bytes
    if streamer is None or chunk is None:
        return None
    rank_bytes = math.inf if stream.rank_bytes is None else stream.rank_bytes
    if not streamer.rings:
        return None if math.isinf(rank_bytes) else auto.useful_clients(rank_bytes, 1, chunk, streamer)
    limit, rings = _limit(stream), _rings(stream)
    if limit is None or rings is None or (math.isinf(limit) and math.isinf(rank_bytes)):
        return None
    sharing = (stream.ranks or 1) if stream.distributed else 1
    return auto.useful_clients(rank_bytes, sharing, chunk, streamer, memory_limit=limit, rings=rings)


def reading(stream: Stream, clients: int) -> Reading | None:
    """The load as a plan counts it, None where something that decides its memory is not known."""
    size, ranks, distributed, chunk = (
        stream.workload.weights_bytes,
        stream.ranks,
        stream.distributed,
        stream.chunk_bytes,
    )
    limit = _limit(stream)
    if size is None or ranks is None or distributed is None or chunk is None or limit is None:
        return None
    return Reading(size, ranks, distributed, chunk, clients, limit)


def holds(stream: Stream, clients: int) -> bool:
    """Whether nothing says that the machines have too little memory for so many clients; False for an unknown version."""
    if stream.memory_limit is not None or not stream.limit_known:
        return False
    if stream.streamer is None:
        return False
    load = reading(stream, clients)
    if load is None:
        return True
    needed = hosting.resources(load, stream.streamer).host_memory_bytes
    budgets = (hosting.budget_bytes(one, max(1, one.gpus // load.ranks)) for one in _machines(stream))
    return all(budget is None or needed <= budget for budget in budgets)


def has_room_for_staging(stream: Stream) -> bool:
    """Whether nothing says that the GPUs have no room for the two staging buffers of `distributed`."""
    size, ranks = stream.workload.weights_bytes, stream.ranks
    if size is None or ranks is None:
        return True
    staging = fact("streamer.staging_buffers").value * fact("streamer.staging_bytes_min").value
    return all(one.gpu_memory_bytes - size / ranks >= staging for one in _machines(stream))


def _machines(stream: Stream) -> list[Machine]:
    """Where the pod may run, as plans see it."""
    container = stream.workload.container
    asked = container.quantity("limits", _GPU) or container.quantity("requests", _GPU) or stream.tensor_parallel or 1
    found = []
    for one in stream.workload.machines:
        if one.instance is not None:
            found.append(Machine.of_instance(one.instance))
        elif one.gpu is not None:
            found.append(Machine.of_gpus(one.gpu, asked))
    return found


def _limit(stream: Stream) -> float | None:
    """Bytes of the streamer's buffers, infinite for none; None where they are not known, or depend on the largest tensor."""
    if not stream.limit_known or stream.streamer is None:
        return None
    if stream.memory_limit is None:
        return stream.streamer.memory_limit
    return math.inf if stream.memory_limit < 0 else stream.memory_limit or None


def _rings(stream: Stream) -> int | None:
    variable = stream.environment.get(RINGS)
    if variable is not None:
        return whole_number(variable.value)
    return int(fact("streamer.ring_buffers").value) if stream.environment.whole else None
