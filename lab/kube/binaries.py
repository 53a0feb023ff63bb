"""Kubernetes' own commands and etcd, built by Go from the modules that `go.mod` and `go.sum` pin.

No distribution packages them in one version, and a download of finished ones would be a second thing to trust: the checksums
in `go.sum` already hold every source. The modules are downloaded once, and each command is a product of its own beside
them in the cache directory, so that one more command costs that command alone. Go's compile cache lies there too; it is
what makes the second command quick, and Go forgets by itself what was not used for days.

Nothing is written to the module cache in the home directory, whose files Go makes unwritable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import cachedir

KUBERNETES = "v1.36.3"
_MODULE = Path(__file__).resolve().parent
_RECIPE = "1"
"""Raised when the way of building changes in a way that neither `go.mod` nor the flags show."""
_SPACE_BYTES = 6 * 10**9
_GO = {
    "GOFLAGS": "-mod=readonly -modcacherw -trimpath -buildvcs=false",
    "GOTOOLCHAIN": "local",
    "GOWORK": "off",
    "CGO_ENABLED": "0",
}
_HINT = "install Go 1.26 or later from go.dev, so that `go` is on PATH"


@dataclass(frozen=True)
class Command:
    """A command that can be built: the name of its executable, its Go package, and further linker flags."""

    name: str
    package: str
    ldflags: tuple[str, ...] = ()


def _kubernetes(name: str) -> Command:
    """Kubernetes learns its version from the linker; without one it calls itself v0.0.0 and refuses its peers."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    stated = {"gitVersion": KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    flags = tuple(f"-X {version}.{variable}={value}" for variable, value in stated.items())
    return Command(name, f"k8s.io/kubernetes/cmd/{name}", flags)


_ALL = (
    Command("etcd", "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubelet"),
    _kubernetes("kube-proxy"),
    _kubernetes("kubectl"),
)
COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
"""What can be built. A new row needs its package among the `tool` lines of `go.mod`."""


class MissingError(RuntimeError):
    """The commands cannot be built on this machine as it is; the message says what would help."""


class BuildError(RuntimeError):
    """Go failed; the message is the end of what it printed."""


def missing() -> str:
    """What this machine lacks to build the commands, with what would help; "" when nothing."""
    if shutil.which("go") is None:
        return f"no Go; {_HINT}"
    # Go itself compares its version with the one that `go.mod` demands.
    asked = _ask("list", "-m")
    return "" if asked.returncode == 0 else f"{asked.stderr.strip()}; {_HINT}"


def find(name: str) -> Path | None:
    """The finished executable, or None when it has not been built here. Raises KeyError for an unknown command."""
    product = cachedir.find(name, _definition(COMMANDS[name]))
    return product / name if product else None


def build(names: Iterable[str]) -> dict[str, Path]:
    """The executables, those that are missing built now: minutes and 4 GB the first time.

    Raises MissingError with what would help, BuildError when Go fails, KeyError for an unknown command.
    """
    commands = [COMMANDS[name] for name in names]
    lacks = missing()
    if lacks:
        raise MissingError(lacks)
    return {command.name: _build(command) / command.name for command in commands}


def _build(command: Command) -> Path:
    def compile_into(beside: Path, _final: Path) -> None:
        modules = cachedir.get("go-modules", _pins(), _download)
        with cachedir.step(f"building {command.name} (minutes, once)"):
            _go(
                ["build", "-ldflags", _ldflags(command), "-o", str(beside / command.name), command.package],
                _environment(modules) | {"GOPROXY": "off"},
            )

    return cachedir.get(command.name, _definition(command), compile_into)


def _download(beside: Path, _final: Path) -> None:
    place = next(path for path in beside.parents if path.exists())
    if shutil.disk_usage(place).free < _SPACE_BYTES:
        raise MissingError(
            f"no room below {place} ({_SPACE_BYTES / 1e9:.0f} GB); export GLOWPLUG_LAB_CACHE=<elsewhere>"
        )
    with cachedir.step("downloading the Go modules of Kubernetes and etcd"):
        _go(["mod", "download"], _environment(beside))


def _environment(modules: Path) -> dict[str, str]:
    """What Go is told; where modules are downloaded from stays the machine's own affair."""
    return dict(os.environ) | _GO | {"GOMODCACHE": str(modules), "GOCACHE": str(cachedir.root() / "go-build")}


def _ldflags(command: Command) -> str:
    return " ".join(["-s", "-w", *command.ldflags])


def _pins() -> dict[str, str]:
    return {name: (_MODULE / name).read_text() for name in ("go.mod", "go.sum")}


def _definition(command: Command) -> dict[str, str]:
    stated = {"recipe": _RECIPE, "package": command.package, "ldflags": _ldflags(command), "go": _go_version()}
    return _pins() | _GO | stated


def _go_version() -> str:
    """As `go version` says it ("go1.26.8 linux amd64"), "" without Go."""
    return "" if shutil.which("go") is None else " ".join(_ask("env", "GOVERSION", "GOOS", "GOARCH").stdout.split())


def _ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    asked = ["go", *arguments]
    return subprocess.run(asked, cwd=_MODULE, env=dict(os.environ) | _GO, capture_output=True, text=True, check=False)


def _go(arguments: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        ["go", *arguments],
        cwd=_MODULE,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"go {arguments[0]}: {done.stderr.strip()[-2000:]}")
