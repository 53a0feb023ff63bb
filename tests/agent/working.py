"""An agent's collector as a process of its own, to be killed or to run with fewer rights (`python working.py FOLDER STOP`).

The folder is that of an `outboxes.Node`. STOP is where it stops and says so: `unpacked`, `published`, or `never`; then its pod is
gone, and it prints what was published and refused.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from glowplug.agent import offering
from glowplug.nodestore.inbox import Inbox
from glowplug.tree import archive
from tests.agent.outboxes import Node, pod


def _stop(*_: object) -> None:
    print("here", flush=True)
    time.sleep(3600)


def main(folder: str, stop: str) -> None:
    node = Node(Path(folder), replace(pod(), gone=stop == "never"))
    if stop == "unpacked":
        unpack = archive.unpack

        def unpacked(*args: Any) -> None:
            unpack(*args)
            _stop()

        offering.archive.unpack = unpacked  # type: ignore[assignment]
    if stop == "published":
        Inbox.drop = _stop  # type: ignore[method-assign, assignment]
    node.round()
    node.clock.shift += 60
    heard = node.round()
    print(json.dumps([heard.publishes(), heard.refusals()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
