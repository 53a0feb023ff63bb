"""Which interpreter is chosen, what may be installed, and when a lacking part stops a target."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dev import prepare, system
from lab.cluster import ability
from tests.repo import tree


def _find(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(tree.ROOT / "dev" / "find-python"), *arguments],
        env={"PATH": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


def _interpreter(path: Path, *, suits: bool) -> None:
    path.write_text(f"#!/bin/sh\nexit {0 if suits else 1}\n")
    path.chmod(0o755)


def test_the_newest_python_that_suits_is_chosen(tmp_path: Path) -> None:
    _interpreter(tmp_path / "python3.13", suits=False)  # no venv, say
    _interpreter(tmp_path / "python3.12", suits=True)
    _interpreter(tmp_path / "python3", suits=True)
    assert _find(tmp_path).stdout == f"{tmp_path}/python3.12\n"


def test_a_named_python_is_the_only_one_considered(tmp_path: Path) -> None:
    _interpreter(tmp_path / "python3.12", suits=True)
    _interpreter(tmp_path / "mine", suits=False)
    done = _find(tmp_path, "mine")
    assert done.returncode == 1
    assert "no mine of version 3.11 or later" in done.stderr


def test_without_one_the_command_that_brings_it_is_said(tmp_path: Path) -> None:
    done = _find(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "hint: apt-get install python3 python3-venv" in done.stderr


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages on a pretended machine; `install` is what apt-get would do."""
    there: set[str] = set()

    def need(part: str) -> system.Need:
        return system.Need(part, f"{part}-package", lambda: f"{part}-package" in there)

    needs = {part: (need(part),) for part in ("engine", "kube", "cluster", "browser", "tools")}
    monkeypatch.setattr(system, "NEEDS", needs)
    monkeypatch.setattr(ability, "missing", lambda: "")

    def install(parts: tuple[str, ...]) -> int:
        there.update(f"{part}-package" for part in parts)
        return 0

    monkeypatch.setattr(system, "install", install)
    return there


@pytest.mark.parametrize(
    ("target", "root", "environ", "installs"),
    [
        ("test", True, {}, False),
        ("test", True, {"CI": "true"}, True),
        ("test", True, {"GLOWPLUG_TEST_REQUIRE": "engine"}, True),
        ("test", False, {"CI": "true", "GLOWPLUG_TEST_REQUIRE": "engine"}, False),
        ("demo", True, {}, True),
        ("demo", False, {}, False),
        ("bench", True, {}, True),
    ],
)
def test_who_may_install_what(
    machine: set[str], target: str, root: bool, environ: dict[str, str], installs: bool
) -> None:
    prepare.prepare(prepare.TARGETS[target], environ, root=root, build=lambda part: 0)
    assert bool(machine) == installs


@pytest.mark.parametrize(
    ("target", "environ", "stops_for"),
    [
        ("test", {}, set()),
        ("test", {"GLOWPLUG_TEST_REQUIRE": "s3"}, set()),
        ("test", {"GLOWPLUG_TEST_REQUIRE": "s3,engine,kube,browser"}, {"engine", "kube", "browser"}),
        ("test", {"GLOWPLUG_TEST_REQUIRE": "cluster"}, {"cluster"}),
        ("demo", {}, {"engine"}),
        ("bench", {}, {"engine", "tools"}),
        ("kube", {}, {"kube"}),
    ],
)
@pytest.mark.usefixtures("machine")
def test_what_is_lacking_stops_a_target_that_cannot_do_without(
    target: str, environ: dict[str, str], stops_for: set[str]
) -> None:
    def build(part: str) -> int:
        pytest.fail(f"{part}: gigabytes built for a machine that cannot use them")

    assert prepare.prepare(prepare.TARGETS[target], environ, root=False, build=build) == stops_for


@pytest.mark.parametrize(
    ("target", "environ", "stops_for"),
    [
        ("test", {}, set()),
        ("test", {"GLOWPLUG_TEST_REQUIRE": "kube"}, {"kube"}),
        ("demo", {}, {"engine"}),
        ("kube", {}, {"kube"}),
    ],
)
def test_what_cannot_be_built_counts_as_lacking(
    machine: set[str], target: str, environ: dict[str, str], stops_for: set[str]
) -> None:
    machine.update({f"{part}-package" for part in ("engine", "kube", "cluster", "browser", "tools")})
    assert prepare.prepare(prepare.TARGETS[target], environ, root=False, build=lambda part: 1) == stops_for


@pytest.mark.parametrize(
    ("target", "environ", "stops_for"),
    [("test", {"GLOWPLUG_TEST_REQUIRE": "cluster"}, set()), ("cluster", {}, {"cluster"})],
)
def test_for_what_the_machine_does_not_allow_nothing_is_brought(
    machine: set[str],
    capsys: pytest.CaptureFixture[str],
    target: str,
    environ: dict[str, str],
    stops_for: set[str],
) -> None:
    built: list[str] = []

    def build(part: str) -> int:
        built.append(part)
        return 0

    def never(part: str) -> str:
        return "no such kernel" if part == "cluster" else ""

    found = prepare.prepare(prepare.TARGETS[target], environ, root=True, build=build, never=never)
    assert found == stops_for
    assert "cluster-package" not in machine
    assert "cluster" not in built
    assert "no such kernel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environ", "builds"),
    [({}, ["engine", "kube"]), ({"GLOWPLUG_TEST_REQUIRE": "cluster"}, ["cluster", "engine", "kube"])],
)
def test_every_part_is_built_once_and_nodes_only_on_request(
    machine: set[str], environ: dict[str, str], builds: list[str]
) -> None:
    machine.update({f"{part}-package" for part in ("engine", "kube", "cluster", "browser", "tools")})
    built: list[str] = []
    prepare.prepare(prepare.TARGETS["test"], environ, root=False, build=lambda part: built.append(part) or 0)
    assert sorted(built) == builds


def test_the_command_to_type_names_every_lacking_package_once() -> None:
    one, other = (system.Need(name, name, lambda: False) for name in ("g++", "zstd"))
    assert system.install_command([one, other]).endswith("apt-get install g++ zstd")
    assert system.install_command([]) == ""


def test_what_no_package_brings_is_not_asked_of_apt_get() -> None:
    lacking = [system.Need("Go", "", lambda: False), system.Need("zstd", "zstd", lambda: False)]
    assert system.install_command(lacking).endswith("apt-get install zstd")
    assert system.install_command(lacking[:1]) == ""
