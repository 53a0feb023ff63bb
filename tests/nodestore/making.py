"""A node store as an agent leaves it, for tests: keys and trees of the cache's tests, without a store in between."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, SUPPORT, HeldPart, NodeKey
from glowplug.nodestore import write
from glowplug.nodestore.write import Unpacked
from glowplug.tree.index import scan
from glowplug.tree.model import File

DOMAIN = "default"


def hold(
    root: Path,
    key: Key,
    tree: Path,
    *names: str,
    guards: Mapping[str, str] | None = None,
    created: str = "2026-11-01T00:00:00.000Z",
    blocked: str = "",
) -> NodeKey:
    """Let the node hold the entries `names` (default: `e1`) of a tree of `making.tree`, each with its support."""
    said = NodeKey(key, key.digest(), blocked=blocked)
    trees: dict[str, Unpacked] = {}
    with write.staging(root, key.domain) as work:
        for name in names or ("e1",):
            for kind, folder in ((ENTRY, "vllm"), (SUPPORT, "inductor")):
                part, unpacked = _part(kind, name, tree / folder / name, f"{folder}/{name}", work)
                part = dataclasses.replace(part, guards=dict(guards or {}), created=created)
                said = dataclasses.replace(said, parts=(*said.parts, part))
                trees[part.sha256] = unpacked
        return write.add(root, key.domain, said, trees)


def _part(kind: str, name: str, source: Path, prefix: str, work: Path) -> tuple[HeldPart, Unpacked]:
    files = tuple(scan(source).files.values())
    sha256 = hashlib.sha256(repr((kind, name, files)).encode()).hexdigest()
    shutil.copytree(source, work / sha256 / prefix)
    below = tuple(scan(work / sha256).files.values())
    part = HeldPart(
        kind=kind,
        name=name if kind == ENTRY else f"{name}/support",
        of="" if kind == ENTRY else name,
        sha256=sha256,
        size=1000,
        unpacked_bytes=sum(item.size for item in below),
        files=len(below),
        observed={"compile_ms": 38700} if kind == ENTRY else {},
        index=(f"{prefix}/model",) if kind == ENTRY else (),
    )
    return part, Unpacked(work / sha256, tuple(_travelling(item) for item in below))


def _travelling(item: File) -> File:
    """As an archive's table has it."""
    return dataclasses.replace(item, mode=item.mode & 0o5 | 0o660)


def mount(root: Path) -> Path:
    """What a pod has mounted of it."""
    return root / "store" / DOMAIN


__all__ = ["DOMAIN", "hold", "mount", "write"]
