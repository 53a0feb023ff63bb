"""A start as a pod makes it, to be compared with the same start without glowplug."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C", "NAME": "a value"}
SHOWS = """echo "$0|$#|$*"; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status; ls /proc/self/fd; env | grep -v '^_=' | sort; exit 7"""
"""What a command sees of its start: words, blocked, ignored and caught signals, open files, environment."""


@dataclass(frozen=True)
class Started:
    """How a start ended, and what was said."""

    status: int
    out: str
    err: str
    pid: int

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()


def start(argv: Sequence[str], environ: Mapping[str, str] = ENVIRONMENT, cwd: Path | None = None) -> Started:
    """Run it to its end."""
    with subprocess.Popen(
        argv,
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=120)
    return Started(process.returncode, out, err, process.pid)
