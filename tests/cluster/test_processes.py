"""The engine's process in either mode: its number, streams, status, signals, its end and its next start are those without glowplug.

The watcher beside it leaves nothing that runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from glowplug.manifests import recipe
from lab import cluster, s3
from lab.cluster import pods
from lab.faults import Hang
from lab.fleet import agents, rendered, starts
from tests.cluster import processes, programs, workloads
from tests.cluster.conftest import BAKED, IMAGE, Fleet
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]
_RECIPES = {"none": recipe.Recipe(), "direct": recipe.direct(IMAGE, BAKED), "node": workloads.NODE}

_ENGINE = """
import os, signal, sys
print("engine is", os.getpid(), sys.argv[1:], sorted(os.environ.get("LC_CTYPE", "")), flush=True)
print("to stderr", file=sys.stderr, flush=True)
def end(*_):
    print("was told to end", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
if sys.argv[1:] == ["stay"]:
    signal.pause()
sys.exit(5)
"""


@pytest.mark.parametrize("mode", _RECIPES)
def test_process_streams_and_status_are_the_engine_s_own(running: cluster.Cluster, mode: str) -> None:
    name = f"own-{mode}"
    argv = ["python3", "-c", _ENGINE, "a b", "$(c)", ""]
    running.kube.admin.create(programs.warmed(name, _RECIPES[mode], argv))
    ended = running.wait_for_pod(name, pods.has_ended)
    assert workloads.status(ended) == 5
    lines = [line for line in running.logs(name).splitlines() if not line.startswith("glowplug: ")]
    assert sorted(lines) == ["engine is 1 ['a b', '$(c)', ''] []", "to stderr"]


@pytest.mark.parametrize("mode", ["direct", "node"])
def test_kubelet_s_signal_reaches_the_engine(running: cluster.Cluster, mode: str) -> None:
    name = f"signalled-{mode}"
    pod = programs.warmed(name, _RECIPES[mode], ["python3", "-c", _ENGINE, "stay"])
    with _kept(running, pod):
        programs.wait_for_words(running, name, "engine is 1")
        running.kubectl("delete", "pod", name, "--grace-period=60", "--wait=false")
        ended = running.wait_for_pod(name, pods.has_ended)
        assert workloads.status(ended) == 7
        processes.wait_for_none(ended)


# SIGTERM while the launcher is at work


@pytest.mark.parametrize(
    ("shared", "status"),
    [(False, 137), (True, 143)],
    ids=["process 1, which it passes by", "another process, which it ends"],
)
def test_a_signal_while_artifacts_are_restored_ends_a_pod_as_it_ends_a_plain_start(
    fleet: Fleet, python: Path, published: str, shared: bool, status: int
) -> None:
    """The pod of direct mode waits for a store that hangs, that of node mode for an agent whose fetch hangs.

    Linux drops signals that process 1 does not listen to, and with `shareProcessNamespace` the engine is not process 1.
    """
    running, proxy = fleet.running, fleet.proxy
    workloads.wait_until_held(running, "node-2", published)
    running.nodes["node-2"].run(["rm", "-rf", f"{agents.ROOT}/store/default/{published}"])
    fetching = proxy.add(Hang(20), method="GET", path="/cache/*/blobs/*", times=None)
    listing = proxy.add(Hang(), path="/pods*", times=None)
    try:
        agents.replace(running, "node-2")
        assert fetching.wait(60)
        ended = {}
        names = {mode: f"told-{mode}-{status}" for mode in _RECIPES}
        with contextlib.ExitStack() as kept:
            for mode, name in names.items():  # that of node mode last, since it waits for no longer than 15 s
                kept.enter_context(_kept(running, _restoring(fleet, python, name, mode, shared)))
                running.wait_for_pod(name, pods.is_ready if mode == "none" else _is_restoring)
            assert listing.wait(60)
            running.kubectl("delete", "pod", *names.values(), "--grace-period=4", "--wait=false")
            for mode, name in names.items():
                pod = running.wait_for_pod(name, pods.has_ended)
                ended[mode] = workloads.status(pod)
                processes.wait_for_none(pod)
    finally:
        proxy.clear()
    assert ended == dict.fromkeys(_RECIPES, status)
    workloads.wait_until_held(running, "node-2", published)


def _restoring(fleet: Fleet, python: Path, name: str, mode: str, shared: bool) -> dict[str, Any]:
    """Its engine does not listen to signals, as none does while it still imports."""
    store = fleet.store if mode == "direct" else None
    options = {"node": "node-2", "shareProcessNamespace": shared}
    pod = programs.compiling(name, _RECIPES[mode], python, store, **options)
    rendered.set_variables(pod["spec"]["containers"][0], {"GLOWPLUG_RESTORE_TIMEOUT": "60s", "WORLD_SIZE": "77"})
    return pod


def _is_restoring(pod: Mapping[str, Any]) -> bool:
    """Whether the launcher has forked its preparation and its watcher, and is not the engine yet."""
    return pods.is_ready(pod) and sum("run --exec" in words for words in processes.of_pod(pod).values()) == 3


# A container that is started again in its pod


@pytest.mark.parametrize(("mode", "shared"), [("direct", True), ("node", False)])
def test_a_container_that_is_started_again_in_its_pod_is_warm(
    running: cluster.Cluster, make: Workloads, python: Path, baked: str, mode: str, shared: bool
) -> None:
    name = f"again-{mode}"
    options: dict[str, Any] = {"restartPolicy": "Always", "shareProcessNamespace": shared}
    if mode == "direct":
        reader = running.s3.with_keys(s3.READER)
        running.kube.admin.create(programs.compiling(name, _RECIPES["direct"], python, reader, **options))
    else:
        make.start(name, 21, "node-1", **options)
    before = starts.seen(running, name)
    assert before.verdict == ("miss" if mode == "node" else "hit"), str(before)
    # An engine without a health URL is looked at for as long as it runs.
    engine = processes.engine(running.pod(name), watchers=1)
    processes.kill(engine)
    again = starts.seen(running, name, other_than=before.document["id"])
    assert running.pod(name)["status"]["containerStatuses"][0]["restartCount"] == 1
    assert again.verdict == "hit", str(again)
    processes.engine(running.pod(name), watchers=1, other_than=engine)
    running.kubectl("delete", "pod", name, "--wait=false")


@contextlib.contextmanager
def _kept(running: cluster.Cluster, pod: dict[str, Any]) -> Iterator[None]:
    """The pod, which can still be looked at when it was deleted and has ended."""
    name = pod["metadata"]["name"]
    pod["metadata"]["finalizers"] = ["example.com/kept"]
    running.kube.admin.create(pod)
    try:
        yield
    finally:
        running.kubectl("delete", "pod", name, "--grace-period=1", "--wait=false")
        running.kubectl("patch", "pod", name, "--type=merge", '--patch={"metadata": {"finalizers": null}}')
