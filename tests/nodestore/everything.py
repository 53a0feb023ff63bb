"""The node store from end to end on whatever Python runs this (`python -I -S everything.py SRC FOLDER`), nothing else imported."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path


def main(source: str, folder: str) -> None:
    sys.path.insert(0, source)
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Key, Layout
    from glowplug.core.documents.node import ENTRY, HeldPart, NodeKey, OutboxPart
    from glowplug.core.documents.start import Start
    from glowplug.nodestore import inbox, layout, outbox, read, write
    from glowplug.nodestore.restore import restore
    from glowplug.tree import archive
    from glowplug.tree.index import scan

    root, tree, soon = Path(folder) / "root", Path(folder) / "tree", Deadline.after(60)
    key = Key("default", "vllm", "0.21.0", "2.11.0", "gpu", "x86_64", Layout(), "model", {}, {}, "/compile-cache")
    (tree / "vllm").mkdir(parents=True)
    (tree / "vllm" / "model").write_bytes(bytes(100_000))
    files = tuple(dataclasses.replace(item, mode=0o664) for item in scan(tree).files.values())
    part = HeldPart(ENTRY, "e1", "", "a" * 64, 5, 100_000, 1, index=("vllm/model",))
    with write.staging(root, "default") as work:
        shutil.copytree(tree, work / "tree")
        added = NodeKey(key, key.digest(), (part,))
        write.add(root, "default", added, {part.sha256: write.Unpacked(work / "tree", files)})
    write.set_node(root, "default", "1.0", prefetching=False)
    write.mark_ready(root, "default")
    store = read.NodeStore(layout.store(root, "default"))
    first = restore(store, key, {}, Path(folder) / "cache", deadline=soon)
    again = restore(store, key, {}, Path(folder) / "cache", deadline=soon)
    other = restore(store, dataclasses.replace(key, torch="2.12.0"), {}, Path(folder) / "other", deadline=soon)
    print(first.outcome.value, again.reason, other.reason)
    mount = layout.outbox(root, "pod")
    mount.mkdir()
    box = outbox.Outbox(mount)
    box.put_start(Start("1", "exec", ""))
    box.put_part("1", OutboxPart(key, ENTRY, "e1"), tree, tuple(scan(tree).files.values()), deadline=soon)
    found = inbox.Inbox(root)
    for sealed in found.archives("pod", soon):
        print(*(item.path for item in archive.unpack(sealed, Path(folder) / "unpacked", inbox.LIMITS)))
    print(*(start.id for start in found.starts("pod")), found.clear("pod", soon), len(write.lru(root, 0, 0)))


if __name__ == "__main__":
    main(*sys.argv[1:])
