"""Writes `build/glowplug-image.tar`: glowplug's image as an OCI archive, from the Dockerfile's own last stage, without Docker.

What `docker build` would take from earlier stages is made here by the same commands: the client by `dev/client.py`, shell and `cp`
by Go (`dev/box`). Neither Docker nor a registry is needed, so tests can run the image's real content in real pods. By default it
is for both kinds of machine.

    python -m dev.image [--machine amd64|arm64] [--name NAME] [FILE]
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dev import client, dockerfile, oci

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "glowplug-image.tar"
ARCHITECTURES = ("amd64", "arm64")
_BOX = ROOT / "dev" / "box"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class ImageError(Exception):
    """The image cannot be built: Go, or a file that the Dockerfile names."""


def build(target: Path = TARGET, *, architectures: Sequence[str] = ARCHITECTURES, name: str = "") -> Path:
    """Write the archive, replacing another; returns its path. Raises ImageError, ClientError, DockerfileError."""
    stage = dockerfile.last_stage((ROOT / "Dockerfile").read_text("utf-8"))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".image-") as beside:
        images = []
        for architecture in architectures:
            root = Path(beside, architecture, "root")
            root.mkdir(parents=True)
            fill(root, stage.copies, _stages(architecture, Path(beside, architecture)))
            images.append(oci.Image(architecture, root, stage.config))
        oci.write(target, name or f"glowplug:{_version()}", images)
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

    def packed_client() -> Path:
        place = beside / "client"
        client.build(place / "src" / "build" / "client", (_MACHINES[architecture],))
        return place

    return {"box": box, "client": packed_client}


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
    parser.add_argument("--machine", choices=ARCHITECTURES, help="only for this kind of machine")
    parser.add_argument("--name", default="", help="how it is called  [default: glowplug:VERSION]")
    parser.add_argument("file", nargs="?", type=Path, default=TARGET)
    options = parser.parse_args(arguments)
    machines = (options.machine,) if options.machine else ARCHITECTURES
    try:
        made = build(options.file, architectures=machines, name=options.name)
    except (ImageError, client.ClientError, dockerfile.DockerfileError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"image: {made} {made.stat().st_size:,} bytes, for {' and '.join(machines)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
