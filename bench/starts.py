"""The figure that glowplug is for: engine initialisation on a new node ÷ on a warm one, real vLLM from real S3, AOT path.

`python -m bench.starts [--rounds N]` writes JSON to stdout. Each round begins with an empty store and new nodes: cold, twice
more on that node (the last is the steady start), then a new node that shares only the store. Ratios are of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from demo import engines, scenarios
from lab import engine, model, s3
from lab.node import Site

_PLAN = (("cold", "first"), ("same_node", "first"), ("steady", "first"), ("new_node_prewarmed", "second"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.starts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    python = engine.build()
    with (
        tempfile.TemporaryDirectory(prefix="glowplug-bench-") as folder,
        s3.serve(("models", scenarios.STORE_BUCKET)) as server,
    ):
        print(json.dumps(measure(Path(folder).resolve(), python, server, options.rounds), indent=2))
    return 0


def measure(folder: Path, python: Path, server: s3.Server, rounds: int) -> dict[str, object]:
    """The figures of one run; seconds of engine initialisation."""
    model.make(folder / "model")
    model.upload(folder / "model", "s3://models/tiny-llama", server.env())
    chosen = engines.Vllm(python, "s3://models/tiny-llama")
    seconds: dict[str, list[float]] = {name: [] for name, _ in _PLAN}
    verdicts: dict[str, list[str]] = {name: [] for name, _ in _PLAN}
    for number in range(rounds):
        site = Site(folder / f"site-{number}", keep=(python.parent.parent, folder))
        store = f"{scenarios.STORE}-{number}"
        for name, node in _PLAN:
            where = scenarios.Where(site.node(node), server, folder / f"logs-{number}", store)
            row = scenarios.one_start(chosen, name, where)
            seconds[name].append(row.engine_init_seconds or float("nan"))
            verdicts[name].append(row.verdict)
            print(
                f"round {number + 1}: {name}: {row.verdict}, {row.engine_init_seconds} s", file=sys.stderr, flush=True
            )
    medians = {name: statistics.median(series) for name, series in seconds.items()}
    return {
        "schema": "glowplug.bench/1",
        "name": "starts",
        "rounds": rounds,
        "seconds": seconds,
        "verdicts": verdicts,
        "ratios": {
            "new_node_to_steady": round(medians["new_node_prewarmed"] / medians["steady"], 3),
            "cold_to_new_node": round(medians["cold"] / medians["new_node_prewarmed"], 2),
        },
        "goals": {"new_node_to_steady": "<= 1.10", "cold_to_new_node": ">= 5"},
    }


if __name__ == "__main__":
    sys.exit(main())
