"""How much a node store may be, and what is whole."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from glowplug.agent import housekeeping
from glowplug.agent.ranking import Size
from glowplug.nodestore import write
from tests.agent.hearing import Heard

GB = 10**9


def disk(
    monkeypatch: pytest.MonkeyPatch, *, total: int, free: int, files: int = 10**9, free_files: int = 10**9
) -> None:
    """A disk of so many bytes."""
    answer = SimpleNamespace(
        f_frsize=1, f_blocks=total, f_bavail=free, f_files=files, f_favail=free_files if files else 0
    )
    monkeypatch.setattr(os, "statvfs", lambda _: answer)


NOTHING = Size(0, 0)


class TestRoom:
    @pytest.mark.parametrize(
        ("total", "free", "held", "room"),
        [
            (1000 * GB, 900 * GB, 0, 100 * GB),  # a tenth of the disk
            (28_000 * GB, 27_000 * GB, 0, 200 * GB),  # no node needs more
            (1000 * GB, 60 * GB, 0, 30 * GB),  # half of what is free
            (1000 * GB, 20 * GB, 40 * GB, 30 * GB),  # of what would be free without us
            (1000 * GB, 0, 0, 0),
        ],
    )
    def test_is_little_of_the_disk_where_nothing_is_said(
        self, monkeypatch: pytest.MonkeyPatch, total: int, free: int, held: int, room: int
    ) -> None:
        disk(monkeypatch, total=total, free=free)
        assert housekeeping.room(Path("/"), None, Size(held, 0)).bytes == room

    def test_does_not_move_while_the_store_fills(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = set()
        for held in (0, 10 * GB, 30 * GB):
            disk(monkeypatch, total=1000 * GB, free=60 * GB - held)
            seen.add(housekeeping.room(Path("/"), None, Size(held, 0)).bytes)
        assert len(seen) == 1

    def test_is_what_was_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        disk(monkeypatch, total=1000 * GB, free=1 * GB)
        assert housekeeping.room(Path("/"), 5 * GB, NOTHING).bytes == 5 * GB

    def test_counts_inodes_where_the_disk_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        disk(monkeypatch, total=1000 * GB, free=900 * GB, files=1000, free_files=100)
        assert housekeeping.room(Path("/"), None, NOTHING).inodes == 50
        disk(monkeypatch, total=1000 * GB, free=900 * GB, files=0)
        assert housekeeping.room(Path("/"), None, NOTHING).inodes > 10**12


def test_a_root_that_is_not_there_yet_holds_nothing(tmp_path: Path) -> None:
    root = tmp_path / "none"
    assert write.usage(root) == []
    assert housekeeping.total([]) == NOTHING
    assert housekeeping.domains(root) == housekeeping.keys(root, "default") == ()


def test_a_key_that_cannot_be_removed_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for digit in "01":
        (write.prepare(tmp_path, "default") / (digit * 64)).mkdir()
    true = write.remove

    def remove(root: Path, domain: str, digest: str) -> bool:
        if digest[0] == "0":
            raise PermissionError("immutable")
        return true(root, domain, digest)

    monkeypatch.setattr(write, "remove", remove)
    heard = Heard()
    housekeeping.remove_damaged(tmp_path, "default", heard)
    assert heard.of("failed") == [("disk", "PermissionError")]
    assert heard.of("removed") == [("default", "1" * 64, "damaged")]
