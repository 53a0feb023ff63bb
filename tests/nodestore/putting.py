"""A watcher that stops in the middle of an archive, to be killed (`python putting.py OUTBOX TREE`)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from glowplug.core.clock import Deadline
from glowplug.core.documents.node import ENTRY, OutboxPart
from glowplug.nodestore.outbox import Outbox
from glowplug.tree import archive
from glowplug.tree.index import scan
from tests.cache import making


def main(mount: str, tree: str) -> None:
    def stop(*_: object) -> None:
        print("half", flush=True)
        time.sleep(3600)

    archive._copy_file = stop  # type: ignore[assignment]
    files = tuple(scan(tree).files.values())
    Outbox(Path(mount)).put_part(
        "killed", OutboxPart(making.key(), ENTRY, "e1"), Path(tree), files, deadline=Deadline.never()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
