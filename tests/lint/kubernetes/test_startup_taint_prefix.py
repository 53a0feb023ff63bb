"""startup-taint-prefix: what Cluster Autoscaler takes for a taint that goes away."""

from __future__ import annotations

import pytest

from tests.lint.checking import at, found
from tests.lint.kubernetes.written import GPU_TOLERATION, STARTUP, agent, deployment, line_of, node_pool

RULE = "startup-taint-prefix"
GOOD = "startup-taint.cluster-autoscaler.kubernetes.io/glowplug-prewarming"
OLD = "ignore-taint.cluster-autoscaler.kubernetes.io/cold"


def autoscaler(*more: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: cluster-autoscaler, namespace: kube-system}}
spec:
  selector: {{matchLabels: {{app: ca}}}}
  template:
    metadata: {{labels: {{app: ca}}}}
    spec:
      containers:
      - name: cluster-autoscaler
        image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0
        command: [./cluster-autoscaler, --cloud-provider=aws{"".join(", " + one for one in more)}]
"""


def eksctl(key: str) -> str:
    return f"""\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {{name: c, region: eu-central-1}}
managedNodeGroups:
- name: gpu
  instanceType: g6e.12xlarge
  taints:
  - {{key: nvidia.com/gpu, effect: NoSchedule}}
  - {{key: {key}, effect: NoSchedule}}
"""


@pytest.mark.parametrize(
    ("texts", "compute", "fires"),
    [
        ((agent("[--mode=shared]"),), "nodegroup", True),
        ((agent("[--mode=shared, --taint=glowplug.dev/prewarming]"),), "nodegroup", True),
        ((agent("[--mode=shared]"), autoscaler()), "", True),
        ((agent("[release, --taint=example.com/cold]"),), "nodegroup", True),
        ((agent(), deployment(pod="nodeSelector: {eks.amazonaws.com/nodegroup: gpu}\n" + GPU_TOLERATION)), "", True),
        ((agent(f"[--mode=shared, --taint={GOOD}]"),), "nodegroup", False),
        ((agent(f"[--mode=shared, --taint={OLD}]"),), "nodegroup", False),
        ((agent("[--mode=node]"),), "nodegroup", False),
        ((agent("[--mode=shared]"),), "karpenter", False),
        ((agent("[--mode=shared]"),), "", False),
        ((agent("[--mode=shared]"), node_pool(template=STARTUP)), "", False),
        ((agent("[--mode=shared]"), autoscaler("--startup-taint=glowplug.dev/prewarming")), "", False),
        ((agent("[--mode=shared, '--taint=$(T)']"),), "nodegroup", False),
        ((eksctl("glowplug.dev/prewarming"),), "", True),
        ((eksctl(GOOD),), "", False),
        ((eksctl("dedicated"),), "", False),
    ],
)
def test_who_makes_the_nodes_and_what_the_taint_is_called(texts: tuple[str, ...], compute: str, fires: bool) -> None:
    assert bool(found(RULE, *texts, compute=compute)) == fires


TOLD = {
    "its name": ("--startup-taint=glowplug.dev/prewarming",),
    "its name as a word of its own": ("--startup-taint", "glowplug.dev/prewarming"),
    "its name, the old way": ("--ignore-taint", "glowplug.dev/prewarming"),
    "its name among others": ("--startup-taint=a/b", "--v=4", "--startup-taint=glowplug.dev/prewarming"),
    "how it begins": ("--startup-taint-prefix=glowplug.dev/",),
    "how it begins, as a word of its own": ("--startup-taint-prefix", "glowplug.dev/"),
    "in quotes": ("'--startup-taint=\"glowplug.dev/prewarming\"'",),
}
NOT_TOLD = {
    "another name": ("--startup-taint=glowplug.dev/other",),
    "a name is no prefix": ("--startup-taint=glowplug.dev/",),
    "another prefix": ("--startup-taint-prefix=readiness.k8s.io/",),
    "no prefix at all": ("--startup-taint-prefix=",),
    "another option": ("--status-taint", "glowplug.dev/prewarming"),
    "nothing behind it": ("--startup-taint",),
}


@pytest.mark.parametrize("words", TOLD.values(), ids=TOLD)
def test_cluster_autoscaler_is_told(words: tuple[str, ...]) -> None:
    assert found(RULE, agent("[--mode=shared]"), autoscaler(*words)) == []
    assert found(RULE, eksctl("glowplug.dev/prewarming"), autoscaler(*words)) == []


@pytest.mark.parametrize("words", NOT_TOLD.values(), ids=NOT_TOLD)
def test_cluster_autoscaler_is_told_something_else(words: tuple[str, ...]) -> None:
    assert len(found(RULE, agent("[--mode=shared]"), autoscaler(*words))) == 1
    assert len(found(RULE, eksctl("glowplug.dev/prewarming"), autoscaler(*words))) == 1


def test_a_script_starts_cluster_autoscaler() -> None:
    script = "'./cluster-autoscaler --v=4 --startup-taint glowplug.dev/prewarming 2>&1'"
    text = autoscaler().replace("[./cluster-autoscaler, --cloud-provider=aws]", f"[sh, -c, {script}]")
    assert script in text
    assert found(RULE, agent("[--mode=shared]"), text) == []


@pytest.mark.parametrize(
    "args", ["[--mode=shared, --taint=example.com/cold]", "[--mode, shared, --taint, example.com/cold]"]
)
def test_it_points_at_the_key_alone(args: str) -> None:
    (finding,) = found(RULE, agent(args), compute="nodegroup")
    assert at(finding) == "example.com/cold"


def test_where_nothing_names_the_taint_it_points_at_the_arguments() -> None:
    (finding,) = found(RULE, agent("[--mode=shared]"), compute="nodegroup")
    assert at(finding) == "args"
    assert GOOD in finding.hint


def test_in_eksctls_configuration() -> None:
    text = eksctl("glowplug.dev/prewarming")
    (finding,) = found(RULE, text)
    assert finding.line == line_of(text, "glowplug.dev/prewarming")
