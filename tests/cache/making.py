"""Small trees and keys, and the parts that a start would hand over; the same for tests and for the processes of races."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from glowplug.cache.bundle import NewPart
from glowplug.cache.format import ENTRY, SUPPORT
from glowplug.core.documents.fingerprint import Key, Layout
from glowplug.tree.index import scan


def key(**changes: Any) -> Key:
    """The key of the tests, with changes."""
    base = Key(
        domain="default",
        engine="vllm",
        engine_version="0.21.0",
        torch="2.11.0",
        gpu="NVIDIA H100 80GB HBM3",
        machine="x86_64",
        layout=Layout(tp=1),
        model="s3://bucket/model",
        args={"max_model_len": "8192"},
        env={"VLLM_USE_AOT_COMPILE": "1"},
        cache_root="/compile-cache",
    )
    return dataclasses.replace(base, **changes)


def tree(root: Path, name: str = "e1", *, salt: str = "", files: int = 4, size: int = 3000) -> Path:
    """Files of the entry `name` below `vllm/` and of its support below `inductor/`; `salt` makes other bytes."""
    for number in range(files):
        for place in (root / "vllm" / name / f"graph{number}", root / "inductor" / name / f"kernel{number}"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(f"{name} {salt} {number} {place.parent.name}".encode() + b"#" * size)
            os.utime(place, ns=(10**18 + number, 10**18 + number))
    (root / "vllm" / name / "model").write_bytes(f"index of {name} {salt}".encode())
    return root


def parts(root: Path, name: str = "e1") -> list[NewPart]:
    """The entry and its support, as a start finds them."""
    files = scan(root).files
    entry = tuple(item for path, item in files.items() if path.startswith(f"vllm/{name}/"))
    support = tuple(item for path, item in files.items() if path.startswith(f"inductor/{name}/"))
    return [
        NewPart(ENTRY, name, root, entry, index=(f"vllm/{name}/model",), observed={"compile_ms": 38700}),
        NewPart(SUPPORT, f"{name}/support", root, support, of=name),
    ]


def snapshot(root: Path) -> dict[str, str]:
    """Path → digest of everything below a cache root but glowplug's own directory."""
    return {path: item.sha256 for path, item in scan(root).files.items()}
