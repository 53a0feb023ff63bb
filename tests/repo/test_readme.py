"""What the README says of installing glowplug is what there is to install."""

from __future__ import annotations

import re
import tomllib

from tests.repo.tree import ROOT


def test_it_names_every_extra() -> None:
    """Who follows it must not meet `missing-extra` without having heard of one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = set(re.findall(r"`(?:pip install )?'\.\[([a-z]+)\]'`", (ROOT / "README.md").read_text()))
    assert named == set(project["optional-dependencies"])
