"""A program that calls torch.compile, without an engine around it.

There is no command line to understand and no log to read: the script's path as spelled is the model, the world size
is the tensor parallel size, and everything Inductor finds by content is one entry: `fxgraph` and `aotautograd`, the
two caches whose hit spares compilation. What they point to (generated modules, Triton binaries) is support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.fingerprint import Layout
from glowplug.core.errors import UsageError
from glowplug.engines import inductor
from glowplug.engines.adapter import Entry, Invocation, Launch, LogReader, Placement, Reach, ReadText, Trace
from glowplug.engines.command import python_program
from glowplug.engines.places import home_and_temporary, placed
from glowplug.engines.temporary import is_temporary
from glowplug.engines.vllm.command import split_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.tree.model import Index

NAME: Final = "torch"
_PORTABLE: Final = ("inductor/", "triton/", "nv/", "extensions/")
_ARGUMENT_PREFIXES: Final = ("TORCH", "TRITON_", "CUDA_", "NVIDIA_")


class Torch:
    """Any program, taken as one that uses torch.compile. Chosen by name only (`--engine torch`)."""

    name: str = NAME
    distributions: Sequence[str] = ("torch",)

    def read(self, invocation: Invocation, read_text: ReadText) -> Optional[Launch]:
        """The program as a workload. Raises UsageError when WORLD_SIZE is no number."""
        del read_text
        if not invocation.argv:
            return None
        program = python_program(invocation.argv)
        model, words = (program.name, program.arguments) if program and program.name else _bare(invocation.argv)
        world = _number(invocation.environ, "WORLD_SIZE")
        local = _number(invocation.environ, "LOCAL_WORLD_SIZE") if "LOCAL_WORLD_SIZE" in invocation.environ else world
        in_key, beside = split_environment(invocation.environ)
        return Launch(
            engine=NAME,
            model=model,
            layout=Layout(tp=world),
            args={},
            env={name: value for name, value in in_key.items() if name.startswith(_ARGUMENT_PREFIXES)},
            other_args={str(place): word for place, word in enumerate(words, start=1)},
            other_env=beside,
            local_ranks=world if local == world else None,
            disabled=_disabled(invocation.environ),
        )

    def place(
        self, cache_root: str, launch: Launch, environ: Mapping[str, str], *, engine_version: str, gpu: bool
    ) -> Placement:
        """Inductor, Triton, CUDA and extension caches below the cache root."""
        del launch, engine_version
        root = cache_root.rstrip("/") or "/"
        wanted = {
            "TORCHINDUCTOR_CACHE_DIR": f"{root}/inductor",
            "TRITON_CACHE_DIR": f"{root}/triton",
            "CUDA_CACHE_PATH": f"{root}/nv",
        }
        if not gpu:
            wanted["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] = "0"
        return placed(wanted, environ, root, escapes=home_and_temporary(environ))

    def reach(self, path: str) -> Reach:
        """All of these are found by content."""
        return Reach.PORTABLE if path.startswith(_PORTABLE) else Reach.NEVER

    def is_temporary(self, path: str) -> bool:
        """Whether this is a temporary file or a lock."""
        return is_temporary(path)

    def entries(self, index: Index, launch: Launch) -> tuple[Entry, ...]:
        """One entry: what Inductor looks up."""
        found = inductor.entry(index, launch)
        return () if found is None else (found,)

    def redact(self, path: str, data: bytes) -> bytes:
        """Inductor writes no metadata with credentials."""
        del path
        return data

    def log_reader(self) -> LogReader:
        """A reader that learns nothing: torch says nothing of its caches."""
        return _Silent()


class _Silent:
    def feed(self, line: str, at: float) -> None:
        """Nothing in a program's own output is about its caches."""

    def trace(self) -> Trace:
        """An empty trace."""
        return Trace()


def _bare(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    return argv[0], argv[1:]


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "").strip() or "1"
    if not text.isascii() or not text.isdigit() or not int(text[:9]) >= 1 or len(text) > 9:
        raise UsageError(f"{name} must be a number of 1 or more, not {text[:80]!r}")
    return int(text)


def _disabled(environ: Mapping[str, str]) -> str:
    for name, effect in (
        ("TORCH_COMPILE_DISABLE", "torch.compile"),
        ("TORCHDYNAMO_DISABLE", "torch.compile"),
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "caches"),
    ):
        if environ.get(name) == "1":
            return f"{name} turns {effect} off"
    return ""
