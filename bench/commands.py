"""How long the command line takes: `glowplug --help`, and a start that does nothing, against starting Python alone."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

_ROUNDS = 15
_COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "help": [sys.executable, "-m", "glowplug", "--help"],
    "version": [sys.executable, "-m", "glowplug", "--version"],
    "plan": [sys.executable, "-m", "glowplug", "plan", "67GB", "--instance", "p5.48xlarge"],
    "run_true": [sys.executable, "-m", "glowplug", "run", "--", "true"],
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    del arguments
    print(json.dumps(measure(), indent=2))
    return 0


def measure() -> dict[str, object]:
    """Medians of wall seconds, the commands in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in _COMMANDS}
    for _ in range(_ROUNDS):
        for name, argv in _COMMANDS.items():
            began = time.monotonic()
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            seconds[name].append(round(time.monotonic() - began, 4))
    medians = {name: statistics.median(series) for name, series in seconds.items()}
    return {
        "schema": "glowplug.bench/1",
        "name": "commands",
        "rounds": _ROUNDS,
        "seconds": medians,
        "ratios": {
            f"{name}_to_python": round(medians[name] / medians["python"], 2) for name in ("help", "plan", "run_true")
        },
        "goals": {"help": "<= 0.120 s on an idle machine", "plan": "<= 0.300 s on an idle machine"},
    }


if __name__ == "__main__":
    sys.exit(main())
