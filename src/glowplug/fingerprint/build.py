"""A launch and its surroundings → fingerprint: every value with its source, and the key, if all of it is known.

One function for every party: `run`, `fingerprint` and the pod's launcher call it with what they can see, so the same
start has the same key digest wherever it is seen. A field that cannot be known is never filled in: the key is then
None and the field is named in `unknown`.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core import redact
from glowplug.core.documents.fingerprint import GUARDS, Fact, Fingerprint, Key
from glowplug.fingerprint import hardware as hardware_module
from glowplug.fingerprint import software as software_module

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.engines.adapter import Adapter, Invocation, Launch
    from glowplug.fingerprint.hardware import Hardware
    from glowplug.fingerprint.software import Software

_COMMAND: Final = "observed:command"
_ENVIRONMENT: Final = "observed:environment"
_LARGEST_CONFIG: Final = 8 << 20


def fingerprint(
    invocation: Invocation,
    launch: Launch,
    adapter: Adapter,
    *,
    domain: str,
    cache_root: str,
    environ: Optional[Mapping[str, str]] = None,
    software: Optional[Software] = None,
    hardware: Optional[Hardware] = None,
    model_config_sha256: Optional[str] = None,
    image_digest: Optional[str] = None,
) -> Fingerprint:
    """The fingerprint of a start on this machine.

    `environ`: the engine's environment, by default the invocation's. `software`, `hardware`: what is known of another
    machine; by default this one is looked at. `model_config_sha256` and `image_digest` are guards that only the
    caller can know (a config.json in a store; one in a local directory is read here, unless the digest is "": then the
    model's path means another machine's). Raises nothing.
    """
    variables = invocation.environ if environ is None else environ
    software = software or software_module.look(invocation.argv, variables, adapter.distributions)
    hardware = hardware or hardware_module.look(variables, cpu_build=software.cpu)
    facts = _facts(launch, software, hardware)
    facts["domain"] = Fact(domain, "given:domain")
    facts["cache_root"] = Fact(cache_root, "given:cache_root")
    version = facts["engine_version"].value if "engine_version" in facts else ""
    facts["args"] = Fact(_shown(launch.args), _COMMAND)
    own = adapter.place(cache_root, launch, variables, engine_version=version, gpu=hardware.accelerated).variables
    # What a user spells out exactly as glowplug would set it is no difference.
    env = {name: value for name, value in launch.env.items() if own.get(name) != value}
    facts["env"] = Fact(_shown(env), _ENVIRONMENT)
    guards = _guards(facts, launch, model_config_sha256, image_digest)
    facts.update({name: fact for name, fact in guards.items() if name not in facts})
    facts["other_args"] = Fact(_shown(launch.other_args), _COMMAND)
    facts["other_env"] = Fact(_shown(launch.other_env), _ENVIRONMENT)
    key, unknown = _key(facts, launch)
    return Fingerprint(
        fields=facts,
        guards={name: str(fact.value) for name, fact in guards.items()},
        key=key,
        key_digest=key.digest() if key else None,
        unknown=unknown,
    )


def _facts(launch: Launch, software: Software, hardware: Hardware) -> dict[str, Fact]:
    facts = {name: Fact(_text(str(fact.value)), fact.source) for name, fact in software.facts.items()}
    facts["engine"] = Fact(launch.engine, _COMMAND)
    facts["machine"] = hardware.machine
    if launch.engine == "torch" and "torch" in facts:
        facts["engine_version"] = facts["torch"]
    if hardware.gpu is not None:
        facts["gpu"] = Fact(_text(str(hardware.gpu.value)), hardware.gpu.source)
    if hardware.capability:
        facts["capability"] = Fact(hardware.capability, "observed:nvml")
    if launch.model:
        facts["model"] = Fact(_text(redact.value("model", launch.model)), _COMMAND)
    for name in ("tp", "pp", "dp", "ep"):
        facts[name] = Fact(getattr(launch.layout, name), _COMMAND)
    return facts


def _guards(
    facts: Mapping[str, Fact], launch: Launch, model_config_sha256: Optional[str], image_digest: Optional[str]
) -> dict[str, Fact]:
    found = {name: facts[name] for name in GUARDS if name in facts}
    if model_config_sha256:
        found["model_config_sha256"] = Fact(model_config_sha256, "given:model_config_sha256")
    elif model_config_sha256 is None:
        digest = local_config_sha256(launch.model)
        if digest:
            found["model_config_sha256"] = Fact(digest, f"observed:{launch.model}/config.json")
    if image_digest:
        found["image_digest"] = Fact(image_digest, "given:image_digest")
    return found


def local_config_sha256(model: str) -> str:
    """Digest of `config.json` in a local model directory, "" where there is none."""
    if not model or "://" in model:
        return ""
    path = Path(model) / "config.json"
    try:
        if not os.path.isfile(path) or path.stat().st_size > _LARGEST_CONFIG:  # noqa: PTH113
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


def _shown(values: Mapping[str, str]) -> dict[str, str]:
    return {_text(name): _text(redact.value(name, value)) for name, value in sorted(values.items())}


def _text(value: str) -> str:
    """Text that is Unicode: bytes of an argument that are not UTF-8 are written as escapes, so that they can be
    digested.
    """
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") if _strange(value) else value


def _strange(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value)


def _key(facts: Mapping[str, Fact], launch: Launch) -> tuple[Optional[Key], tuple[str, ...]]:
    needed = ("domain", "engine", "engine_version", "torch", "gpu", "machine", "model", "cache_root")
    unknown = tuple(name for name in needed if name not in facts or not facts[name].value)
    if unknown:
        return None, unknown
    fields = {name: str(facts[name].value) for name in needed}
    return Key(layout=launch.layout, args=facts["args"].value, env=facts["env"].value, **fields), ()
