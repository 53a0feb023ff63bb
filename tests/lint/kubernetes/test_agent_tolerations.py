"""agent-tolerations: glowplug's agent has to get onto every node that it is to warm."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, fixed, found
from tests.lint.kubernetes.written import GPU_TOLERATION, STARTUP, TAINTS, agent, daemon_set, node_pool

RULE = "agent-tolerations"
GPUS = "[{key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}]"
BOTH = GPU_TOLERATION + "- {key: glowplug.dev/prewarming, operator: Exists}\n"
DEDICATED = "taints:\n- {key: dedicated, value: inference, effect: NoExecute}\n"


@pytest.mark.parametrize(
    ("args", "pod", "pools", "said"),
    [
        (
            "[--mode=shared]",
            GPU_TOLERATION,
            (),
            "glowplug.dev/prewarming:NoSchedule, the startup taint that it removes",
        ),
        ("[--mode, shared]", GPU_TOLERATION, (), "glowplug.dev/prewarming"),
        ("[--mode=shared, --taint=example.com/cold]", BOTH, (), "example.com/cold"),
        ("[--mode=node]", "", (), "nvidia.com/gpu:NoSchedule, the taint of GPU nodes"),
        ("[]", "", (), "nvidia.com/gpu"),
        ("[]", GPU_TOLERATION, (node_pool(GPUS, template=STARTUP),), "a startup taint of the NodePool gpu"),
        ("[]", GPU_TOLERATION, (node_pool(GPUS, template=DEDICATED),), "dedicated=inference:NoExecute"),
        ("[--mode=shared]", "", (node_pool(GPUS, template=TAINTS + STARTUP),), "glowplug.dev/prewarming"),
    ],
)
def test_it_fires(args: str, pod: str, pools: tuple[str, ...], said: str) -> None:
    (finding,) = found(RULE, agent(args, pod), *pools)
    assert said in finding.message
    assert at(finding) == ("tolerations" if pod else "glowplug-agent")


@pytest.mark.parametrize(
    ("args", "pod", "pools"),
    [
        ("[--mode=shared]", "tolerations:\n- operator: Exists\n", (node_pool(GPUS, template=TAINTS + STARTUP),)),
        ("[--mode=shared]", BOTH, ()),
        ("[--mode=shared]", BOTH, (node_pool(GPUS, template=TAINTS + STARTUP),)),
        ("[--mode=node]", GPU_TOLERATION, ()),
        ("[--mode=node]", "", (node_pool(GPUS),)),
        ("[--mode=shared, '--taint=$(TAINT)']", GPU_TOLERATION, ()),
        ("[release, --older-than=10m]", "", ()),
    ],
)
def test_it_is_silent(args: str, pod: str, pools: tuple[str, ...]) -> None:
    assert found(RULE, agent(args, pod), *pools) == []


def test_mode_and_taint_may_be_variables() -> None:
    variables = "env:\n- {name: GLOWPLUG_MODE, value: shared}\n- {name: GLOWPLUG_TAINT, value: example.com/cold}\n"
    text = daemon_set(
        name="warm",
        image="registry.example/glowplug@sha256:" + "0" * 64,
        command="[/usr/bin/glowplug, agent]",
        pod=GPU_TOLERATION,
        container=variables,
    )
    (finding,) = found(RULE, text)
    assert "example.com/cold" in finding.message


def test_other_daemon_sets_are_none_of_its_business() -> None:
    assert found(RULE, daemon_set(name="logs", image="fluent/fluent-bit:4", args="[agent]")) == []


@pytest.mark.parametrize("pod", ["", GPU_TOLERATION])
def test_the_fix_tolerates_every_taint(pod: str) -> None:
    after = fixed(RULE, agent(pod=pod))
    assert "- operator: Exists\n" in after
    assert found(RULE, after, node_pool(GPUS, template=TAINTS + STARTUP)) == []
