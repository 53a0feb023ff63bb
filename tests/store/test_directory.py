"""What only a directory can do wrong."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.parts import requires


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Store:
    return open_store(root.as_uri(), {})


def test_objects_are_files_at_their_paths(store: Store, root: Path, soon: Deadline) -> None:
    store.put("v1/d/blob", b"1", soon)
    assert (root / "v1/d/blob").read_bytes() == b"1"
    (root / "v1/d/other").write_bytes(b"by hand")
    assert store.get("v1/d/other", soon).data == b"by hand"


def test_nothing_else_stays(store: Store, root: Path, soon: Deadline) -> None:
    for _ in range(5):
        store.put("a/b", b"1", soon)
    with pytest.raises(GlowplugError):
        store.put_new("a/b", b"2", soon)
    names = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {name for name in names if not name.startswith(".glowplug-locks/")} == {"a/b"}
    assert [meta.path for meta in store.list("", soon)] == ["a/b"]


def test_versions_survive_a_copy(store: Store, root: Path, soon: Deadline, tmp_path: Path) -> None:
    version = store.put_new("m", b"1", soon)
    shutil.copytree(root, tmp_path / "copy")
    assert open_store(str(tmp_path / "copy"), {}).put_if("m", b"2", version, soon)


def test_a_missing_parent_is_no_empty_store(tmp_path: Path, soon: Deadline) -> None:
    store = open_store(str(tmp_path / "not-mounted" / "store"), {})
    for call in (
        lambda: store.get("a", soon),
        lambda: store.head("a", soon),
        lambda: list(store.list("", soon)),
        lambda: list(store.stream("a", soon)),
        lambda: store.put("a", b"", soon),
        lambda: store.put_new("a", b"", soon),
        lambda: store.delete("a", soon),
    ):
        with pytest.raises(AccessDeniedError) as caught:
            call()
        assert caught.value.code == "no-bucket"
    assert not (tmp_path / "not-mounted").exists()


@pytest.mark.parametrize("kind", ["directory", "fifo", "link"])
def test_what_is_no_regular_file_is_no_object(
    store: Store, root: Path, soon: Deadline, kind: str, tmp_path: Path
) -> None:
    store.put("other", b"1", soon)
    place = root / "odd"
    match kind:
        case "directory":
            place.mkdir()
        case "fifo":
            os.mkfifo(place)
        case _:
            (tmp_path / "outside").write_bytes(b"secret")
            place.symlink_to(tmp_path / "outside")
    with pytest.raises(NotFoundError):
        store.get("odd", soon)
    assert store.head("odd", soon) is None
    assert [meta.path for meta in store.list("", soon)] == ["other"]


def test_files_can_be_read_by_everybody(store: Store, root: Path, soon: Deadline) -> None:
    store.put("a", b"1", soon)
    assert stat.S_IMODE((root / "a").stat().st_mode) & 0o444 == 0o444 & ~_umask()


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


_AS_NOBODY = """
import os, sys
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError
from glowplug.store.schemes import open_store
store = open_store(sys.argv[1], {})
store.list  # everything is imported before the rights are gone
import glowplug.store.directory
os.setgid(65534); os.setuid(65534)
for call in (
    lambda: store.get("a", Deadline.after(60)).data,
    lambda: store.put("b", b"1", Deadline.after(60)),
    lambda: store.put_new("b", b"1", Deadline.after(60)),
    lambda: store.put_if("a", b"1", "v", Deadline.after(60)),
    lambda: store.delete("a", Deadline.after(60)),
    lambda: store.get("secret", Deadline.after(60)),
):
    try:
        print(call())
    except GlowplugError as error:
        print(error.code)
"""


@requires("root")
def test_another_user_reads_and_is_told_that_writing_is_not_allowed(soon: Deadline) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        store = open_store(f"{name}/store", {})
        store.put("a", b"1", soon)
        store.put("secret", b"1", soon)
        Path(name, "store", "secret").chmod(0o600)
        search = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, f"{name}/store"],
            env={"PYTHONPATH": search},
            capture_output=True,
            text=True,
        )
    assert done.stdout.split() == ["b'1'", *["read-only-store"] * 4, "access-denied"], done.stderr
