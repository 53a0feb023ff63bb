"""Writes `build/glowplug.pyz`: the kernel as one archive that the engine's own Python runs, from the node store.

Whole packages go in, those of the contract in pyproject.toml that allows them the standard library alone, so that no second list
can differ from it. The same sources give the same bytes.

    python -m dev.pyz [FILE]
"""

from __future__ import annotations

import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from dev.written import replaced

ROOT = Path(__file__).resolve().parent.parent
ENTRY = ROOT / "dev" / "entry.py"
TARGET = ROOT / "build" / "glowplug.pyz"
_SOURCE = ROOT / "src"
_CONTRACT = "the kernel uses the standard library only"
_EARLIEST = (1980, 1, 1, 0, 0, 0)


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


def build(target: Path = TARGET) -> Path:
    """Write the archive, replacing another; returns its path."""
    with replaced(target) as beside, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in [("__main__.py", ENTRY), *files(kernel())]:
            member = zipfile.ZipInfo(name, _EARLIEST)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o100644 << 16
            archive.writestr(member, path.read_bytes())
    return target


def main(arguments: Sequence[str]) -> int:
    """Write it and say where it is and how large."""
    made = build(*map(Path, arguments[:1]))
    print(f"{made} {made.stat().st_size:,} bytes", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
