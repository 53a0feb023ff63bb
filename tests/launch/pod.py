"""A pod's container to start things in with `run --exec`, beside the same start without glowplug."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.supervise.machine import GLOWPLUG, PATIENCE, PROGRAM, Done, Machine

STAY = "60"
"""Seconds that a program stays which a test ends."""


@dataclass
class Pod(Machine):
    """As a machine, started by `run --exec`. `launcher` are the words in front of `run`."""

    launcher: Sequence[str] = (GLOWPLUG,)

    def command(self, arguments: Sequence[str], options: Sequence[str] = (), *, root: str | None = None) -> list[str]:
        return self.launched([sys.executable, str(PROGRAM), *arguments], options, root=root)

    def launched(self, words: Sequence[str], options: Sequence[str] = (), *, root: str | None = None) -> list[str]:
        """`run --exec` of any command."""
        usual = ["--engine", "torch", "--cache-root", root or str(self.root), "--report", str(self.report)]
        if self.store:
            usual += ["--store", self.store]
        return [*self.launcher, "run", "--exec", *usual, *options, "--", *words]

    def serve(self, port: int, *arguments: str, options: Sequence[str] = ()) -> Done:
        """Start the program, end it once the document is whole, and wait for the watcher's end."""
        started = self.start(
            "--port",
            str(port),
            "--stay",
            STAY,
            *arguments,
            options=["--ready-url", f"http://127.0.0.1:{port}/", *options],
        )
        started.wait_for_document(lambda document: document["publish"] is not None)
        started.signal(signal.SIGTERM)
        done = started.end()
        self.wait_until_alone()
        return done

    def others(self) -> list[int]:
        """Processes of this pod that still run: all have its temporary directory in their environment."""
        mark = f"TMPDIR={self.base / 'tmp'}".encode()
        return [int(item.name) for item in Path("/proc").glob("[0-9]*") if mark in environment(int(item.name))]

    def wait_until_alone(self) -> None:
        """Until nothing runs any more that this pod started. Fails the test where something does not end."""
        end = time.monotonic() + PATIENCE
        while left := self.others():
            assert time.monotonic() < end, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
            time.sleep(0.05)

    def close(self) -> None:
        super().close()
        self.wait_until_alone()


def environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def engines_own(text: str) -> str:
    """Output without glowplug's lines."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("glowplug: "))
