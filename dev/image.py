"""Writes glowplug's images as OCI archives from the stages of the Dockerfile, without Docker.

What `docker build` would take from earlier stages is made here by the same commands: the client by `dev/client.py`, the agent by
`dev/agent.py`, shell and `cp` by Go (`dev/box`). What it would take from a registry, the base with Python, is the laboratory's:
this machine's own interpreter and commands (`lab/cluster/images.py`), so that image is for this kind of machine only. Neither
Docker nor a registry is needed, so tests can run the images' real content in real pods.

    python -m dev.image [--target client] [--machine amd64|arm64] [--name NAME] [FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dev import agent, bytecode, client, dockerfile, oci
from lab.cluster import images as lab_images

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "glowplug-image.tar"
CLIENT_TARGET = ROOT / "build" / "glowplug-client-image.tar"
CLIENT = "client"
"""The stage without a base, which can be made for any kind of machine."""
ARCHITECTURES = ("amd64", "arm64")
_BOX = ROOT / "dev" / "box"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_HERE = {machine: architecture for architecture, machine in _MACHINES.items()}.get(platform.machine(), "")
FAULTS = (
    client.ClientError,
    bytecode.BytecodeError,
    dockerfile.DockerfileError,
    oci.BaseError,
    subprocess.CalledProcessError,
)


class ImageError(Exception):
    """The image cannot be built: Go, or a file that the Dockerfile names."""


def build(
    target: Path | None = None, *, stage: str = "", architectures: Sequence[str] | None = None, name: str = ""
) -> Path:
    """Write the archive of a stage (the last one), replacing another; returns its path. Raises ImageError and one of FAULTS."""
    wanted = dockerfile.stage((ROOT / "Dockerfile").read_text("utf-8"), stage)
    based = wanted.base != "scratch"
    if architectures is None:
        architectures = (_HERE,) if based else ARCHITECTURES
    if based and tuple(architectures) != (_HERE,):
        raise ImageError("without Docker only `--target client` can be for another kind of machine than this one")
    base = lab_images.base() if based else None
    target = target or (CLIENT_TARGET if stage == CLIENT else TARGET)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".image-") as beside:
        found = []
        for architecture in architectures:
            root = Path(beside, architecture, "root")
            root.mkdir(parents=True)
            fill(root, wanted.copies, _stages(architecture, Path(beside, architecture)))
            found.append(oci.Image(architecture, root, wanted.config, base))
        called = "glowplug-client" if stage == CLIENT else "glowplug"
        oci.write(target, name or f"{called}:{_version()}", found)
    return target


def fill(root: Path, copies: Sequence[dockerfile.Copy], stages: Mapping[str, Callable[[], Path]]) -> None:
    """Do the copies into `root`. A stage is made when it is first needed and gives the root of its files; "" is the checkout."""
    made: dict[str, Path] = {"": ROOT}
    for copy in copies:
        if copy.stage not in made:
            if copy.stage not in stages:
                raise ImageError(f"no stage of the Dockerfile that is known here is called {copy.stage}")
            made[copy.stage] = stages[copy.stage]()
        for source in copy.sources:
            _copy(made[copy.stage] / source.lstrip("/"), root / copy.target.lstrip("/"), copy.target.endswith("/"))


def _copy(source: Path, target: Path, into: bool) -> None:
    """As COPY does: of a directory the content, of a file the file, below the target where that ends with a slash."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, symlinks=True)
        return
    if not source.is_file():
        raise ImageError(f"{source} is not there")
    place = target / source.name if into else target
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, place)


def _stages(architecture: str, beside: Path) -> Mapping[str, Callable[[], Path]]:
    """The Dockerfile's earlier stages: directories with the same paths in them."""

    def box() -> Path:
        place = beside / "box"
        build_box(place / "out" / "box", architecture)
        return place

    def packed() -> Path:
        place = beside / "packed"
        client.build(place / "src" / "build" / "client", (_MACHINES[architecture],))
        if architecture == _HERE:  # its bytecode is this interpreter's, and no image for another machine has one here
            agent.build(place / "src" / "build" / "agent", _MACHINES[architecture])
        return place

    return {"box": box, "packed": packed}


def build_box(program: Path, architecture: str) -> None:
    """The shell and `cp`, as a static program. Raises ImageError with Go's words."""
    go = shutil.which("go")
    if go is None:
        raise ImageError("no Go: it builds the shell of the image (from go.dev, on PATH)")
    environ = os.environ | {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": architecture, "GOTOOLCHAIN": "local"}
    environ |= {"GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    command = [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(program.resolve()), "."]
    done = subprocess.run(command, cwd=_BOX, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise ImageError(f"go build: {done.stderr.strip()[-2000:]}")


def _version() -> str:
    text = (ROOT / "src" / "glowplug" / "__init__.py").read_text("utf-8")
    found = re.search(r'__version__ = "([^"]+)"', text)
    assert found
    return found[1]


def main(arguments: Sequence[str]) -> int:
    """Write the image and say where it is and how large."""
    parser = argparse.ArgumentParser(prog="python -m dev.image", description="Write glowplug's image without Docker.")
    parser.add_argument("--target", choices=[CLIENT], default="", help="the image of the client alone")
    parser.add_argument("--machine", choices=ARCHITECTURES, help="only for this kind of machine")
    parser.add_argument("--name", default="", help="how it is called  [default: glowplug:VERSION]")
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args(arguments)
    machines = (options.machine,) if options.machine else None
    try:
        made = build(options.file, stage=options.target, architectures=machines, name=options.name)
    except (ImageError, *FAULTS) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"image: {made} {made.stat().st_size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
