"""A Telling that remembers what it was told, and the parts of an agent that tests put together themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glowplug.agent.pods import Pod
from glowplug.agent.prewarm import Prewarm, Source
from glowplug.agent.settings import Settings
from glowplug.cache.publish import publish
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.start import PublishResult, Start
from glowplug.core.errors import GlowplugError
from glowplug.nodestore import layout as nodes
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Store
from tests.cache import making

DOMAIN = "default"
GPU = "NVIDIA H100 80GB HBM3"
PROGRAM = b"the program"


@dataclass
class Heard:
    """What was told: (what, its arguments), in order."""

    told: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def _hear(self, what: str, *about: Any) -> None:
        with self._lock:
            self.told.append((what, about))

    def started(self, pod: Pod, start: Start) -> None:
        self._hear("started", pod.uid, start.id)

    def published(
        self, pod: Pod | None, domain: str, key: str, result: PublishResult, *, again: float | None = None
    ) -> None:
        self._hear("published", domain, key, result.outcome.value, result.reason)

    def damaged(self, domain: str, key: str, part: str) -> None:
        self._hear("damaged", domain, key, part)

    def refused(self, pod: Pod | None, uid: str, reason: str, detail: str) -> None:
        self._hear("refused", uid, reason, detail)

    def unkept(self, pod: Pod) -> None:
        self._hear("unkept", pod.uid, pod.domain)

    def lasting(self, domains: Sequence[str], error: BaseException, seconds: float) -> None:
        self._hear("lasting", tuple(domains), error.code if isinstance(error, GlowplugError) else "", seconds)

    def set_aside(self, pod: Pod, domain: str, key: str, detail: str) -> None:
        self._hear("set_aside", pod.uid, domain, key, detail)

    def fetched(self, domain: str, key: str, size: int, parts: int, seconds: float) -> None:
        self._hear("fetched", domain, key, parts)

    def removed(self, domain: str, key: str, reason: str) -> None:
        self._hear("removed", domain, key, reason)

    def prewarmed(self, domain: str, keys: int, size: int, seconds: float) -> None:
        self._hear("prewarmed", domain, keys)

    def held(self, size: int, keys: int, inodes: int) -> None:
        self._hear("held", keys)

    def filled(self, put: int, left: int, faults: int, size: int, seconds: float) -> None:
        self._hear("filled", put, left, faults, size)

    def nvme(self, *, backed: bool, where: str) -> None:
        self._hear("nvme", backed)

    def waiting(self, size: int, archives: int) -> None:
        self._hear("waiting", archives)

    def taint(self, outcome: str, seconds: float) -> None:
        self._hear("taint", outcome)

    def failed(self, what: str, error: BaseException) -> None:
        self._hear("failed", what, error.code if isinstance(error, GlowplugError) else type(error).__name__)

    def of(self, what: str) -> list[tuple[Any, ...]]:
        """What was told of this, in order."""
        with self._lock:
            return [about for name, about in self.told if name == what]

    def clear(self) -> None:
        with self._lock:
            self.told.clear()


def settings(root: Path, **changes: Any) -> Settings:
    """Of an agent with one domain and a store; `max_bytes` so that no disk is too full for it."""
    base: dict[str, Any] = {"node_name": "n1", "store": "memory://", "domains": (DOMAIN,), "max_bytes": 10**9}
    return Settings(root, **{**base, **changes})


def prewarm(
    told: Settings,
    heard: Heard,
    store: Store | Callable[[], Store],
    *,
    gpus: tuple[str, ...] = (GPU,),
    wishes: Callable[[], Any] = dict,
    **options: Any,
) -> Prewarm:
    """A Prewarm of parts that answer at once."""
    opened = store if callable(store) else lambda: store
    return Prewarm(told, heard, Source(opened, lambda: gpus, wishes, lambda: PROGRAM), **options)


def put(store: Store, tree: Path, key: Key, name: str = "e1", **of_tree: Any) -> Key:
    """Publish an entry with its support for a key, from a tree of its own."""
    root = making.tree(tree / key.digest()[:12] / name, name, **of_tree)
    done = publish(store, key, {}, making.parts(root, name), deadline=Deadline.after(120))
    assert done.reason == ""
    return key


def mount(root: Path, domain: str = DOMAIN) -> Path:
    return nodes.store(root, domain)


def entries(root: Path, key: Key) -> set[str] | None:
    """Names of the entries that the node holds of a key, None where it holds nothing."""
    found = NodeStore(mount(root, key.domain)).held(key.digest())
    return None if found is None else {part.name for part in found.entries()}


def waits(root: Path, domain: str = DOMAIN) -> bool:
    """Whether a pod that finds nothing would wait for this node's agent."""
    store = NodeStore(mount(root, domain))
    node = store.node()
    return not store.ready() and (node is None or node.prefetching)
