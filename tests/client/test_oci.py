"""Images written without Docker: what is in the archive, under which name, and that the same content gives the same bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dev import oci
from tests.client import archives


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One of each kind of thing."""
    place = tmp_path / "root"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "tool").write_bytes(b"\x7fELF")
    (place / "bin" / "tool").chmod(0o700)
    (place / "bin" / "other").symlink_to("tool")
    (place / "tmp").mkdir()
    (place / "tmp").chmod(0o1777)
    (place / "text").write_text("words")
    (place / "text").chmod(0o600)
    (place / ("long" * 40)).mkdir()
    (place / ("long" * 40) / ("name" * 40 + "é")).touch()
    return place


def test_a_layer_holds_the_directory_with_plain_modes_and_no_owner(root: Path, tmp_path: Path) -> None:
    oci.write(tmp_path / "x.tar", "tool:1", [oci.Image("amd64", root, {})])
    _, (image,) = archives.read(tmp_path / "x.tar")
    members = {member.name: member for member in image.members()}
    assert list(members) == sorted(members, key=lambda name: name.split("/"))
    assert {name: oct(member.mode) for name, member in members.items() if len(name) < 20} == {
        "bin": "0o755",
        "bin/other": "0o777",
        "bin/tool": "0o755",
        "text": "0o644",
        "tmp": "0o1777",
    }
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members.values()} == {(0, 0, "", "", 0)}
    assert members["bin/other"].linkname == "tool"
    image.unpack(tmp_path / "again")
    assert sorted(path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*")) == sorted(
        path.relative_to(root) for path in root.rglob("*")
    )


def test_the_same_content_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    images = [oci.Image("amd64", root, {"User": "1"}), oci.Image("arm64", root, {"User": "1"})]
    oci.write(tmp_path / "a.tar", "tool:1", images)
    for path in root.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)
    (root / "text").chmod(0o664)
    oci.write(tmp_path / "b.tar", "tool:1", images)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    (root / "text").write_text("other")
    oci.write(tmp_path / "b.tar", "tool:1", images)
    assert (tmp_path / "a.tar").read_bytes() != (tmp_path / "b.tar").read_bytes()


def test_several_machines_share_one_name(root: Path, tmp_path: Path) -> None:
    config = {"User": "1", "Env": ["A=b"]}
    oci.write(tmp_path / "x.tar", "tool:1", [oci.Image(one, root, config) for one in ("amd64", "arm64")])
    annotations, images = archives.read(tmp_path / "x.tar")
    assert annotations["org.opencontainers.image.ref.name"] == "1"
    assert [(image.architecture, image.config) for image in images] == [("amd64", config), ("arm64", config)]


def test_layers_of_a_base_lie_below(root: Path, tmp_path: Path) -> None:
    (tmp_path / "low").mkdir()
    (tmp_path / "low" / "text").write_text("below")
    (tmp_path / "low" / "only").write_text("below")
    oci.write(tmp_path / "base.tar", "base:1", [oci.Image("amd64", tmp_path / "low", {"User": "0"})])
    oci.write(tmp_path / "x.tar", "tool:1", [oci.Image("amd64", root, {"User": "1"}, tmp_path / "base.tar")])
    annotations, (image,) = archives.read(tmp_path / "x.tar")
    assert annotations["io.containerd.image.name"] == "docker.io/library/tool:1"
    assert image.config == {"User": "1"}
    image.unpack(tmp_path / "again")
    assert [(tmp_path / "again" / name).read_text() for name in ("text", "only")] == ["words", "below"]


def test_a_base_for_another_machine_is_refused(root: Path, tmp_path: Path) -> None:
    oci.write(tmp_path / "base.tar", "base:1", [oci.Image("arm64", root, {})])
    with pytest.raises(oci.BaseError, match="arm64"):
        oci.write(tmp_path / "x.tar", "tool:1", [oci.Image("amd64", root, {}, tmp_path / "base.tar")])
    assert not (tmp_path / "x.tar").exists()


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("glowplug:1", "docker.io/library/glowplug:1"),
        ("team/glowplug:1", "docker.io/team/glowplug:1"),
        ("registry.example/glowplug:1", "registry.example/glowplug:1"),
        ("localhost/glowplug:1", "localhost/glowplug:1"),
        ("registry:5000/a/b:1", "registry:5000/a/b:1"),
    ],
)
def test_it_is_called_as_kubelet_looks_for_it(name: str, full: str) -> None:
    assert oci.full_name(name) == full


def test_a_failure_leaves_what_was_there(root: Path, tmp_path: Path) -> None:
    archive = tmp_path / "out" / "x.tar"
    oci.write(archive, "tool:1", [oci.Image("amd64", root, {})])
    before = archive.read_bytes()
    with pytest.raises(OSError, match="nowhere"):
        oci.write(archive, "tool:1", [oci.Image("amd64", root / "nowhere", {})])
    assert archive.read_bytes() == before
    assert [path.name for path in archive.parent.iterdir() if not path.name.endswith(".lock")] == ["x.tar"]
