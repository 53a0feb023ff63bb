"""A start that nobody has seen: what a pod asks for → the engine's launch, and with software and hardware the fingerprint.

The path is the launcher's own (see through the command, the engine's adapter, `fingerprint/build.py`), so that what is inferred
here and what is observed in the pod cannot drift apart. What the API does not show has a stand-in on the way; a field of the key
that is made of one is not known. Nothing of this machine is looked at: a path in a pod's command is the pod's.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.documents.fingerprint import Fact, Fingerprint
from glowplug.core.errors import UsageError
from glowplug.engines import registry
from glowplug.engines.adapter import Invocation
from glowplug.engines.command import see_through
from glowplug.fingerprint import build
from glowplug.manifests.podspec import Asked, is_open, stand_in, without_launcher

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.engines.adapter import Adapter, Launch
    from glowplug.fingerprint.hardware import Hardware
    from glowplug.fingerprint.software import Software

_ENGINE: Final = "GLOWPLUG_ENGINE"
_OF_SHELL: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_WITH_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):?[-+=?]")
_EXPORTED: Final = re.compile(r"\bexport .*", re.DOTALL)
_OBSERVED: Final = ("observed:command", "observed:environment")


@dataclass(frozen=True)
class Followed:
    """Where a pod's command leads. `open` are the key's fields (`model`, `args`, `env.NAME`) that depend on what is not shown."""

    invocation: Invocation
    adapter: Adapter
    launch: Launch
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unfollowed:
    """Why a pod's command leads nowhere, in words without any of its own; `engine` where it is known all the same."""

    why: str
    engine: str = ""


def follow(asked: Asked, assumed: Mapping[str, str] | None = None) -> Followed | Unfollowed:
    """The launch that a container asks for. Raises nothing.

    `assumed`: values of variables that the API does not show, of which the image may have set some and a Secret others. They
    count where neither the pod nor its command sets or removes them; without one such a variable counts as not set. The words of
    a command never come from them.
    """
    assumed = assumed or {}
    words = without_launcher(asked.argv) or asked.argv
    if not words:
        return Unfollowed("the image decides what it starts")
    unseen = _unseen(asked, words, assumed)
    seen = see_through(words, {**asked.environ, **{name: stand_in(name) for name in unseen}})
    environ = {
        name: assumed.get(name, "") if name in unseen and value == stand_in(name) else value
        for name, value in seen.environ.items()
        if name not in unseen or value != stand_in(name) or name in assumed
    }
    wanted = asked.environ.get(_ENGINE, "auto") or "auto"
    try:
        found = registry.recognise(Invocation(seen.argv, environ, seen.opaque), None, wanted, read_text=_not_here)
    except UsageError:
        return Unfollowed("its words, or a file that they name, cannot be read from outside")
    if found.adapter is None or found.launch is None:
        return Unfollowed(_EXPORTED.sub("an export of no name", found.reason), found.engine)
    launch = dataclasses.replace(
        found.launch, other_args=_known(found.launch.other_args), other_env=_known(found.launch.other_env)
    )
    return Followed(Invocation(seen.argv, environ, seen.opaque), found.adapter, launch, _open(seen.argv, found.launch))


def fingerprint(
    followed: Followed, *, domain: Fact, cache_root: Fact, software: Software, hardware: Hardware
) -> Fingerprint:
    """The fingerprint of such a start. Raises nothing.

    What the command and the variables say has the source `inferred:pod`. A field that depends on what the API does not show is
    named in `unknown`, and there is no key.
    """
    found = build.fingerprint(
        followed.invocation,
        followed.launch,
        followed.adapter,
        domain=str(domain.value),
        cache_root=str(cache_root.value),
        software=software,
        hardware=hardware,
        model_config_sha256="",
    )
    facts = {
        name: Fact(_known(fact.value), "inferred:pod") if fact.source in _OBSERVED else fact
        for name, fact in found.fields.items()
        if name not in (*followed.open, *found.unknown)
    }
    facts.update({name: fact for name, fact in (("domain", domain), ("cache_root", cache_root)) if fact.value})
    unknown = (*found.unknown, *followed.open)
    if not unknown:
        return dataclasses.replace(found, fields=facts)
    return dataclasses.replace(found, fields=facts, key=None, key_digest=None, unknown=tuple(dict.fromkeys(unknown)))


def _unseen(asked: Asked, words: Sequence[str], assumed: Mapping[str, str]) -> frozenset[str]:
    """Names that something outside the pod's text may give a value to, as far as the command or the key asks for them."""
    texts = [word for word in words if "$" in word]
    named = {name for text in texts for name in _OF_SHELL.findall(text)}
    spared = {name for text in texts for name in _WITH_DEFAULT.findall(text)}
    return frozenset((asked.unknown | (named - spared) | assumed.keys()) - asked.environ.keys())


def _open(argv: Sequence[str], launch: Launch) -> tuple[str, ...]:
    found = ["model"] if is_open(launch.model) else []
    apart = {launch.model, *launch.other_args.values()}
    if any(
        is_open(word) and word not in apart and not before.startswith("-") for before, word in itertools.pairwise(argv)
    ):
        found.append("args")  # a word by itself may be an option, or several
    found += [f"args.{name}" for name, value in sorted(launch.args.items()) if is_open(value) or is_open(name)]
    return (*found, *(f"env.{name}" for name, value in sorted(launch.env.items()) if is_open(value)))


def _known(value: Any) -> Any:
    """Without the words that stand for values which nobody knows: what is recorded is not these, nor their digest."""
    if not isinstance(value, dict):
        return value
    return {name: text for name, text in value.items() if not is_open(str(text)) and not is_open(name)}


def _not_here(path: str) -> str:
    raise FileNotFoundError(f"{path} is in the pod")
