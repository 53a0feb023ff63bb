"""The locks pin with hashes; requirements/dev.txt holds what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repo import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
LOCKS = [name for name in tree.files() if re.fullmatch(r"requirements/[\w-]+\.txt|lab/[\w-]+\.txt", name)]


def _logical_lines(name: str) -> list[str]:
    return [line for line in tree.text_of(name).replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def _wanted() -> list[Requirement]:
    extras = [line for lines in PROJECT["project"]["optional-dependencies"].values() for line in lines]
    groups = [line for lines in PROJECT["dependency-groups"].values() for line in lines if isinstance(line, str)]
    return [Requirement(line) for line in [*PROJECT["project"]["dependencies"], *extras, *groups]]


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_is_one_version_with_hashes(name: str) -> None:
    pinned = re.compile(r"[A-Za-z0-9._-]+(\[[a-z0-9,]+\])?==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+\s*")
    assert [line[:80] for line in _logical_lines(name) if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize("wanted", _wanted(), ids=str)
def test_what_is_declared_is_locked(wanted: Requirement) -> None:
    locked = [Requirement(line.split("--hash")[0].strip()) for line in _logical_lines("requirements/dev.txt")]
    versions = [item.specifier for item in locked if canonicalize_name(item.name) == canonicalize_name(wanted.name)]
    assert versions, f"run `make lock`: {wanted.name} is not locked"
    for version in versions:
        assert wanted.specifier.contains(str(version).removeprefix("=="), prereleases=True), "run `make lock`"


def test_the_image_has_the_versions_that_the_tests_ran_with() -> None:
    pinned = {line.split(" ")[0] for line in _logical_lines("requirements/dev.txt")}
    found = {line.split(" ")[0] for line in _logical_lines("requirements/image.txt")}
    assert found - pinned == set(), "run `make lock`"
    names = {canonicalize_name(line.partition("==")[0]) for line in found}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["agent"], *extras["sign"]]
    assert {canonicalize_name(Requirement(line).name) for line in wanted} - names == set(), "run `make lock`"
