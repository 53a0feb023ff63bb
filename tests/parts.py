"""The real parts that tests need and a machine may lack: one row a part, and the mark by which a test asks for it.

    pytestmark = requires("s3")

    @requires("engine", "s3")
    def test_…

A test whose part is lacking is skipped, with the command that would bring it. Where GLOWPLUG_TEST_REQUIRE names the part
(`engine,s3,browser`), being skipped is a failure instead: CI cannot turn green by losing a part (`conftest.py` sees to that).
What could be installed or built is such a loss. What the machine itself does not allow, whatever is installed on it, is none:
these tests skip where their part is required too, with the reason.
Every required part is also a pytest marker, so `-m "not engine"` leaves its tests out.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev import system

ENVIRONMENT = "GLOWPLUG_TEST_REQUIRE"
_BESIDE = Path(sys.executable).parent


@dataclass(frozen=True)
class Part:
    """`missing()` says in a few words what is not there, "" when the part can be used.

    `install` is the command that brings it where no system package does. `never()` says why nothing could bring it here, "" when
    something could; it asks before anything is installed.
    """

    name: str
    meaning: str
    missing: Callable[[], str]
    install: str
    never: Callable[[], str] = lambda: ""


def requires(*names: str) -> pytest.MarkDecorator:
    """The mark for a test, class or module (`pytestmark`) that needs these parts. Raises KeyError for an unknown one."""
    for name in names:
        PARTS[name]
    return pytest.mark.requires(*names)


@functools.cache
def lacking(name: str) -> str:
    """Why the part cannot be used here, with the command that would change that; "" when it can."""
    part = PARTS[name]
    if impossible(name):
        return f"{name}: never on this machine: {impossible(name)}"
    missing = part.missing()
    if not missing:
        return ""
    command = system.install_command(system.lacking(name)) or part.install
    return f"{name}: {missing}" + (f"; install with: {command}" if command else "")


@functools.cache
def impossible(name: str) -> str:
    """Why nothing could bring the part to this machine; "" when something could."""
    return PARTS[name].never()


def required(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """The parts that must be there. Raises KeyError for a name that no part has: a typing error would require nothing."""
    names = frozenset(name.strip() for name in environ.get(ENVIRONMENT, "").split(",") if name.strip())
    for name in names:
        PARTS[name]
    return names


def tool(*names: str) -> str | None:
    """The path of the first of these commands, in `.venv` or on PATH."""
    search = os.pathsep.join([str(_BESIDE), os.environ.get("PATH", os.defpath)])
    return next((found for name in names if (found := shutil.which(name, path=search))), None)


def _lacks(what: str, *names: str) -> Callable[[], str]:
    return lambda: "" if tool(*names) else f"no {what}"


def _engine() -> str:
    from lab import engine

    if engine.find() is not None:
        return "; ".join(item.what + " is missing" for item in engine.missing())
    return "the engine environment is not built"


def _kube() -> str:
    from lab.kube import binaries, server

    unbuilt = [name for name in server.COMMANDS if binaries.find(name) is None]
    return binaries.missing() or (f"{', '.join(unbuilt)} not built" if unbuilt else "")


def _cluster() -> str:
    from lab import cluster

    unbuilt = cluster.unbuilt()
    return cluster.missing() or (f"{unbuilt} not built" if unbuilt else "")


def _never_a_cluster() -> str:
    from lab.cluster import ability

    return ability.missing()


def _root() -> str:
    return "" if os.geteuid() == 0 else "not root"


_ALL = (
    Part("s3", "a real S3 server (lab/s3.py)", _lacks("SeaweedFS", "weed"), "make environment"),
    Part("engine", "a real vLLM or torch (lab/engine.py)", _engine, "make engine"),
    Part("kube", "a real Kubernetes API server (lab/kube)", _kube, "make kube"),
    Part("cluster", "real Kubernetes nodes (lab/cluster)", _cluster, "make cluster", _never_a_cluster),
    Part("browser", "Chromium", _lacks("Chromium", *system.CHROMIUM_NAMES), ""),
    Part("ninja", "ninja, for build trees of FlashInfer's kind", _lacks("ninja", "ninja"), "make environment"),
    Part("root", "root: namespaces, other users, mounts", _root, "sudo make test"),
)
PARTS: Mapping[str, Part] = {part.name: part for part in _ALL}
