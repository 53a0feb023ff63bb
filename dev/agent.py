"""Writes `build/agent/`: glowplug as its image has it, with what the agent needs, for the interpreter that runs this.

    bin/glowplug    the command
    lib/            glowplug, the packages of requirements/image.txt, and glowplug.pyz, which the agent puts on nodes

Everything has its bytecode, since the agent's root file system is read-only and it starts on each new node. Compiled packages fit
this interpreter's version only, on either kind of machine. Needs the standard library and pip alone, so that an image's build stage
needs no more either.

    python -m dev.agent [--machine amd64|arm64]
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dev import bytecode, client, pyz
from dev.written import replaced

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "image.txt"
TARGET = ROOT / "build" / "agent"
INSTALLED = "/opt/glowplug/agent"
"""Where it lies in the image, which tracebacks name."""
_COMMAND = f'#!/bin/sh\nexec python3 -I {INSTALLED}/lib "$@"\n'


def build(target: Path = TARGET, machine: str = platform.machine()) -> Path:
    """Write `target`, replacing what was there; returns it. Raises BytecodeError and ClientError."""
    machine = client.GO_NAMES.get(machine, machine)
    wheels = client.fetch(client.Interpreter(sys.version_info.minor, machine, "glibc"), locked())
    with replaced(target) as beside:
        library = beside / "lib"
        for wheel in wheels:
            client.unpack(wheel, library)
        source = ROOT / "src" / "glowplug"
        shutil.copytree(source, library / "glowplug", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(source / "__main__.py", library / "__main__.py")
        pyz.build(library / "glowplug.pyz")
        (library / ".glowplug.pyz.lock").unlink(missing_ok=True)
        bytecode.compile_tree(sys.executable, [library], library, f"{INSTALLED}/lib")
        command = beside / "bin" / "glowplug"
        command.parent.mkdir()
        command.write_text(_COMMAND)
        command.chmod(0o755)
    return target


def locked() -> list[str]:
    """The lines of the lock, each with its hashes."""
    return [line for line in LOCK.read_text("utf-8").replace("\\\n", " ").splitlines() if line and line[0] != "#"]


def main(arguments: Sequence[str]) -> int:
    """Write it and say where it is and how large."""
    parser = argparse.ArgumentParser(prog="python -m dev.agent", description="Write glowplug as its image has it.")
    choices = [*client.MACHINES, *client.GO_NAMES]
    parser.add_argument("--machine", choices=choices, default=platform.machine(), help="for this kind of machine")
    options = parser.parse_args(arguments)
    try:
        made = build(machine=options.machine)
    except (bytecode.BytecodeError, client.ClientError) as error:
        print(f"error: {error}\nhint: pip needs a package index; see `pip config list`", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    print(f"agent: {made} {size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
