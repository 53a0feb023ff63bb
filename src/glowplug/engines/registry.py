"""Which engines there are. Order is the order in which they are asked whether a command line is theirs.

`torch` is never asked: any program could be one that compiles, so it has to be named. Engines that are known by name
only are recognised so that a start can say `engine_not_supported` instead of knowing nothing.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.errors import UsageError
from glowplug.engines.adapter import Adapter, Invocation, Launch, ReadText
from glowplug.engines.command import python_program
from glowplug.engines.torch.adapter import Torch
from glowplug.engines.vllm.adapter import Vllm

if TYPE_CHECKING:
    from collections.abc import Mapping

ADAPTERS: Final[tuple[Adapter, ...]] = (Vllm(), Torch())
UNSUPPORTED: Final = ("sglang", "tensorrt-llm")
CHOICES: Final = ("auto", "vllm", *UNSUPPORTED, "torch")

_LARGEST_CONFIG: Final = 1 << 20
_ASKED: Final = ("vllm",)
_MODULES: Final = (("sglang", "sglang"), ("tensorrt_llm", "tensorrt-llm"))
_SCRIPTS: Final = {"sglang": "sglang", "trtllm-serve": "tensorrt-llm", "trtllm-llmapi-launch": "tensorrt-llm"}


@dataclass(frozen=True)
class Recognition:
    """Which engine a command line starts.

    `adapter` and `launch` are None where there is nothing to work with; `reason` then is `engine_not_supported`
    (`engine` names it), `engine_unknown`, or `command_opaque: why`.
    """

    engine: str
    adapter: Optional[Adapter]
    launch: Optional[Launch]
    reason: str = ""


def by_name(name: str) -> Optional[Adapter]:
    """The adapter of that name, None for an engine without one."""
    return next((adapter for adapter in ADAPTERS if adapter.name == name), None)


def local_text(path: str) -> str:
    """The text of a small file of this machine. Raises OSError, or ValueError for one that is too large or no
    text.
    """
    # Opening a pipe would wait for a writer, so it is not opened as a file is.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("no regular file")
        data = handle.read(_LARGEST_CONFIG + 1)
    if len(data) > _LARGEST_CONFIG:
        raise ValueError("larger than 1 MiB")
    return data.decode("utf-8")


def recognise(
    invocation: Invocation,
    environ: Optional[Mapping[str, str]] = None,
    wanted: str = "auto",
    *,
    read_text: ReadText = local_text,
) -> Recognition:
    """The engine that an invocation starts. Raises UsageError for an unknown name and for what the engine would
    refuse.

    `environ` replaces the invocation's environment where the caller knows a better one (a pod's, say).
    """
    if wanted not in CHOICES:
        raise UsageError(f"no engine {wanted!r}; known are {', '.join(CHOICES)}", code="engine-unknown")
    if environ is not None:
        invocation = Invocation(invocation.argv, {**environ, **_added(invocation, environ)}, invocation.opaque)
    if wanted in UNSUPPORTED:
        return Recognition(wanted, None, None, "engine_not_supported")
    if invocation.opaque and wanted != "torch":
        return Recognition(wanted if wanted != "auto" else "", None, None, f"command_opaque: {invocation.opaque}")
    for name in _ASKED if wanted == "auto" else (wanted,):
        adapter = by_name(name)
        launch = adapter.read(invocation, read_text) if adapter else None
        if launch is not None:
            return Recognition(name, adapter, launch)
    known = _named(invocation)
    if known:
        return Recognition(known, None, None, "engine_not_supported")
    return Recognition(wanted if wanted != "auto" else "", None, None, "engine_unknown")


def _added(invocation: Invocation, environ: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in invocation.environ.items() if environ.get(name) != value}


def _named(invocation: Invocation) -> str:
    """The engine without an adapter that a command line names, "" for none."""
    if not invocation.argv:
        return ""
    program = python_program(invocation.argv)
    if program and program.kind == "module":
        return next((engine for module, engine in _MODULES if program.name.partition(".")[0] == module), "")
    word = program.name if program and program.kind == "script" else invocation.argv[0]
    return _SCRIPTS.get(word.rpartition("/")[2], "")
