"""A node with one key, what a pod sees of it, and an outbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from glowplug.nodestore.read import NodeStore
from tests.cache import making
from tests.nodestore import making as nodes


@pytest.fixture
def soon() -> Deadline:
    """A deadline for calls that ought to succeed."""
    return Deadline.after(120)


@pytest.fixture
def key() -> Key:
    return making.key()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the entries `e1` and `e2`, each with its support."""
    making.tree(tmp_path / "tree")
    return making.tree(tmp_path / "tree", "e2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The agent's directory."""
    return tmp_path / "glowplug"


@pytest.fixture
def node(root: Path, key: Key, tree: Path) -> NodeStore:
    """The node store, as a pod has it mounted, of a node that holds the tree under the key and is ready."""
    nodes.hold(root, key, tree, "e1", "e2")
    nodes.write.mark_ready(root, nodes.DOMAIN)
    return NodeStore(nodes.mount(root))


@pytest.fixture
def cache_root(tmp_path: Path) -> Path:
    return tmp_path / "compile-cache"
