"""A stage of the Dockerfile as data: which files an image has and how it runs, for `make image` to do without Docker.

Knows the instructions that such a stage may use, and refuses any other: what is not understood must not be missing in silence.
A stage before it is only a name here, as the origin of files.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

_CONTINUED = re.compile(r"\\\n")
_NOTHING = "scratch"


@dataclass(frozen=True)
class Copy:
    """`sources` of a stage, or of the build context where `stage` is "", to `target` in the image."""

    stage: str
    sources: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Stage:
    """`config` is the object of that name in an OCI image; `base` what it is built on, "scratch" or as the line FROM has it."""

    copies: tuple[Copy, ...]
    config: Mapping[str, object] = field(default_factory=dict)
    base: str = _NOTHING


class DockerfileError(ValueError):
    """Something in the stage that is not understood, with its line."""


def stage(text: str, name: str = "") -> Stage:
    """The stage of that name, or the last one. Raises DockerfileError for anything but the few instructions known here."""
    lines = [line.strip() for line in _CONTINUED.sub(" ", text).splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    starts = [number for number, line in enumerate(lines) if line.upper().startswith("FROM ")]
    named = [number for number in starts if not name or lines[number].split()[-2:] == ["AS", name]]
    if not named:
        raise DockerfileError(f"no stage {name}" if name else "no line FROM")
    start = named[-1]
    end = next((number for number in starts if number > start), len(lines))
    base = _base(lines[start])
    copies: list[Copy] = []
    config: dict[str, object] = {}
    variables: list[str] = []
    labels: dict[str, str] = {}
    for line in lines[start + 1 : end]:
        instruction, _, rest = line.partition(" ")
        match instruction:
            case "COPY":
                copies.append(_copy(line, rest))
            case "ENV":
                variables += [f"{name}={value}" for name, value in _pairs(line, rest).items()]
            case "LABEL":
                labels |= _pairs(line, rest)
            case "USER":
                config["User"] = rest.strip()
            case "WORKDIR":
                config["WorkingDir"] = rest.strip()
            case "CMD":
                config["Cmd"] = _words(line, rest)
            case _:
                raise DockerfileError(f"not understood: {line}")
    config |= ({"Env": variables} if variables else {}) | ({"Labels": labels} if labels else {})
    return Stage(tuple(copies), config, base)


def _base(line: str) -> str:
    _, *words = line.split()
    if len(words) not in (1, 3) or words[0].startswith("--"):
        raise DockerfileError(f"not understood: {line}")
    return words[0]


def _copy(line: str, rest: str) -> Copy:
    words = rest.split()
    stage = words.pop(0).removeprefix("--from=") if words and words[0].startswith("--from=") else ""
    if len(words) < 2 or any(word.startswith("--") or set(word) & set("*?[\"'$") for word in words):
        raise DockerfileError(f"not understood: {line}")
    return Copy(stage, tuple(words[:-1]), words[-1])


def _pairs(line: str, rest: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in shlex.split(rest)]
    if "$" in rest or not all(equals for _, equals, _ in pairs):
        raise DockerfileError(f"not understood: {line}")
    return {name: value for name, _, value in pairs}


def _words(line: str, rest: str) -> list[str]:
    try:
        words = json.loads(rest)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise DockerfileError(f"not understood: {line}")
    return words
