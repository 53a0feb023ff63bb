"""manifests/recipe.py: the engine starts in every case but a bake's, and what is mounted is what the mode says."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glowplug.engines.command import see_through
from glowplug.manifests import recipe
from glowplug.manifests.recipe import Recipe, Start
from glowplug.manifests.writing import plain
from glowplug.nodestore.layout import WAIT_SECONDS

NVME = "/mnt/k8s-disks/0"
SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
ENGINE = ["engine", "--model=s3://b/m", "two words", "$(HOME)", '"', "'", "*", ""]

DIRECT = recipe.direct("glowplug:1", Start("s3://b/cache"))
NODE = recipe.node(NVME, "team-a")
BAKE = recipe.bake("glowplug:1", Start("s3://b/cache"), 630)
PROGRAMS = {"direct": recipe.DIRECT_PROGRAM, "node": recipe.NODE_PROGRAM, "bake": recipe.DIRECT_PROGRAM}
NO_CLIENT = "glowplug: no client on this node after {} s; the engine starts plain\n"
"""In node mode, where an agent should have put it there: the one line of a start that waited in vain."""


class Pod:
    """A directory in the place of a container: an engine and a Python that say how they were called."""

    def __init__(self, root: Path, shell: str) -> None:
        self.shell = shell
        self.bin = root / "bin"
        self.bin.mkdir()
        self.program = root / "client"
        self.says = root / "said"
        for name, first in (("engine", ""), ("python3", '[ "$3" = --probe ] && exit 42\n')):
            script = self.bin / name
            said = f'for word in {name} "$@"; do printf "%s\\n" "$word"; done > "{self.says}"'
            script.write_text(f"#!/bin/sh\n{first}{said}\nexit 7\n")
            script.chmod(0o755)

    def run(self, added: Recipe, program: str, **variables: str) -> tuple[int, list[str]]:
        """The exit status, and how the engine or the Python was called (nothing: neither was)."""
        _, *rest = added.command(ENGINE)
        words = [word.replace(program, str(self.program)) for word in rest]
        shell = shutil.which(self.shell)
        assert shell
        argv = [shell, "sh", *words] if self.shell == "busybox" else [shell, *words]
        done = subprocess.run(
            argv, env={"PATH": str(self.bin), **variables}, capture_output=True, text=True, timeout=20
        )
        self.stderr = done.stderr
        return done.returncode, self.says.read_text().split("\n")[:-1] if self.says.exists() else []


@pytest.fixture(params=SHELLS)
def pod(request: pytest.FixtureRequest, tmp_path: Path) -> Pod:
    return Pod(tmp_path, request.param)


@pytest.mark.parametrize("mode", ["direct", "node"])
def test_the_client_gets_the_original_command(pod: Pod, mode: str) -> None:
    pod.program.write_text("")
    added = {"direct": DIRECT, "node": NODE}[mode]
    called = ["python3", "-IS", str(pod.program), "run", "--exec", "--", *ENGINE]
    assert pod.run(added, PROGRAMS[mode]) == (7, called)


def test_a_client_that_comes_a_little_later_is_waited_for(pod: Pod) -> None:
    """On a node that has just joined, the agent puts it there while the first pod starts: the fake `sleep` is the agent."""
    sleep = pod.bin / "sleep"
    done = f'[ "$(wc -l < "{pod.program}.slept")" = 3 ] && : > "{pod.program}"'
    sleep.write_text(f'#!/bin/sh\necho x >> "{pod.program}.slept"\n{done}\n:\n')
    sleep.chmod(0o755)
    (pod.bin / "wc").symlink_to(shutil.which("wc") or "")
    status, called = pod.run(NODE, recipe.NODE_PROGRAM)
    assert (status, called[:3]) == (7, ["python3", "-IS", str(pod.program)])
    assert Path(f"{pod.program}.slept").read_text() == "x\n" * 3


def test_a_client_that_never_comes_is_waited_for_no_longer_than_that(pod: Pod) -> None:
    sleep = pod.bin / "sleep"
    sleep.write_text(f'#!/bin/sh\necho "$1" >> "{pod.program}.slept"\n')
    sleep.chmod(0o755)
    assert pod.run(NODE, recipe.NODE_PROGRAM) == (7, ["engine", *ENGINE[1:]])
    slept = Path(f"{pod.program}.slept").read_text().split()
    assert sum(map(int, slept)) == WAIT_SECONDS
    assert pod.stderr == NO_CLIENT.format(WAIT_SECONDS)


def _nothing(_: Pod) -> dict[str, str]:
    return {}


def _no_python(pod: Pod) -> dict[str, str]:
    pod.program.write_text("")
    (pod.bin / "python3").unlink()
    return {}


def _switched_off(pod: Pod) -> dict[str, str]:
    pod.program.write_text("")
    return {"GLOWPLUG_DISABLE": "1"}


def _python_that_cannot_run(pod: Pod) -> dict[str, str]:
    pod.program.write_text("")
    (pod.bin / "python3").chmod(0o644)
    return {}


def _python_that_breaks(pod: Pod) -> dict[str, str]:
    pod.program.write_text("")
    (pod.bin / "python3").write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    return {}


def _python_of_another_machine(pod: Pod) -> dict[str, str]:
    pod.program.write_text("")
    (pod.bin / "python3").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    return {}


LACKING = [
    _nothing,
    _no_python,
    _switched_off,
    _python_that_cannot_run,
    _python_that_breaks,
    _python_of_another_machine,
]


@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("mode", ["direct", "node"])
def test_without_a_client_the_engine_starts_as_it_always_did(
    pod: Pod, mode: str, lacking: Callable[[Pod], dict[str, str]]
) -> None:
    added = {"direct": DIRECT, "node": NODE}[mode]
    assert pod.run(added, PROGRAMS[mode], **lacking(pod)) == (7, ENGINE)
    assert pod.stderr == (NO_CLIENT.format(1) if (mode, lacking) == ("node", _nothing) else "")


def test_a_directory_with_the_client_counts_too(pod: Pod) -> None:
    pod.program.mkdir()
    status, called = pod.run(DIRECT, PROGRAMS["direct"])
    assert (status, called[0]) == (7, "python3")


def test_a_bake_ends_when_the_engine_is_ready(pod: Pod) -> None:
    pod.program.write_text("")
    called = ["python3", "-IS", str(pod.program), "run", "--exit-when-ready", "--", *ENGINE]
    assert pod.run(BAKE, PROGRAMS["bake"]) == (7, called)


@pytest.mark.parametrize("lacking", [one for one in LACKING if one is not _switched_off])
def test_a_bake_without_a_client_fails_instead_of_serving(pod: Pod, lacking: Callable[[Pod], dict[str, str]]) -> None:
    assert pod.run(BAKE, PROGRAMS["bake"], **lacking(pod)) == (recipe.NO_CLIENT_STATUS, [])
    assert "nothing can be baked" in pod.stderr


@pytest.mark.parametrize("added", [DIRECT, NODE, BAKE], ids=["direct", "node", "bake"])
def test_the_wrapping_is_seen_through(added: Recipe) -> None:
    """One key for `run`, `fingerprint` and a pod: the original command is what counts."""
    words = ["vllm", "serve", "s3://b/m"]
    found = see_through(added.command(words), {})
    assert (list(found.argv), found.opaque) == (words, "")


@pytest.mark.parametrize("added", [DIRECT, NODE, BAKE], ids=["direct", "node", "bake"])
def test_kubelet_replaces_nothing_in_the_wrapping(added: Recipe) -> None:
    assert not [word for word in added.prefix if "$(" in word or "$$" in word]


def test_the_copy_never_fails_the_pod(tmp_path: Path) -> None:
    (init,) = plain(DIRECT.init_containers)
    done = subprocess.run(
        init["command"], env={"PATH": os.environ["PATH"]}, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "the engine starts plain" in done.stderr


def _mounts(added: Recipe) -> dict[str, Any]:
    return {mount["name"]: mount for mount in plain(added.mounts)}


def _volumes(added: Recipe) -> dict[str, Any]:
    return {volume["name"]: volume for volume in plain(added.volumes)}


@pytest.mark.parametrize("added", [DIRECT, NODE, BAKE, recipe.shared(NVME)], ids=["direct", "node", "bake", "shared"])
def test_every_mount_has_its_volume(added: Recipe) -> None:
    init = [mount["name"] for one in plain(added.init_containers) for mount in one["volumeMounts"]]
    assert {*_mounts(added), *init} == set(_volumes(added))


def test_direct_mode_touches_nothing_of_the_node() -> None:
    for added in (DIRECT, BAKE):
        assert [volume for volume in _volumes(added).values() if "emptyDir" not in volume] == []
        assert added.pod_security == "baseline"
        assert [plain(one)["securityContext"] for one in added.init_containers] == [recipe.unprivileged()]


def test_only_a_bake_publishes() -> None:
    assert ("GLOWPLUG_NO_PUBLISH" in _names(DIRECT), "GLOWPLUG_NO_PUBLISH" in _names(BAKE)) == (True, False)


def test_the_trust_domain_is_the_namespace_unless_it_is_named() -> None:
    assert _names(DIRECT)["GLOWPLUG_DOMAIN"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert _names(recipe.direct("i", Start(domain="team-a")))["GLOWPLUG_DOMAIN"] == "team-a"


def _names(added: Recipe) -> dict[str, Any]:
    entries = [plain(variable.entry()) for variable in added.variables]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def test_node_mode_reads_one_domain_and_writes_below_its_own_uid() -> None:
    volumes, mounts = _volumes(NODE), _mounts(NODE)
    assert volumes["glowplug-store"]["hostPath"]["path"] == f"{NVME}/glowplug/store/team-a"
    assert mounts["glowplug-store"]["readOnly"] is True
    assert volumes["glowplug-outbox"]["hostPath"]["path"] == f"{NVME}/glowplug/outbox"
    assert mounts["glowplug-outbox"]["subPathExpr"] == "$(POD_UID)"
    assert _names(NODE)["POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    assert "GLOWPLUG_STORE" not in _names(NODE)


@pytest.mark.parametrize(
    ("compute", "ami", "where"),
    [
        ("karpenter", "al2023", "/mnt/k8s-disks/0"),
        ("nodegroup", "al2023", "/mnt/k8s-disks/0"),
        ("karpenter", "bottlerocket", "/mnt/.ephemeral"),
        ("nodegroup", "bottlerocket", "/mnt/.ephemeral"),
        ("auto-mode", "al2023", "/mnt/.ephemeral"),
    ],
)
def test_where_the_instance_store_is(compute: str, ami: str, where: str) -> None:
    assert recipe.nvme_mount(compute, ami) == where
    taken = {"kubelet", "containerd", "soci-snapshotter-grpc", "pods"}
    own = {
        path.removeprefix(f"{where}/").partition("/")[0]
        for path in (recipe.agent_root(where), recipe.shared_directory(where))
    }
    assert not own & taken
