"""Inductor's own lookup caches as an entry, for programs without an engine's tree around them.

`fxgraph` and `aotautograd` are what Inductor looks up by content; a hit there spares compilation. What they point to
(generated modules, Triton binaries) is support. torch does not say which of them one program uses, so all of them
together are one entry. Its name is made of the keys that can be looked up in it: a program that compiles more, or other
graphs, makes another entry, while two compiles of the same graphs (whose files differ in bytes) make the same one.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final, Optional

from glowplug.engines.adapter import Entry
from glowplug.engines.temporary import is_temporary, is_unfinished

if TYPE_CHECKING:
    from glowplug.engines.adapter import Launch
    from glowplug.tree.model import Index

NAME: Final = "inductor"
_INDEX: Final = re.compile(r"inductor/(?:fxgraph|aotautograd)/.+")


def entry(index: Index, launch: Launch) -> Optional[Entry]:
    """The entry in a tree, None where Inductor has kept nothing."""
    found = [(path, file) for path, file in sorted(index.files.items()) if _INDEX.fullmatch(path)]
    files = tuple(path for path, _ in found if not is_temporary(path))
    if not files:
        return None
    unfinished = next((path for path, _ in found if is_unfinished(path)), "")
    empty = next((path for path, file in found if file.size == 0 and not is_temporary(path)), "")
    incomplete = f"a write was not finished: {unfinished}" if unfinished else f"{empty} is empty" if empty else ""
    if launch.local_ranks is None:
        incomplete = incomplete or "the ranks of this machine cannot be known in a layout over several nodes"
    keys = sorted({path.rpartition("/")[0] for path in files})
    digest = hashlib.sha256("\n".join(keys).encode("utf-8", "surrogateescape")).hexdigest()
    return Entry(f"{NAME}-{digest[:12]}", files, files, incomplete)
