"""vLLM's own compile key: what it was made of, how two differ, and which variables make it differ at every start.

vLLM writes the factors of its key to `cache_key_factors.json` when it compiles. When two starts that should have
shared artifacts did not, comparing the two files names the variable. The tables explain; they gate nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import BadInputError
from glowplug.core.tables import Row, table
from glowplug.engines import nested
from glowplug.engines.versions import parts, within

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "cache_key_factors.json"
_PACKAGE: Final = "glowplug.engines.vllm"
_PAIR: Final = re.compile(rb'"([A-Za-z_][A-Za-z0-9_]*)"(\s*:\s*)"((?:[^"\\]|\\.)*)"')
_OLDEST: Final = "0.13.0"
_DIGEST: Final = b"sha256:"
# What differs by image is meant to: it is explained when asked (`cache why`), not said at every start.
_SURPRISING: Final = frozenset({"pod", "node", "start", "secret"})
_HASHES: Final = {
    "config_hash": "the configuration (arguments, model path, vLLM version)",
    "code_hash": "the model's source code or the place where vLLM is installed",
    "compiler_hash": "torch, triton, CUDA or the GPU",
}


@dataclass(frozen=True)
class Factors:
    """The content of a `cache_key_factors.json`: variables with their values, and the digests of the other
    factors.
    """

    env: Mapping[str, Any]
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class Difference:
    """A factor in which two keys differ. `name` is a variable or one of config_hash, code_hash, compiler_hash."""

    name: str
    first: str
    second: str
    explanation: str


def parse(data: bytes) -> Factors:
    """The factors in a file's bytes. Raises BadInputError when they are not such a file."""
    try:
        document = nested.read(data)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("env"), dict):
        raise BadInputError(f"not a {FILE} of vLLM")
    return Factors(document["env"], {name: str(document[name]) for name in _HASHES if name in document})


def compare(first: Factors, second: Factors) -> tuple[Difference, ...]:
    """Each factor in which two keys differ, variables first. Values of credential-like variables are shown as
    digests.
    """
    found: list[Difference] = []
    for name in sorted(first.env.keys() | second.env.keys()):
        mine, theirs = first.env.get(name), second.env.get(name)
        if mine != theirs:
            row = _volatile().get(name)
            why = f"differs by {row['differs']}: {row['advice']}" if row else "is in vLLM's compile key"
            found.append(Difference(name, _shown(name, mine), _shown(name, theirs), f"{name} {why}"))
    for name, meaning in _HASHES.items():
        mine, theirs = first.hashes.get(name), second.hashes.get(name)
        if mine != theirs:
            found.append(Difference(name, str(mine), str(theirs), f"{meaning} differs"))
    return tuple(found)


def _shown(name: str, value: object) -> str:
    from glowplug.core import redact  # its expressions take longer than all of this module

    return (
        "unset"
        if value is None
        else redact.value(name, value if isinstance(value, str) else json.dumps(value, default=str))
    )


def hashed(name: str, version: str) -> bool:
    """Whether a variable is in vLLM's own key in a version; older and newer versions than those checked count as the
    nearest.
    """
    at = version if parts(version) >= parts(_OLDEST) else _OLDEST
    return any(
        row["name"] == name and within(at, row["from_version"], row["to_version"])
        for row in table(_PACKAGE, "engine_key_env")
    )


def poisons(environ: Mapping[str, str], version: str) -> tuple[str, ...]:
    """Variables set here that are in the engine's own key and usually differ between pods, with what to
    do.
    """
    found: list[str] = []
    for name, row in _volatile().items():
        if name in environ and row["differs"] in _SURPRISING and hashed(name, version):
            found.append(f"{name} is in vLLM's compile key and usually differs by {row['differs']}: {row['advice']}")
    return tuple(found)


def _volatile() -> Mapping[str, Row]:
    return {row["name"]: row for row in table(_PACKAGE, "volatile")}


def redacted(data: bytes) -> bytes:
    """The bytes with the values of credential-like names replaced by digests, formatting kept. Works on damaged files
    too.
    """
    from glowplug.core import redact

    def replace(match: re.Match[bytes]) -> bytes:
        name, value = match.group(1).decode("ascii"), match.group(3)
        if not value or value.startswith(_DIGEST) or not redact.looks_secret(name):
            return match.group()
        stand_in = redact.hashed(_unescaped(value)).encode("ascii")
        return b'"' + match.group(1) + b'"' + match.group(2) + b'"' + stand_in + b'"'

    return _PAIR.sub(replace, data)


def _unescaped(value: bytes) -> str:
    try:
        text = json.loads(b'"' + value + b'"')
    except ValueError:
        return value.decode("utf-8", "replace")
    return text.encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else ""
