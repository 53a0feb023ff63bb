"""The pods of this node as the API knows them, those just gone too: whose outbox it is, and what they were told to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glowplug.kube.contract import Object


@dataclass(frozen=True)
class Pod:
    """One pod. `domain` is the trust domain that its namespace means; `object` what the API said of it last.

    `gone`: it is no more.
    """

    uid: str
    namespace: str
    name: str
    account: str
    domain: str
    object: Object
    gone: bool = False
