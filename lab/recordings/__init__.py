"""What real starts of a real vLLM printed and wrote: fixtures for log parsing, tree classes and verdicts.

Made by `python -m lab.record`; README.md beside this file says on what, and what is to be seen in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FORMAT = "glowplug-lab.recording/1"
NAMES = (
    "stock",
    "stock-aot",
    "vllm-compile",
    "aot",
    "mega-aot",
    "aot-tp2",
    "aot-support-lost",
    "vllm-compile-support-lost",
    "eager",
)
NEW_NODE = ("4-new-node", "2-new-node")
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class File:
    """One file of a cache tree; `path` is relative to the cache root."""

    path: str
    size: int
    sha256: str
    mtime_ns: int
    mode: int


@dataclass(frozen=True)
class Recording:
    """One start.

    `opened` counts opens of files below the cache root during the start, relative paths, as inotify saw them;
    `outside_cache_root` are absolute paths of files that the node had afterwards elsewhere.
    """

    name: str
    start: str
    log: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready_seconds: float
    engine_init: str
    exit_status: int
    token_ids: tuple[int, ...]
    before: tuple[File, ...]
    after: tuple[File, ...]
    changed_after_ready: tuple[File, ...]
    opened: Mapping[str, int]
    outside_cache_root: tuple[str, ...]

    @property
    def added(self) -> tuple[str, ...]:
        """Paths that this start made."""
        known = {file.path for file in self.before}
        return tuple(file.path for file in self.after if file.path not in known)

    @property
    def rewritten(self) -> tuple[str, ...]:
        """Paths that this start wrote anew with the same bytes."""
        known = {file.path: file for file in self.before}
        return tuple(
            file.path
            for file in self.after
            if (old := known.get(file.path)) and old.sha256 == file.sha256 and old.mtime_ns != file.mtime_ns
        )

    @property
    def changed(self) -> tuple[str, ...]:
        """Paths that this start wrote anew with other bytes."""
        known = {file.path: file for file in self.before}
        return tuple(file.path for file in self.after if (old := known.get(file.path)) and old.sha256 != file.sha256)


def starts(name: str) -> tuple[str, ...]:
    """The starts that a name has, in their order."""
    if name == "eager":
        return ("1-cold",)
    if name.endswith("-support-lost"):
        return ("1-cold", "2-new-node")
    return ("1-cold", "2-hit", "3-hit", "4-new-node")


def log_path(name: str, start: str) -> Path:
    """The log file of a start."""
    return _HERE / name / f"{start}.log"


def load(name: str, start: str) -> Recording:
    """One recording; KeyError or FileNotFoundError when there is none of that name."""
    document = json.loads((_HERE / name / f"{start}.json").read_text(encoding="utf-8"))
    if document.pop("schema") != FORMAT:
        raise KeyError(f"{name}/{start}: another format")
    for field in ("before", "after", "changed_after_ready"):
        document[field] = tuple(File(**file) for file in document[field])
    for field in ("argv", "token_ids", "outside_cache_root"):
        document[field] = tuple(document[field])
    return Recording(log=log_path(name, start).read_text(encoding="utf-8"), **document)
