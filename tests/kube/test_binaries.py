"""Kubernetes' commands: pinned, built once each, and said in words where they cannot be built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.kube import __main__ as command_line
from lab.kube import binaries

MODULE = Path(binaries.__file__).parent


def _fake_go(directory: Path, script: str) -> None:
    path = directory / "go"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH, for a pretended `go`; products go to an empty cache."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("GLOWPLUG_LAB_CACHE", str(tmp_path / "cache"))
    return directory


_BUILDS = """
echo "$@ :: $GOMODCACHE $GOCACHE $GOFLAGS" >>"$0.calls"
while [ $# -gt 1 ]; do [ "$1" = -o ] && echo built >"$2"; shift; done
exit 0
"""


def test_every_command_is_a_tool_of_the_module() -> None:
    tools = set((MODULE / "go.mod").read_text().rpartition("tool (")[2].split())
    assert {command.package for command in binaries.COMMANDS.values()} <= tools


def test_every_part_of_kubernetes_has_the_version_that_the_commands_state() -> None:
    text = (MODULE / "go.mod").read_text()
    replaced = re.findall(r"^\tk8s\.io/(\S+) => k8s\.io/(\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) > 20
    assert {(one == other, version) for one, other, version in replaced} == {
        (True, binaries.KUBERNETES.replace("v1", "v0"))
    }
    assert re.findall(r"k8s\.io/kubernetes (\S+)", text) == [binaries.KUBERNETES]


def test_a_command_is_built_once_and_the_modules_are_downloaded_once(go: Path) -> None:
    _fake_go(go, _BUILDS)
    first = binaries.build(["etcd", "kube-apiserver"])
    assert [path.read_text() for path in first.values()] == ["built\n", "built\n"]
    assert binaries.build(["kube-apiserver"]) == {"kube-apiserver": first["kube-apiserver"]}
    assert binaries.find("etcd") == first["etcd"]
    did = [line.split()[0] for line in (go / "go.calls").read_text().splitlines()]
    assert [did.count(word) for word in ("mod", "build")] == [1, 2]


def test_one_more_command_builds_itself_alone(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_go(go, _BUILDS)
    binaries.build(["etcd"])
    another = binaries.Command("kubectl", "k8s.io/kubernetes/cmd/kubectl")
    monkeypatch.setattr(binaries, "COMMANDS", {**binaries.COMMANDS, "kubectl": another})
    binaries.build(["etcd", "kubectl"])
    built = [line for line in (go / "go.calls").read_text().splitlines() if line.startswith("build")]
    assert [line.partition(" ::")[0].rpartition("/")[2] for line in built] == ["v3", "kubectl"]


def test_another_go_builds_anew(go: Path) -> None:
    _fake_go(go, _BUILDS + "\n")
    before = binaries.build(["etcd"])
    _fake_go(go, '[ "$1" = env ] && echo go1.99.0 linux amd64\n' + _BUILDS)
    assert binaries.find("etcd") is None
    assert binaries.build(["etcd"]) != before


def test_nothing_is_written_to_the_home_directory_and_all_can_be_deleted(go: Path, tmp_path: Path) -> None:
    _fake_go(go, _BUILDS)
    binaries.build(["etcd"])
    for line in (go / "go.calls").read_text().splitlines():
        if line.startswith(("mod", "build")):
            modules, compiled, *flags = line.partition(" :: ")[2].split()
            assert Path(modules).is_relative_to(tmp_path / "cache")
            assert Path(compiled).is_relative_to(tmp_path / "cache")
            assert "-modcacherw" in flags


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "no Go; install Go"),
        ("echo 'go: go.mod requires go >= 1.26.0 (running go 1.19)' >&2; exit 1", "running go 1.19); install Go"),
    ],
    ids=["none", "too-old"],
)
def test_a_machine_without_a_recent_go_is_told_what_to_install(
    go: Path, capfd: pytest.CaptureFixture[str], script: str | None, says: str
) -> None:
    if script:
        _fake_go(go, script)
    assert command_line.main(["build"]) == 3
    assert says in capfd.readouterr().err
    assert not (go.parent / "cache").exists()


def test_a_failed_build_says_what_go_said_and_leaves_nothing(go: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _fake_go(go, 'case "$1" in build) echo "undefined: x" >&2; exit 2;; esac')
    assert command_line.main(["build"]) == 1
    assert "undefined: x" in capfd.readouterr().err
    assert binaries.find("etcd") is None


def test_a_machine_without_room_is_told_so(
    go: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    _fake_go(go, _BUILDS)
    monkeypatch.setattr(binaries, "_SPACE_BYTES", 1 << 80)
    assert command_line.main(["build"]) == 3
    assert "GLOWPLUG_LAB_CACHE" in capfd.readouterr().err


def test_an_unknown_word_is_a_usage_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["bulid"]) == 2
    assert "usage" in capfd.readouterr().err
