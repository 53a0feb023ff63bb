"""A machine to start things on with `glowplug run`: a home, a state directory, a temporary directory, a cache root of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("program.py")
GLOWPLUG = str(Path(sys.executable).with_name("glowplug"))
AS_AT_LOGIN = ("env", "--default-signal")
"""A prefix: with no signal ignored, whatever started the tests (a shell's `&` ignores SIGINT, nohup SIGHUP)."""
PATIENCE = 90.0
"""For what ought to end at once: a test that waits this long has failed."""


@dataclass(frozen=True)
class Done:
    """A start that has ended. `first_line`: seconds from our start to the engine's first line, where that was watched."""

    status: int
    out: str
    err: str
    document: dict[str, Any]
    seconds: float

    @property
    def restore(self) -> tuple[str, str]:
        return self.document["restore"]["outcome"], self.document["restore"]["reason"]

    @property
    def verdict(self) -> str:
        return str(self.document["verdict"]["compile"])

    @property
    def publish(self) -> tuple[str, str]:
        return self.document["publish"]["outcome"], self.document["publish"]["reason"]


@dataclass
class Started:
    """A start that runs, with its output as it comes."""

    process: subprocess.Popen[bytes]
    report: Path
    log: Path
    began: float

    def wait_for(self, text: str, seconds: float = PATIENCE) -> float:
        """Until the output (both streams) holds this; seconds since the start. Fails the test where it does not come."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if text in self.output():
                return time.monotonic() - self.began
            time.sleep(0.02)
        raise AssertionError(f"no {text!r} within {seconds} s in:\n{self.output()}")

    def wait_for_document(self, ready: Callable[[dict[str, Any]], bool], seconds: float = PATIENCE) -> dict[str, Any]:
        """Until the report says what is waited for."""
        end = time.monotonic() + seconds
        found: dict[str, Any] = {}
        while time.monotonic() < end:
            if self.report.exists():
                found = json.loads(self.report.read_text())
                if ready(found):
                    return found
            time.sleep(0.05)
        raise AssertionError(f"not reported within {seconds} s: {json.dumps(found, indent=1)}\n{self.output()}")

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = PATIENCE) -> Done:
        status = self.process.wait(seconds)
        document = json.loads(self.report.read_text()) if self.report.exists() else {}
        return Done(status, self.output(), "", document, time.monotonic() - self.began)


@dataclass
class Machine:
    """`base` holds all it has; `store` is a store's address, `store_env` what finding it takes."""

    base: Path
    store: str = ""
    store_env: Mapping[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("home", "state", "tmp", "packages/torch-2.11.0+cpu.dist-info"):
            (self.base / name).mkdir(parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        return self.base / "compile-cache"

    @property
    def report(self) -> Path:
        return self.base / "start.json"

    def env(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        own = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base / "home"),
            "XDG_STATE_HOME": str(self.base / "state"),
            "TMPDIR": str(self.base / "tmp"),
            "PYTHONPATH": str(self.base / "packages"),
        }
        return own | dict(self.store_env) | dict(extra or {})

    def command(self, arguments: Sequence[str], options: Sequence[str] = (), *, root: str | None = None) -> list[str]:
        """`glowplug run` of the program; `options` come after the usual ones and so may replace them."""
        usual = ["--engine", "torch", "--cache-root", root or str(self.root), "--report", str(self.report)]
        if self.store:
            usual += ["--store", self.store]
        return [GLOWPLUG, "run", *usual, *options, "--", sys.executable, str(PROGRAM), *arguments]

    def run(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        argv: Sequence[str] | None = None,
        prefix: Sequence[str] = (),
        root: str | None = None,
        timeout: float = PATIENCE,
    ) -> Done:
        """Start the program, or `argv` as it is, and wait for its end."""
        self.report.unlink(missing_ok=True)
        began = time.monotonic()
        done = subprocess.run(
            [*AS_AT_LOGIN, *prefix, *(argv or self.command(arguments, options, root=root))],
            env=self.env(env),
            capture_output=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        seconds = time.monotonic() - began
        document = json.loads(self.report.read_text()) if self.report.exists() else {}
        return Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(), document, seconds)

    def start(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        argv: Sequence[str] | None = None,
    ) -> Started:
        """Start the program, or `argv` as it is; both streams go into one log."""
        self.report.unlink(missing_ok=True)
        log = self.base / f"log-{len(self.running)}"
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*AS_AT_LOGIN, *(argv or self.command(arguments, options))],
                env=self.env(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        return Started(process, self.report, log, began)

    def move(self) -> None:
        """Become another machine: nothing is left but the paths and the store."""
        for path in (self.root, self.base / "home", self.base / "state", self.base / "tmp"):
            shutil.rmtree(path, ignore_errors=True)
        self.__post_init__()

    def artifacts(self) -> dict[str, bytes]:
        """Path → bytes of what the program sees below its cache root."""
        top = self.root / "inductor"
        return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
