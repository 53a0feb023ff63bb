"""The one directory outside the checkout that keeps what takes minutes to build.

Each product lies in a directory named by the digest of what defines it, so a changed definition is built anew and an
unchanged one never. It is built beside its place, under a lock, and renamed when it is whole: an interrupted build
leaves nothing that could be mistaken for a product, and of two builders one waits and then finds the work done.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_UNUSED_DAYS = 14
_HEARTBEAT_SECONDS = 15.0


def root(env: Mapping[str, str] = os.environ) -> Path:
    """$GLOWPLUG_LAB_CACHE, else $XDG_CACHE_HOME/glowplug-lab, else ~/.cache/glowplug-lab; not made by asking."""
    own = env.get("GLOWPLUG_LAB_CACHE")
    if own:
        return Path(own)
    base = env.get("XDG_CACHE_HOME")
    home = Path(env["HOME"]) if env.get("HOME") else Path.home()
    return (Path(base) if base else home / ".cache") / "glowplug-lab"


def place(kind: str, definition: Mapping[str, str], *, base: Path | None = None) -> Path:
    """Where the product of that kind and definition lies, whether it is there or not."""
    return (base or root()) / kind / _key(definition)


def find(kind: str, definition: Mapping[str, str], *, base: Path | None = None) -> Path | None:
    """The finished product, or None when it has not been built here."""
    product = place(kind, definition, base=base)
    return product if product.is_dir() else None


def get(
    kind: str, definition: Mapping[str, str], build: Callable[[Path, Path], None], *, base: Path | None = None
) -> Path:
    """The finished product, built now when it is missing.

    `build(beside, final)` fills the empty directory `beside`, which is then renamed to `final`; a product that holds
    its own absolute path writes `final`. Whatever it raises goes on to the caller, with nothing left behind.
    """
    product = place(kind, definition, base=base)
    product.parent.mkdir(parents=True, exist_ok=True)
    with _locked(product.with_name(product.name + ".lock"), f"another process is building {kind}"):
        if product.is_dir():
            return product
        beside = product.with_name(product.name + ".building")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        try:
            build(beside, product)
            beside.rename(product)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    _forget_unused(product)
    return product


def say(text: str) -> None:
    """One progress line on stderr."""
    sys.stderr.write(f"lab: {text}\n")  # in one piece: several threads, and processes, may have the terminal
    sys.stderr.flush()


@contextmanager
def step(text: str) -> Iterator[None]:
    """Say on stderr that a long step began, that it still runs, and how long it took."""
    began = time.monotonic()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            say(f"{text}: {time.monotonic() - began:.0f} s so far")

    say(f"{text} …")
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    say(f"{text}: done in {time.monotonic() - began:.0f} s")


def _key(definition: Mapping[str, str]) -> str:
    lines = [f"{name}\0{value}\0" for name, value in sorted(definition.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


@contextmanager
def _locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold the lock file; the kernel lets go of it when the holder ends, however it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with step(waiting):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.utime(descriptor)
        yield
    finally:
        os.close(descriptor)


def _forget_unused(product: Path) -> None:
    """After a build, remove products of the same kind that nobody asked for in two weeks: they are gigabytes each."""
    for lock in product.parent.glob("*.lock"):
        other = lock.with_suffix("")
        if other == product or time.time() - lock.stat().st_mtime < _UNUSED_DAYS * 86400:
            continue
        with _locked(lock, f"waiting to remove the unused {other}"):
            shutil.rmtree(other, ignore_errors=True)
            lock.unlink(missing_ok=True)
