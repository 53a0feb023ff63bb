"""A plan as data: `glowplug.plan/1` (docs/schema/plan.json is generated from these classes). `plan/decide.py` makes one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glowplug.plan.bounds import UNKNOWN

if TYPE_CHECKING:
    from glowplug.models.contents import Finding, Model


@dataclass(frozen=True)
class Candidate:
    """Another machine that the model fits on."""

    instance: str
    tensor_parallel_size: int
    pods_per_node: int


@dataclass(frozen=True)
class Placement:
    """Where the model runs. `gpu_memory_bytes` is of one GPU, the smaller of what EC2 states and what NVML reports.

    `instance` is None when the machine was given as GPUs.
    """

    instance: str | None
    gpu: str
    gpu_memory_bytes: int
    gpus_per_node: int
    tensor_parallel_size: int
    pods_per_node: int
    fits: bool
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Streaming:
    """How the weights come; `chunk_bytes` and `concurrency` are 0 where nothing is streamed. `args` are the engine's arguments,
    each one word (`--load-format=runai_streamer`), without tensor parallelism; `extra_config` is the object inside
    `--model-loader-extra-config`, which `args` holds as compact JSON."""

    load_format: str
    chunk_bytes: int
    concurrency: int
    distributed: bool
    extra_config: dict[str, Any] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compile:
    """Compiled kernels and where they are kept. `env` are the variables that put the engine's caches below `cache_root`."""

    enabled: bool
    cache_root: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Resources:
    """Upper bounds of what one pod needs while it loads. Bytes and counts."""

    host_memory_bytes: int
    connections: int
    file_descriptors: int


@dataclass(frozen=True)
class Estimate:
    """What bounds the load of one node (`primary-network`, `s3-request-rate`, `s3-connections`, `streamer`, `pcie`; `unknown` for
    GPUs without an instance type, and for engines that do not stream), and how long it takes at best: one pod alone, and one pod on
    each of the plan's nodes at once, through one NAT gateway or through a gateway endpoint for S3, each with its own bound. Gbit/s
    of the first network card, seconds, US dollars for the bytes that NAT processes; Gbit/s and seconds are None where they are not
    known."""

    bound: str
    network_gbps: float | None
    load_seconds_single: float | None
    load_seconds_fleet_nat: float | None
    load_seconds_fleet_endpoint: float | None
    nat_cost_usd: float | None
    bound_fleet_nat: str = UNKNOWN
    bound_fleet_endpoint: str = UNKNOWN


@dataclass(frozen=True)
class Reason:
    """Why one setting has its value. `setting` is the argument, variable or field as people write it; `source` is a public
    reference or a table of glowplug, readable by a person."""

    setting: str
    value: Any
    why: str
    source: str


@dataclass(frozen=True)
class Plan:
    """All of it. `profile` is `guide` or `auto`; `engine_version` is the one that was planned for; `asked` is what the caller had
    decided, as options of the command line."""

    profile: str
    engine: str
    engine_version: str
    streamer_version: str | None
    max_model_len: int | None
    nodes: int
    model: Model
    placement: Placement
    streaming: Streaming
    compile: Compile
    resources: Resources
    estimate: Estimate
    reasons: tuple[Reason, ...] = ()
    findings: tuple[Finding, ...] = ()
    asked: dict[str, str] = field(default_factory=dict)

    def why(self, setting: str) -> str:
        """The reason of one setting in a sentence, "" where it has none."""
        return next((reason.why for reason in self.reasons if reason.setting == setting), "")
