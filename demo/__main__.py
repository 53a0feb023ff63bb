"""`python -m demo [--engine vllm|torch] [--out build/demo]`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from demo import engines, scenarios
from lab import engine, model, s3
from lab.node import Site

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. 0 when every start did what it is for, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--engine", choices=["vllm", "torch"], default="vllm")
    parser.add_argument("--out", type=Path, default=Path("build/demo"))
    options = parser.parse_args(arguments)
    python = engine.build()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="glowplug-demo-") as directory:
        base = Path(directory).resolve()
        with s3.serve(("models", scenarios.STORE_BUCKET)) as server:
            document = _demo(options.engine, python, base, server, options.out.resolve())
    report = options.out / "report.json"
    report.write_text(json.dumps(document, indent=2) + "\n")
    page = options.out / "report.html"
    subprocess.run([sys.executable, "-m", "glowplug", "report", str(report), "--out", str(page)], check=True)
    _say(f"wrote {report} and {page}")
    return 0 if _holds(document) else 1


def _demo(name: str, python: Path, base: Path, server: s3.Server, out: Path) -> dict[str, object]:
    chosen: scenarios.Engine
    if name == "vllm":
        _say("making a tiny model and uploading it to the S3 server")
        model.make(base / "model")
        model.upload(base / "model", "s3://models/tiny-llama", server.env())
        chosen = engines.Vllm(python, "s3://models/tiny-llama")
    else:
        chosen = engines.Torch(python)
    site = Site(base / "site", keep=(python.parent.parent, base, out))
    rows = []
    for row in scenarios.starts(chosen, site, server, base / "logs", _say):
        init = f"{row.engine_init_seconds:.1f} s" if row.engine_init_seconds is not None else "unknown"
        _say(f"{row.scenario}: {row.verdict}, engine init {init}")
        rows.append(row)
    document = scenarios.document(rows, name)
    print()
    print(scenarios.table(rows, document["ratios"]))
    print()
    return document


def _holds(document: dict[str, object]) -> bool:
    rows = document["rows"]
    assert isinstance(rows, list)
    verdicts = {row["scenario"]: row["verdict"] for row in rows}
    wanted = {"cold": "miss", "same_node": "hit", "steady": "hit", "new_node": "miss", "new_node_prewarmed": "hit"}
    if verdicts != wanted:
        _say(f"verdicts are {verdicts}, not {wanted}")
        return False
    return True


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
