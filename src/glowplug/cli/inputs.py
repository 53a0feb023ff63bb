"""Manifests that a command is pointed at: files, directories, `-`. What cannot be read is told, and the rest is read all the same.

In a directory, all of `*.yaml`, `*.yml` and `*.json` counts, but for what is hidden and for a chart's templates, which are no YAML
before Helm has printed them. Kustomizations and their patches are left out wherever they come from (`kustomizations.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.cli import kustomizations
from glowplug.core.errors import BadInputError, GlowplugError, NotFoundError, hint_of
from glowplug.core.files import read_small
from glowplug.manifests import source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.manifests.source import Source

STDIN: Final = "<stdin>"
_SUFFIXES: Final = frozenset((".yaml", ".yml", ".json"))
_TEMPLATE: Final = "{{"


@dataclass(frozen=True)
class Input:
    """A text and where it comes from. `path` is None for stdin; `listed` says that a directory led to it."""

    source: Source
    path: Path | None
    listed: bool = False

    @property
    def looks_like_template(self) -> bool:
        """Whether Helm may have to print it first."""
        return _TEMPLATE in self.source.text


@dataclass(frozen=True)
class Given:
    """All inputs, each file once; what could not be read; and what was left out on purpose."""

    inputs: tuple[Input, ...]
    errors: tuple[GlowplugError, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    inputs: list[Input] = field(default_factory=list)
    errors: list[GlowplugError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def file(self, path: Path, *, listed: bool) -> None:
        real = os.path.realpath(path)
        if real in self.seen:
            return
        self.seen.add(real)
        try:
            data = _bytes(path, listed=listed)
            one = Input(source.read(str(path), data), path, listed)
        except GlowplugError as error:
            self.errors.append(error)
            return
        except OSError as error:
            self.errors.append(_unreadable(path, error))
            return
        if listed and one.looks_like_template and _in_chart(path):
            self.notes.append(f"{path}: left out, a chart's template; lint what `helm template` prints, through -")
            return
        self.inputs.append(one)


def read(paths: Sequence[str], stdin: bytes | None) -> Given:
    """Everything below these paths; `stdin` is what `-` stands for."""
    reading = _Reading()
    for path in dict.fromkeys(paths):
        if path == "-":
            try:
                reading.inputs.append(Input(source.read(STDIN, stdin or b""), None))
            except GlowplugError as error:
                reading.errors.append(error)
        elif Path(path).is_dir():
            files = list(_below(Path(path), reading.errors))
            for file in files:
                reading.file(file, listed=True)
            if not files:
                reading.notes.append(f"{path}: no *.yaml, *.yml or *.json in it")
        else:
            reading.file(Path(path), listed=False)
    out, notes = kustomizations.left_out([(one.path, one.source) for one in reading.inputs if one.path is not None])
    used = tuple(one for one in reading.inputs if one.path not in out)
    return Given(used, tuple(reading.errors), (*reading.notes, *notes))


def _bytes(path: Path, *, listed: bool) -> bytes:
    """A file that is named may be a pipe (`<(helm template …)`); what lies in a directory is only read where it is a file."""
    if listed:
        return read_small(path, source.LARGEST)
    with path.open("rb") as handle:
        return handle.read(source.LARGEST + 1)


def _below(directory: Path, errors: list[GlowplugError]) -> Iterator[Path]:
    """In the order of names. Links to directories are not followed: they may lead in a circle."""

    def failed(error: OSError) -> None:
        errors.append(_unreadable(Path(os.fsdecode(error.filename or directory)), error))

    for root, folders, files in os.walk(directory, onerror=failed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in _SUFFIXES:
                yield Path(root) / name


def _in_chart(path: Path) -> bool:
    """Whether it lies below the `templates` of a Helm chart."""
    parents = path.absolute().parents
    return any(one.name == "templates" and (one.parent / "Chart.yaml").is_file() for one in parents)


def _unreadable(path: Path, error: OSError) -> GlowplugError:
    why = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{path}: {why}")
    return BadInputError(f"{path}: {why}", hint=hint_of("bad-input"))
