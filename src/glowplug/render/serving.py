"""How each engine is started as a server in a pod: image, command, the names of its arguments, port and health.

One row an engine; the values come from the plan. Sources: the AWS guide (vLLM), the engines' own documentation of their server
arguments (SGLang `launch_server`, TensorRT-LLM `trtllm-serve`; both answer /health).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from glowplug.plan.outcome import Plan


@dataclass(frozen=True)
class Serving:
    """One engine. `model`, `tensor_parallel`, `context` begin arguments; the first is "" where the model is a bare word."""

    container: str
    image: str
    command: tuple[str, ...]
    model: str
    tensor_parallel: str
    context: str
    port: int
    health: str = "/health"

    def arguments(self, model: str, plan: Plan) -> list[tuple[str, str]]:
        """Words in the guide's order, each with its reason, "" where the plan gives none."""
        words = [self.model + model, *plan.streaming.args]
        words.append(f"{self.tensor_parallel}{plan.placement.tensor_parallel_size}")
        if plan.max_model_len is not None:
            words.append(f"{self.context}{plan.max_model_len}")
        words += [*plan.compile.args, "--host=0.0.0.0", f"--port={self.port}"]
        return [(word, reason(plan, word)) for word in words]

    def image_of(self, version: str) -> str:
        """The engine's own image of a version: never a tag that moves."""
        return self.image.format(version=version.removeprefix("v"))


_ENGINES: Final = {
    "vllm": Serving(
        "vllm",
        "vllm/vllm-openai:v{version}",
        ("python3", "-m", "vllm.entrypoints.openai.api_server"),
        "--model=",
        "--tensor-parallel-size=",
        "--max-model-len=",
        8000,
    ),
    "sglang": Serving(
        "sglang",
        "lmsysorg/sglang:v{version}",
        ("python3", "-m", "sglang.launch_server"),
        "--model-path=",
        "--tp-size=",
        "--context-length=",
        30000,
    ),
    "tensorrt-llm": Serving(
        "tensorrt-llm",
        "nvcr.io/nvidia/tensorrt-llm/release:{version}",
        ("trtllm-serve",),
        "",
        "--tp_size=",
        "--max_seq_len=",
        8000,
    ),
}


def serving(engine: str) -> Serving:
    """How that engine is served. Raises UsageError (`engine-unknown`)."""
    found = _ENGINES.get(engine)
    if found is None:
        raise UsageError(f"no engine {engine!r}; known: {', '.join(_ENGINES)}", code="engine-unknown")
    return found


def reason(plan: Plan, word: str) -> str:
    """The plan's reasons for an argument: its own, and those of the keys inside a JSON value."""
    name, _, value = word.partition("=")
    bare = name.lstrip("-")
    own = plan.why(name) or plan.why(bare) or plan.why(bare.replace("-", "_"))
    keys = plan.streaming.extra_config if value.startswith("{") else ()
    inner = [f"{key}: {why}" for key in keys if (why := plan.why(key))]
    return "; ".join(sentence for sentence in (own, *inner) if sentence)
