"""core/atomic.py: a file under its name is the old one or the new one, and a person's file stays the person's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from glowplug.core import atomic


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "deploy.yaml"
    path.write_bytes(b"old")
    return path


def _names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755, 0o666])
def test_a_rewritten_file_keeps_its_mode_whatever_the_mask(kept: Path, mode: int) -> None:
    kept.chmod(mode)
    before = os.umask(0o077)
    try:
        atomic.rewrite(kept, b"new")
    finally:
        os.umask(before)
    assert (kept.read_bytes(), stat.S_IMODE(kept.stat().st_mode), _names(kept.parent)) == (b"new", mode, [kept.name])


def test_a_link_stays_one_and_what_it_leads_to_is_rewritten(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    second = tmp_path / "links" / "second"
    first = tmp_path / "links" / "first"
    second.symlink_to("../deploy.yaml")
    first.symlink_to("second")
    atomic.rewrite(first, b"new")
    assert (kept.read_bytes(), kept.is_symlink()) == (b"new", False)
    assert (str(first.readlink()), str(second.readlink())) == ("second", "../deploy.yaml")
    assert _names(second.parent) == ["first", "second"]


@pytest.mark.parametrize("what", ["directory", "pipe", "nothing", "dangling"])
def test_what_is_no_file_stays_as_it_is_and_is_named(tmp_path: Path, what: str) -> None:
    path = tmp_path / "it"
    if what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "dangling":
        path.symlink_to("nowhere")
    before = _names(tmp_path)
    with pytest.raises(OSError, match="it") as caught:
        atomic.rewrite(path, b"new")
    assert (caught.value.filename, _names(tmp_path)) == (str(path), before)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic.rewrite(kept, b"new")
    assert caught.value.filename == str(kept)
    assert (kept.read_bytes(), _names(kept.parent)) == (b"old", [kept.name])


def test_what_was_written_since_it_was_read_stays(kept: Path) -> None:
    for meanwhile in (b"newer", b"ol", b"old\n", b""):
        kept.write_bytes(meanwhile)
        with pytest.raises(atomic.ChangedError):
            atomic.rewrite(kept, b"new", before=b"old")
        assert (kept.read_bytes(), _names(kept.parent)) == (meanwhile, [kept.name])
    kept.write_bytes(b"old")
    atomic.rewrite(kept, b"new", before=b"old")
    assert kept.read_bytes() == b"new"
