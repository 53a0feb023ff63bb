"""A machine that could never hold a cluster says so, whatever is installed on it; this one's rights are taken away for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lab.cluster import ability, cgroups, spaces
from tests.parts import requires

pytestmark = [requires("cluster"), pytest.mark.slow]
_ASK = [sys.executable, "-c", "from lab.cluster import ability; print(ability.missing())"]


def _asked(*before: str) -> str:
    done = subprocess.run([*before, *_ASK], cwd=spaces.CHECKOUT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _changed(how: str) -> list[str]:
    """With the freezer's hierarchy changed by that command, for whoever is started so."""
    find = "here=$(awk '$3 == \"cgroup\" && $4 ~ /freezer/ {print $2; exit}' /proc/self/mounts)"
    script = f'{find} && {how} "$here" && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ([], ""),
        (["setpriv", "--bounding-set", "-sys_admin"], "no right to namespaces: "),
        (["setpriv", "--bounding-set", "-net_admin"], "no right to the links of its network: "),
        (["unshare", "--user", "--map-root-user"], "no right to the links of its network: "),
        (_changed("mount -o remount,bind,ro"), "no right to control groups: "),
    ],
    ids=["this one", "without administration", "without networks", "another user", "read-only groups"],
)
def test_what_a_machine_does_not_allow_is_found_by_trying(before: list[str], says: str) -> None:
    found = _asked(*before)
    assert found.startswith(says), found
    assert bool(found) == bool(says), found


def test_a_machine_without_the_hierarchies_of_version_1_is_told_by_looking() -> None:
    hidden = _asked(*_changed("umount"))
    assert hidden == "no cgroup version 1 hierarchy for freezer"


def test_nothing_stays_of_the_try() -> None:
    ability.missing.cache_clear()
    assert ability.missing() == ""
    assert cgroups.names(f"glowplug-try-{os.getpid()}") == set()
