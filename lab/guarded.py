"""Child processes that end with whoever started them, however that one ends.

A test run is interrupted, killed for memory, or stopped by CI's clock; an S3 server or a vLLM that stays behind then
holds a port, a gigabyte and two cores until somebody looks. `finally` does not run on SIGKILL, and PR_SET_PDEATHSIG
fires when the *thread* that forked ends. So each child gets a guard: a small interpreter in its own session that
waits on a pipe whose other end only the starter holds. The kernel closes that pipe whatever happens to the starter;
the guard then ends the child's whole process group and removes the files and directories it was told to remove.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

_GUARD = r"""
import json, os, shutil, signal, subprocess, sys, threading
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: None)
task = json.loads(sys.argv[1])
try:
    child = subprocess.Popen(
        task["argv"], cwd=task["cwd"], stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
except OSError as error:
    print(error, file=sys.stderr)
    print("0", flush=True)
    raise SystemExit(127)
print(child.pid, flush=True)
os.dup2(2, 1)

def end():
    sys.stdin.buffer.read()
    for number, patience in ((signal.SIGTERM, task["patience"]), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, number)
        except OSError:
            pass
        try:
            child.wait(patience)
            if number == signal.SIGTERM:
                continue
        except subprocess.TimeoutExpired:
            pass
    for path in task["remove"]:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)
    os._exit(0)

watch = threading.Thread(target=end)
watch.start()
status = child.wait()
if status < 0:
    status = 128 - status
with open(task["status"], "w") as file:
    file.write(str(status))
watch.join()
"""


class Guarded:
    """A running child process; a context manager, on whose exit the child, its descendants and `remove` are gone.

    `stdout` and `stderr` go to `log` (appended). `status` is a file in which the exit status is left.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        cwd: Path | None = None,
        remove: Sequence[Path] = (),
        patience: float = 10.0,
    ) -> None:
        """Start `argv` with exactly the environment `env`; `patience` is seconds between SIGTERM and SIGKILL.

        Raises FileNotFoundError when the command does not exist.
        """
        self._status = log.with_name(log.name + ".status")
        self._status.unlink(missing_ok=True)
        task = {
            "argv": list(argv),
            "cwd": str(cwd) if cwd else None,
            "remove": [str(path) for path in remove],
            "patience": patience,
            "status": str(self._status),
        }
        with log.open("ab") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD, json.dumps(task)],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        assert self._guard.stdout is not None
        self.pid = int(self._guard.stdout.readline() or 0)
        if not self.pid:
            self.close()
            raise FileNotFoundError(argv[0])

    def poll(self) -> int | None:
        """The child's exit status (128+N after signal N), or None while it runs."""
        try:
            text = self._status.read_text()
        except FileNotFoundError:
            return None
        return int(text) if text else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child alone, as a container runtime does."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """End the child and all its descendants in its process group; safe to call twice."""
        _close(self._guard.stdin)
        self._guard.wait()
        _close(self._guard.stdout)
        self._status.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(stream: IO[bytes] | None) -> None:
    if stream is not None and not stream.closed:
        stream.close()
