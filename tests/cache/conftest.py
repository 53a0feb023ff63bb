"""Stores, keys and trees for the cache. The stores are those of the store's own conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from glowplug.cache import control, uses
from glowplug.core.clock import Deadline
from glowplug.core.documents.fingerprint import Key
from tests.cache import making
from tests.store.conftest import Place, place, proxy, s3_place, s3_server, shared_place, store

__all__ = ["Place", "place", "proxy", "s3_place", "s3_server", "shared_place", "store"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch or a mark of use that is there is found, also where the machine pauses for longer than they are worth."""
    monkeypatch.setattr(control, "_SECONDS", 60.0)
    monkeypatch.setattr(uses, "_SECONDS", 60.0)


@pytest.fixture
def soon() -> Deadline:
    """A deadline for calls that ought to succeed."""
    return Deadline.after(120)


@pytest.fixture
def key() -> Key:
    return making.key()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one entry, `e1`, and its support."""
    return making.tree(tmp_path / "tree")
