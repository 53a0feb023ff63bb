"""What `make test`, `make demo` and `make bench` need beyond `.venv`: system packages where allowed, the engine environment.

The rule (docs of the set-up in CONTRIBUTING.md): as root with CI=true, or where GLOWPLUG_TEST_REQUIRE is given, system packages
are installed and a part that cannot be had is an error. Otherwise nothing is installed into the system; what is lacking is said,
with its command, and `make test` goes on without (its tests skip), while `make demo`, which is nothing without an engine, stops.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from dev import system

_WANTED = {
    "test": ("engine", "browser", "bench"),
    "bench": ("engine", "bench"),
    "demo": ("engine",),
    "engine": ("engine",),
    "system": ("engine", "browser", "bench"),
}
_USES_ENGINE = {"test", "bench", "demo", "engine"}


def main(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Prepare for one target; 0 when it may start."""
    (target,) = arguments
    required = frozenset(filter(None, environ.get("GLOWPLUG_TEST_REQUIRE", "").split(",")))
    parts = _WANTED[target]
    if _may_install(environ, required) and (status := system.install(parts)) and target != "test":
        return status
    without = {part for part in parts if system.lacking(part)}
    for part in sorted(without):
        _say_lacking(part)
    if required & without:
        return 1
    if target not in _USES_ENGINE:
        return 0
    if "engine" not in without and _build_engine() == 0:
        return 0
    return 0 if target == "test" and "engine" not in required else 1


def _may_install(environ: Mapping[str, str], required: frozenset[str]) -> bool:
    return os.geteuid() == 0 and (environ.get("CI") == "true" or bool(required))


def _say_lacking(part: str) -> None:
    needs = system.lacking(part)
    print(f"set-up: {part}: {', '.join(need.what for need in needs)} not found", file=sys.stderr)
    print(f"hint: {system.install_command(needs)}", file=sys.stderr, flush=True)


def _build_engine() -> int:
    """Build the engine environment or find it built (`lab.engine` shows its own progress)."""
    return subprocess.run([sys.executable, "-m", "lab.engine"], stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
