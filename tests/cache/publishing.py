"""One process of a race (`python publishing.py URL NAME TREE`): publishes its entries for each key that stdin names.

A line of stdin is `round salt`. Each process has an entry of its own and one whose name all share, with other bytes each, as cold
compiles are. Prints one line a round: the outcome of the publish.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from glowplug.cache.publish import Caps, publish
from glowplug.core.clock import Deadline
from glowplug.store.schemes import open_store
from tests.cache import making


def main(url: str, name: str, folder: str) -> None:
    store = open_store(url, os.environ)
    print("ready", flush=True)
    for line in sys.stdin:
        number, salt = line.split()
        root = Path(folder) / f"{number}-{salt}"
        making.tree(root, name, salt=salt, size=20_000)
        making.tree(root, "shared", salt=name + salt)
        parts = making.parts(root, name) + making.parts(root, "shared")
        key = making.key(args={"round": number})
        done = publish(store, key, {}, parts, deadline=Deadline.after(120), caps=Caps(entries=100))
        print(done.outcome.value, done.reason or "-", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
