"""Versions of engine, torch, triton, CUDA and Python in the environment that a command line will run in.

Read from names: of the interpreter that argv[0] leads to, of its site-packages, of the `*.dist-info` folders there.
Nothing is imported and no Python is started (importing torch takes seconds, importlib.metadata 45 ms). Packages that
only a `.pth` file makes visible are not seen.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Optional

from glowplug.core.documents.fingerprint import Fact
from glowplug.engines.command import is_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_SHEBANG: Final = 4096
_EXEC_LINE: Final = re.compile(r"""'''exec' "?([^"\s]+)"? """)
_MINOR: Final = re.compile(r"python(\d+\.\d+)t?\Z")
_VERSION: Final = re.compile(r"\d+\.\d+(?:\.\d+)?")
_PACKAGE: Final = re.compile(r"(.+?)-(\d[^-]*?)(?:-py\d[\d.]*)?\.(?:dist|egg)-info\Z")
_BUILD_TAG: Final = re.compile(r"cu\d{2,4}|cpu|xpu|rocm[\d.]*|tpu")
_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CUDA_LINE: Final = re.compile(r"^cuda(?:\s*:[^=\n]*)?\s*=\s*(?:'([^'\n]*)'|\"([^\"\n]*)\"|(None))", re.MULTILINE)
_HIP_LINE: Final = re.compile(r"^hip(?:\s*:[^=\n]*)?\s*=\s*['\"]([^'\"\n]+)['\"]", re.MULTILINE)
_LARGEST_TEXT: Final = 1 << 20
_LINKS: Final = 16


@dataclass(frozen=True)
class Interpreter:
    """A Python as the engine will use it. `version` is exact where it could be found, else major and minor."""

    path: str
    version: str
    packages: tuple[str, ...]
    """Directories with packages, in the order in which Python looks."""


@dataclass(frozen=True)
class Software:
    """Facts by name: engine_version, torch, triton, cuda, python; absent where they cannot be known. `cpu`: a build
    for CPUs.
    """

    facts: Mapping[str, Fact]
    cpu: bool = False


def look(argv: Sequence[str], environ: Mapping[str, str], distributions: Sequence[str]) -> Software:
    """What is installed for this command line. `distributions`: names under which the engine may be installed, best
    first.
    """
    interpreter = find_interpreter(argv, environ)
    if interpreter is None:
        return Software({})
    facts: dict[str, Fact] = {}
    if interpreter.version:
        facts["python"] = Fact(interpreter.version, f"observed:{interpreter.path}")
    installed = _installed(interpreter.packages)
    engine, engine_local = _engine(installed, distributions, facts)
    torch_local = ""
    if "torch" in installed:
        version, place = installed["torch"]
        public, _, torch_local = version.partition("+")
        facts["torch"] = Fact(public, f"observed:{place}")
        facts.update(_cuda(Path(place).parent, torch_local, installed))
    for name in ("triton", "pytorch-triton", "triton-rocm", "pytorch-triton-rocm"):
        if name in installed and "triton" not in facts:
            facts["triton"] = Fact(installed[name][0], f"observed:{installed[name][1]}")
    return Software(facts, cpu=engine.endswith("-cpu") or "cpu" in (engine_local, torch_local))


def _engine(
    installed: Mapping[str, tuple[str, str]], distributions: Sequence[str], facts: dict[str, Fact]
) -> tuple[str, str]:
    for name in distributions:
        if name in installed:
            version, place = installed[name]
            public, _, local = version.partition("+")
            # `+cu129` names a build of one version; `+g1a2b3c` names another code.
            facts["engine_version"] = Fact(public if _BUILD_TAG.fullmatch(local) else version, f"observed:{place}")
            return name, local
    return "", ""


def find_interpreter(argv: Sequence[str], environ: Mapping[str, str]) -> Optional[Interpreter]:
    """The Python that a command line runs in: argv[0] itself, or the one that its first line names. Raises
    nothing.
    """
    path = _program(argv[0], environ) if argv else ""
    for _ in range(_LINKS):
        if not path:
            return None
        if is_python(path) and not _is_script(path):
            with contextlib.suppress(OSError, ValueError):
                return _described(path, environ)
            return None
        path = _named_in_first_line(path, environ)
    return None


def _is_script(path: str) -> bool:
    """Whether a file of a Python's name is a script all the same (the shims of version managers are)."""
    try:
        with Path(path).open("rb") as handle:
            return handle.read(2) == b"#!"
    except (OSError, ValueError):
        return False


def _program(word: str, environ: Mapping[str, str]) -> str:
    if "/" in word:
        return word if os.path.isabs(word) else os.path.abspath(word)  # noqa: PTH100, PTH117 - symlinks stay as they are
    for directory in environ.get("PATH", _DEFAULT_PATH).split(":"):
        candidate = f"{directory or '.'}/{word}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113
            return os.path.abspath(candidate)  # noqa: PTH100
    return ""


def _named_in_first_line(path: str, environ: Mapping[str, str]) -> str:
    try:
        with Path(path).open("rb") as handle:
            head = handle.read(_SHEBANG)
    except (OSError, ValueError):
        return ""
    if not head.startswith(b"#!"):
        return ""
    first, _, rest = head.decode("utf-8", "surrogateescape").partition("\n")
    words = first[2:].split()
    if not words:
        return ""
    base = words[0].rpartition("/")[2]
    if base == "env":
        following = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return _program(following[0], environ) if following else ""
    if base == "sh":
        # Installers write this where the path of the interpreter is too long for a first line.
        match = _EXEC_LINE.match(rest)
        return match.group(1) if match else ""
    return words[0]


def _described(path: str, environ: Mapping[str, str]) -> Optional[Interpreter]:
    config, prefix = _virtual_environment(path)
    real = os.path.realpath(path)
    base = Path(real).parent.parent
    version = _VERSION.match(config.get("version_info", config.get("version", "")))
    configured = version.group() if version else ""
    minor = _minor(configured, real, prefix or base)
    if not minor:
        return None
    # The binary first: pyvenv.cfg keeps the patch version of the day the environment was made.
    exact = _exact(real, base, minor) or configured or minor
    paths = [item for item in environ.get("PYTHONPATH", "").split(":") if item]
    if prefix is not None:
        paths += _site(prefix, minor)
    if prefix is None or config.get("include-system-site-packages", "").lower() == "true":
        if "PYTHONNOUSERSITE" not in environ and environ.get("HOME"):
            paths.append(
                environ.get("PYTHONUSERBASE", f"{environ['HOME']}/.local") + f"/lib/python{minor}/site-packages"
            )
        paths += _site(base, minor)
    return Interpreter(path, exact, tuple(dict.fromkeys(paths)))


def _virtual_environment(path: str) -> tuple[Mapping[str, str], Optional[Path]]:
    """pyvenv.cfg beside or above an interpreter (its path as spelled: the link in a venv is what makes it one)."""
    directory = Path(path).parent
    for place in (directory, directory.parent):
        with contextlib.suppress(OSError):
            text = (place / "pyvenv.cfg").read_text("utf-8", "replace")
            pairs = (line.partition("=") for line in text.splitlines())
            return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}, place
    return {}, None


def _minor(exact: str, real: str, prefix: Path) -> str:
    if exact:
        return ".".join(exact.split(".")[:2])
    match = _MINOR.search(real)
    if match:
        return match.group(1)
    found = sorted(item.name for item in (prefix / "lib").glob("python3.*") if item.is_dir())
    return found[0][len("python") :] if len(found) == 1 else ""


def _exact(real: str, base: Path, minor: str) -> str:
    """The whole version, from the interpreter's own binary or its shared library: `3.12` is not enough for AOT
    artifacts.
    """
    if not minor:
        return ""
    libraries = sorted(base.glob(f"lib/libpython{minor}*.so.1.0")) + sorted(
        base.glob(f"lib/*/libpython{minor}*.so.1.0")
    )
    # Linkers share the tails of strings, so it may be the end of a path.
    pattern = re.compile(rb"(?<![\d.])(" + re.escape(minor.encode()) + rb"\.\d{1,2}(?:(?:a|b|rc)\d{1,2})?\+?)\x00")
    for candidate in (Path(real), *libraries):
        with contextlib.suppress(OSError, ValueError):
            match = _search(candidate, pattern)
            if match:
                return match
    return ""


def _search(path: Path, pattern: re.Pattern[bytes]) -> str:
    with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        match = pattern.search(data)
        return match.group(1).decode("ascii") if match else ""


def _site(prefix: Path, minor: str) -> list[str]:
    names = [f"lib/python{minor}/site-packages", f"lib64/python{minor}/site-packages"]
    # Debian and Ubuntu keep their own packages elsewhere.
    names = [
        f"local/lib/python{minor}/dist-packages",
        *names,
        "lib/python3/dist-packages",
        f"lib/python{minor}/dist-packages",
    ]
    return [str(prefix / name) for name in names]


def _installed(directories: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Name → (version, path of its metadata) of what is installed; the first directory wins."""
    found: dict[str, tuple[str, str]] = {}
    for directory in directories:
        for name, version, place in _packages(directory):
            found.setdefault(name, (version, place))
    return found


def _packages(directory: str) -> Iterator[tuple[str, str, str]]:
    with contextlib.suppress(OSError, ValueError):
        for item in sorted(os.listdir(directory)):  # noqa: PTH208 - names are all that is needed, thousands of them
            match = _PACKAGE.fullmatch(item) if item.endswith("-info") else None
            if match:
                yield (
                    re.sub(r"[-_.]+", "-", match.group(1)).lower(),
                    match.group(2),
                    f"{directory}/{item}",
                )


def _cuda(packages: Path, torch_local: str, installed: Mapping[str, tuple[str, str]]) -> Mapping[str, Fact]:
    """The CUDA (or HIP) that torch was built for; `none` for a CPU build."""
    text = ""
    with contextlib.suppress(OSError), (packages / "torch" / "version.py").open("rb") as handle:
        text = handle.read(_LARGEST_TEXT).decode("utf-8", "replace")
    source = f"observed:{packages}/torch/version.py"
    hip = _HIP_LINE.search(text)
    if hip:
        return {"cuda": Fact(f"hip {hip.group(1)}", source)}
    match = _CUDA_LINE.search(text)
    if match:
        return {"cuda": Fact(match.group(1) or match.group(2) or "none", source)}
    tag = re.fullmatch(r"cu(\d+)(\d)", torch_local)
    if tag:
        return {"cuda": Fact(f"{tag.group(1)}.{tag.group(2)}", "observed:local version of torch")}
    for name, (version, place) in sorted(installed.items()):
        if name.startswith("nvidia-cuda-runtime"):
            return {"cuda": Fact(".".join(version.split(".")[:2]), f"observed:{place}")}
    return {}
