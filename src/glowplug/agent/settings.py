"""How an agent was told to work: the command line of `glowplug agent`, checked."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

RELIST_SECONDS: Final = 300.0
"""The store is not listed more often than this for what others published."""


class Mode(enum.StrEnum):
    """How the artifacts of this node reach its pods."""

    NODE = "node"
    SHARED = "shared"


@dataclass(frozen=True)
class Publisher:
    """For whose pods is published. `account` "" means every service account of the namespace."""

    namespace: str
    account: str = ""

    def admits(self, namespace: str, account: str) -> bool:
        """Whether a pod of this service account is one of them."""
        return namespace == self.namespace and self.account in ("", account)


@dataclass(frozen=True)
class Settings:
    """One agent. `store` is a URL, "" for none: nothing is fetched or published then, all else is done.

    `domains` are the trust domains whose bundles this node keeps. `shared_dir` is shared mode's live directory. `max_bytes` bounds
    the node store, None for a share of its disk. `host` and `port` are where metrics and health are served. `kept` is False where
    an instance store was demanded and there is none: nothing is kept then, but a startup taint is still released.
    """

    root: Path
    node_name: str
    mode: Mode = Mode.NODE
    store: str = ""
    domains: tuple[str, ...] = ()
    shared_dir: Path | None = None
    taint: str = ""
    prewarm_seconds: float = 300.0
    max_bytes: int | None = None
    publishers: tuple[Publisher, ...] = ()
    host: str = ""
    port: int = 9090
    read_only: bool = False
    observe: bool = False
    once: bool = False
    kept: bool = True
    relist_seconds: float = RELIST_SECONDS
    verify_key: Path | None = None

    def publishes_for(self, namespace: str, account: str) -> bool:
        """Whether what pods of this service account compiled is published."""
        return not (self.read_only or self.observe) and any(one.admits(namespace, account) for one in self.publishers)

    @property
    def fetches(self) -> bool:
        """Whether this agent brings anything onto its node."""
        return self.kept and bool(self.store) and not self.observe

    @staticmethod
    def domain_of(namespace: str, label: str) -> str:
        """The trust domain of a namespace: its label (`manifests/marks.py`), "" where it has none, else its name.

        Never what this agent happens to keep: the admission policy knows nothing of that, and would let the namespace's pods
        mount another store than the one that they publish for.
        """
        return label or namespace
