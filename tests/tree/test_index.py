"""What an index lists, what it skips, and that a living directory does it no harm."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from glowplug.tree import index as indexing
from glowplug.tree.index import diff, scan
from glowplug.tree.model import EMPTY
from tests.parts import requires
from tests.tree import trees


def test_lists_regular_files_with_digest_mode_and_nanoseconds(tmp_path: Path) -> None:
    trees.write(tmp_path, {"a/b": (b"data", 0o640, 1_700_000_000_123_456_789), "é": (b"", 0o755, 5)})
    found = scan(tmp_path)
    assert list(found.files) == ["a/b", "é"]
    one = found.files["a/b"]
    assert (one.size, one.mode, one.mtime_ns) == (4, 0o640, 1_700_000_000_123_456_789)
    assert one.sha256 == hashlib.sha256(b"data").hexdigest()
    assert found.skipped == ()
    assert found.bytes == 4


def test_an_absent_root_is_an_empty_index(tmp_path: Path) -> None:
    assert scan(tmp_path / "nothing") == EMPTY


def test_what_is_no_regular_file_is_skipped_and_named(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    trees.simple(outside, secret="s")
    root = tmp_path / "root"
    trees.simple(root, file="f")
    (root / "link").symlink_to(outside / "secret")
    (root / "folder-link").symlink_to(outside)
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(root / "socket"))
    found = scan(root)
    assert list(found.files) == ["file"]
    assert found.skipped == ("fifo", "folder-link", "link", "socket")


def test_names_that_cannot_travel_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "line\nbreak").write_text("x")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/not-utf8-\xff"))).write_text("x")
    (tmp_path / "good").write_text("x")
    found = scan(tmp_path)
    assert list(found.files) == ["good"]
    assert len(found.skipped) == 2
    assert all(name.encode() for name in found.skipped)


def test_glowplugs_own_files_are_no_part_of_a_tree(tmp_path: Path) -> None:
    trees.simple(tmp_path, _dot_glowplug__work="w", a__good="g")
    (tmp_path / "a" / ".glowplug-tmp-0123").write_text("half")
    assert list(scan(tmp_path).files) == ["a/good"]


def test_select_decides_before_anything_is_read(tmp_path: Path) -> None:
    trees.simple(tmp_path, vllm__a="a", hf__b="b")
    (tmp_path / "hf" / "link").symlink_to("b")
    found = scan(tmp_path, select=lambda path: path.startswith("vllm/"))
    assert list(found.files) == ["vllm/a"]
    assert found.skipped == ()


def test_a_tree_deeper_than_paths_may_be_is_skipped_not_followed(tmp_path: Path) -> None:
    place = tmp_path
    for _ in range(200):
        place = place / "d"
        place.mkdir()
    (place / "file").write_text("x")
    found = scan(tmp_path)
    assert not found.files
    assert len(found.skipped) == 1


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each file that is read."""
    reads: list[int] = []
    original = indexing._Walk._read

    def read(self: indexing._Walk, descriptor: int) -> tuple[int, str]:
        reads.append(1)
        return original(self, descriptor)

    monkeypatch.setattr(indexing._Walk, "_read", read)
    return reads


def _age(monkeypatch: pytest.MonkeyPatch, seconds: int = 10) -> None:
    """The scan believes that it happens later: files are old enough for their stamps to be trusted."""
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + seconds * 10**9)


def test_digests_of_untouched_files_are_reused(
    tmp_path: Path, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.simple(tmp_path, a="a", b="b")
    _age(monkeypatch)
    first = scan(tmp_path)
    assert len(counted) == 2
    (tmp_path / "b").write_text("c")
    second = scan(tmp_path, previous=first)
    assert len(counted) == 3
    assert diff(first, second).changed == ("b",)


def test_a_file_written_just_before_the_scan_is_read_again(tmp_path: Path, counted: list[int]) -> None:
    trees.simple(tmp_path, a="a")
    first = scan(tmp_path)
    assert scan(tmp_path, previous=first) == first
    assert len(counted) == 2


def test_same_size_and_restored_mtime_do_not_hide_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.simple(tmp_path, a="aaaa")
    _age(monkeypatch)
    first = scan(tmp_path)
    before = (tmp_path / "a").stat()
    (tmp_path / "a").write_text("bbbb")
    os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert diff(first, scan(tmp_path, previous=first)).changed == ("a",)


def test_difference_names_what_happened(tmp_path: Path) -> None:
    trees.simple(tmp_path, gone="g", same="s", touched="t", changed="1")
    before = scan(tmp_path)
    (tmp_path / "gone").unlink()
    (tmp_path / "changed").write_text("2")
    os.utime(tmp_path / "touched", ns=(1, 1))
    trees.simple(tmp_path, new="n")
    found = diff(before, scan(tmp_path))
    assert (found.added, found.changed, found.removed, found.rewritten) == (
        ("new",),
        ("changed",),
        ("gone",),
        ("touched",),
    )
    assert found
    assert not diff(before, before)


def test_files_that_come_and_go_while_the_tree_is_read(tmp_path: Path) -> None:
    """A writer churns; every scan ends, and lists only bytes that a file had at some moment, or a file still in flux."""
    stop = threading.Event()

    def churn() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            folder = tmp_path / f"d{number % 7}"
            folder.mkdir(exist_ok=True)
            for name in "abc":
                (folder / name).write_bytes(bytes([number % 256]) * 5000)
            if number % 3 == 0:
                for name in "abc":
                    (folder / name).unlink()
                folder.rmdir()

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for _ in range(60):
            for item in scan(tmp_path).files.values():
                assert item.path.count("/") == 1
    finally:
        stop.set()
        writer.join()


@requires("root")
def test_an_unreadable_file_is_skipped_not_an_error(tmp_path: Path) -> None:
    trees.simple(tmp_path, open="o", shut="s", folder__inside="i")
    (tmp_path / "shut").chmod(0)
    (tmp_path / "folder").chmod(0)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o077 == 0:
            parent.chmod(0o755)  # pytest's own directories, whatever a runner of several workers calls them
    program = (
        "import os, sys\n"
        "from glowplug.tree.index import scan\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "found = scan(sys.argv[1]); print(list(found.files), found.skipped)"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "['open'] ('folder', 'shut')"
