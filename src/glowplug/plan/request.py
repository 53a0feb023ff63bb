"""What a plan is asked for: a model, a machine, an engine, and what of it the caller has decided already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.models.contents import Model

Profile = Literal["guide", "auto"]
PROFILES: Final = ("guide", "auto")
ENGINES: Final = ("vllm", "sglang", "tensorrt-llm")
CACHE_ROOT: Final = "/compile-cache"
_STREAMED: Final = ("s3", "gs", "az")


@dataclass(frozen=True)
class Machine:
    """One node. Bytes, and bit/s of the network card that S3 traffic uses; None where a GPU was named without an instance type.
    `capability` is the GPU's, `sm_90`.

    A fractional instance (EC2 counts 0 GPUs) has one GPU here, of the memory of its part.
    """

    name: str
    instance: str | None
    gpu: str
    gpus: int
    gpu_memory_bytes: int
    memory_bytes: int | None = None
    network_bps: float | None = None
    pcie_bytes_per_second: float | None = None
    capability: str = ""
    fractional: bool = False

    @classmethod
    def of_instance(cls, one: Instance) -> Machine:
        """An instance type of the catalogue."""
        return cls(
            name=one.name,
            instance=one.name,
            gpu=one.gpu.name,
            gpus=max(1, one.gpus),
            gpu_memory_bytes=one.gpu_memory_bytes,
            memory_bytes=one.memory_bytes,
            network_bps=one.primary_network_bps,
            pcie_bytes_per_second=one.pcie_bytes_per_second,
            capability=one.gpu.capability,
            fractional=one.fractional,
        )

    @classmethod
    def of_gpus(cls, gpu: Gpu, count: int) -> Machine:
        """So many GPUs of a kind, whatever they are in."""
        return cls(f"{count} × {gpu.name}", None, gpu.name, count, gpu.memory_bytes, capability=gpu.capability)


@dataclass(frozen=True)
class Request:
    """`machine` None leaves the choice to the plan. What is None otherwise was not given.

    `endpoint` is the address of an S3-compatible server that the caller uses, `region` the caller's, `unsigned` that the bucket
    is read without credentials.
    """

    model: Model
    profile: Profile = "auto"
    machine: Machine | None = None
    engine: str = "vllm"
    engine_version: str | None = None
    streamer_version: str | None = None
    tensor_parallel_size: int | None = None
    chunk_bytes: int | None = None
    max_model_len: int | None = None
    nodes: int = 1
    endpoint: str = ""
    region: str = ""
    unsigned: bool = False
    cache_root: str = CACHE_ROOT

    @property
    def asked(self) -> dict[str, str]:
        """What was decided by the caller, the model and the machine aside, as options of the command line."""
        options = {
            "--profile": None if self.profile == PROFILES[-1] else self.profile,
            "--engine": None if self.engine == ENGINES[0] else self.engine,
            "--engine-version": self.engine_version,
            "--streamer-version": self.streamer_version,
            "--tp": self.tensor_parallel_size,
            "--max-model-len": self.max_model_len,
            "--chunk-size": self.chunk_bytes,
            "--nodes": None if self.nodes == 1 else self.nodes,
        }
        return {name: str(value) for name, value in options.items() if value is not None}

    @property
    def scheme(self) -> str:
        """`s3`, `gs` or `az`; a directory or a bare size is planned as if it lay in S3."""
        scheme = self.model.source.partition("://")[0].lower()
        return scheme if "://" in self.model.source and scheme in _STREAMED else "s3"

    @property
    def addressed(self) -> bool:
        """Whether the model was given by the address that pods will stream from."""
        return self.model.source.lower().startswith(tuple(f"{scheme}://" for scheme in _STREAMED))

    @property
    def custom_endpoint(self) -> bool:
        """Whether the model lies on an S3-compatible server other than AWS."""
        return self.addressed and self.scheme == "s3" and is_custom(self.endpoint)


def is_custom(endpoint: str) -> bool:
    """Whether an address is of an S3-compatible server other than AWS; "" is AWS's own."""
    return bool(endpoint) and ".amazonaws." not in endpoint
