"""The two engines of the demo: vLLM as the guide's version compiles (AOT), and a bare torch.compile program."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demo.scenarios import first_call_seconds
from lab import vllm
from lab.node import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Vllm:
    """Real vLLM on a CPU, with the GPU's compile path, weights streamed from the S3 server."""

    python: Path
    model: str
    path: vllm.CompilePath = vllm.CompilePath.AOT
    tensor_parallel: int = 1
    extra: tuple[str, ...] = ()
    name: str = "vllm"

    def command(self) -> Sequence[str]:
        """`vllm serve s3://…`."""
        return self._launch().argv()

    def env(self) -> dict[str, str]:
        """Variables of the start; none of them places a cache."""
        return self._launch().env()

    def init_seconds(self, start: dict[str, Any], log: str) -> float | None:
        """As the engine's own log states it."""
        del log
        seconds: float | None = start["engine_init_seconds"]
        return seconds

    def _launch(self) -> vllm.Launch:
        return vllm.Launch(
            self.python, self.model, free_port(), self.path, tensor_parallel=self.tensor_parallel, extra=self.extra
        )


@dataclass(frozen=True)
class Torch:
    """A small program with torch.compile."""

    python: Path
    arguments: tuple[str, ...] = ()
    name: str = "torch"

    def command(self) -> Sequence[str]:
        """`python …/compiled.py`."""
        return [str(self.python), str(CHECKOUT / "lab" / "programs" / "compiled.py"), *self.arguments]

    def env(self) -> dict[str, str]:
        """Only where programs are found."""
        return {"PATH": f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin"}

    def init_seconds(self, start: dict[str, Any], log: str) -> float | None:
        """Compile + first call, as the program prints it."""
        del start
        return first_call_seconds(log)
