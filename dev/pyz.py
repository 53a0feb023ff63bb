"""Writes `build/glowplug.pyz`: the kernel as one archive that the engine's own Python runs, from the node store.

Whole packages go in, those of the contract in pyproject.toml that allows them the standard library alone, so that no second list
can differ from it. Beside the sources lies their bytecode for each Python of this machine that the kernel runs on; another Python
compiles the sources at each start, which takes it a third of a second. The same sources and Pythons give the same bytes.

The first two lines make a file of it that can be executed, and say the CRC-32 of the rest: by it `--probe` knows a damaged one.

    python -m dev.pyz [FILE]
"""

from __future__ import annotations

import io
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dev import pythons
from dev.bytecode import alone, compiled
from dev.written import replaced

ROOT = Path(__file__).resolve().parent.parent
FRONT = ROOT / "dev" / "front.py"
ENTRY = ROOT / "dev" / "entry.py"
TARGET = ROOT / "build" / "glowplug.pyz"
_SOURCE = ROOT / "src"
_CONTRACT = "the kernel uses the standard library only"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_HEAD = b"#!/usr/bin/env -S python3 -IS\n#%08x\n"
_UNCOMPILED = ("glowplug/catalog/", "glowplug/nodestore/inbox.py", "glowplug/nodestore/write.py")
"""What no start of an engine imports: the catalogue, and the agent's side of the node store."""
CODE = "code"
"""The folder in the archive with the bytecode of each Python, one file, and one more of what is run first."""


def kernel() -> tuple[str, ...]:
    """The packages below the line, as import-linter knows them (`glowplug.core`, …)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return tuple(next(one["source_modules"] for one in contracts if one["name"] == _CONTRACT))


def files(packages: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Each file of these packages and of those they lie in, under its name below `src`, sorted."""
    found = {_SOURCE / "glowplug" / "__init__.py"}
    for package in packages:
        found |= set(_SOURCE.joinpath(*package.split(".")).rglob("*"))
    for path in sorted(found):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(_SOURCE).as_posix(), path


def build(target: Path = TARGET, interpreters: Mapping[str, str] | None = None) -> Path:
    """Write the archive, replacing another; returns its path. `interpreters` as `pythons.find` gives them.

    Raises BytecodeError.
    """
    sources = {name: path.read_bytes() for name, path in files(kernel())}
    modules = modules_of(sources)
    members = {"__main__.py": FRONT.read_bytes(), "entry.py": ENTRY.read_bytes(), **sources}
    for name, python in (pythons.find() if interpreters is None else interpreters).items():
        members[f"{CODE}/entry-{name}"] = alone(python, ENTRY.read_bytes(), "entry.py")
        members[f"{CODE}/{name}"] = compiled(python, modules)
    with replaced(target) as beside:
        beside.write_bytes(sealed(_zipped(members)))
        beside.chmod(0o755)
    return target


def modules_of(sources: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """Those of the sources that bytecode is made of."""
    return {name: data for name, data in sources.items() if name.endswith(".py") and not name.startswith(_UNCOMPILED)}


def sealed(body: bytes) -> bytes:
    """An archive that was made for it, behind the head which says its sum."""
    return _HEAD % zlib.crc32(body) + body


def _zipped(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    buffer.write(sealed(b""))  # so that places in the archive count from the beginning of the file
    start = buffer.tell()
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, _EARLIEST)
            member.compress_type = zipfile.ZIP_STORED if name.startswith(f"{CODE}/cpython") else zipfile.ZIP_DEFLATED
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data)
    return buffer.getvalue()[start:]


def main(arguments: Sequence[str]) -> int:
    """Write it and say where it is and how large."""
    made = build(Path(arguments[0]) if arguments else TARGET)
    print(f"{made} {made.stat().st_size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
