"""A node's root, a store that is a directory, and somebody who hears what the agent tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.core.documents.fingerprint import Key
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.agent.hearing import Heard, put
from tests.cache import making


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "glowplug"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return tmp_path / "trees"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store((tmp_path / "store").as_uri(), {})


@pytest.fixture
def key(store: Store, trees: Path) -> Key:
    """A key that is in the store."""
    return put(store, trees, making.key())
