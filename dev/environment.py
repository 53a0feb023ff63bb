"""Makes and refreshes `.venv`: glowplug itself, editable, and the tools of `requirements/dev.txt`.

Plain pip installs it, since pip is what obeys the configuration of the machine (mirror, certificates, wheel folder) and what
every Python with ensurepip has. Every file is pinned by hash; the package's own build needs nothing beyond the lock. It is done
anew only when the lock, pyproject.toml or the interpreter changed: their digest lies in `.venv/glowplug-stamp`, which is written
last, so an interrupted set-up is repeated. Runs on any Python ≥ 3.11, before there is an environment.

    python3 dev/environment.py [--python PYTHON]
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "glowplug-stamp"
LOCK = ROOT / "requirements" / "dev.txt"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_STEP = re.compile(r"^(?:Collecting|Downloading|Using cached|Installing collected|Building|Preparing)\b.*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make `.venv` what the lock says; exit status 0, or pip's own with its last lines."""
    parser = argparse.ArgumentParser(description="Make or refresh .venv.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter .venv is made with")
    options = parser.parse_args(arguments)
    with _alone():
        version, python = _identity(options.python)
        wanted = _digest(version, python)
        if STAMP.is_file() and STAMP.read_text() == wanted and _runs("-c", ""):
            return 0
        return _make(version, python, wanted)


def _make(version: str, python: str, stamp: str) -> int:
    started = time.monotonic()
    STAMP.unlink(missing_ok=True)
    if not _runs("-m", "pip", "--version") or _identity(str(_PYTHON)) != (version, python):
        _say(f"making .venv with {python}")
        if VENV.exists():
            shutil.rmtree(VENV)
        subprocess.run([python, "-m", "venv", str(VENV)], check=True)
    pip = [str(_PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
    count = len(_PINNED.findall(LOCK.read_text()))
    _say(f"installing up to {count} locked packages into .venv (about a minute the first time)")
    status = _watched([*pip, "--require-hashes", "--no-deps", "-r", str(LOCK)], count)
    if status == 0:
        status = _watched([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], 0)
    if status:
        print("error: .venv could not be made: pip's last lines are above", file=sys.stderr)
        print("hint: pip needs a package index; see `pip config list` for the one it asks", file=sys.stderr)
        return status
    STAMP.write_text(stamp)
    _say(f".venv is ready ({time.monotonic() - started:.0f} s)")
    return 0


def _watched(command: list[str], count: int) -> int:
    """Run pip, saying how far it is; its own output appears only when it fails."""
    lines: list[str] = []
    collected, shown = 0, time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            step = _STEP.match(line.strip())
            collected += line.startswith("Collecting")
            if step and count and time.monotonic() - shown > 5:
                shown = time.monotonic()
                _say(f"[{collected}/{count}] {step.group(0)[:80]}")
    if process.returncode:
        sys.stderr.writelines(lines[-25:])
    return process.returncode


def _digest(version: str, python: str) -> str:
    content = b"\0".join(path.read_bytes() for path in (LOCK, ROOT / "pyproject.toml"))
    return f"{hashlib.sha256(content).hexdigest()} {version} {python}\n"


def _identity(python: str) -> tuple[str, str]:
    """Version and path of the real interpreter, the same for an environment and for what it was made from."""
    code = "import os, sys; print(*sys.version_info[:3], sep='.'); print(os.path.realpath(sys._base_executable))"
    version, path = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    return version, path


def _runs(*arguments: str) -> bool:
    return _PYTHON.exists() and subprocess.run([str(_PYTHON), *arguments], capture_output=True).returncode == 0


@contextmanager
def _alone() -> Iterator[None]:
    """Two `make` in one checkout take turns."""
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "environment.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
