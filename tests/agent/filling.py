"""One process that fills a node's store as an agent does (`python filling.py URL ROOT`), to be killed at any moment.

Prints `begun` when pods find the program, and `done` when all of it is here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from glowplug.store.schemes import open_store
from tests.agent.hearing import Heard, prewarm, settings


def main(url: str, root: str) -> None:
    one = prewarm(settings(Path(root)), Heard(), open_store(url, os.environ))
    assert one.begin()
    print("begun", flush=True)
    assert one.round()
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
