"""What differs is not offered: layout, switch, model, torch, namespace, GPU. The pod's event names the field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from glowplug.manifests import recipe
from lab import cluster
from lab.fleet import agents, card, rendered
from lab.kube.client import wait_for
from tests.cluster import programs, workloads
from tests.cluster.conftest import OTHERS
from tests.cluster.workloads import Workloads
from tests.parts import requires

pytestmark = [requires("cluster", "engine", "s3", "kube"), pytest.mark.slow]


_DIFFERING = {"tp": 64, "env.TORCHINDUCTOR_MAX_AUTOTUNE": 1, "model": 1}
"""What differs from the fleet's first workload → of how many ranks the pod is."""


@pytest.fixture(scope="module")
def differing(running: cluster.Cluster, make: Workloads, published: str) -> Mapping[str, str]:
    """Pods that differ, all started at once: field → name."""
    workloads.wait_until_held(running, "node-1", published)
    names = {field: f"differs-{number}" for number, field in enumerate(_DIFFERING)}
    for field, ranks in _DIFFERING.items():
        pod = make.pod(names[field], ranks, "node-1")
        (container,) = pod["spec"]["containers"]
        if field == "model":  # the same file, spelled otherwise
            command, program = container["command"], programs.PROGRAM
            command[command.index(str(program))] = f"{program.parent}/../{program.parent.name}/{program.name}"
        if field.startswith("env."):
            rendered.set_variables(container, {field.removeprefix("env."): "1"})
        running.kube.admin.create(pod)
    for name in names.values():
        programs.wait_for_verdict(running, name)
    return names


@pytest.mark.parametrize("field", _DIFFERING)
def test_what_differs_is_a_miss_whose_event_names_it_and_is_published_beside(
    running: cluster.Cluster, published: str, differing: Mapping[str, str], field: str
) -> None:
    name = differing[field]
    assert programs.verdict(running.logs(name)) == "miss"
    _names(running, name, field)
    workloads.wait_until_published(running, name)
    digest = programs.key_digest(running, name)
    assert published != digest
    assert {published, digest} <= set(rendered.keys(running, "default"))


def _names(running: cluster.Cluster, pod: str, field: str) -> None:
    """Whether log and event say by what the nearest key differs, and by nothing else."""
    wait_for(60, f"the miss of {pod} is told", lambda: "CompileCacheMiss" in agents.events(running, pod))
    for said in (running.logs(pod), agents.events(running, pod)["CompileCacheMiss"]):
        assert f"nothing restored: key:{field} " in said, said


def test_another_torch_is_a_miss_that_names_it(running: cluster.Cluster, python: Path, published: str) -> None:
    """An environment beside the true one, as far as a look at names goes; the program ends before it imports anything."""
    place = running.nodes["node-1"].path("/opt/other")
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python3").symlink_to(python.resolve())
    (place / "pyvenv.cfg").write_text((python.parent.parent / "pyvenv.cfg").read_text())
    packages = place / "lib" / next(python.parent.parent.glob("lib/python3*")).name / "site-packages"
    (packages / "torch-2.99.0.dist-info").mkdir(parents=True)
    pod = workloads.failing(python, "differs-torch", {"PATH": "/opt/other/bin:/usr/bin:/bin"}, node="node-1")
    programs.show(pod, "/opt/other")
    log = workloads.told(running, pod)
    assert "nothing restored: key:" in log, log
    assert "torch" in log.partition("nothing restored: key:")[2].split()[0]


def test_another_namespace_has_another_domain(running: cluster.Cluster, python: Path, published: str) -> None:
    """Of which this fleet's agents keep nothing, so that no client of theirs is there."""
    others = recipe.node(workloads.NVME, OTHERS)
    pod = workloads.failing(python, "stranger", {}, others, node="node-1", namespace=OTHERS)
    log = workloads.told(running, pod)
    assert "restored " not in log.replace("nothing restored", ""), log
    assert not (running.nodes["node-1"].path(agents.ROOT) / "store" / OTHERS / published).exists()


# Another GPU


_PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
_NAME = "NVIDIA L40S"
_LIBRARY = "/opt/card"


@pytest.fixture
def another_gpu(running: cluster.Cluster, published: str, differing: Mapping[str, str]) -> Iterator[str]:
    """Of node-2 label and library say another GPU, as when a card is divided anew; it holds one key from before, and lacks another.

    The digest of the latter, which comes back when all is as it was.
    """
    node, digest = running.nodes["node-2"], programs.key_digest(running, differing["tp"])
    for one in (published, digest):
        workloads.wait_until_held(running, "node-2", one)
    card.library(node.path(_LIBRARY), _NAME)
    with agents.away(running, "node-2"):
        node.run(["rm", "-rf", f"{agents.ROOT}/store/default/{digest}"])
        running.kubectl("label", "node", "node-2", *(f"{name}={value}" for name, value in _PRODUCT.items()))
    yield digest
    running.kubectl("label", "node", "node-2", *(f"{name}-" for name in _PRODUCT))
    agents.replace(running, "node-2")
    workloads.wait_until_held(running, "node-2", digest)


def test_a_node_with_another_gpu_is_offered_nothing_and_publishes_its_own(
    running: cluster.Cluster, make: Workloads, published: str, another_gpu: str
) -> None:
    """Not real: the card, which is a label and the library that pods ask for its name; what is compiled is for the CPU.

    Real: which keys the agent fetches, what the pod looks for and is told, what it may publish, and under which key.
    """
    agents.wait(running, "node-2")
    assert workloads.held(running, "node-2", published), (
        "the same workload for the GPU that was here, to be compared with"
    )
    assert not workloads.held(running, "node-2", another_gpu), "all is fetched that this node can use"
    pod = make.pod("with-card", 1, "node-2")
    rendered.set_variables(pod["spec"]["containers"][0], {"LD_LIBRARY_PATH": _LIBRARY})
    programs.show(pod, _LIBRARY)
    running.kube.admin.create(pod)
    assert programs.verdict(programs.wait_for_verdict(running, "with-card")) == "miss"
    _names(running, "with-card", "gpu")
    workloads.wait_until_published(running, "with-card")
    digest = programs.key_digest(running, "with-card")
    (path,) = (one for one in rendered.key_paths(running, "default") if one.stem == digest)
    assert path.parts[0].startswith("nvidia-l40s")
    workloads.wait_until_held(running, "node-2", digest)
    assert not workloads.held(running, "node-1", digest)
