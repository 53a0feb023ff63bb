"""Profile `guide`: the numbers of the AWS guide "Accelerate model loading on Amazon EKS", exactly, whatever we think of them.

What the guide errs in is said as findings, each with the name that docs/guide-errata.md has for it; no number changes. Only one
number here is not the guide's: the share of a GPU that weights may take (0.75), which it has only one example of.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog.limits import fact
from glowplug.catalog.releases import version_key
from glowplug.core.units import format_size
from glowplug.models.contents import Finding
from glowplug.plan.outcome import Compile, Reason, Streaming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.plan.loaders import Loader
    from glowplug.plan.request import Request

ENGINE_VERSION: Final = "0.21.0"
SOURCE: Final = "AWS guide, Accelerate model loading on Amazon EKS"
CHUNK: Final = "RUNAI_STREAMER_CHUNK_BYTESIZE"
TIMEOUT: Final = "RUNAI_STREAMER_S3_REQUEST_TIMEOUT_MS"
LOW_SPEED: Final = "RUNAI_STREAMER_S3_LOW_SPEED_LIMIT"
EXTRA: Final = "--model-loader-extra-config"
_RING_SINCE: Final = "0.17.0"


def concurrency(weights_bytes: int, chunk_bytes: int) -> int:
    """`ceil(total_model_size_gb / chunk_size_gb)`: 10 GB → 3, 67 GB → 17, 140 GB → 35.

    The guide divides decimal gigabytes by 4 and sets a chunk of 4 GiB; another chunk is divided by as it is.
    """
    if chunk_bytes == int(fact("guide.chunk_bytes").value):
        return max(1, math.ceil(weights_bytes / (fact("guide.chunk_gb").value * 1e9)))
    return max(1, math.ceil(weights_bytes / chunk_bytes))


def extra_config(clients: int, *, distributed: bool, **more: Any) -> dict[str, Any]:
    """The loader's object, in the guide's order; `distributed` is left out where it is not on."""
    return {"concurrency": clients, **({"distributed": True} if distributed else {}), **more}


def loader_args(load_format: str, extra: dict[str, Any]) -> tuple[str, ...]:
    """The two arguments, the object as compact JSON."""
    return (f"--load-format={load_format}", f"{EXTRA}={json.dumps(extra, separators=(',', ':'))}")


def streaming(request: Request, ranks: int, load_format: str) -> Streaming:
    """The guide's arguments and its three variables."""
    chunk = request.chunk_bytes or int(fact("guide.chunk_bytes").value)
    clients = concurrency(request.model.weights_bytes, chunk)
    extra = extra_config(clients, distributed=ranks > 1)
    env = {
        CHUNK: str(chunk),
        TIMEOUT: str(int(fact("guide.request_timeout_ms").value)),
        LOW_SPEED: str(int(fact("guide.low_speed_limit_bytes_per_second").value)),
    }
    return Streaming(load_format, chunk, clients, ranks > 1, extra, loader_args(load_format, extra), env)


def compile_settings(request: Request, args: tuple[str, ...]) -> Compile:
    """The guide's three cache variables."""
    root = request.cache_root
    env = {
        "XDG_CACHE_HOME": root,
        "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
        "TRITON_CACHE_DIR": f"{root}/triton",
    }
    return Compile(enabled=True, cache_root=root, args=args, env=env)


def reasons(request: Request, settings: Streaming, ranks: int) -> Iterator[Reason]:
    """Why each setting has its value: because the guide says so."""
    chunk = settings.chunk_bytes
    size = format_size(request.model.weights_bytes)
    if chunk == int(fact("guide.chunk_bytes").value):
        formula = f"ceil({request.model.weights_bytes / 1e9:g} GB / 4 GB)"
    else:
        formula = f"ceil({request.model.weights_bytes} / {chunk})"
    if request.tensor_parallel_size is None:
        why = f"the fewest GPUs that hold {size}, with weights in at most three quarters of the memory"
        yield Reason("--tensor-parallel-size", ranks, why, f"{SOURCE}; the share is glowplug's")
    else:
        yield Reason("--tensor-parallel-size", ranks, "as asked for", "--tp")
    yield Reason("--load-format", settings.load_format, "weights are streamed from S3 into GPU memory", SOURCE)
    yield Reason("concurrency", settings.concurrency, formula, SOURCE)
    with_ranks = "tensor parallelism is used" if settings.distributed else "no tensor parallelism, so it is left out"
    yield Reason("distributed", settings.distributed, with_ranks, SOURCE)
    if request.chunk_bytes is None:
        yield Reason(CHUNK, settings.env[CHUNK], "the chunk that was best in AWS's measurements", SOURCE)
    else:
        yield Reason(CHUNK, settings.env[CHUNK], "as asked for", "--chunk-size")
    yield Reason(TIMEOUT, settings.env[TIMEOUT], "meant to retry slow answers sooner", SOURCE)
    yield Reason(LOW_SPEED, settings.env[LOW_SPEED], "meant to retry slow transfers", SOURCE)
    yield Reason("XDG_CACHE_HOME", request.cache_root, "moves the compile cache to the volume", SOURCE)


def findings(
    request: Request, settings: Streaming, ranks: int, loader: Loader, streamer: str | None
) -> Iterator[Finding]:
    """What of these settings does not do what the guide says. Names as in docs/guide-errata.md."""
    yield Finding(
        "streamer-timeout-ineffective",
        "info",
        f"{TIMEOUT}=3000 changes nothing: the SDK's window is three seconds at least, and that is its default",
        "profile auto uses 30000, which survives a slow first byte",
    )
    yield Finding(
        "streamer-low-speed-limit",
        "warning",
        f"{LOW_SPEED} counts for each connection: where many share a slow link, all are aborted and the download fails",
        "profile auto leaves it out",
    )
    if ranks > 1 and not loader.shares:
        newer = loader.first_with("distributed_key", "yes")
        yield Finding(
            "ranks-read-everything",
            "warning",
            f"{loader.name} does not know `distributed`, and without it rank 0 does not broadcast, as the guide has it: each of "
            f"{ranks} ranks reads everything",
            f"use {loader.engine} {newer} or newer",
        )
    if ranks > 1 and loader.shares:
        yield from corruption(loader)
    yield from _concurrency_findings(request, settings, streamer)
    yield Finding(
        "xdg-moves-everything",
        "info",
        "XDG_CACHE_HOME also moves the caches of Hugging Face, pip and others into the compile cache",
        "profile auto sets the engine's own variables",
    )
    overwritten = _overwritten(loader)
    if overwritten:
        yield Finding(
            "cache-variable-overwritten",
            "info",
            f"{loader.name} overwrites {overwritten}; its files are below vllm/torch_compile_cache instead",
        )


def corruption(loader: Loader) -> Iterator[Finding]:
    """`distributed-corrupts` for an engine that hands out buffers which are overwritten later."""
    safe = loader.behaviour("distributed_safe")
    if safe.value != "no":
        return
    fixed = loader.first_with("distributed_safe", "yes")
    yield Finding(
        "distributed-corrupts",
        "warning",
        f"`distributed` with {loader.name} can silently corrupt models that hold tensors back while loading "
        f"({safe.source})",
        f"use {loader.engine} {fixed} or newer"
        if fixed
        else "compare the first answers with those of another load format",
    )


def _concurrency_findings(request: Request, settings: Streaming, streamer: str | None) -> Iterator[Finding]:
    chunk, clients = settings.chunk_bytes, settings.concurrency
    chunks = max(1, math.ceil(request.model.weights_bytes / chunk))
    if chunks != clients:
        yield Finding(
            "concurrency-formula",
            "info",
            f"the guide divides decimal GB by 4 but reads chunks of 4 GiB: {clients} clients for {chunks} chunks",
        )
    ring = int(fact("streamer.ring_buffers").value)
    if clients > ring and streamer and version_key(streamer) >= version_key(_RING_SINCE):
        yield Finding(
            "concurrency-wasted",
            "info",
            f"streamer {streamer} has {ring} ring buffers: with chunks of this size concurrency above {ring} gains nothing",
        )


def _overwritten(loader: Loader) -> str:
    if loader.engine != "vllm":
        return ""
    from glowplug.engines.vllm.caches import overwritten

    return " and ".join(sorted(overwritten(loader.version, {})))
