"""What a pod of node mode waits for before its engine: node store → exec, against copying the same files with `cp`.

`python -m bench.launch [--rounds N] [--python PYTHON]` writes JSON to stdout. The pod's words are those that `render` writes,
the engine is a `vllm` that does nothing, the node holds 15 MB in 300 files for it. What counts is processor time: that of the
words and of the process that prepares the start, less that of the engine alone and of one bare interpreter, since a machine
that does other things meanwhile changes no more than that. The watcher's is not in it: the engine does not wait for that.
Rounds alternate; figures are medians. `cp -a --reflink=auto` of the tree is the plainest tool; it compares no digests.

What earlier rounds made is put aside, not removed: where files have gone within the last seconds, ext4 looks long for a place for
new ones, and no new pod's disk is like that.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev import pyz
from glowplug.core.documents.fingerprint import Key
from glowplug.core.documents.node import ENTRY, SUPPORT, HeldPart, NodeKey
from glowplug.engines import command as commands
from glowplug.engines import registry
from glowplug.fingerprint import build
from glowplug.manifests import recipe
from glowplug.nodestore import layout, write
from glowplug.tree.index import scan

FILES = 300
FILE_BYTES = 50_000
_DOMAIN = "bench"
_INDEX = "vllm/torch_compile_cache/0123456789/rank_0_0/backbone/000"
_GOAL = 0.150
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Bench:
    """A node with a store, and a pod's surroundings on it."""

    folder: Path
    python: Path

    @property
    def root(self) -> Path:
        """The pod's cache root."""
        return self.folder / "compile-cache"

    @property
    def store(self) -> Path:
        """The pod's mount."""
        return layout.store(self.folder / "agent", _DOMAIN)

    @property
    def engine(self) -> list[str]:
        """A `vllm` that has everything but a use."""
        return [str(self.folder / "bin" / "vllm"), "serve", "bench/model"]

    @property
    def environ(self) -> dict[str, str]:
        """The container's, with what `render` adds to it."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "PYTHONPATH": str(self.folder / "packages"),
            "TMPDIR": str(self.folder / "tmp"),
            "GLOWPLUG_NODE_STORE": str(self.store),
            "GLOWPLUG_DOMAIN": _DOMAIN,
            "GLOWPLUG_CACHE_ROOT": str(self.root),
        }

    def words(self) -> list[str]:
        """The pod's command, as `render` writes it."""
        program = str(self.store / layout.PROGRAM)
        prefix = recipe.node("/mnt", _DOMAIN).prefix
        return [*(word.replace(recipe.NODE_PROGRAM, program) for word in prefix), *self.engine]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.launch", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python", default=sys.executable, help="the Python of the pod's image")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="glowplug-bench-") as folder:
        bench = Bench(Path(folder).resolve(), Path(os.path.realpath(options.python)))
        prepare(bench)
        _get_orphans()
        print(json.dumps(measure(bench, options.rounds), indent=2))
    return 0


def prepare(bench: Bench) -> None:
    """The image, the program, and a node that holds what the engine needs."""
    for name in ("bin", "tmp", "packages/vllm-0.12.0.dist-info", "packages/torch-2.9.0+cpu.dist-info"):
        (bench.folder / name).mkdir(parents=True)
    (bench.folder / "bin" / "python3").symlink_to(bench.python)
    engine = Path(bench.engine[0])
    engine.write_text(f"#!{bench.python} -IS\nimport os\nos.write(1, b'1')\nos.read(0, 1)\nos._exit(0)\n")
    engine.chmod(0o755)
    key = _key(bench)
    trees = {}
    with write.staging(bench.folder / "agent", _DOMAIN) as staging:
        parts = []
        for kind, place, index in ((SUPPORT, "inductor", ()), (ENTRY, str(Path(_INDEX).parent), (_INDEX,))):
            tree = staging / kind
            (tree / place).mkdir(parents=True)
            for number in range(FILES // 2):
                path = tree / place / f"{number:03d}"
                path.write_bytes(os.urandom(FILE_BYTES))
                path.chmod(0o664)  # as an archive would bring it
            files = tuple(scan(tree).files.values())
            of = "0123456789" if kind == SUPPORT else ""
            name = f"{kind}" if of else "0123456789"
            digest = {SUPPORT: "a", ENTRY: "b"}[kind] * 64
            parts.append(HeldPart(kind, name, of, digest, 1, FILES // 2 * FILE_BYTES, FILES // 2, index=index))
            trees[digest] = write.Unpacked(tree, files)
        write.add(bench.folder / "agent", _DOMAIN, NodeKey(key, key.digest(), tuple(parts)), trees)
    write.set_node(bench.folder / "agent", _DOMAIN, "bench", prefetching=False)
    write.mark_ready(bench.folder / "agent", _DOMAIN)
    program = pyz.build(bench.folder / "glowplug.pyz")
    write.put_program(bench.folder / "agent", _DOMAIN, program.read_bytes())


def _key(bench: Bench) -> Key:
    invocation = commands.see_through(bench.engine, bench.environ)
    found = registry.recognise(invocation, None, "auto")
    if found.adapter is None or found.launch is None:
        raise RuntimeError(f"the engine is not recognised: {found.reason}")
    seen = build.fingerprint(
        invocation, found.launch, found.adapter, domain=_DOMAIN, cache_root=str(bench.root), environ=invocation.environ
    )
    if seen.key is None:
        raise RuntimeError(f"not known: {seen.unknown}")
    return seen.key


def measure(bench: Bench, rounds: int) -> dict[str, object]:
    """The figures of one run; seconds."""
    tree = bench.folder / "tree"
    tree.mkdir()
    subprocess.run(["cp", "-a", *(f"{part}/." for part in bench.store.glob("*/*/tree")), str(tree)], check=True)
    jobs: Mapping[str, Callable[[], list[str]]] = {
        "interpreter": lambda: [str(bench.python), "-IS", "-c", ""],
        "engine": lambda: bench.engine,
        "launched": bench.words,
        "cp": lambda: ["cp", "-a", "--reflink=auto", f"{tree}/.", str(bench.root)],
    }
    spent: dict[str, list[float]] = {name: [] for name in jobs}
    waited: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        for name, words in jobs.items():
            if bench.root.exists():
                bench.root.rename(bench.folder / f"used-{name}-{number}")
            bench.root.mkdir()
            processor, passed = _run(words(), bench.environ, orphan=name == "launched")
            spent[name].append(processor)
            waited[name].append(passed)
            if name == "launched" and not (bench.root / _INDEX).exists():
                raise RuntimeError("nothing was restored")
    cpu = {name: statistics.median(series[1:]) for name, series in spent.items()}
    wall = {name: statistics.median(series[1:]) for name, series in waited.items()}
    ours = cpu["launched"] - cpu["engine"] - cpu["interpreter"]
    return {
        "schema": "glowplug.bench/1",
        "name": "launch",
        "files": FILES,
        "bytes": FILES * FILE_BYTES,
        "rounds": rounds,
        "python": subprocess.check_output([bench.python, "--version"], text=True).split()[1],
        "cpu_seconds": {name: round(seconds, 4) for name, seconds in cpu.items()},
        "wall_seconds": {name: round(seconds, 4) for name, seconds in wall.items()},
        "launcher_seconds": round(ours, 4),
        "goal": _GOAL,
        "ratio": round(ours / cpu["cp"], 2),
        "archive_bytes": (bench.store / layout.PROGRAM).stat().st_size,
    }


def _run(words: Sequence[str], environ: Mapping[str, str], *, orphan: bool = False) -> tuple[float, float]:
    """Processor seconds, those of an orphan that ends before the engine included; and seconds until the first output or the end."""
    began = time.perf_counter()
    with subprocess.Popen(
        words, env=dict(environ), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        wall = time.perf_counter() - began
        spent = _reaped(-1)[1] if orphan else 0.0
        process.stdin.close()
        status, own = _reaped(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            assert process.stderr is not None
            raise RuntimeError(f"{words[0]} failed: {process.stderr.read().decode()}")
    with contextlib.suppress(ChildProcessError):
        while True:
            _reaped(-1)  # the watcher, which a round does not leave to the next
    return spent + own, wall


def _reaped(pid: int) -> tuple[int, float]:
    """The status of a process that has ended, and its processor seconds."""
    _, status, used = os.wait4(pid, 0)
    return status, used.ru_utime + used.ru_stime


def _get_orphans() -> None:
    """Processes that the launcher leaves become children of this one, so that what they took can be known."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no orphans are to be had")


if __name__ == "__main__":
    raise SystemExit(main())
