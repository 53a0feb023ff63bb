"""Restore against the plainest tools: glowplug ÷ (curl, sha256sum, zstd, tar, sync), from a real S3 server, in one run.

`python -m bench.restore [--rounds N]` writes JSON to stdout. Both sides fetch the same 15 MB in 300 files from the same SeaweedFS,
verify the same blobs, unpack and flush them. Rounds alternate, so that a slow moment of the machine meets both; the ratio is of
the medians. The start of the interpreter stands apart, as `import_seconds`; the tools' own starts are part of their time, as
they are part of using them.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from glowplug.cache import layout
from glowplug.cache.bundle import NewPart
from glowplug.cache.format import ENTRY, SUPPORT
from glowplug.cache.lookup import Found, look_up
from glowplug.cache.publish import publish
from glowplug.cache.restore import restore
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key, Layout
from glowplug.core.documents.start import PublishOutcome, RestoreOutcome
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from glowplug.tree.index import scan
from lab import s3

FILES = 300
FILE_BYTES = 50_000
_BUCKET = "bench"
_TOOLS = ("curl", "sha256sum", "zstd", "tar", "sync")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Exit status 1 where a tool of the other side is not installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.restore", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    lacking = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if lacking:
        print(f"not installed: {', '.join(lacking)}; apt-get install curl coreutils zstd tar", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="glowplug-bench-") as folder, s3.serve([_BUCKET]) as server:
        print(json.dumps(measure(Path(folder), server, options.rounds), indent=2))
    return 0


def measure(folder: Path, server: s3.Server, rounds: int) -> dict[str, object]:
    """The figures of one run; seconds."""
    key = Key("default", "vllm", "0", "0", "cpu", "any", Layout(), "bench", {}, {}, "/compile-cache")
    store = open_store(f"s3://{_BUCKET}", server.env())
    found = _publish(folder / "tree", store, key)
    parts = [part for offer in found.offers for part in offer.parts]
    urls = [f"{server.endpoint}/{_BUCKET}/{layout.blob_path(key.domain, part.sha256)}" for part in parts]
    script = _script([(url, part.sha256) for url, part in zip(urls, parts, strict=True)], server)
    mine: list[float] = []
    theirs: list[float] = []
    own: list[float] = []
    for number in range(rounds + 1):
        target = folder / "mine" / str(number)
        target.mkdir(parents=True)
        os.sync()
        began = time.perf_counter()
        done = restore(store, key, {}, target, deadline=Deadline.after(60))
        mine.append(time.perf_counter() - began)
        own.append(done.seconds)
        if done.outcome is not RestoreOutcome.RESTORED:
            raise RuntimeError(f"not restored: {done}")
        target = folder / "theirs" / str(number)
        target.mkdir(parents=True)
        os.sync()
        began = time.perf_counter()
        subprocess.run(["sh", "-ec", script], cwd=target, check=True)
        theirs.append(time.perf_counter() - began)
    packed = sum(part.size for part in parts)
    return {
        "schema": "glowplug.bench/1",
        "name": "restore",
        "files": FILES,
        "bytes": FILES * FILE_BYTES,
        "packed_bytes": packed,
        "rounds": rounds,
        "glowplug_seconds": round(statistics.median(mine[1:]), 4),
        "tools_seconds": round(statistics.median(theirs[1:]), 4),
        "ratio": round(statistics.median(mine[1:]) / statistics.median(theirs[1:]), 3),
        "goal": 1.5,
        "import_seconds": round(_import_seconds(), 4),
        "all": {"glowplug": [round(one, 4) for one in mine], "tools": [round(one, 4) for one in theirs]},
    }


def _publish(tree: Path, store: Store, key: Key) -> Found:
    """150 files an entry, 150 its support; each half random, half repetitive, as compiled code compresses about twofold."""
    for place in ("entry/model", "inductor"):
        (tree / place).mkdir(parents=True)
        for number in range(FILES // 2):
            data = os.urandom(FILE_BYTES // 2) + bytes([number % 251]) * (FILE_BYTES // 2)
            (tree / place / f"{number:03d}.so").write_bytes(data)
    files = scan(tree).files
    entry = tuple(item for path, item in files.items() if path.startswith("entry/"))
    support = tuple(item for path, item in files.items() if path.startswith("inductor/"))
    parts = [
        NewPart(ENTRY, "entry", tree, entry, index=("entry/model/000.so",)),
        NewPart(SUPPORT, "entry", tree, support, of="entry"),
    ]
    done = publish(store, key, {}, parts, deadline=Deadline.after(60))
    found = look_up(store, key, Deadline.after(60))
    if done.outcome is not PublishOutcome.PUBLISHED or not isinstance(found, Found):
        raise RuntimeError(f"not published: {done}")
    return found


def _script(blobs: Sequence[tuple[str, str]], server: s3.Server) -> str:
    """What a careful person would write: fetch to a file, check it, unpack, flush. curl signs by itself."""
    keys = shlex.quote(f"{server.keys.access}:{server.keys.secret}")
    lines = []
    for number, (url, digest) in enumerate(blobs):
        lines += [
            f"curl -sSf --aws-sigv4 aws:amz:{s3.REGION}:s3 -u {keys} -o {number} {shlex.quote(url)}",
            f"echo '{digest}  {number}' | sha256sum --check --status",
            f"zstd -dcq {number} | tar -xf -",
            f"rm {number}",
        ]
    return "\n".join([*lines, "sync -f ."])


def _import_seconds() -> float:
    program = "import glowplug.cache.restore, glowplug.store.schemes, obstore"
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    raise SystemExit(main())
