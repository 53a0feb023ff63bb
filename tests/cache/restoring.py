"""Restores slowly, to be killed in the middle (`python restoring.py URL CACHE_ROOT`)."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from glowplug.cache.restore import restore
from glowplug.core.clock import Deadline
from glowplug.store.schemes import open_store
from glowplug.tree import place as placing
from tests.cache import making


def main(url: str, root: str) -> None:
    original = placing._Mover.put

    def put(self: placing._Mover, item: object) -> None:
        original(self, item)  # type: ignore[arg-type]
        print("placed", flush=True)
        time.sleep(0.002)

    placing._Mover.put = put  # type: ignore[method-assign]
    restore(open_store(url, os.environ), making.key(), {}, Path(root), deadline=Deadline.after(60))


if __name__ == "__main__":
    main(*sys.argv[1:])
