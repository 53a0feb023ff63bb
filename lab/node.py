"""A "new node": a machine that shares with the first one nothing but the store.

Compile caches hold absolute paths, so a new node is only a fair one when its empty cache root lies at the *same*
path as the old node's full one. Here every node of a `Site` sees the same paths (cache root, home, state, temporary
directory, /tmp), and behind each of them is a directory of its own. Several starts on one node share them, as pods
started one after another on a machine do.

Two ways, chosen by trying: a mount namespace (`lab/enter.py`; as root, or where the kernel allows user namespaces),
or, without the right to one, the directories of the node that was there before are moved away and this node's moved
in. In the second way only one node at a time may have running commands, and /tmp itself is shared; what obeys TMPDIR
is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lab.guarded import Guarded

CHECKOUT = Path(__file__).resolve().parent.parent
_ENTER = Path(__file__).resolve().with_name("enter.py")
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")


@cache
def can_enter() -> bool:
    """Whether this process may make mount namespaces."""
    with tempfile.TemporaryDirectory(prefix="glowplug-node-") as directory:
        task = {"root": directory, "places": {}, "keep": []}
        done = subprocess.run(
            [sys.executable, "-I", str(_ENTER), json.dumps(task)], capture_output=True, check=False, timeout=30
        )
    return done.returncode == 0


@dataclass(frozen=True)
class Site:
    """What all nodes of one experiment have in common: the paths, not what lies behind them.

    `base` holds the nodes' directories. `cache_root` is the path of the cache root as every node sees it; without
    mount namespaces it must be one that the caller may make. `keep` are paths inside places that stay visible;
    the checkout and this interpreter always do.
    """

    base: Path
    cache_root: Path = Path("/compile-cache")
    keep: tuple[Path, ...] = ()
    namespaces: bool = field(default_factory=can_enter)

    @property
    def home(self) -> Path:
        """$HOME as every node sees it."""
        return Path("/node/home") if self.namespaces else self.base / "here" / "home"

    @property
    def state(self) -> Path:
        """$XDG_STATE_HOME as every node sees it."""
        return Path("/node/state") if self.namespaces else self.base / "here" / "state"

    @property
    def tmp(self) -> Path:
        """$TMPDIR as every node sees it."""
        return Path("/tmp") if self.namespaces else self.base / "here" / "tmp"  # noqa: S108 - the node's own /tmp

    def node(self, name: str) -> Node:
        """The node of that name; new and empty when there was none."""
        node = Node(self, name)
        for directory in node.places().values():
            directory.mkdir(parents=True, exist_ok=True)
        (node.root / "root").mkdir(exist_ok=True)
        node.places()[self.tmp].chmod(0o1777)
        return node


@dataclass(frozen=True)
class Node:
    """One node of a site. Made by `Site.node`."""

    site: Site
    name: str

    @property
    def root(self) -> Path:
        """The directory, outside, that holds all this node has."""
        return self.site.base / "nodes" / self.name

    @property
    def cache(self) -> Path:
        """The cache root's content as seen from outside: to look at, to copy, to spoil."""
        inside = self.site.cache_root
        return self.root / "cache" if self.site.namespaces or not self._is_in_place() else inside

    def places(self) -> dict[Path, Path]:
        """Path inside → this node's own directory outside."""
        site = self.site
        return {
            site.cache_root: self.root / "cache",
            site.home: self.root / "home",
            site.state: self.root / "state",
            site.tmp: self.root / "tmp",
        }

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a command on this node: what a shell needs, this node's directories, and `extra`.

        Nothing else is inherited: a cache variable of the developer's own shell would lead out of the node.
        """
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        own = {
            "HOME": str(self.site.home),
            "XDG_STATE_HOME": str(self.site.state),
            "TMPDIR": str(self.site.tmp),
        }
        return inherited | own | dict(extra or {})

    def command(self, argv: Sequence[str]) -> list[str]:
        """`argv` such that it runs on this node; the process that it is started as becomes the command itself."""
        if not self.site.namespaces:
            return list(argv)
        keep = [CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), *self.site.keep]
        task = {
            "root": str(self.root / "root"),
            "places": {str(inside): str(outside) for inside, outside in self.places().items()},
            "keep": sorted({str(path) for path in keep if self._is_hidden(path)}),
        }
        return [sys.executable, "-I", str(_ENTER), json.dumps(task), *argv]

    def run(
        self, argv: Sequence[str], env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end with captured text output. Raises subprocess.TimeoutExpired."""
        self._move_in()
        return subprocess.run(
            self.command(argv), env=self.env(env), capture_output=True, text=True, check=False, timeout=timeout
        )

    def start(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, patience: float = 10.0
    ) -> Guarded:
        """Start a command that runs on; see `lab.guarded.Guarded`."""
        self._move_in()
        return Guarded(self.command(argv), env=self.env(env), log=log, patience=patience)

    def copy_cache_from(self, other: Node) -> None:
        """Replace this node's cache root by a copy of another's, as a tool would that copies faithfully.

        Modes and times are kept (nanoseconds too): mtimes are part of some artifacts.
        """
        target = self.cache
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(other.cache, target, symlinks=True)

    def discard(self) -> None:
        """Remove the node with all it has."""
        if not self.site.namespaces and self._is_in_place():
            for inside in self.places():
                shutil.rmtree(inside, ignore_errors=True)
            self._marker().unlink()
        shutil.rmtree(self.root, ignore_errors=True)

    def _is_hidden(self, path: Path) -> bool:
        return any(path.is_relative_to(inside) for inside in self.places())

    def _marker(self) -> Path:
        return self.site.base / "in-place"

    def _is_in_place(self) -> bool:
        marker = self._marker()
        return marker.exists() and marker.read_text() == self.name

    def _move_in(self) -> None:
        """Without namespaces: put this node's directories at the common paths, the former node's back to it."""
        if self.site.namespaces or self._is_in_place():
            return
        marker = self._marker()
        if marker.exists():
            former = Node(self.site, marker.read_text())
            for inside, outside in former.places().items():
                shutil.move(inside, outside)
            marker.unlink()
        for inside, outside in self.places().items():
            inside.parent.mkdir(parents=True, exist_ok=True)
            if inside.exists():
                raise FileExistsError(f"{inside} exists and belongs to no node")
            shutil.move(outside, inside)
        marker.write_text(self.name)
