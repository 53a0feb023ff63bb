"""Writes `build/client/glowplug/`: what direct mode's init container copies into a pod, for `python3 -I …/glowplug run --exec`.

One directory serves every interpreter that an engine's image may have: glowplug itself once, and beside it the wheels of what it
needs, each unpacked into its own folder. `wheels.json` says which folders an interpreter uses. The wheels are those of
requirements/dev.txt, by hash; pip fetches them from wherever the machine is configured to ask, and build/wheels keeps them.
Needs the standard library and pip alone, so that an image's build stage needs no more either.

Beside the sources lies their bytecode for each Python of this machine that the client serves: a pod cannot keep any, since it
mounts the directory read-only. What is glowplug's is one file a Python, as in the archive (`code/`); wheels have
their `__pycache__`.

    python -m dev.client [--machine x86_64|aarch64|amd64|arm64]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dev import bytecode, pythons, pyz
from dev.written import replaced

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.txt"
TARGET = ROOT / "build" / "client"
INSTALLED = "/glowplug/client/glowplug"
"""Where it lies in a pod, which tracebacks name."""
_WHEELS = ROOT / "build" / "wheels"
MACHINES = ("x86_64", "aarch64")
GO_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}
_PYTHONS = (11, 12, 13, 14)
_TAGS = {
    "glibc": ("manylinux_2_28", "manylinux_2_26", "manylinux_2_24", "manylinux_2_17", "manylinux2014"),
    "musl": ("musllinux_1_2", "musllinux_1_1"),
}
PACKAGES = {"click": 99, "obstore": 99, "backports-zstd": 13, "typing-extensions": 12}
"""What the client imports beside the standard library, and the last Python 3 that needs it."""
ABOVE_THE_LINE = ("cache", "models", "store", "supervise")
"""glowplug's packages in it beside the kernel, and beside the commands of `cli` that are not in `_NOT_IN_PODS`."""
_NOT_IN_PODS = frozenset(
    (
        *("plan", "render", "inject", "lint", "rules", "startup", "check", "report", "completion"),
        *("agent", "release", "daemon", "fingerprint"),
        *("inputs", "kustomizations", "rewriting", "diffs", "warming", "collecting"),
    )
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Interpreter:
    """CPython 3.`minor` on a machine and a C library."""

    minor: int
    machine: str
    libc: str

    @property
    def name(self) -> str:
        """As `dev/entry.py` names itself in the pod."""
        return f"cpython-3.{self.minor}-{self.machine}-{self.libc}"


class ClientError(Exception):
    """The client cannot be built, and what pip or a wheel said."""


def interpreters(machines: Sequence[str] = MACHINES) -> list[Interpreter]:
    """All that the client serves, on these machines."""
    return [Interpreter(minor, machine, libc) for machine in machines for libc in _TAGS for minor in _PYTHONS]


def build(
    target: Path = TARGET, machines: Sequence[str] = MACHINES, compilers: Mapping[str, str] | None = None
) -> Path:
    """Write `target`/glowplug, replacing another client there; returns `target`. Raises ClientError and BytecodeError.

    `compilers` as `pythons.find` gives them.
    """
    served = interpreters(machines)
    with ThreadPoolExecutor(4) as threads:
        fetched = dict(zip(served, threads.map(fetch, served), strict=True))
    with replaced(target) as beside:
        place = beside / "glowplug"
        place.mkdir(parents=True)
        shutil.copyfile(pyz.ENTRY, place / "__main__.py")
        for name, source in sources():
            (place / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place / "lib" / name)
        for wheel in {path.name: path for paths in fetched.values() for path in paths}.values():
            unpack(wheel, place / _folder(wheel))
        table = {served.name: [_folder(wheel) for wheel in wheels] for served, wheels in fetched.items()}
        (place / "wheels.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
        _compile(place, served, table, pythons.find() if compilers is None else compilers)
    return target


def _compile(
    place: Path, served: Sequence[Interpreter], table: Mapping[str, Sequence[str]], compilers: Mapping[str, str]
) -> None:
    library = place / "lib"
    modules = pyz.modules_of({path.relative_to(library).as_posix(): path.read_bytes() for path in _files(library)})
    below = tuple(name.replace(".", "/") for name in pyz.kernel())
    kernel = {name: data for name, data in modules.items() if name.startswith(below) or name == "glowplug/__init__.py"}
    others = {name: data for name, data in modules.items() if name not in kernel}
    (place / pyz.CODE).mkdir()
    for name, python in compilers.items():
        of_this = [one for one in served if name.startswith(f"cpython-3{one.minor}-")]
        if of_this:
            (place / pyz.CODE / name).write_bytes(bytecode.compiled(python, kernel, others))
            folders = ["__main__.py", *sorted({folder for one in of_this for folder in table[one.name]})]
            bytecode.compile_tree(python, [place / folder for folder in folders], place, INSTALLED)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def sources() -> Iterator[tuple[str, Path]]:
    """glowplug's own files in the client, under their names below `lib`."""
    above = tuple(f"glowplug.{name}" for name in (*ABOVE_THE_LINE, "cli"))
    for name, path in pyz.files((*pyz.kernel(), *above)):
        _, layer, *below = PurePosixPath(name).parts
        if layer != "cli" or below[0].removesuffix(".py") not in _NOT_IN_PODS:
            yield name, path


def fetch(interpreter: Interpreter, wanted: Sequence[str] | None = None) -> list[Path]:
    """The wheels for one interpreter, sorted by name; from build/wheels where they are there. Raises ClientError.

    `wanted` are lines of requirements with hashes, of others than the client's own.
    """
    wanted = _locked(interpreter) if wanted is None else wanted
    text = "".join(f"{line}\n" for line in wanted)
    known = set(_HASH.findall(text))
    folder = _WHEELS / f"{interpreter.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        with replaced(folder) as beside:
            if not folder.is_dir():
                beside.mkdir()
                _download(interpreter, text, beside)
            else:  # another process had the lock
                folder.rename(beside)
    wheels = sorted(folder.glob("*.whl"))
    wrong = [path.name for path in wheels if hashlib.sha256(path.read_bytes()).hexdigest() not in known]
    if wrong or len(wheels) != len(wanted):
        raise ClientError(f"{folder} is not what the lock says; remove it")
    return wheels


def _locked(interpreter: Interpreter) -> list[str]:
    """The lines of the lock for this interpreter, without their markers: pip evaluates those for its own Python."""
    found = []
    for line in LOCK.read_text("utf-8").replace("\\\n", " ").splitlines():
        name = line.partition("==")[0].strip().lower().replace("_", "-")
        if interpreter.minor <= PACKAGES.get(name, 0):
            found.append(f"{line.partition(' ')[0]} {' '.join(f'--hash=sha256:{one}' for one in _HASH.findall(line))}")
    return found


def _download(interpreter: Interpreter, requirements: str, place: Path) -> None:
    _say(f"wheels for {interpreter.name}")
    listed = place / "requirements"
    listed.write_text(requirements)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "download"]
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", f"3.{interpreter.minor}", "--dest", str(place), "--requirement", str(listed)]
    for tag in _TAGS[interpreter.libc]:
        command += ["--platform", f"{tag}_{interpreter.machine}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    listed.unlink()
    if done.returncode:
        raise ClientError(f"no wheels for {interpreter.name}:\n{done.stderr.strip()[-2000:]}")


def _folder(wheel: Path) -> str:
    return f"wheels/{wheel.name.removesuffix('.whl')}"


def unpack(wheel: Path, place: Path) -> None:
    """A wheel's files, but for those that only type checkers read."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            if name.is_absolute() or ".." in name.parts:
                raise ClientError(f"{wheel.name} holds {member.filename!r}")
            if member.is_dir() or name.suffix == ".pyi" or name.name == "py.typed":
                continue
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(member))
            target.chmod(0o755 if (member.external_attr >> 16) & stat.S_IXUSR else 0o644)
    # A namespace that is no package loses to a package of that name in the engine's environment, wherever on the path.
    backports = place / "backports"
    if backports.is_dir():
        (backports / "__init__.py").touch()


def _say(text: str) -> None:
    print(f"client: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Write the client and say where it is and how large."""
    parser = argparse.ArgumentParser(prog="python -m dev.client", description="Write the client that pods carry.")
    parser.add_argument("--machine", choices=[*MACHINES, *GO_NAMES], help="only for this kind of machine")
    options = parser.parse_args(arguments)
    machines = MACHINES if options.machine is None else (GO_NAMES.get(options.machine, options.machine),)
    try:
        made = build(machines=machines)
    except bytecode.BytecodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ClientError as error:
        print(f"error: {error}\nhint: pip needs a package index; see `pip config list`", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
    _say(f"{made}/glowplug {size:,} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
