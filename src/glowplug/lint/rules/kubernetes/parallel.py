"""How many GPUs an engine takes in one pod, by its own parallel options.

None wherever that cannot be known: several nodes share the ranks, Ray places them, a file or a variable decides. Sources: vLLM
config/parallel.py (world size = tensor × pipeline × prefill context, times the data parallel ranks of this node), SGLang
server_args.py (with data-parallel attention the data parallel ranks are those of tensor parallel), TensorRT-LLM `trtllm-serve`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.engines.vllm.arguments import spelling

if TYPE_CHECKING:
    from glowplug.lint.view import Container, Engine, Option, Workload
    from glowplug.manifests.values import Value

GPU: Final = "nvidia.com/gpu"
_FACTORS: Final = {
    "vllm": (
        ("tensor-parallel-size",),
        ("pipeline-parallel-size",),
        ("prefill-context-parallel-size",),
        ("data-parallel-size-local", "data-parallel-size"),
    ),
    "sglang": (("tensor-parallel-size",), ("pipeline-parallel-size",), ("data-parallel-size",)),
    "tensorrt-llm": (("tensor-parallel-size",), ("pipeline-parallel-size",)),
}
# Options by which ranks are elsewhere, or by which it is not this command line that says how many there are.
_ELSEWHERE: Final = (
    "nnodes",
    "node-rank",
    "master-addr",
    "headless",
    "dist-init-addr",
    "nccl-init-addr",
    "data-parallel-rank",
    "data-parallel-start-rank",
    "data-parallel-address",
    "data-parallel-rpc-port",
    "data-parallel-hybrid-lb",
    "data-parallel-external-lb",
    "data-parallel-backend",
    "distributed-executor-backend",
    "worker-cls",
    "enable-elastic-ep",
    "base-gpu-id",
    "gpu-id-step",
    "gpus-per-node",
    "cluster-size",
    "extra-llm-api-options",
    "omni",
    "stage-configs-path",
    "disaggregation-mode",
)
_HARMLESS: Final = {
    "nnodes": ("1",),
    "distributed-executor-backend": ("mp", "uni"),
    "data-parallel-backend": ("mp",),
    "disaggregation-mode": ("null", "prefill", "decode", "agg", "prefill_and_decode"),
}
_VISIBLE: Final = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "VLLM_DP_SIZE", "VLLM_DP_RANK")
_RAY: Final = re.compile(
    r"(?:\A|[\s;&|/])ray(?:\Z|\s+(?:start|symmetric-run|job)\b)|multi-node-serving|ray_init|run_cluster", re.ASCII
)
_GROUPS: Final = ("LeaderWorkerSet", "RayCluster", "RayService", "RayJob", "RayClusterFleet", "MPIJob", "PyTorchJob")


@dataclass(frozen=True)
class Needed:
    """GPUs of one pod, with the product as a person would check it, and the options that are given."""

    gpus: int
    written: str
    options: tuple[Option, ...]


def needed(workload: Workload) -> Needed | None:
    """What the engine takes, None where that is not certain."""
    engine = workload.engine
    factors = _FACTORS.get(engine.name)
    if factors is None or engine.opaque or not engine.whole or _several_nodes(workload) or _hidden(workload):
        return None
    product, parts, given = 1, [], []
    for names in factors:
        option = engine.option(*names)
        if option is None or (names[0].startswith("data") and _within_tensor_parallel(engine)):
            continue
        count = _whole(option)
        if count is None:
            return None
        product *= count
        given.append(option)
        parts.append(f"{names[0]} {count}")
    return Needed(product, " × ".join(parts) or "one rank", tuple(given))


def _several_nodes(workload: Workload) -> bool:
    if workload.object.kind in _GROUPS:
        return True
    for name in _ELSEWHERE:
        option = workload.engine.option(name)
        if option is not None and option.value not in _HARMLESS.get(name, ()):
            return True
    return _starts_ray(workload.container.value)


def _starts_ray(container: Value) -> bool:
    """Whether the command has Ray place the ranks, which may be on other nodes."""
    words = (container.get(name) for name in ("command", "args"))
    return any(_RAY.search(word.text) for found in words if found is not None for word in found.elements())


def _hidden(workload: Workload) -> bool:
    environment = workload.container.environment
    return any(environment.get(name) is not None for name in _VISIBLE)


def all_known(engine: Engine) -> bool:
    """Whether none of the options is one that the tables do not have, which might take GPUs of its own."""
    return engine.name != "vllm" or all(spelling(f"--{name}") is not None for name in engine.options if name != "model")


def _within_tensor_parallel(engine: Engine) -> bool:
    return engine.name == "sglang" and engine.flag("enable-dp-attention")


def _whole(option: Option) -> int | None:
    text = (option.value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and int(text) > 0 else None


def asked(container: Container) -> int | None:
    """GPUs that a container asks for, None where it asks for none in so many words."""
    limit = container.quantity("limits", GPU)
    return container.quantity("requests", GPU) if limit is None else limit


def asked_by_pod(workload: Workload) -> int:
    """GPUs of the whole pod."""
    return sum(asked(container) or 0 for container in workload.containers)
