"""What a node's agent and the pods of that node tell each other: `node/1`, `node-key/1` and `outbox-part/1` of `glowplug.*`.

The first two are the agent's words in the read-only node store, the third is a pod's word in its outbox: only a claim, until the
agent has compared it with what the API says of that pod.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Mapping

from glowplug.core.documents.fingerprint import Key

NODE_SCHEMA: Final = "glowplug.node/1"
KEY_SCHEMA: Final = "glowplug.node-key/1"
PART_SCHEMA: Final = "glowplug.outbox-part/1"
READER: Final = 1
"""The newest form of these documents that this code understands; one with a larger `min_reader` is as good as absent."""

ENTRY: Final = "entry"
SUPPORT: Final = "support"


@dataclass(frozen=True)
class Node:
    """How a node's agent stands with one trust domain. `version` is the agent's own, `updated_at` RFC 3339 in UTC.

    `prefetching`: it is fetching what pods of this node are likely to need, so that waiting for it is worth while. `outbox`: what
    pods compiled is wanted; where it is not, they hand over the documents of their starts alone. `restore`: pods may take what is
    here; where they may not, `restore_reason` is the word why (`restore_off`, `min_version`).
    """

    version: str
    domain: str
    updated_at: str
    prefetching: bool = False
    outbox: bool = True
    min_reader: int = 1
    schema: str = field(default=NODE_SCHEMA)
    restore: bool = True
    restore_reason: str = ""


@dataclass(frozen=True)
class HeldPart:
    """One part of a key that lies unpacked on the node. Names as in the manifest; `of` names the entry of a support part.

    `table_sha256` is the digest of the part's `files.json`.
    """

    kind: str
    name: str
    of: str
    sha256: str
    size: int
    unpacked_bytes: int
    files: int
    guards: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, int] = field(default_factory=dict)
    index: tuple[str, ...] = ()
    created: str = ""
    table_sha256: str = ""


@dataclass(frozen=True)
class NodeKey:
    """What a node holds of one key. `blocked` is the reason why nothing of it is offered, "" where it is."""

    key: Key
    key_digest: str
    parts: tuple[HeldPart, ...] = ()
    blocked: str = ""
    min_reader: int = 1
    schema: str = field(default=KEY_SCHEMA)


@dataclass(frozen=True)
class OutboxPart:
    """What a pod says of a sealed archive in its outbox. `guards` are those known where the entry was compiled."""

    key: Key
    kind: str
    name: str
    of: str = ""
    index: tuple[str, ...] = ()
    guards: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, int] = field(default_factory=dict)
    min_reader: int = 1
    schema: str = field(default=PART_SCHEMA)
