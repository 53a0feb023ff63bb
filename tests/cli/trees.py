"""Cache trees like those of real engines: the paths that a real vLLM left (lab/recordings) with bytes made up here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lab import recordings

MOMENT = 10**18
FLAT: dict[str, Any] = {
    "domain": "default",
    "engine": "vllm",
    "engine_version": "0.32.0",
    "torch": "2.13.0",
    "gpu": "NVIDIA H100 80GB HBM3",
    "tp": 1,
    "model": "s3://models/tiny",
    "cache_root": "/compile-cache",
    "machine": "x86_64",
    "triton": "3.6.0",
}
TORCH = {**FLAT, "engine": "torch", "engine_version": "2.13.0", "model": "serve.py", "cache_root": "/compile-cache"}


def vllm(root: Path, name: str = "aot", start: str = "1-cold", *, salt: str = "") -> Path:
    """The tree after a recorded start."""
    for file in recordings.load(name, start).after:
        _write(root / file.path, f"{salt}{file.path}".encode() if file.size else b"")
    return root


def torch(root: Path, *, salt: str = "") -> Path:
    """What a program with torch.compile leaves."""
    for path in (
        "inductor/fxgraph/ab/fabcdefgh/0123",
        "inductor/aotautograd/abcdefgh/0456",
        "inductor/cd/ccdefgh.py",
        "inductor/cd/ccdefgh.so",
        "triton/QWERTY/kernel.cubin",
    ):
        _write(root / path, f"{salt}{path}".encode())
    return root


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(MOMENT, MOMENT))


def snapshot(root: Path) -> dict[str, bytes]:
    """Path → bytes of everything below a directory but glowplug's own."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] != ".glowplug"
    }
