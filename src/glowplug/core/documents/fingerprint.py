"""`glowplug.fingerprint/1`: under which facts a start compiles, and the key and guards made of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, Mapping, Optional

from glowplug.core import canonical
from glowplug.core.documents import codec

SCHEMA: Final = "glowplug.fingerprint/1"
KEY_VERSION: Final = 1
"""Part of every key digest. It changes when the meaning of a field changes; readers then try both for one release."""

GUARDS: Final = ("triton", "cuda", "python", "capability", "model_config_sha256", "image_digest")
"""Facts that are compared only where both sides know them."""


def conflicts(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the guards that both know and that differ, sorted."""
    return tuple(
        sorted(name for name in one.keys() & other.keys() if one[name] and other[name] and one[name] != other[name])
    )


@dataclass(frozen=True)
class Layout:
    """Parallel layout as configured: tensor, pipeline, data and expert parallel sizes."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1


@dataclass(frozen=True)
class Key:
    """What must be equal for artifacts to be useful and safe. `docs/cache-key.md` explains each field."""

    domain: str
    engine: str
    engine_version: str
    torch: str
    gpu: str
    machine: str
    layout: Layout
    model: str
    args: Mapping[str, str]
    env: Mapping[str, str]
    cache_root: str

    def digest(self) -> str:
        """64 hex digits: SHA-256 over the canonical JSON of the key and KEY_VERSION."""
        return canonical.digest({"key_version": KEY_VERSION, "key": codec.to_json(self)})

    def flat(self) -> dict[str, str]:
        """Each field by the name that reasons use: `tp`, `args.max_model_len`, `env.VLLM_USE_AOT_COMPILE`."""
        fields: dict[str, str] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Layout):
                fields.update({name: str(number) for name, number in dataclasses.asdict(value).items()})
            elif isinstance(value, str):
                fields[item.name] = value
            else:
                fields.update({f"{item.name}.{name}": text for name, text in sorted(value.items())})
        return fields

    def differences(self, other: Key) -> tuple[str, ...]:
        """Names of the fields (as in `flat`) in which two keys differ, sorted."""
        mine, theirs = self.flat(), other.flat()
        return tuple(sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)))


@dataclass(frozen=True)
class Fact:
    """A value and where it comes from: `observed:…` in the process, `inferred:…` from a spec or table, `given:…` by a caller."""

    value: Any
    source: str


@dataclass(frozen=True)
class Fingerprint:
    """All facts of a start. `key` is None where a field of it cannot be known: then nothing is restored or published."""

    fields: Mapping[str, Fact]
    guards: Mapping[str, str]
    key: Optional[Key]
    key_digest: Optional[str]
    unknown: tuple[str, ...] = ()
    schema: str = field(default=SCHEMA)
