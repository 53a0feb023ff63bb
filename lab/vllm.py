"""How the tests start vLLM: the tiny model from S3 through the real Run:ai streamer, on a CPU, as cheap as it goes.

vLLM can compile along five paths that behave differently towards a cache (`CompilePath`); a cache that is right on
one of them may be wrong on another, so tests name the one they mean. Cold starts take about 40 s and hits 4 to 8 s of
engine initialisation, plus 20 to 30 s of Python imports that no cache shortens.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

PLUGIN = Path(__file__).resolve().with_name("plugin")
READY_SECONDS = 300.0


class CompilePath(Enum):
    """A path by which vLLM compiles; the value is its name in recordings and reports."""

    STOCK = "stock"
    """The CPU platform's own: plain Inductor, no vLLM index. No GPU runs it."""
    STOCK_AOT = "stock-aot"
    """The same with vLLM's AOT on: it loads its function, throws it away and compiles again at every start."""
    VLLM_COMPILE = "vllm-compile"
    """Piecewise compilation with vLLM's own index, without AOT: GPUs up to 0.16."""
    AOT = "aot"
    """AOT without mega artifacts: GPUs with 0.17 to 0.26, so the guide's 0.21."""
    MEGA_AOT = "mega-aot"
    """All of it, the default from 0.27.1 with torch 2.12 or later."""

    @property
    def uses_plugin(self) -> bool:
        """Whether the plugin keeps the GPU's compile mode."""
        return self not in (CompilePath.STOCK, CompilePath.STOCK_AOT)

    @property
    def env(self) -> dict[str, str]:
        """The variables that choose this path."""
        plugin = {"PYTHONPATH": str(PLUGIN)} if self.uses_plugin else {}
        return plugin | _SWITCHES[self]


_SWITCHES: Mapping[CompilePath, dict[str, str]] = {
    CompilePath.STOCK: {"VLLM_USE_AOT_COMPILE": "0"},
    CompilePath.STOCK_AOT: {},
    CompilePath.VLLM_COMPILE: {"VLLM_USE_AOT_COMPILE": "0"},
    CompilePath.AOT: {"VLLM_USE_MEGA_AOT_ARTIFACT": "0"},
    CompilePath.MEGA_AOT: {},
}


@dataclass(frozen=True)
class Launch:
    """One configuration of `vllm serve`.

    `python` is the engine environment's interpreter (`lab.engine.build()`), `model` an `s3://` URL or a directory.
    """

    python: Path
    model: str
    port: int
    path: CompilePath = CompilePath.AOT
    tensor_parallel: int = 1
    extra: tuple[str, ...] = ()

    def argv(self) -> list[str]:
        """As people write it today: `vllm serve MODEL …`."""
        return [str(self.python.with_name("vllm")), "serve", self.model, *self._options()]

    def module_argv(self) -> list[str]:
        """As the guide's generation wrote it: `python -m vllm.entrypoints.openai.api_server --model MODEL …`."""
        return [str(self.python), "-m", "vllm.entrypoints.openai.api_server", "--model", self.model, *self._options()]

    def env(self, s3: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables that this start needs besides the node's own; `s3` is `lab.s3.Server.env()`.

        No cache variable is among them: placing caches is what is under test. `cache_env` sets them by hand.
        """
        return {
            "PATH": f"{self.python.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            **self.path.env,
            **(s3 or {}),
        }

    @property
    def health_url(self) -> str:
        """Answers 200 once the engine is ready."""
        return f"http://127.0.0.1:{self.port}/health"

    def complete(self, prompt: str = "glow", tokens: int = 4) -> list[int]:
        """Ask for a greedy completion and return its token ids. Raises OSError."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - loopback
            answer = json.load(response)
        ids: list[int] = answer["choices"][0]["token_ids"]
        return ids

    def _options(self) -> list[str]:
        streamer = ["--load-format", "runai_streamer"] if self.model.startswith("s3://") else []
        parallel = ["--tensor-parallel-size", str(self.tensor_parallel)] if self.tensor_parallel > 1 else []
        return [
            *streamer,
            *parallel,
            "--max-model-len",
            "512",
            "--max-num-seqs",
            "4",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            *self.extra,
        ]


def cache_env(cache_root: Path) -> dict[str, str]:
    """The cache variables for a start without glowplug whose caches all lie below `cache_root`."""
    return {
        "VLLM_CACHE_ROOT": str(cache_root / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(cache_root / "inductor"),
        "TRITON_CACHE_DIR": str(cache_root / "triton"),
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }


def wait_until_ready(url: str, ended: Callable[[], int | None], timeout: float = READY_SECONDS) -> float:
    """Poll `url` until it answers 200; returns the seconds waited.

    `ended` is the process's poll: ChildProcessError when it ended before it was ready, TimeoutError after `timeout`.
    """
    began = time.monotonic()
    while time.monotonic() - began < timeout:
        status = ended()
        if status is not None:
            raise ChildProcessError(f"ended with status {status} before it was ready")
        try:
            with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - loopback
                if response.status == 200:
                    return time.monotonic() - began
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise TimeoutError(f"{url} not ready after {timeout:.0f} s")
