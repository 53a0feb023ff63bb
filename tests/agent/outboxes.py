"""A node whose pods hand over what they compiled: outboxes by the launcher's own writer, trees as vLLM leaves them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from glowplug.agent import quarantine
from glowplug.agent.collecting import Collector
from glowplug.agent.damage import Damage
from glowplug.agent.outboxes import Bounds
from glowplug.agent.pods import Pod
from glowplug.agent.settings import Publisher, Settings
from glowplug.cache import layout as cache
from glowplug.cache import lookup
from glowplug.cache.format import Manifest, decode
from glowplug.cache.node import fetch
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, SUPPORT, OutboxPart
from glowplug.core.documents.start import (
    Compile,
    PublishOutcome,
    PublishResult,
    RestoreOutcome,
    RestoreResult,
    Start,
    Verdict,
)
from glowplug.core.errors import NotFoundError
from glowplug.nodestore import layout, write
from glowplug.nodestore.outbox import Outbox
from glowplug.store.contract import Store
from glowplug.store.retrying import Policy
from glowplug.store.schemes import open_store
from glowplug.tree.index import scan
from tests.agent import claiming
from tests.agent.listening import Later, Notes

ENTRY_NAME: Final = "torch_compile_cache/0123456789"
INDEX: Final = f"vllm/{ENTRY_NAME}/rank_0_0/backbone/vllm_compile_cache.py"
FACTORS: Final = f"vllm/{ENTRY_NAME}/rank_0_0/cache_key_factors.json"
DIGEST: Final = f"sha256:{'ab' * 32}"
START: Final = "50dd"
DOMAIN: Final = "team-a"


def claim(**key: Any) -> OutboxPart:
    """What the launcher of `pod()` claims, of the entry."""
    return replace(claiming.claim(**key), name=ENTRY_NAME, index=(INDEX,), observed={"ready_ms": 61_000})


def pod(number: int = 1, **more: Any) -> Pod:
    """A pod of the workload; its image has a digest as the runtime says it."""
    made = claiming.pod(**more)
    status = {"containerStatuses": [{"name": "vllm", "imageID": f"docker.io/vllm/vllm-openai@{DIGEST}"}]}
    return replace(made, uid=f"uid-{number}", name=f"vllm-{number}", object={**made.object, "status": status})


def tree(root: Path, salt: str = "", support: int = 3) -> Path:
    """A cache root as vLLM leaves it: one whole entry, and support."""
    files = {INDEX: f"index {salt}", f"vllm/{ENTRY_NAME}/rank_0_0/backbone/artifact": f"artifact {salt}" * 500}
    files |= {f"inductor/ab/kernel{number}.py": f"kernel {number}" * 200 for number in range(support)}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(10**18 + 7, 10**18 + 7))
    return root


def document(start_id: str = START, compile: Compile = Compile.MISS, **more: Any) -> Start:  # noqa: A002
    """A start that has its verdict and has handed everything over."""
    said = {
        "started_at": "2026-11-30T20:00:00.000Z",
        "verdict": Verdict(compile, 38.7, ""),
        "restore": RestoreResult(RestoreOutcome.NONE, "no_keys"),
        "publish": PublishResult(PublishOutcome.PUBLISHED, "outbox"),
        "ready_seconds": 61.0,
        **more,
    }
    return Start(start_id, "exec", **said)


@dataclass
class Pods:
    """As `watching.Pods` answers."""

    here: dict[str, Pod] = field(default_factory=dict)
    synced: threading.Event = field(default_factory=threading.Event)

    def get(self, uid: str) -> Pod | None:
        return self.here.get(uid)


@dataclass
class Keys:
    """What the node store is asked."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    def want(self, domain: str, key_digest: str, path: str, *, changed: bool = True) -> None:
        assert path.endswith(f"/{key_digest}.json")
        self.asked.append(("want" if changed else "want unchanged", key_digest))

    def suspect(self, domain: str, key_digest: str) -> None:
        self.asked.append(("suspect", key_digest))

    def used(self, domain: str, key_digest: str) -> None:
        self.asked.append(("used", key_digest))


class Node:
    """One node: its root, its pods, and its agent's collector."""

    def __init__(
        self,
        folder: Path,
        *pods: Pod,
        url: str = "",
        environ: Mapping[str, str] | None = None,
        bounds: Bounds | None = None,
        damage: Damage | None = None,
    ) -> None:
        self.root = folder / "glowplug"
        write.prepare(self.root, DOMAIN)
        self.folder = folder
        self.url = url or (folder / "bucket").as_uri()
        self.environ = environ or {}
        self.settings = Settings(
            self.root, "node-1", store=self.url, domains=(DOMAIN,), publishers=(Publisher(DOMAIN, "vllm"),)
        )
        self.pods, self.keys, self.clock, self.heard = Pods(), Keys(), Later(), Notes()
        self.pods.synced.set()
        self.candidates: Sequence[str] = claiming.CANDIDATES
        self.bounds = bounds or Bounds()
        self.damage = damage
        self.opened = 0
        for one in pods:
            self.run(one)
        self.collector = self.anew()

    def run(self, one: Pod) -> Path:
        """kubelet starts a pod: its outbox is there."""
        self.pods.here[one.uid] = one
        box = layout.outbox(self.root, one.uid)
        box.mkdir(exist_ok=True)
        return box

    def anew(self, **settings: Any) -> Collector:
        """The agent, started again (with other options)."""
        self.settings = replace(self.settings, **settings)
        self.collector = Collector(
            self.settings,
            self.pods,
            self.store,
            lambda: self.candidates,
            self.heard,
            self.keys,
            clock=self.clock,
            bounds=self.bounds,
            damage=self.damage,
        )
        return self.collector

    def store(self) -> Store:
        self.opened += 1
        return open_store(self.url, self.environ, policy=Policy(attempts=2))

    def round(self) -> Notes:
        self.collector.round(Deadline.after(120, self.clock))
        return self.heard

    def box(self, one: Pod) -> Path:
        return layout.outbox(self.root, one.uid)

    def hand_over(
        self,
        one: Pod,
        root: Path,
        *,
        start: Start | None = None,
        kinds: Sequence[str] = (SUPPORT, ENTRY),
        said: OutboxPart | None = None,
    ) -> Path:
        """What the watcher of a pod does after ready."""
        box, start, said = self.box(one), start or document(), said or claim()
        writer = Outbox(box)
        files = scan(root).files
        for kind in kinds:
            inside = kind == ENTRY
            part = said if inside else replace(said, kind=SUPPORT, name=f"{said.name}/support", of=said.name, index=())
            wanted = [item for path, item in files.items() if path.startswith(f"vllm/{ENTRY_NAME}/") == inside]
            writer.put_part(start.id, part, root, wanted, deadline=Deadline.after(120))
        writer.put_start(start)
        return box

    def manifest(self, key: Key | None = None) -> Manifest | None:
        path = cache.manifest_path(key or claim().key)
        try:
            return decode(self.store().get(path, Deadline.after(60)).data, path=path)
        except NotFoundError:
            return None

    def published(self) -> Manifest:
        found = self.manifest()
        assert found is not None
        return found

    def blobs(self) -> list[str]:
        return sorted(meta.path for meta in self.store().list(f"v1/{DOMAIN}/blobs/", Deadline.after(60)))

    def hold(self, key: Key | None = None) -> None:
        """What prewarm does when it is told that a key is wanted."""
        digest = (key or claim().key).digest()
        path = lookup.resolve(self.store(), DOMAIN, digest, Deadline.after(60)).path
        skip = quarantine.left_out(self.root)
        fetch(self.store(), path, DOMAIN, self.root, deadline=Deadline.after(60), skip=skip)

    def archives(self, one: Pod) -> list[str]:
        return sorted(path.name for path in self.box(one).glob("*.sealed"))

    def scratch(self) -> list[str]:
        """What lies in the agent's own scratch."""
        own = self.root / ".glowplug"
        return sorted(path.name for path in own.iterdir() if path.is_dir()) if own.exists() else []
