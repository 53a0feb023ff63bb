"""`make bench`: all figures, one JSON file each below build/bench/, and docs/performance.md made of them."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.performance import page
from lab import cluster

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("commands", "launch", "lint", "restore", "starts")
WITH_NODES = "cluster"
"""Only where a cluster of real nodes can be."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches one after the other. 1 where one failed; its figure is then missing, not old."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    lacking = cluster.missing()
    names = [*NAMES, *([] if lacking else [WITH_NODES])]
    parser.add_argument("names", nargs="*", default=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if lacking:
        print(f"bench: {WITH_NODES} is left out: {lacking}", file=sys.stderr)
    failed = False
    for name in options.names:
        print(f"bench: {name}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, "-m", f"bench.{name}"], stdout=subprocess.PIPE, text=True, check=False)
        target = options.out / f"{name}.json"
        target.unlink(missing_ok=True)
        if done.returncode != 0:
            failed = True
            continue
        document = {"machine": machine(), **json.loads(done.stdout)}
        target.write_text(json.dumps(document, indent=2) + "\n")
        print(json.dumps({"name": name, "ratios": document.get("ratios", document.get("ratio"))}), flush=True)
    found = {path.stem: json.loads(path.read_text()) for path in sorted(options.out.glob("*.json"))}
    if set(NAMES) <= set(found):
        (ROOT / "docs" / "performance.md").write_text(page(found))
    return 1 if failed else 0


def machine() -> Mapping[str, Any]:
    """What the figures were measured on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    import os

    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
