"""The words of `run --exec` and the variables beside them → one value, without a library.

A pod's words come from manifests that nobody tries at a prompt. So whatever is wrong with them is one line and a start as if
glowplug were not there; the caller sees to that, here it is a UsageError.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Final, Optional

from glowplug.core import units
from glowplug.core.errors import UsageError
from glowplug.launch.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX: Final = "GLOWPLUG_"
_TRUE: Final = frozenset(("1", "true", "t", "yes", "y", "on"))
_FALSE: Final = frozenset(("0", "false", "f", "no", "n", "off", ""))


def _text(text: str) -> str:
    return text


def _path(text: str) -> Path:
    return Path.cwd() / text  # the watcher works in another directory


def _root(text: str) -> str:
    if not text.startswith("/"):
        raise UsageError(f"it must be an absolute path, the same on every machine: {text!r}")
    return text


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise UsageError(f"it must begin with http:// or https://: {text!r}")
    return text


_VALUES: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "store": ("store", _text),
    "node-store": ("node_store", _path),
    "outbox": ("outbox", _path),
    "domain": ("domain", _text),
    "cache-root": ("cache_root", _root),
    "engine": ("engine", _text),
    "ready-url": ("ready_url", _url),
    "ready-timeout": ("ready_timeout", units.parse_duration),
    "restore-timeout": ("restore_timeout", units.parse_duration),
    "report": ("report", _path),
    "verify-key": ("verify_key", _path),
    "sign-key": ("sign_key", _path),
}
_SWITCHES: Final[Mapping[str, str]] = {"no-publish": "publish", "no-restore": "restore"}
_MEANT: Final = frozenset(("exec",))
"""What brought us here says nothing new."""


def parse(words: Sequence[str], environ: Mapping[str, str]) -> RunOptions:
    """The options before `--`, then what GLOWPLUG_* variables say of the others. Raises UsageError."""
    found = _from_variables(environ)
    waiting = list(words[: words.index("--")] if "--" in words else words)
    if waiting[:1] == ["run"]:
        del waiting[0]
    while waiting:
        word = waiting.pop(0)
        name, equals, text = word[2:].partition("=")
        if not word.startswith("--") or not name:
            raise UsageError(f"unexpected {word!r}")
        if name in _VALUES:
            if not equals:
                if not waiting:
                    raise UsageError(f"--{name} needs a value")
                text = waiting.pop(0)
            found.update(_value(name, text, f"--{name}"))
        elif equals or name not in {*_SWITCHES, *_MEANT}:
            raise UsageError(f"no such option: --{name}")
        elif name in _SWITCHES:
            found[_SWITCHES[name]] = False
    return RunOptions(**found)


def _from_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _VALUES:
        variable = _PREFIX + name.upper().replace("-", "_")
        if environ.get(variable):
            found.update(_value(name, environ[variable], variable))
    for name, field in _SWITCHES.items():
        variable = _PREFIX + name.upper().replace("-", "_")
        if truth(environ.get(variable), variable):
            found[field] = False
    return found


def truth(text: Optional[str], name: str) -> bool:
    """Of a variable that is a switch: 1 or 0. Raises UsageError for anything else."""
    lower = (text or "").strip().lower()
    if lower not in _TRUE | _FALSE:
        raise UsageError(f"{name} must be 1 or 0, not {text!r}")
    return lower in _TRUE


def _value(name: str, text: str, spelled: str) -> dict[str, Any]:
    field, convert = _VALUES[name]
    try:
        return {field: convert(text)}
    except UsageError as error:
        raise UsageError(f"{spelled}: {error.message}") from None
