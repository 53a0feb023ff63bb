"""What turns compilation off, or the engine's cache: where it stands and how it is taken back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.engines.vllm.command import on
from glowplug.lint import mending
from glowplug.lint.rules.compile.keeping import VLLM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.lint.view import Engine, Workload
    from glowplug.manifests.edit import Operation
    from glowplug.manifests.source import Place
    from glowplug.manifests.values import Value

_OFF_MODES: Final = ("0", "none")
_OFF_LEVELS: Final = ("0", "o0")
COMPILATION: Final = "compilation-config"
_LEVEL: Final = "optimization-level"
_EAGER: Final = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


@dataclass(frozen=True)
class Off:
    """One cause. `why` completes a sentence: "`--enforce-eager` turns torch.compile and CUDA graphs off"."""

    at: Value | Place
    why: str
    undo: tuple[Operation, ...] | None
    title: str


def compiling_off(workload: Workload) -> Iterator[Off]:
    """What keeps torch.compile from running, the plainest first."""
    engine = workload.engine
    if engine.name == VLLM and engine.flag("enforce-eager"):
        option = engine.options["enforce-eager"]
        yield Off(
            option.option_at,
            "`--enforce-eager` turns torch.compile and CUDA graphs off",
            mending.remove_option(workload, "enforce-eager"),
            "remove --enforce-eager",
        )
    if engine.name == VLLM:
        yield from _by_configuration(workload)
    variables = workload.container.environment.variables
    for name in _EAGER:
        found = variables.get(name)
        if found is not None and found.value == "1":
            yield Off(
                found.at,
                f"`{name}=1` turns torch.compile off",
                mending.remove_variable(workload.container, name),
                f"remove {name}",
            )


def _by_configuration(workload: Workload) -> Iterator[Off]:
    engine = workload.engine
    compilation = configuration(engine)
    option = engine.option(COMPILATION)
    mode = compilation.get("mode", compilation.get("level"))
    if option is not None and mode is not None and str(mode).lower() in _OFF_MODES:
        yield Off(option.at, f"compilation mode `{mode}` turns torch.compile off", None, "")
    elif option is not None and compilation.get("backend") == "eager":
        yield Off(option.at, "the compilation backend `eager` compiles nothing", None, "")
    level = engine.option(_LEVEL)
    if mode is None and level is not None and (level.value or "").lower() in _OFF_LEVELS:
        yield Off(
            level.at,
            "`-O0` turns torch.compile and CUDA graphs off",
            mending.remove_option(workload, _LEVEL),
            "remove -O0",
        )


def caches_off(workload: Workload) -> Iterator[Off]:
    """What keeps compiled artifacts from being kept."""
    container = workload.container
    for name, what in (
        ("VLLM_DISABLE_COMPILE_CACHE", "vLLM's compile cache"),
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "every cache of Inductor"),
    ):
        if name.startswith("VLLM") and workload.engine.name != VLLM:
            continue
        found = container.environment.get(name)
        if found is not None and found.value is not None and on({name: found.value}, name):
            yield Off(
                found.at,
                f"`{name}={found.value}` turns {what} off",
                mending.remove_variable(container, name),
                f"remove {name}",
            )
    if workload.engine.name != VLLM:
        return
    inductor = configuration(workload.engine).get("inductor_compile_config")
    option = workload.engine.option(COMPILATION)
    if option is not None and isinstance(inductor, dict) and inductor.get("force_disable_caches") is True:
        yield Off(option.at, "`force_disable_caches` turns every cache of Inductor off", None, "")


def configuration(engine: Engine) -> Mapping[str, Any]:
    """`--compilation-config` as an object, however it was written; empty where it is unknown."""
    text = engine.value(COMPILATION)
    return _object(text) if text else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    # A bare number is the level of old versions (`-O3`, `--compilation-config 3`).
    if isinstance(value, int) and not isinstance(value, bool):
        return {"level": value}
    return value if isinstance(value, dict) else {}
