"""Node pools that an API server accepts, whose NVMe is really used, and on which pods are planned."""

from __future__ import annotations

import dataclasses
import email.policy
import itertools
import re
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from glowplug.catalog.gpus import gpu
from glowplug.catalog.instances import Instance, instance, instances
from glowplug.core.errors import BadInputError, UsageError
from glowplug.models.contents import Model
from glowplug.plan.outcome import Compile, Estimate, Placement, Plan, Resources, Streaming
from glowplug.render import kinds, nodepool
from glowplug.render.options import Compute, Mode, Options
from tests.render import crds, deployed

KUBERNETES = [Compute.KARPENTER, Compute.AUTO_MODE]
WITHOUT_DISK = dataclasses.replace(instance("g5.xlarge"), nvme_bytes=0)


def why_not(compute: Compute, one: Instance) -> str:
    """What the refusal says of this type, "" where a pool of it is of use."""
    if compute is Compute.AUTO_MODE and not one.auto_mode:
        return "Auto Mode does not offer"
    if one.fractional:
        return "no GPU"
    return "" if one.nvme_bytes else "no NVMe"


ALL = [(compute, one) for compute in Compute for one in (*instances(), WITHOUT_DISK)]
UNFIT = [(compute, one, why_not(compute, one)) for compute, one in ALL if why_not(compute, one)]
USABLE = {compute: [one for one in instances() if not why_not(compute, one)] for compute in Compute}
PAIRS = [(compute, one) for compute in KUBERNETES for one in USABLE[compute]]


def options(**changes: Any) -> Options:
    return Options(**{"name": "vllm", "instance": instance("p5.48xlarge"), "cluster": "prod", **changes})


def made(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Node class and NodePool, as a parser reads what is printed."""
    node_class, pool = yaml.safe_load_all(nodepool.text(options(**changes)))
    return node_class, pool


def plan(card: str, gpus: int, *, pods_per_node: int = 1, nodes: int = 1) -> Plan:
    return Plan(
        profile="auto",
        engine="vllm",
        engine_version="0.32.0",
        streamer_version=None,
        max_model_len=None,
        nodes=nodes,
        model=Model("s3://b/m", 67 * 10**9, 1, 1, None, None, None),
        placement=Placement(None, card, 80 * 10**9, gpus, 2, pods_per_node, True),
        streaming=Streaming("runai_streamer", 1 << 32, 17, True),
        compile=Compile(True, "/compile-cache"),
        resources=Resources(1, 1, 1),
        estimate=Estimate("nat", None, None, None, None, None),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("compute", "one"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_the_definitions_accept_it(compute: Compute, one: Instance) -> None:
    for mode, ami in itertools.product(Mode, ["al2023", "bottlerocket"]):
        for document in made(compute=compute, instance=one, ami=ami, mode=mode):
            assert crds.faults(document) == []


def test_what_the_definitions_refuse_is_noticed() -> None:
    node_class, pool = made()
    del pool["spec"]["disruption"]["consolidateAfter"]
    node_class["spec"]["instanceStorePolicies"] = node_class["spec"].pop("instanceStorePolicy")
    (required,), (unknown,) = crds.faults(pool), crds.faults(node_class)
    assert "'consolidateAfter' is a required property" in required
    assert "instanceStorePolicies" in unknown


@pytest.mark.slow
@pytest.mark.parametrize(("compute", "one"), PAIRS, ids=lambda value: getattr(value, "name", value))
def test_the_pool_buys_that_type_and_refers_to_its_class(compute: Compute, one: Instance) -> None:
    node_class, pool = made(compute=compute, instance=one)
    spec = pool["spec"]["template"]["spec"]
    group = node_class["apiVersion"].partition("/")[0]
    assert spec["nodeClassRef"] == {
        "group": group,
        "kind": node_class["kind"],
        "name": node_class["metadata"]["name"],
    }
    assert {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [one.name]} in spec["requirements"]
    assert {"key": "kubernetes.io/arch", "operator": "In", "values": [one.arch]} in spec["requirements"]
    assert spec["taints"] == [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
    assert pool["spec"]["limits"]["nvidia.com/gpu"] >= one.gpus


@pytest.mark.parametrize("ami", ["al2023", "bottlerocket"])
@pytest.mark.parametrize("mode", Mode)
def test_karpenter_always_gets_the_line_that_decides(ami: str, mode: Mode) -> None:
    node_class, _ = made(ami=ami, mode=mode)
    assert node_class["spec"]["instanceStorePolicy"] == "RAID0"
    assert node_class["spec"]["amiSelectorTerms"] == [{"alias": f"{ami}@latest"}]


@pytest.mark.parametrize(("ami", "mount"), [("al2023", "/mnt/k8s-disks/0"), ("bottlerocket", "/mnt/.ephemeral")])
def test_it_says_where_the_disks_are_mounted(ami: str, mount: str) -> None:
    assert mount in nodepool.text(options(ami=ami))


def _bytes(quantity: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Gi)", quantity).groups()  # type: ignore[union-attr] # a mismatch fails the test
    return int(number) * {"Gi": 2**30}[unit]


@pytest.mark.slow
@pytest.mark.parametrize("one", USABLE[Compute.AUTO_MODE], ids=lambda one: one.name)
def test_auto_mode_uses_the_nvme_of_every_type(one: Instance) -> None:
    """The AWS guide's condition: the size that is asked for is smaller than the instance's NVMe capacity."""
    node_class, _ = made(compute=Compute.AUTO_MODE, instance=one)
    assert 0 < _bytes(node_class["spec"]["ephemeralStorage"]["size"]) < one.nvme_bytes


@given(st.integers(min_value=1 << 31, max_value=10**14))
def test_the_largest_size_is_below_the_disk_and_no_smaller_than_it_has_to_be(nvme_bytes: int) -> None:
    most = nodepool.largest_below(nvme_bytes)
    assert most * 2**30 < nvme_bytes
    assert (most + 1) * 2**30 >= nvme_bytes or most == 59_000


def test_a_disk_of_a_whole_number_of_gib_is_not_filled() -> None:
    assert nodepool.largest_below(100 * 2**30) == 99


def test_a_disk_smaller_than_the_default_gets_a_smaller_size() -> None:
    small = dataclasses.replace(instance("g5.xlarge"), nvme_bytes=50 * 10**9)
    node_class, _ = made(compute=Compute.AUTO_MODE, instance=small)
    assert node_class["spec"]["ephemeralStorage"]["size"] == "46Gi"


@pytest.mark.parametrize("compute", KUBERNETES)
def test_the_startup_taint_is_there_in_shared_mode_alone(compute: Compute) -> None:
    taints = {
        mode: made(compute=compute, mode=mode)[1]["spec"]["template"]["spec"].get("startupTaints") for mode in Mode
    }
    assert taints == {
        Mode.DIRECT: None,
        Mode.NODE: None,
        Mode.SHARED: [{"key": "glowplug.dev/prewarming", "effect": "NoSchedule"}],
    }


def test_what_karpenter_requires_of_disruption_is_there() -> None:
    _, pool = made()
    assert pool["spec"]["disruption"]["consolidateAfter"] == "10m"


@pytest.mark.parametrize(("compute", "one", "why"), UNFIT, ids=lambda value: getattr(value, "name", value))
def test_a_type_whose_gpu_or_disk_no_pod_could_use_is_refused(compute: Compute, one: Instance, why: str) -> None:
    with pytest.raises(BadInputError, match=why) as caught:
        nodepool.text(options(compute=compute, instance=one))
    assert caught.value.code == "instance-unfit"
    assert caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize(("compute", "one"), ALL, ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("kind", ["deployment", "bake", "all"])
def test_pods_are_refused_where_no_pod_gets_a_gpu_and_nowhere_else(kind: str, compute: Compute, one: Instance) -> None:
    """A disk is no matter to a pod; what a node group holds is there already."""
    card = one.gpu.name
    asked = options(compute=compute, instance=one, plan=plan(card, 1), model="s3://b/m")
    why = why_not(compute, one)
    if compute is Compute.NODEGROUP or why in ("", "no NVMe"):
        if kind != "all" or not why:
            kinds.render(kind, asked)
        return
    with pytest.raises(BadInputError, match=why) as caught:
        kinds.render(kind, asked)
    assert caught.value.code == "instance-unfit"


def test_pods_for_a_gpu_that_only_unfit_types_have_are_refused() -> None:
    card = next(one.gpu.name for one in instances() if one.family == "g7")
    asked = {"instance": None, "plan": plan(card, 1), "model": "s3://b/m"}
    with pytest.raises(BadInputError, match="Auto Mode does not offer"):
        kinds.render("deployment", options(compute=Compute.AUTO_MODE, **asked))
    kinds.render("deployment", options(compute=Compute.KARPENTER, **asked))


def test_each_kind_of_refusal_is_met() -> None:
    assert {why for _, _, why in UNFIT} == {"Auto Mode does not offer", "no GPU", "no NVMe"}
    assert {"g7", "g6f", "gr6f"} <= {one.family for compute, one, _ in UNFIT if compute is Compute.AUTO_MODE}


@pytest.mark.parametrize("compute", Compute)
def test_without_anything_to_buy_it_asks(compute: Compute) -> None:
    with pytest.raises(UsageError) as caught:
        nodepool.text(options(compute=compute, instance=None))
    assert "--instance" in caught.value.hint


def test_a_plan_for_gpus_buys_every_type_that_has_them() -> None:
    node_class, pool = made(compute=Compute.AUTO_MODE, instance=None, plan=plan("l4", 1))
    requirement = pool["spec"]["template"]["spec"]["requirements"][0]
    assert set(requirement["values"]) == {
        one.name for one in USABLE[Compute.AUTO_MODE] if (one.gpu.name, one.gpus) == ("l4", 1)
    }
    smallest = min(instance(name).nvme_bytes for name in requirement["values"])
    assert _bytes(node_class["spec"]["ephemeralStorage"]["size"]) < smallest


def test_gpus_by_name_buy_the_same_without_a_plan() -> None:
    asked = {"instance": None, "gpu": gpu("l4"), "gpu_count": 4}
    assert made(**asked)[1] == made(instance=None, plan=plan("l4", 4))[1]


@pytest.mark.parametrize("asked", [{"plan": plan("l4", 3)}, {"gpu": gpu("l4"), "gpu_count": 3}])
def test_gpus_that_no_type_has_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="no instance type has 3 × l4"):
        nodepool.text(options(instance=None, **asked))


@pytest.mark.parametrize(
    ("replicas", "pods_per_node", "nodes", "gpus"), [(1, 4, 1, 32), (16, 4, 1, 64), (17, 4, 1, 80), (1, 4, 20, 160)]
)
def test_the_roof_leaves_room_for_twice_the_replicas(replicas: int, pods_per_node: int, nodes: int, gpus: int) -> None:
    planned = plan("h100-80gb", 8, pods_per_node=pods_per_node, nodes=nodes)
    _, pool = made(plan=planned, replicas=replicas)
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": gpus}


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", fullmatch=True) | st.sampled_from(
    ["1234", "true", "null", "no", "0x1F", "1e3", "0o17", "2026-10-01", "12_3", "on"]
)


@pytest.mark.slow
@given(NAMES)
def test_a_cluster_is_found_by_its_very_name(name: str) -> None:
    node_class, _ = made(cluster=name)
    for terms in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
        assert node_class["spec"][terms] == [{"tags": {"karpenter.sh/discovery": name}}]
    assert crds.faults(node_class) == []


@pytest.mark.parametrize("compute", KUBERNETES)
def test_what_was_not_given_is_plainly_to_be_replaced_and_said(compute: Compute) -> None:
    bare = options(cluster=None, compute=compute)
    assert nodepool.CLUSTER in nodepool.text(bare)
    assert any(nodepool.CLUSTER in note and "--cluster" in note for note in nodepool.notes(bare))
    assert any("--node-role" in note for note in nodepool.notes(bare))
    given_all = options(node_role="Nodes", compute=compute)
    assert nodepool.CLUSTER not in nodepool.text(given_all)
    assert [note for note in nodepool.notes(given_all) if "--" in note] == []


@pytest.mark.parametrize("compute", KUBERNETES)
def test_the_role_is_the_one_that_was_named(compute: Compute) -> None:
    assert made(node_role="Nodes", compute=compute)[0]["spec"]["role"] == "Nodes"


@pytest.mark.parametrize("name", ["GPU", "gpu_pool", "a..b", "-a"])
def test_a_name_that_no_object_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--nodepool"):
        nodepool.text(options(nodepool=name))


def test_the_name_is_the_one_that_was_given() -> None:
    assert [one["metadata"]["name"] for one in made(nodepool="gpu-nodepool-g6e-12xlarge")] == [
        "gpu-nodepool-g6e-12xlarge"
    ] * 2


@pytest.mark.slow
@given(NAMES)
def test_auto_mode_finds_what_every_cluster_has(name: str) -> None:
    """AWS's own examples select subnets by that tag; EKS puts the other on the group of each cluster."""
    node_class, _ = made(cluster=name, compute=Compute.AUTO_MODE)
    assert node_class["spec"]["subnetSelectorTerms"] == [{"tags": {"kubernetes.io/role/internal-elb": "1"}}]
    assert node_class["spec"]["securityGroupSelectorTerms"] == [{"tags": {"aws:eks:cluster-name": name}}]
    assert crds.faults(node_class) == []


def test_auto_mode_says_what_to_compare_its_selectors_with() -> None:
    (note,) = nodepool.notes(options(compute=Compute.AUTO_MODE, node_role="Nodes"))
    assert "kubectl get nodeclass default" in note
    assert "kubernetes.io/role/internal-elb" in note


# A managed node group.


def group(**changes: Any) -> dict[str, Any]:
    text = nodepool.text(options(compute=Compute.NODEGROUP, **changes))
    return deployed.deploy(text, SubnetIds="subnet-1", NodeRoleArn="arn:aws:iam::123456789012:role/nodes")


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("ami", ["al2023", "bottlerocket"])
@pytest.mark.parametrize("role", [None, "Nodes"])
def test_a_node_group_is_a_template_without_faults(ami: str, mode: Mode, role: str | None) -> None:
    asked = options(compute=Compute.NODEGROUP, ami=ami, mode=mode, node_role=role)
    assert deployed.findings(nodepool.text(asked)) == []
    assert nodepool.documents(asked) == []


def test_a_node_group_has_the_name_that_pods_select_by() -> None:
    assert group(nodepool="gpu_1")["NodeGroup"]["NodegroupName"] == "gpu_1"
    assert "NodegroupName" not in group()["NodeGroup"]
    with pytest.raises(UsageError, match="--nodepool"):
        group(nodepool="gpu.1")


def test_a_node_group_tells_what_deploying_asks_for() -> None:
    (note,) = nodepool.notes(options(compute=Compute.NODEGROUP))
    assert note.endswith("deploying asks for NodeRoleArn, SubnetIds")


def test_a_template_with_a_fault_would_be_noticed() -> None:
    broken = nodepool.text(options(compute=Compute.NODEGROUP)).replace(
        "AmiType: AL2023_x86_64_NVIDIA", "AmiType: AL2023"
    )
    assert deployed.findings(broken)
    assert deployed.findings(broken) == deployed.findings(broken)


def test_nodeadm_is_told_to_use_the_disks() -> None:
    user_data = group()["LaunchTemplate"]["LaunchTemplateData"]["UserData"]
    (part,) = email.message_from_string(user_data, policy=email.policy.default).iter_parts()
    assert part.get_content_type() == "application/node.eks.aws"
    config = yaml.safe_load(str(part.get_payload()))
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert config["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}


def test_bottlerocket_is_told_to_use_the_disks() -> None:
    user_data = group(ami="bottlerocket")["LaunchTemplate"]["LaunchTemplateData"]["UserData"]
    (command,) = tomllib.loads(user_data)["settings"]["bootstrap-commands"].values()
    assert command["commands"][0] == ["apiclient", "ephemeral-storage", "init"]
    assert {"/var/lib/kubelet", "/var/lib/containerd"} <= set(command["commands"][1])
    assert (command["mode"], command["essential"]) == ("always", True)


@pytest.mark.parametrize(
    ("ami", "arch", "kind"),
    [
        ("al2023", "amd64", "AL2023_x86_64_NVIDIA"),
        ("al2023", "arm64", "AL2023_ARM_64_NVIDIA"),
        ("bottlerocket", "amd64", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("bottlerocket", "arm64", "BOTTLEROCKET_ARM_64_NVIDIA"),
    ],
)
def test_the_image_has_the_driver_and_the_processor(ami: str, arch: str, kind: str) -> None:
    one = dataclasses.replace(instance("g5.xlarge"), arch=arch)
    assert group(ami=ami, instance=one)["NodeGroup"]["AmiType"] == kind


@pytest.mark.parametrize("mode", Mode)
def test_the_agent_finds_the_nodes_of_a_group(mode: Mode) -> None:
    """EKS' own labels do not say that a node has a GPU."""
    labels = group(mode=mode)["NodeGroup"]["Labels"]
    for kind in ("DaemonSet", "Deployment"):
        if mode is Mode.DIRECT or (mode, kind) == (Mode.NODE, "Deployment"):
            continue
        agent = kinds.render("agent", options(compute=Compute.NODEGROUP, mode=mode, instance=None)).value["items"]
        (spec,) = [one["spec"]["template"]["spec"] for one in agent if one["kind"] == kind]
        terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        holds = [all(_holds(one, labels) for one in term["matchExpressions"]) for term in terms]
        assert any(holds) == (kind == "DaemonSet")


def _holds(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    return (expression["key"] in labels) == {"Exists": True, "DoesNotExist": False}[expression["operator"]]


def test_cluster_autoscaler_knows_the_startup_taint_by_its_prefix() -> None:
    keys = {mode: [taint["Key"] for taint in group(mode=mode)["NodeGroup"]["Taints"]] for mode in Mode}
    assert keys[Mode.DIRECT] == keys[Mode.NODE] == ["nvidia.com/gpu"]
    (added,) = set(keys[Mode.SHARED]) - {"nvidia.com/gpu"}
    assert added == options(compute=Compute.NODEGROUP).startup_taint
    assert added.startswith("startup-taint.cluster-autoscaler.kubernetes.io/")


def test_the_whole_of_it_for_karpenter() -> None:
    text = nodepool.text(options(instance=instance("g6e.12xlarge"), mode=Mode.SHARED, cluster=None))
    assert text == snapshot("""\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: gpu-g6e-12xlarge
spec:
  # The role of the nodes, from the set-up of Karpenter.
  role: KarpenterNodeRole-CLUSTER_NAME
  # Each new image replaces all nodes, and their caches with them. For production pin one:
  # al2023@vYYYYMMDD.
  amiSelectorTerms:
    - alias: al2023@latest
  subnetSelectorTerms:
    - tags:
        karpenter.sh/discovery: CLUSTER_NAME
  securityGroupSelectorTerms:
    - tags:
        karpenter.sh/discovery: CLUSTER_NAME
  # Without it the NVMe disks stay unused and every hostPath lies on EBS. They are mounted at
  # /mnt/k8s-disks/0, and kubelet's and containerd's own directories lie on them too.
  instanceStorePolicy: RAID0
  blockDeviceMappings:
    # The system only: images and emptyDirs lie on NVMe.
    - deviceName: /dev/xvda
      ebs:
        volumeType: gp3
        volumeSize: 50Gi
        encrypted: true
        deleteOnTermination: true
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-g6e-12xlarge
spec:
  template:
    spec:
      nodeClassRef:
        group: karpenter.k8s.aws
        kind: EC2NodeClass
        name: gpu-g6e-12xlarge
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values:
            - g6e.12xlarge
        # Spot would take a node, and the cache on its NVMe, away within two minutes. `reserved`
        # counts once the node class names a capacity reservation
        # (capacityReservationSelectorTerms).
        - key: karpenter.sh/capacity-type
          operator: In
          values:
            - on-demand
            - reserved
        - key: kubernetes.io/arch
          operator: In
          values:
            - amd64
      # Pods that need no GPU stay off nodes that cost as one.
      taints:
        - key: nvidia.com/gpu
          effect: NoSchedule
      # Keeps inference pods off until the cache is on the node. glowplug's agent removes it after
      # the node has registered, `glowplug agent release` where the agent cannot; Karpenter itself
      # never would. The device plugin has to tolerate it.
      startupTaints:
        - key: glowplug.dev/prewarming
          effect: NoSchedule
      # Karpenter's default. The node's NVMe, and what is cached on it, goes with the node.
      expireAfter: 720h
  disruption:
    # Moving a running pod to save a node costs a start of the engine, and a second node meanwhile.
    consolidationPolicy: WhenEmpty
    # An empty node, with its warm cache, waits this long for the next wave of pods.
    consolidateAfter: 10m
    budgets:
      - nodes: 10%
      # A new image replaces every node, and each replacement begins with an empty disk: one at a
      # time.
      - nodes: "1"
        reasons:
          - Drifted
  # 4 nodes: a roof over what a mistake can buy. Raise it before you scale beyond.
  limits:
    nvidia.com/gpu: 16
""")


def test_the_whole_of_it_for_auto_mode() -> None:
    text = nodepool.text(options(instance=instance("g6e.12xlarge"), compute=Compute.AUTO_MODE))
    assert text == snapshot("""\
apiVersion: eks.amazonaws.com/v1
kind: NodeClass
metadata:
  name: gpu-g6e-12xlarge
spec:
  # `kubectl get nodeclass default -o yaml` shows role, subnets and groups that already work in this
  # cluster. Another role needs an access entry of type EC2 with AmazonEKSAutoNodePolicy.
  role: AmazonEKSAutoNodeRole
  # Private subnets, as EKS and eksctl tag them for load balancers. The tag is of no one cluster:
  # with other VPCs in the account, or without it, name them by id: subnet-….
  subnetSelectorTerms:
    - tags:
        kubernetes.io/role/internal-elb: "1"
  # The group that EKS makes for each cluster; it puts this tag on it, and back on it.
  securityGroupSelectorTerms:
    - tags:
        aws:eks:cluster-name: prod
  ephemeralStorage:
    # Has to stay below the NVMe of g6e.12xlarge (3800 GB): at most 3539Gi. Only then does Auto Mode
    # format the instance store and mount it at /mnt/.ephemeral; otherwise that path is EBS.
    size: 80Gi
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu-g6e-12xlarge
spec:
  template:
    spec:
      nodeClassRef:
        group: eks.amazonaws.com
        kind: NodeClass
        name: gpu-g6e-12xlarge
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values:
            - g6e.12xlarge
        # Spot would take a node, and the cache on its NVMe, away within two minutes. `reserved`
        # counts once the node class names a capacity reservation
        # (capacityReservationSelectorTerms).
        - key: karpenter.sh/capacity-type
          operator: In
          values:
            - on-demand
            - reserved
        - key: kubernetes.io/arch
          operator: In
          values:
            - amd64
      # Pods that need no GPU stay off nodes that cost as one.
      taints:
        - key: nvidia.com/gpu
          effect: NoSchedule
      # Auto Mode's default. It replaces nodes for a new image about weekly, and after 21 days at
      # the latest.
      expireAfter: 336h
  disruption:
    # Moving a running pod to save a node costs a start of the engine, and a second node meanwhile.
    consolidationPolicy: WhenEmpty
    # An empty node, with its warm cache, waits this long for the next wave of pods.
    consolidateAfter: 10m
    budgets:
      - nodes: 10%
      # A new image replaces every node, and each replacement begins with an empty disk: one at a
      # time.
      - nodes: "1"
        reasons:
          - Drifted
  # 4 nodes: a roof over what a mistake can buy. Raise it before you scale beyond.
  limits:
    nvidia.com/gpu: 16
""")
