"""One process of a race (`python racing.py URL ROUNDS NAME`): increments a counter object by compare-and-swap.

A program of its own and not a fork: obstore's threads do not survive one. Prints how often it won, and how often it
lost; a death in the middle is what the test does to it.
"""

from __future__ import annotations

import os
import sys

from glowplug.core.clock import Deadline
from glowplug.core.errors import ConflictError, NotFoundError
from glowplug.store.schemes import open_store


def main(url: str, rounds: int, name: str) -> None:
    store = open_store(url, os.environ)
    won = lost = 0
    sys.stdin.readline()
    while won < rounds:
        deadline = Deadline.after(120)
        try:
            try:
                found = store.get("counter", deadline)
                store.put_if("counter", found.data + f"{name}\n".encode(), found.meta.version, deadline)
            except NotFoundError:
                store.put_new("counter", f"{name}\n".encode(), deadline)
            won += 1
        except ConflictError:
            lost += 1
    print(won, lost)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
