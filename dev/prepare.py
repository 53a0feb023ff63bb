"""What a target needs beyond `.venv`: system packages where they may be installed, the engine environment, Kubernetes.

`make test` installs system packages only as root in CI or where GLOWPLUG_TEST_REQUIRE asks for parts; elsewhere it goes on
without what is lacking, and says so (its tests skip). `make demo`, `make bench` and `make engine` are nothing without an
engine: as root they install what it needs, otherwise they stop with the command to type. `make kube` and `make cluster` likewise;
no package brings the Go that they need. For a part that this machine itself does not allow nothing is installed or built, and
`make test` goes on without it even where it is required: its tests skip, with the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dev import system
from lab.cluster import ability


@dataclass(frozen=True)
class Target:
    """The parts a target uses, and whether it can do without those that are lacking and not required.

    `on_request` are used where they are there, and brought only where GLOWPLUG_TEST_REQUIRE names them.
    """

    parts: tuple[str, ...]
    forgiving: bool = False
    on_request: tuple[str, ...] = ()


TARGETS: Mapping[str, Target] = {
    "test": Target(("engine", "kube", "browser", "tools"), forgiving=True, on_request=("cluster",)),
    "bench": Target(("engine", "tools")),
    "demo": Target(("engine",)),
    "engine": Target(("engine",)),
    "kube": Target(("kube",)),
    "cluster": Target(("cluster",)),
}
BUILT: Mapping[str, tuple[str, ...]] = {
    "engine": ("lab.engine",),
    "kube": ("lab.kube", "build"),
    "cluster": ("lab.cluster", "build"),
}
"""The parts that are built once, minutes each, and the module that finds or builds them and shows its own progress."""


def build_part(part: str) -> int:
    """Build a part of BUILT or find it built; 0 when it is there."""
    return subprocess.run([sys.executable, "-m", *BUILT[part]], stdin=subprocess.DEVNULL, check=False).returncode


def impossible(part: str) -> str:
    """Why nothing could bring the part to this machine; "" when something could."""
    return ability.missing() if part == "cluster" else ""


def prepare(
    target: Target,
    environ: Mapping[str, str],
    *,
    root: bool,
    build: Callable[[str], int] = build_part,
    never: Callable[[str], str] = impossible,
) -> frozenset[str]:
    """Bring what the target's parts need; returns the parts that it cannot do without and that are lacking all the same."""
    required = frozenset(filter(None, environ.get("GLOWPLUG_TEST_REQUIRE", "").split(",")))
    parts = (*target.parts, *(part for part in target.on_request if part in required))
    refused = {part: reason for part in parts if (reason := never(part))}
    for part, reason in refused.items():
        _say(f"{part}: never on this machine: {reason}; its tests skip" if target.forgiving else f"{part}: {reason}")
    possible = tuple(part for part in parts if part not in refused)
    if root and (not target.forgiving or required or environ.get("CI") == "true"):
        system.install(possible)
    without = {part for part in possible if system.lacking(part)}
    for part in sorted(without):
        needs = system.lacking(part)
        command = system.install_command(needs)
        _say(f"{part}: {', '.join(need.what for need in needs)} not found" + (f"; {command}" if command else ""))
    without |= {part for part in possible if part in BUILT and part not in without and build(part) != 0}
    if target.forgiving and without:
        _say(f"tests that need {', '.join(sorted(without))} will not run")
    return frozenset(without & required if target.forgiving else without | refused.keys())


def _say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Prepare for the target of this name; 0 when it may start."""
    (name,) = arguments
    wanting = prepare(TARGETS[name], os.environ, root=os.geteuid() == 0)
    if wanting:
        print(f"error: make {name} cannot do without: {', '.join(sorted(wanting))}", file=sys.stderr)
    return 1 if wanting else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
