"""The five starts of the demo, and the ratios that are made of them.

`cold` on a first node, then the same node again (`same_node`, `steady`), then two nodes that share nothing with the first but
the S3 server: one without glowplug's store (`new_node`), one with it (`new_node_prewarmed`). Every start goes through
`glowplug run`, so every row rests on a start document; `new_node` is given no store, so nothing is restored or published.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from lab.node import Node, Site
    from lab.s3 import Server

STORE_BUCKET = "glowplug-cache"
STORE = f"s3://{STORE_BUCKET}/demo"
_LIMIT_SECONDS = 900
_NOT_PUBLISHED = 5


class Scenario(Enum):
    """The rows of the demo."""

    COLD = "cold"
    SAME_NODE = "same_node"
    STEADY = "steady"
    NEW_NODE = "new_node"
    NEW_NODE_PREWARMED = "new_node_prewarmed"

    @property
    def node(self) -> str:
        """The name of the node it runs on."""
        return {"new_node": "node-2", "new_node_prewarmed": "node-3"}.get(self.value, "node-1")

    @property
    def uses_store(self) -> bool:
        """Whether glowplug may restore and publish."""
        return self is not Scenario.NEW_NODE


class Engine(Protocol):
    """What a demo engine has to offer."""

    @property
    def name(self) -> str:
        """As `--engine` takes it."""
        ...

    def command(self) -> Sequence[str]:
        """The engine's command line; a new free port at every call."""
        ...

    def env(self) -> dict[str, str]:
        """Variables of the start."""
        ...

    def init_seconds(self, start: dict[str, Any], log: str) -> float | None:
        """Seconds of engine initialisation."""
        ...


@dataclass(frozen=True)
class Row:
    """One start."""

    scenario: str
    ready_seconds: float | None
    engine_init_seconds: float | None
    weights_bytes: int | None
    weights_seconds: float | None
    verdict: str
    start: dict[str, Any]


@dataclass(frozen=True)
class Where:
    """A node, the server that it reaches, where logs and documents go, and the store ("" for none)."""

    node: Node
    server: Server
    logs: Path
    store: str = ""


class FailedStartError(Exception):
    """A start of the demo did not become ready."""


def starts(engine: Engine, site: Site, server: Server, logs: Path, say: Callable[[str], None]) -> Iterator[Row]:
    """Do the five starts, one after the other."""
    for scenario in Scenario:
        say(f"{scenario.value}: starting {engine.name} on {scenario.node}")
        where = Where(site.node(scenario.node), server, logs, STORE if scenario.uses_store else "")
        yield one_start(engine, scenario.value, where)


def run_command(engine: Engine, where: Where, report: Path, options: Sequence[str]) -> list[str]:
    """The `glowplug run` command line of a start."""
    storage = ["--store", where.store] if where.store else ["--no-publish"]
    return [
        *(sys.executable, "-m", "glowplug", "run", *storage, "--domain", "demo"),
        *("--cache-root", str(where.node.site.cache_root), "--engine", engine.name, "--ready-timeout", "10m"),
        *("--report", str(report), *options, "--", *engine.command()),
    ]


def one_start(engine: Engine, name: str, where: Where, *, options: Sequence[str] = ()) -> Row:
    """One start through `glowplug run --exit-when-ready`. Raises FailedStartError with the end of the log."""
    where.logs.mkdir(parents=True, exist_ok=True)
    report, log = where.logs / f"{name}.json", where.logs / f"{name}.log"
    report.unlink(missing_ok=True)
    argv = run_command(engine, where, report, ["--exit-when-ready", *options])
    try:
        done = where.node.run(argv, engine.env() | where.server.env(), timeout=_LIMIT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise FailedStartError(f"{name}: no end after {_LIMIT_SECONDS} s") from error
    text = done.stdout + done.stderr
    log.write_text(text)
    start = json.loads(report.read_text()) if report.exists() else None
    if start is None or start["ready_seconds"] is None or done.returncode not in (0, _NOT_PUBLISHED):
        raise FailedStartError(f"{name}: status {done.returncode}\n{text[-4000:]}")
    weights = start["weights"]
    return Row(
        scenario=name,
        ready_seconds=start["ready_seconds"],
        engine_init_seconds=engine.init_seconds(start, text),
        weights_bytes=weights["bytes"],
        weights_seconds=weights["seconds"],
        verdict=start["verdict"]["compile"],
        start=start,
    )


def document(rows: Sequence[Row], engine: str) -> dict[str, Any]:
    """`glowplug.demo/1`."""
    seconds = {row.scenario: row.engine_init_seconds for row in rows}

    def ratio(upper: Scenario, lower: Scenario) -> float | None:
        above, below = seconds.get(upper.value), seconds.get(lower.value)
        return round(above / below, 3) if above and below else None

    return {
        "schema": "glowplug.demo/1",
        "engine": engine,
        "rows": [asdict(row) for row in rows],
        "ratios": {
            "cold_to_prewarmed": ratio(Scenario.COLD, Scenario.NEW_NODE_PREWARMED),
            "prewarmed_to_same_node": ratio(Scenario.NEW_NODE_PREWARMED, Scenario.SAME_NODE),
            "prewarmed_to_steady": ratio(Scenario.NEW_NODE_PREWARMED, Scenario.STEADY),
        },
    }


def table(rows: Sequence[Row], ratios: dict[str, Any]) -> str:
    """What a terminal shows: a line and a bar for each start, then the ratios."""
    longest = max((row.engine_init_seconds or 0.0) for row in rows) or 1.0
    lines = [f"{'start':<20}{'verdict':<10}{'engine init':>12}{'ready':>9}{'weights':>10}  "]
    for row in rows:
        init = f"{row.engine_init_seconds:.1f} s" if row.engine_init_seconds is not None else "-"
        ready = f"{row.ready_seconds:.1f} s" if row.ready_seconds is not None else "-"
        weights = f"{row.weights_seconds:.1f} s" if row.weights_seconds is not None else "-"
        bar = "█" * max(1, round(40 * (row.engine_init_seconds or 0.0) / longest))
        lines.append(f"{row.scenario:<20}{row.verdict:<10}{init:>12}{ready:>9}{weights:>10}  {bar}")
    lines.append("")
    lines += [f"{name.replace('_to_', ' ÷ ').replace('_', ' ')}: {value}" for name, value in ratios.items()]
    return "\n".join(lines)


_FIRST_CALL = re.compile(r"compile \+ first call took ([\d.]+) s")


def first_call_seconds(log: str) -> float | None:
    """What `lab/programs/compiled.py` printed."""
    found = _FIRST_CALL.search(log)
    return float(found[1]) if found else None
