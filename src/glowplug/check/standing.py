"""How the agent of a node stands, as it writes it for whoever looks at the node: `<root>/.glowplug/agent.json`.

For people who are on the node and for `glowplug check node`; no pod sees it, and nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.core import atomic, canonical
from glowplug.core.errors import GlowplugError
from glowplug.nodestore import documents
from glowplug.tree import paths
from glowplug.tree.workspace import own_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA: Final = "glowplug.agent/1"
NAME: Final = "agent.json"
_MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Fault:
    """Why a domain lacks what it is to hold: the last failure of those that go on since `since` (RFC 3339, as `at`)."""

    code: str
    error: str
    since: str
    at: str


@dataclass(frozen=True)
class Standing:
    """`node` is its name, "" where that is not known. `faults` by trust domain; `strangers`: trust domains that the agent does not
    keep and of which pods are here, each with one of them (`namespace/name`)."""

    node: str = ""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    strangers: Mapping[str, str] = field(default_factory=dict)


def write(root: Path, standing: Standing) -> None:
    """Replace what was said before. Raises OSError."""
    faults = {
        domain: {"code": one.code, "error": one.error, "since": one.since, "at": one.at}
        for domain, one in standing.faults.items()
    }
    said = {"schema": SCHEMA, "node": standing.node, "faults": faults, "strangers": dict(standing.strangers)}
    atomic.write_bytes(own_directory(root) / NAME, canonical.encode(said), durable=False)


def read(root: Path) -> Standing | None:
    """What is said; None where no agent of this version has said anything that can be read. Raises nothing."""
    try:
        found = documents.parse_json(documents.read_bytes(root / paths.OWN / NAME, _MOST_BYTES), NAME)
    except (GlowplugError, OSError):
        return None
    if found.get("schema") != SCHEMA:
        return None
    faults = {domain: _fault(one) for domain, one in _mapping(found, "faults").items() if isinstance(one, dict)}
    strangers = {domain: str(pod) for domain, pod in _mapping(found, "strangers").items()}
    return Standing(str(found.get("node", "")), faults, strangers)


def _fault(said: Mapping[str, Any]) -> Fault:
    return Fault(*(str(said.get(name, "")) for name in ("code", "error", "since", "at")))


def _mapping(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}
