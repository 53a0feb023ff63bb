"""device-plugin-taint: the device plugin on nodes with taints that it does not tolerate."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, fixed_all, found
from tests.lint.kubernetes.written import GPU_TOLERATION, STARTUP, TAINTS, daemon_set, device_plugin, node_pool

RULE = "device-plugin-taint"
BOTH = TAINTS + STARTUP
GPUS = "[{key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}]"
CPUS = "[{key: node.kubernetes.io/instance-type, operator: In, values: [m7i.large]}]"
EVERYTHING = "tolerations:\n- operator: Exists\n"
POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec:
  daemonsets:
    updateStrategy: RollingUpdate
"""


@pytest.mark.parametrize(
    ("plugin", "pool", "fires"),
    [
        (device_plugin(), node_pool(GPUS, template=BOTH), True),
        (device_plugin(pod=""), node_pool(GPUS, template=TAINTS), True),
        (device_plugin(), node_pool(GPUS, template=TAINTS), False),
        (device_plugin(EVERYTHING), node_pool(GPUS, template=BOTH), False),
        (device_plugin(), node_pool(GPUS), False),
        (device_plugin(), node_pool(GPUS, template=BOTH, auto_mode=True), False),
        (device_plugin(""), node_pool(CPUS, template=STARTUP), False),
        (device_plugin("nodeSelector: {karpenter.sh/nodepool: other}\n"), node_pool(GPUS, template=BOTH), False),
        (daemon_set(name="node-exporter", image="prom/node-exporter:v1.9.1"), node_pool(GPUS, template=BOTH), False),
        (daemon_set(name="amdgpu", image="rocm/k8s-device-plugin:1"), node_pool(GPUS, template=BOTH), False),
        (POLICY, node_pool(GPUS, template=BOTH), True),
        (POLICY, node_pool(GPUS, template=TAINTS), False),
        (POLICY + "    tolerations: [{operator: Exists}]\n", node_pool(GPUS, template=BOTH), False),
        (POLICY + "  devicePlugin: {enabled: false}\n", node_pool(GPUS, template=BOTH), False),
    ],
)
def test_tolerations_against_taints(plugin: str, pool: str, fires: bool) -> None:
    assert bool(found(RULE, plugin, pool)) == fires
    assert bool(found(RULE, f"{pool}---\n{plugin}")) == fires


def test_without_a_pool_or_without_a_plugin_there_is_nothing_to_say() -> None:
    assert found(RULE, device_plugin("")) == []
    assert found(RULE, node_pool(GPUS, template=BOTH)) == []


def test_one_plugin_that_tolerates_it_is_enough() -> None:
    second = device_plugin(EVERYTHING).replace("nvidia-device-plugin", "nvidia-device-plugin-2")
    assert found(RULE, device_plugin(), second, node_pool(GPUS, template=BOTH)) == []


def test_it_says_which_taint_of_which_pool() -> None:
    (finding,) = found(RULE, device_plugin(), node_pool(GPUS, name="big", template=BOTH))
    assert at(finding) == "tolerations"
    assert finding.file == "1.yaml"
    assert "the startup taint glowplug.dev/prewarming:NoSchedule of the NodePool big" in finding.message
    assert "never initialized" in finding.message
    (bare,) = found(RULE, device_plugin(pod=""), node_pool(GPUS, template=TAINTS))
    assert at(bare) == "nvidia-device-plugin"
    assert "no GPUs to give" in bare.message


@pytest.mark.parametrize("plugin", [device_plugin(), device_plugin(""), POLICY])
def test_the_fix_tolerates_them(plugin: str) -> None:
    pool = node_pool(GPUS, template=BOTH)
    after, same = fixed_all(RULE, (plugin, pool))
    assert same == pool
    assert after.count("key: glowplug.dev/prewarming") == 1
    assert after.count("nvidia.com/gpu") == max(1, GPU_TOLERATION.count("nvidia.com/gpu"))
    assert found(RULE, after, pool) == []
