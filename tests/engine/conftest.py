"""Real vLLM and real torch under `glowplug run`, on nodes that share only a real S3 server.

One server and one model for the session; each test has a site (its nodes) and a store of its own. A start takes half a minute
even when everything is cached, so a test makes as many statements as possible about each.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from demo import engines, scenarios
from demo.scenarios import Row
from lab import engine, model, s3
from lab.node import Site
from lab.vllm import CompilePath

MODEL = "s3://models/tiny-llama"


@dataclass
class Fleet:
    """Nodes, a store, and starts on them. `rows` are all starts so far."""

    site: Site
    server: s3.Server
    logs: Path
    python: Path
    store: str
    rows: list[Row] = field(default_factory=list)

    def start(
        self,
        node: str,
        *,
        path: CompilePath = CompilePath.AOT,
        model_url: str = MODEL,
        tensor_parallel: int = 1,
        extra: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> Row:
        """A vLLM start through `glowplug run --exit-when-ready`."""
        chosen = engines.Vllm(self.python, model_url, path, tensor_parallel, tuple(extra))
        return self._start(chosen, node, options)

    def start_torch(self, node: str, arguments: Sequence[str] = (), options: Sequence[str] = ()) -> Row:
        """A start of the torch.compile program."""
        return self._start(engines.Torch(self.python, tuple(arguments)), node, options)

    def _start(self, chosen: scenarios.Engine, node: str, options: Sequence[str]) -> Row:
        name = f"{len(self.rows) + 1}-{node}"
        where = scenarios.Where(self.site.node(node), self.server, self.logs, self.store)
        row = scenarios.one_start(chosen, name, where, options=options)
        self.rows.append(row)
        return row

    def restored_only(
        self, *, model_url: str = MODEL, tensor_parallel: int = 1, extra: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The document of a start on a node of its own that is ended as soon as it says what was restored."""
        node = self.site.node(f"peek-{len(list(self.logs.glob('peek-*.json')))}")
        report = self.logs / f"{node.name}.json"
        chosen = engines.Vllm(self.python, model_url, CompilePath.AOT, tensor_parallel, tuple(extra))
        where = scenarios.Where(node, self.server, self.logs, self.store)
        argv = scenarios.run_command(chosen, where, report, ())
        with node.start(argv, log=self.logs / f"{node.name}.log", env=chosen.env() | self.server.env()) as process:
            end = time.monotonic() + 60
            while not report.exists() and process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            start: dict[str, Any] = json.loads(report.read_text())
        return start

    def glowplug(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A glowplug command with the store's credentials."""
        node = self.site.node("desk")
        return node.run([sys.executable, "-m", "glowplug", *arguments], self.server.env(), timeout=120)

    def cache(self, *arguments: str) -> Any:
        """The JSON of a `glowplug cache` command on this store and domain."""
        done = self.glowplug("cache", *arguments, "--store", self.store, "--domain", "demo", "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def server() -> Iterator[s3.Server]:
    with s3.serve(("models", scenarios.STORE_BUCKET)) as running:
        yield running


@pytest.fixture(scope="session")
def python(server: s3.Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine environment's interpreter; the model is uploaded by then."""
    folder = tmp_path_factory.mktemp("model")
    model.make(folder)
    model.upload(folder, MODEL, server.env())
    model.upload(folder, "s3://models/tiny-llama-copy", server.env())
    return engine.build()


@pytest.fixture
def fleet(server: s3.Server, python: Path, tmp_path: Path) -> Fleet:
    site = Site(tmp_path / "site", keep=(python.parent.parent, tmp_path))
    return Fleet(site, server, tmp_path / "logs", python, f"s3://{scenarios.STORE_BUCKET}/{tmp_path.name}")


def publishes(rows: Sequence[Row]) -> list[str]:
    """The outcome of each start's publish."""
    return [row.start["publish"]["outcome"] for row in rows]


def verdicts(rows: Sequence[Row]) -> list[str]:
    """The verdict of each start."""
    return [row.verdict for row in rows]


def told(row: Row) -> dict[str, Any]:
    """What to print when an assertion about a row fails."""
    return {name: value for name, value in dataclasses.asdict(row).items() if name != "start"} | {
        name: row.start[name] for name in ("restore", "verdict", "publish")
    }
