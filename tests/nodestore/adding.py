"""An agent that adds one key with two contents in turn, to be killed (`python adding.py ROOT TREE TREE`).

Says `step` at each change of a name on the disk, and takes its time there.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from tests.cache import making
from tests.nodestore import making as nodes


def main(root: str, *trees: str) -> None:
    original = os.rename

    def rename(*arguments: object, **named: object) -> None:
        print("step", flush=True)
        time.sleep(0.005)
        original(*arguments, **named)  # type: ignore[arg-type]

    os.rename = rename  # type: ignore[assignment]
    while True:
        for tree in trees:
            nodes.hold(Path(root), making.key(), Path(tree))


if __name__ == "__main__":
    main(*sys.argv[1:])
