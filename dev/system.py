"""System packages that parts of the tests need, and the one place that knows their names.

`tests/parts.py` quotes the command when a part is lacking; `dev/prepare.py` decides where it is run. Runs on any Python ≥ 3.11
without packages; started as `python -m dev.system PART…` it installs what those parts lack.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Need:
    """Something that a machine has or lacks, and the Debian/Ubuntu package that brings it ("" where none does)."""

    what: str
    package: str
    present: Callable[[], bool]


def _command(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _has_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").is_file()


def _go_builds_kubernetes() -> bool:
    """Go itself says whether it is as recent as the `go` line of that module demands."""
    if not shutil.which("go"):
        return False
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    module = Path(__file__).resolve().parent.parent / "lab" / "kube"
    return subprocess.run(["go", "list", "-m"], cwd=module, env=environment, capture_output=True).returncode == 0


_HEADERS = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
_COMPILER = Need("g++", "g++", _command("g++"))
_GO = Need("Go 1.26 or later (from go.dev, on PATH)", "", _go_builds_kubernetes)
_UNSHARE = Need("unshare", "util-linux", _command("unshare"))
_PYTHON_H = Need("Python.h", _HEADERS, _has_headers)
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

NEEDS: dict[str, tuple[Need, ...]] = {
    "engine": (_COMPILER, _PYTHON_H, _UNSHARE),
    "kube": (_GO,),
    "s3": (),
    "ninja": (),
    "browser": (Need("Chromium", "chromium", _command(*CHROMIUM_NAMES)),),
    "tools": (
        Need("zstd", "zstd", _command("zstd")),
        Need("curl", "curl", _command("curl")),
    ),
    "cluster": (
        Need("containerd", "containerd", _command("containerd")),
        Need("runc", "runc", _command("runc")),
        Need("CNI plugins", "containernetworking-plugins", lambda: Path("/usr/lib/cni/bridge").is_file()),
        Need("nft", "nftables", _command("nft")),
        Need("ip", "iproute2", _command("ip")),
        _UNSHARE,
        _GO,
    ),
    "root": (),
}
"""What each part needs from the machine; what is not listed comes from the lock of `.venv` or the engine environment."""


def lacking(*parts: str) -> tuple[Need, ...]:
    """What this machine lacks for these parts, each need once."""
    needs = dict.fromkeys(need for part in parts for need in NEEDS[part])
    return tuple(need for need in needs if not need.present())


def install_command(needs: Sequence[Need]) -> str:
    """The line a person would type, empty when no package would bring what is lacking."""
    packages = " ".join(need.package for need in needs if need.package)
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {packages}" if packages else ""


def install(parts: Sequence[str]) -> int:
    """Install by apt-get what these parts lack; 0 when everything is there afterwards."""
    lacks = lacking(*parts)
    needs = [need for need in lacks if need.package]
    if not needs:
        for need in lacks:
            print(f"error: {need.what} not found", file=sys.stderr)
        return 1 if lacks else 0
    command = install_command(needs)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"error: {', '.join(need.what for need in needs)} not found\nhint: {command}", file=sys.stderr)
        return 1
    print(f"set-up: {command}", file=sys.stderr, flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *(n.package for n in needs)]):
        subprocess.run(["apt-get", *step], env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    still = lacking(*parts)
    for need in still:
        print(f"error: {need.what} is still lacking after `{command}`", file=sys.stderr)
    return 1 if still else 0


if __name__ == "__main__":
    raise SystemExit(install(sys.argv[1:]))
