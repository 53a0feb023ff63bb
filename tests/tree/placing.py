"""Places files slowly, to be killed in the middle (`python placing.py SOURCE DESTINATION move|copy`)."""

from __future__ import annotations

import sys
import time

from glowplug.tree import place as placing
from glowplug.tree.index import scan


def main(source: str, destination: str, how: str) -> None:
    original = placing._Mover.put

    def put(self: placing._Mover, item: object) -> None:
        original(self, item)  # type: ignore[arg-type]
        print("placed", flush=True)
        time.sleep(0.002)

    placing._Mover.put = put  # type: ignore[method-assign]
    files = sorted(scan(source).files.values(), key=lambda item: item.path == "index")
    placing.place(source, files, destination, move=how == "move")


if __name__ == "__main__":
    main(*sys.argv[1:])
