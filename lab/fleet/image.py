"""glowplug's image of this checkout, for this kind of machine, built once for all who want it (`build/cluster-image.tar`).

Half a minute of work, most of it packing; so it is kept for as long as nothing that it is made of changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from dev import image
from lab.cluster import images

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
_TARGET = image.ROOT / "build" / "cluster-image.tar"
_SOURCES = ("src/glowplug", "dev", "requirements", "lab/cluster/images.py")
_FILES = ("Dockerfile", "LICENSE", "pyproject.toml")


def archive() -> Path:
    """An OCI archive. Raises as `dev.image.build`."""
    _TARGET.parent.mkdir(exist_ok=True)
    stamp = _TARGET.with_suffix(".stamp")
    with _TARGET.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = _digest()
        if not (_TARGET.exists() and stamp.exists() and stamp.read_text() == wanted):
            image.build(_TARGET, architectures=(ARCHITECTURE,))
            stamp.write_text(wanted)
    return _TARGET


def _digest() -> str:
    """Of all that the image is made of."""
    digest = hashlib.sha256("\0".join(map(str, images.build())).encode())
    for path in sorted(_files()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(image.ROOT)} {content}\n".encode())
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    yield from (path for name in _FILES if (path := image.ROOT / name).is_file())
    for name in _SOURCES:
        top = image.ROOT / name
        found = [top] if top.is_file() else top.rglob("*")
        yield from (path for path in found if path.is_file() and "__pycache__" not in path.parts)
