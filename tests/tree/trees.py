"""Trees as data: hypothesis strategies and a writer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from glowplug.core.atomic import TEMPORARY_PREFIX
from glowplug.tree import paths

# Letters that file systems, tars and JSON treat in different ways.
NAMES = st.one_of(
    st.text(alphabet="abz09._-+=@ ~é語𝒳\"\\'*?%", min_size=1, max_size=20),
    st.text(alphabet="n", min_size=90, max_size=110),
    st.just("语" * 80),
).filter(lambda name: name not in {".", "..", paths.OWN} and not name.startswith(TEMPORARY_PREFIX))
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(lambda path: not paths.fault(path))


def _no_file_is_a_directory(tree: Mapping[str, object]) -> bool:
    return not any(one != other and other.startswith(one + "/") for one in tree for other in tree)


TREES = st.dictionaries(
    PATHS,
    st.tuples(
        st.binary(max_size=3000),
        st.integers(0, 0o777).map(lambda mode: mode | 0o400),
        st.integers(0, 4_000_000_000 * 10**9),
    ),
    max_size=8,
).filter(_no_file_is_a_directory)


def write(root: Path, tree: Mapping[str, tuple[bytes, int, int]]) -> None:
    """Make the tree: path → bytes, mode, mtime in nanoseconds."""
    root.mkdir(parents=True, exist_ok=True)
    for path, (data, mode, mtime_ns) in tree.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)
        os.utime(place, ns=(mtime_ns, mtime_ns))


def simple(root: Path, **files: bytes | str) -> None:
    """Files by name; `__` is a slash and `_dot_` a dot."""
    for name, data in files.items():
        place = root / name.replace("__", "/").replace("_dot_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
