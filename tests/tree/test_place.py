"""Files into a live tree: whole, with their times, in order, through no link, and after a kill nothing half."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.tree import archive, paths
from glowplug.tree.index import diff, scan
from glowplug.tree.place import copy_tree, place, sync
from glowplug.tree.workspace import sweep, workspace
from tests.parts import requires
from tests.tree import trees

_PLACING = Path(__file__).with_name("placing.py")
_SOURCE = Path(__file__).parents[2] / "src"


def files_of(root: Path) -> list:  # type: ignore[type-arg]
    return list(scan(root).files.values())


@pytest.mark.parametrize("move", [False, True], ids=["copy", "move"])
def test_files_arrive_with_bytes_mode_and_nanoseconds(tmp_path: Path, move: bool) -> None:
    trees.write(tmp_path / "a", {"d/e/f": (b"x" * 100_000, 0o755, 123_456_789_123), "g": (b"", 0o664, 1)})
    before = scan(tmp_path / "a")
    (tmp_path / "b").mkdir()
    done = place(tmp_path / "a", list(before.files.values()), tmp_path / "b", move=move)
    after = scan(tmp_path / "b")
    assert after == before
    assert (done.written, done.bytes) == (("d/e/f", "g"), 100_000)
    assert not (tmp_path / "b" / paths.OWN).exists() or not list((tmp_path / "b" / paths.OWN).iterdir())
    assert (tmp_path / "b" / "d").stat().st_mode & 0o777 == 0o775


def test_a_copy_shares_no_inode_with_its_source(tmp_path: Path) -> None:
    trees.simple(tmp_path / "a", f="data")
    copy_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "f").stat().st_nlink == 1
    (tmp_path / "b" / "f").write_text("other")
    assert (tmp_path / "a" / "f").read_text() == "data"


def test_what_is_there_with_the_same_bytes_is_left(tmp_path: Path) -> None:
    trees.simple(tmp_path / "a", f="data")
    trees.write(tmp_path / "b", {"f": (b"data", 0o600, 5)})
    inode = (tmp_path / "b" / "f").stat().st_ino
    done = place(tmp_path / "a", files_of(tmp_path / "a"), tmp_path / "b")
    assert (done.written, done.kept, done.conflicts) == ((), ("f",), ())
    assert (tmp_path / "b" / "f").stat().st_ino == inode


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("there", [b"DATA", b"longer than data"], ids=["same size", "other size"])
def test_what_is_there_with_other_bytes_is_replaced_only_if_asked(tmp_path: Path, there: bytes, replace: bool) -> None:
    trees.simple(tmp_path / "a", f="data")
    trees.simple(tmp_path / "b", f=there)
    done = place(tmp_path / "a", files_of(tmp_path / "a"), tmp_path / "b", replace=replace)
    assert done.conflicts == (() if replace else ("f",))
    assert (tmp_path / "b" / "f").read_bytes() == (b"data" if replace else there)


class TestLinksInTheWay:
    """Whoever can write the destination must not choose where else we write."""

    @pytest.mark.parametrize(
        ("spot", "move"),
        [(spot, move) for spot in ("d", "d/e", "d/e/f") for move in (False, True)] + [(".glowplug", False)],
    )
    def test_are_refused(self, tmp_path: Path, spot: str, move: bool) -> None:
        trees.simple(tmp_path / "a", d__e__f="data")
        outside = tmp_path / "outside"
        outside.mkdir()
        link = tmp_path / "b" / spot
        link.parent.mkdir(parents=True)
        link.symlink_to(outside)
        with pytest.raises(OSError) as caught:
            place(tmp_path / "a", files_of(tmp_path / "a"), tmp_path / "b", move=move, replace=True)
        assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR, None}
        assert list(outside.iterdir()) == []
        assert link.is_symlink()

    def test_a_directory_in_the_place_of_a_file_is_an_error(self, tmp_path: Path) -> None:
        trees.simple(tmp_path / "a", f="data")
        (tmp_path / "b" / "f").mkdir(parents=True)
        with pytest.raises(OSError, match="in the way"):
            place(tmp_path / "a", files_of(tmp_path / "a"), tmp_path / "b", replace=True)


class TestKilledInTheMiddle:
    """SIGKILL at any moment: files are whole, and the one that was to be last is there only with all others."""

    @pytest.mark.parametrize("how", ["copy", "move"])
    def test_nothing_half_is_left(self, tmp_path: Path, how: str) -> None:
        picked = random.Random(how)  # noqa: S311 - moments, not secrets
        for number in range(6):
            source, target = tmp_path / f"a{number}", tmp_path / f"b{number}"
            trees.write(source, {f"d{n % 5}/{n}": (bytes([n]) * 20_000, 0o644, n) for n in range(60)})
            trees.simple(source, index="i")
            wanted = scan(source)
            target.mkdir()
            process = subprocess.Popen(
                [sys.executable, str(_PLACING), str(source), str(target), how],
                env={"PYTHONPATH": str(_SOURCE)},
                stdout=subprocess.PIPE,
            )
            assert process.stdout is not None
            for _ in range(picked.randrange(1, 61)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.communicate()
            found = scan(target).files
            assert all(item == wanted.files[path] for path, item in found.items())
            assert "index" not in found or len(found) == 61
            left = scan(source).files
            place(source, [wanted.files[path] for path in left], target, move=how == "move")
            assert scan(target) == wanted
            sweep(target)
            assert list((target / paths.OWN).iterdir() if (target / paths.OWN).exists() else []) == []


class TestWorkspaces:
    def test_those_of_the_living_are_left_alone(self, tmp_path: Path) -> None:
        with workspace(tmp_path) as one:
            (one / "f").write_text("x")
            with workspace(tmp_path) as other:
                assert one != other
            assert (one / "f").exists()
        assert list((tmp_path / paths.OWN).iterdir()) == []

    def test_those_of_the_dead_are_removed(self, tmp_path: Path) -> None:
        program = """
import os, sys
from pathlib import Path
from glowplug.tree.workspace import workspace
with workspace(Path(sys.argv[1])) as one:
    (one / "f").write_text("x")
    os.kill(os.getpid(), 9)
"""
        subprocess.run([sys.executable, "-c", program, str(tmp_path)], env={"PYTHONPATH": str(_SOURCE)})
        assert len(list((tmp_path / paths.OWN).iterdir())) == 1
        with workspace(tmp_path):
            pass
        assert list((tmp_path / paths.OWN).iterdir()) == []


def test_sync_says_whether_it_was_done_in_time(tmp_path: Path) -> None:
    assert sync(tmp_path)
    assert sync(tmp_path, 60)


@requires("ninja")
def test_ninja_has_nothing_to_do_after_pack_unpack_place_and_copy(tmp_path: Path) -> None:
    """FlashInfer's JIT leaves freshness to ninja, which compares mtimes in nanoseconds and command lines."""
    tree = tmp_path / "tree"
    ninja = ["ninja", "-C"]
    trees.simple(
        tree,
        build_dot_ninja="rule cc\n  command = cat $in > $out && echo '$out: header' > $out.d\n"
        "  depfile = $out.d\n  deps = gcc\n"
        "build kernel.o: cc kernel.cu\nbuild kernel.so: cc kernel.o\n",
        kernel_dot_cu="source",
        header="h",
    )
    subprocess.run([*ninja, str(tree)], check=True, capture_output=True)
    index = scan(tree)
    out = io.BytesIO()
    archive.pack(tree, list(index.files.values()), out)

    def work_to_do(place: Path) -> str:
        done = subprocess.run([*ninja, str(place), "-n"], capture_output=True, text=True)
        return done.stdout.splitlines()[-1]

    unpacked, placed, copied = tmp_path / "unpacked", tmp_path / "placed", tmp_path / "copied"
    files = archive.unpack(io.BytesIO(out.getvalue()), unpacked)
    assert "no work to do" in work_to_do(unpacked)
    placed.mkdir()
    place(unpacked, files, placed, move=True)
    assert "no work to do" in work_to_do(placed)
    copy_tree(placed, copied)
    assert "no work to do" in work_to_do(copied)
    plain = tmp_path / "plain"
    shutil.copytree(tree, plain, copy_function=shutil.copyfile)
    os.utime(plain / "kernel.cu")
    assert "no work to do" not in work_to_do(plain), "this test can fail"
    assert not diff(index, scan(copied))
