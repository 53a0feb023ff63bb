"""The table of starts on a real cluster: rendered manifests, real vLLM in pods, in direct and in node mode.

`python -m bench.cluster` writes JSON to stdout. As root, on a machine that can have a cluster (`lab.cluster.missing`). Each row is
one start; ratios are of engine initialisation, of one run, side by side on one machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.fleet import image, starts, stories

_GOALS = {"cold_to_joined": ">= 3", "joined_to_steady": "<= 1.5", "direct_to_steady": "<= 1.5"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    if arguments:
        raise SystemExit(f"unexpected {arguments[0]}")
    with tempfile.TemporaryDirectory(prefix="glowplug-bench-") as folder:
        print(json.dumps(measure(Path(folder).resolve()), indent=2))
    return 0


def measure(folder: Path) -> dict[str, object]:
    """One run of both stories."""
    archive = image.archive()
    with stories.node_mode(_made(folder / "node"), archive) as running:
        joining = stories.joining(running)
    with stories.direct_mode(_made(folder / "direct"), archive) as running:
        direct = stories.direct(running)
    rows = [
        _row("node", "first pod of the first node", joining.first),
        _row("node", "second pod of that node", joining.second),
        _row("node", "third pod of that node (steady)", joining.third),
        _row("node", "pod that waited for a second node", joining.joined),
        _row("direct", "pod on the first node, after the bake Job", direct.first),
        _row("direct", "another pod there (steady)", direct.steady),
        _row("direct", "pod on the second node", direct.second),
    ]
    slowest = max(direct.first.init_seconds, direct.second.init_seconds)
    return {
        "schema": "glowplug.bench/1",
        "name": "cluster",
        "rows": rows,
        "ratios": {
            "cold_to_joined": round(joining.first.init_seconds / joining.joined.init_seconds, 2),
            "joined_to_steady": round(joining.joined.init_seconds / joining.third.init_seconds, 3),
            "direct_to_steady": round(slowest / direct.steady.init_seconds, 3),
        },
        "goals": _GOALS,
    }


def _row(mode: str, start: str, seen: starts.Seen) -> dict[str, object]:
    return {
        "mode": mode,
        "start": start,
        "node": seen.node,
        "verdict": seen.verdict,
        "engine_init_seconds": round(seen.init_seconds, 2),
        "ready_seconds": round(float(seen.document["ready_seconds"]), 1),
    }


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
