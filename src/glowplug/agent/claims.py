"""Whether a pod may publish what it says it compiled: its claim against what the API says of it.

The key of a sealed part is a pod's word. It is believed where the pod, as the API has it, leads to that very key: its command is
followed and its key is made by the same code as in the pod, with the claim's word for what the API cannot know (versions, and
variables that a Secret, a ConfigMap or the image may set) and nobody else's. So a pod publishes for the workload that its spec
asks for, in its own domain, for a processor that this node can have. What it puts in there nobody can judge: whoever may create
pods of an admitted account writes what its domain runs.

Following a command costs time by its length, and whoever may create pods chooses that. So one that is longer than `MOST_STARTED`
is not followed at all, and of what is said of a claim each value is cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.documents.fingerprint import GUARDS, Fact
from glowplug.core.printable import one_line
from glowplug.fingerprint.hardware import Hardware
from glowplug.fingerprint.software import Software
from glowplug.host import writable
from glowplug.manifests import images, podspec
from glowplug.starts import inferring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.agent.pods import Pod
    from glowplug.agent.settings import Settings
    from glowplug.core.documents.fingerprint import Key
    from glowplug.core.documents.node import OutboxPart
    from glowplug.manifests.podspec import Asked

MOST_STARTED: Final = 64 << 10
"""Characters of commands, arguments and variables of all containers of a pod. Engines' take a few thousand; so many are followed
within about half a second, and the time grows faster than they do."""
_TOO_LONG: Final = (
    f"its containers' commands, arguments and variables have more than {MOST_STARTED} characters: none is followed"
)
_NOT_KEPT: Final = "its specification is larger than what the agent keeps of a pod, or of all pods of a node together"
_ROOT: Final = "GLOWPLUG_CACHE_ROOT"
_VERSION: Final = re.compile(r"\d[A-Za-z0-9.!+_-]{0,99}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLES: Final = 64
_LONGEST_VALUE: Final = 4096
_SHOWN: Final = 80
_LONGEST_DETAIL: Final = 400
_SIZES: Final = frozenset({"tp", "pp", "dp", "ep"})
_ORDER: Final = ("engine", "model", "layout", "args", "env")


@dataclass(frozen=True)
class Refusal:
    """Why a part is not published. `reason` is a word: `publisher`, `no_domain`, `claim:<field>`; `detail` is for people."""

    reason: str
    detail: str

    def __post_init__(self) -> None:
        """Whatever it was made of, it is one line of bounded length."""
        object.__setattr__(self, "detail", one_line(self.detail)[:_LONGEST_DETAIL])


def judge(part: OutboxPart, pod: Pod, settings: Settings, candidates: Sequence[str]) -> Refusal | None:
    """None where the pod may publish this part. `candidates` are the processors that this node's pods can have. Raises nothing.

    `claim:command` is the reason for a pod whose command cannot be followed from outside, or is too long for that: then nothing is
    known to compare with.
    """
    refusal = _stranger(pod, settings) or _impossible(part, pod, candidates)
    if refusal is not None:
        return refusal
    long = _too_long(pod)
    if long:
        return Refusal("claim:command", long)
    asked = podspec.engines(pod.object)
    if not asked:
        return Refusal("claim:command", "no container of the pod is an engine")
    refusals = [_differs(part, pod, one) for one in asked]
    return None if None in refusals else refusals[0]


def image_digest(pod: Pod, container: str) -> str:
    """The digest of a container's image as the container runtime has it, "" while it does not say."""
    for status in _items(_at(pod.object, "status", "containerStatuses")):
        if status.get("name") == container:
            found = _DIGEST.search(str(status.get("imageID", "")))
            return found.group() if found else ""
    return ""


def _too_long(pod: Pod) -> str:
    """Why what a pod starts is not followed because of its size, "" where it is."""
    if not _at(pod.object, "spec"):
        return _NOT_KEPT
    return _TOO_LONG if sum(map(_length, _items(_at(pod.object, "spec", "containers")))) > MOST_STARTED else ""


def _length(container: Mapping[str, Any]) -> int:
    """Characters of what a container starts; a word counts one more, as each costs something."""
    lists = [value for name in ("command", "args") if isinstance(value := container.get(name), list | tuple)]
    words = [word for words in lists for word in words if isinstance(word, str)]
    variables = _items(container.get("env"))
    words += [one[name] for one in variables for name in ("name", "value") if isinstance(one.get(name), str)]
    return sum(map(len, words)) + len(words)


def _stranger(pod: Pod, settings: Settings) -> Refusal | None:
    if settings.read_only or settings.observe:
        return Refusal("publisher", "this agent publishes nothing")
    if not settings.publishes_for(pod.namespace, pod.account):
        return Refusal("publisher", f"--publish-from does not name {pod.namespace}/{pod.account}")
    if not pod.domain or (settings.domains and pod.domain not in settings.domains):
        return Refusal("no_domain", f"this agent does not keep the domain {_quoted(pod.domain)}")
    return None


def _impossible(part: OutboxPart, pod: Pod, candidates: Sequence[str]) -> Refusal | None:
    """What no pod of this node and this namespace can claim, whatever its command is."""
    key = part.key
    if key.domain != pod.domain:
        return _refused("domain", pod.domain, key.domain)
    machine = os.uname().machine
    if key.machine != machine:
        return _refused("machine", machine, key.machine)
    if key.gpu not in candidates:
        return _refused("gpu", " or ".join(candidates) or "unknown here", key.gpu)
    for field, value in (("engine_version", key.engine_version), ("torch", key.torch)):
        if not _VERSION.fullmatch(value):
            return Refusal(f"claim:{field}", f"{_quoted(value)} is no version")
    strange = sorted(part.guards.keys() - set(GUARDS))
    if strange:
        return Refusal("claim:guards", f"{_quoted(strange[0])} is no guard")
    return None


def _differs(part: OutboxPart, pod: Pod, asked: Asked) -> Refusal | None:
    """What a part claims that this container does not ask for."""
    key = part.key
    if len(key.env) > _VARIABLES or not all(
        _NAME.fullmatch(name) and len(value) <= _LONGEST_VALUE for name, value in key.env.items()
    ):
        return Refusal("claim:env", "more variables than a start has, or longer ones")
    followed = inferring.follow(asked, assumed=key.env)
    if isinstance(followed, inferring.Unfollowed):
        return Refusal("claim:command", followed.why)
    if followed.launch.disabled:
        return Refusal("claim:disabled", followed.launch.disabled)
    if not _may_be_root(key.cache_root, asked):
        return _refused("cache_root", asked.environ.get(_ROOT, writable.DEFAULT), key.cache_root)
    image = images.read(asked.image)
    if image.engine == key.engine and image.version and image.version != key.engine_version.partition("+")[0]:
        return _refused("engine_version", image.version, key.engine_version)
    guard = part.guards.get("image_digest", "")
    if guard and guard != image_digest(pod, asked.container):
        return Refusal("claim:image_digest", "another image than the one that the container runtime has")
    return _other_key(key, followed)


def _other_key(key: Key, followed: inferring.Followed) -> Refusal | None:
    claimed = "inferred:claim"
    found = inferring.fingerprint(
        followed,
        domain=Fact(key.domain, claimed),
        cache_root=Fact(key.cache_root, claimed),
        software=Software({"engine_version": Fact(key.engine_version, claimed), "torch": Fact(key.torch, claimed)}),
        hardware=Hardware(
            Fact(key.gpu, claimed), Fact(key.machine, claimed), accelerated=not key.gpu.startswith("cpu:")
        ),
    )
    if found.key is None:
        return Refusal("claim:command", f"{found.unknown[0]} depends on what the API does not show")
    if found.key_digest == key.digest():
        return None
    names = found.key.differences(key)
    fields = {name: "layout" if name in _SIZES else name.partition(".")[0] for name in names}
    field = next((one for one in _ORDER if one in fields.values()), next(iter(fields.values()), "key"))
    asked, said = found.key.flat(), key.flat()
    name = next((one for one in names if fields[one] == field), "")
    return _refused(field, asked.get(name, "nothing"), said.get(name, "nothing"), name)


def _may_be_root(root: str, asked: Asked) -> bool:
    """Without a word of the pod: the default, or the user's own directory, which the launcher takes where it may not make that."""
    if _ROOT in asked.unknown:
        return False
    told = asked.environ.get(_ROOT, "")
    own = rf"{re.escape(writable.FALLBACK_PARENT)}/glowplug-\d+/compile-cache"
    return root == told if told else root == writable.DEFAULT or re.fullmatch(own, root, re.ASCII) is not None


def _refused(field: str, asked: str, claimed: str, name: str = "") -> Refusal:
    return Refusal(
        f"claim:{field}",
        f"{one_line(name or field)[:_SHOWN]}: the pod's is {_quoted(asked)}, claimed is {_quoted(claimed)}",
    )


def _quoted(text: str) -> str:
    shown = one_line(repr(text))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []
