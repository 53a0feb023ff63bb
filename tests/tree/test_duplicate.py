"""What is copied from a read-only tree is what its table says, by reflink or by bytes, or nothing is."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import IntegrityError, NotFoundError, UnavailableError
from glowplug.tree import duplicate as duplicating
from glowplug.tree.duplicate import duplicate
from glowplug.tree.index import diff, scan
from glowplug.tree.model import File
from tests.clocks import Held
from tests.tree import trees


def _by_reflink(target: int, _request: int, source: int) -> int:
    """As the kernel does it on XFS and Btrfs: all bytes at once, and no offset moves."""
    os.pwrite(target, os.pread(source, 1 << 30, 0), 0)
    return 0


def _by_bytes(_target: int, _request: int, _source: int) -> int:
    raise OSError(errno.EOPNOTSUPP, "not supported")


def _only_the_first(target: int, request: int, source: int) -> int:
    """A tree over two file systems, say."""
    if os.pread(source, 1, 0) == b"a":
        return _by_reflink(target, request, source)
    raise OSError(errno.EXDEV, "another device")


@pytest.fixture(params=[_by_reflink, _by_bytes, _only_the_first], autouse=True)
def clone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """How files are copied; no file system here knows reflinks, so the kernel's answer is made."""
    monkeypatch.setattr(duplicating.fcntl, "ioctl", request.param)
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    trees.write(
        root,
        {
            "a": (b"a" * 3_000_000, 0o640, 10**18 + 1),
            "d/empty": (b"", 0o400, 1),
            "d/e/b": (b"b" * 10, 0o750, 10**18 + 999_999_999),
        },
    )
    return root


def files_of(root: Path) -> list[File]:
    return list(scan(root).files.values())


def test_bytes_modes_and_times_are_those_of_the_table(source: Path, tmp_path: Path) -> None:
    """Not those of the source: a node's files are readable by all and writable by nobody."""
    files = files_of(source)
    for item in files:
        (source / item.path).chmod(0o444)
        os.utime(source / item.path, ns=(5, 5))
    duplicate(source, files, tmp_path / "copy", Deadline.after(60))
    assert files_of(tmp_path / "copy") == files


def test_only_what_the_table_names_is_copied(source: Path, tmp_path: Path) -> None:
    duplicate(source, files_of(source)[:1], tmp_path / "copy", Deadline.after(60))
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["a"]


def test_a_copy_shares_nothing_with_its_source(source: Path, tmp_path: Path) -> None:
    before = scan(source)
    duplicate(source, files_of(source), tmp_path / "copy", Deadline.after(60))
    (tmp_path / "copy" / "a").write_bytes(b"other")
    assert not diff(before, scan(source))


@pytest.mark.parametrize("place", [0, 1_500_000, 2_999_999])
def test_a_byte_that_changed_is_found(source: Path, tmp_path: Path, place: int) -> None:
    files = files_of(source)
    with (source / "a").open("r+b") as file:
        file.seek(place)
        file.write(b"X")
    with pytest.raises(IntegrityError):
        duplicate(source, files, tmp_path / "copy", Deadline.after(60))


def test_a_file_that_is_gone_is_no_damage(source: Path, tmp_path: Path) -> None:
    files = files_of(source)
    (source / "d" / "empty").unlink()
    with pytest.raises(NotFoundError) as caught:
        duplicate(source, files, tmp_path / "copy", Deadline.after(60))
    assert caught.value.code == "blob-missing"


def test_a_tree_that_is_gone_is_no_damage(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        duplicate(tmp_path / "absent", [], tmp_path / "copy", Deadline.after(60))


def test_a_longer_or_shorter_file_is_found(source: Path, tmp_path: Path) -> None:
    for size in (2_999_999, 3_000_001):
        files = [dataclasses.replace(item, size=size) for item in files_of(source) if item.path == "a"]
        with pytest.raises(IntegrityError):
            duplicate(source, files, tmp_path / f"copy{size}", Deadline.after(60))


def test_a_faulty_path_leads_nowhere_else(source: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (source / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "x").write_bytes(b"b" * 10)
    wanted = next(item for item in files_of(source) if item.path == "d/e/b")
    with pytest.raises(IntegrityError):
        duplicate(source, [dataclasses.replace(wanted, path="link/x")], tmp_path / "copy", Deadline.after(60))


def test_it_ends_at_the_deadline_within_a_file_too(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Held()
    read = os.readv

    def slow(descriptor: int, buffers: list[memoryview]) -> int:
        clock.at += 1
        return read(descriptor, buffers)

    monkeypatch.setattr(duplicating.os, "readv", slow)
    with pytest.raises(UnavailableError) as caught:
        duplicate(source, files_of(source), tmp_path / "copy", Deadline.after(1.5, clock))
    assert caught.value.code == "timeout"
    assert clock.at < 3
