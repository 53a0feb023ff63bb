"""startup-taint-missing: shared mode, in which something else fills the directory of a new node."""

from __future__ import annotations

import pytest
import yaml

from tests.lint.checking import at, fixed_all, found
from tests.lint.kubernetes.written import GPU_TOLERATION, STARTUP, TAINTS, agent, daemon_set, deployment, node_pool

RULE = "startup-taint-missing"
CACHE = "/mnt/k8s-disks/0/compile-cache"
OTHER = "startupTaints:\n- {key: example.com/cold, effect: NoSchedule}\n"
LASTING = "taints:\n- {key: nvidia.com/gpu, effect: NoSchedule}\n- {key: glowplug.dev/prewarming, effect: NoSchedule}\n"
CPUS = "[{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large]}]"


@pytest.mark.parametrize(
    ("args", "pool", "fires"),
    [
        ("[--mode=shared]", node_pool(), True),
        ("[--mode=shared]", node_pool(template=TAINTS), True),
        ("[--mode=shared]", node_pool(template=OTHER), True),
        ("[--mode=shared]", node_pool(template=LASTING), True),
        ("[--mode=shared]", node_pool(auto_mode=True), True),
        ("[--mode=shared, --taint=example.com/cold]", node_pool(template=STARTUP), True),
        ("[--mode=shared]", node_pool(template=STARTUP), False),
        ("[--mode=shared, --taint=example.com/cold]", node_pool(template=OTHER), False),
        ("[--mode=node]", node_pool(), False),
        ("[--mode=shared]", node_pool(CPUS), False),
        ("[--mode=shared, '--taint=$(TAINT)']", node_pool(), False),
    ],
)
def test_with_glowplugs_agent(args: str, pool: str, fires: bool) -> None:
    assert bool(found(RULE, agent(args), pool)) == fires


def test_where_it_points() -> None:
    (finding,) = found(RULE, agent(), node_pool(name="big"))
    assert (at(finding), finding.file) == ("big", "2.yaml")
    assert "DaemonSet kube-system/glowplug-agent removes" in finding.message
    (lasting,) = found(RULE, agent(), node_pool(template=LASTING))
    assert at(lasting) == "glowplug.dev/prewarming"


@pytest.mark.parametrize("template", ["", TAINTS, OTHER, LASTING])
def test_the_fix_adds_it_only_when_asked_for(template: str) -> None:
    texts = (agent(), node_pool(template=template))
    assert fixed_all(RULE, texts) == list(texts)
    _, pool = fixed_all(RULE, texts, unsafe=True)
    spec = yaml.safe_load(pool)["spec"]["template"]["spec"]
    assert {"key": "glowplug.dev/prewarming", "effect": "NoSchedule"} in spec["startupTaints"]
    assert all(taint["key"] == "nvidia.com/gpu" for taint in spec.get("taints", ()))


def shared(path: str = CACHE, variables: str = "VLLM_CACHE_ROOT", read_only: str = "") -> str:
    container = (
        f"env:\n- {{name: {variables}, value: /compile-cache/vllm}}\n"
        f"volumeMounts:\n- {{name: cache, mountPath: /compile-cache{read_only}}}\n"
    )
    pod = GPU_TOLERATION + f"volumes:\n- {{name: cache, hostPath: {{path: {path}, type: DirectoryOrCreate}}}}\n"
    return deployment(pod=pod, container=container)


def filling(path: str = CACHE, read_only: str = "") -> str:
    """A DaemonSet of somebody's own."""
    return daemon_set(
        name="prewarm",
        image="amazon/aws-cli:2.27.0",
        pod=f"volumes:\n- {{name: cache, hostPath: {{path: {path}}}}}\n",
        container=f"volumeMounts:\n- {{name: cache, mountPath: /cache{read_only}}}\n",
    )


@pytest.mark.parametrize(
    ("texts", "fires"),
    [
        ((shared(), filling(), node_pool()), True),
        ((shared(), filling(), node_pool(template=OTHER)), False),
        ((shared(), filling(CACHE + "/"), node_pool()), True),
        ((shared(), filling("/"), node_pool()), False),
        ((shared(), filling(read_only=", readOnly: true"), node_pool()), False),
        ((shared(), node_pool()), False),
        ((shared(), filling()), False),
        ((deployment(), filling(), node_pool()), False),
    ],
)
def test_with_a_daemon_set_of_somebodys_own(texts: tuple[str, ...], fires: bool) -> None:
    findings = found(RULE, *texts)
    assert bool(findings) == fires
    for one in findings:
        assert "DaemonSet kube-system/prewarm has prepared /mnt/k8s-disks/0/compile-cache" in one.message
        assert one.fix is None
