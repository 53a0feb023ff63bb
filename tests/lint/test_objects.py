"""Every kind's pods are found, and what is no object of Kubernetes, or a broken one, is passed over."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError
from glowplug.lint import objects
from glowplug.lint.view import Workload
from glowplug.manifests.source import Source
from tests.lint.reading import manifests, pod, text_at, workload

POD = """\
spec:
  containers:
  - {name: side, image: nginx}
  - name: engine
    image: vllm/vllm-openai:v0.21.0
    args: [s3://b/m, --tensor-parallel-size=8]
"""


def at(*path: str) -> str:
    """A pod template below these keys; `-` is a list of one."""
    text = POD
    for key in reversed(path):
        text = "- " + textwrap.indent(text, "  ")[2:] if key == "-" else f"{key}:\n{textwrap.indent(text, '  ')}"
    return text


KINDS = {
    "apps/v1 Deployment": at("spec", "template"),
    "apps/v1 StatefulSet": at("spec", "template"),
    "apps/v1 DaemonSet": at("spec", "template"),
    "apps/v1 ReplicaSet": at("spec", "template"),
    "batch/v1 Job": at("spec", "template"),
    "batch/v1 CronJob": at("spec", "jobTemplate", "spec", "template"),
    "v1 Pod": at(),
    "v1 PodTemplate": at("template"),
    "argoproj.io/v1alpha1 Rollout": at("spec", "template"),
    "serving.knative.dev/v1 Service": at("spec", "template"),
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": at("spec", "leaderWorkerTemplate", "workerTemplate"),
    "ray.io/v1 RayCluster": at("spec", "workerGroupSpecs", "-", "template"),
    "ray.io/v1 RayService": at("spec", "rayClusterConfig", "headGroupSpec", "template"),
    "ray.io/v1 RayJob": at("spec", "rayClusterSpec", "headGroupSpec", "template"),
    "jobset.x-k8s.io/v1alpha2 JobSet": at("spec", "replicatedJobs", "-", "template", "spec", "template"),
    "serving.kserve.io/v1beta1 InferenceService": POD.replace("spec:", "spec:\n  predictor:")
    .replace("\n  ", "\n    ")
    .replace("\n    predictor:", "\n  predictor:"),
    "serving.kserve.io/v1alpha1 ServingRuntime": POD,
    "serving.kserve.io/v1alpha1 LLMInferenceService": POD.replace("spec:", "spec:\n  template:")
    .replace("\n  ", "\n    ")
    .replace("\n    template:", "\n  template:"),
}


def of_kind(kind: str, body: str, name: str = "o") -> str:
    version, _, bare = kind.partition(" ")
    return f"apiVersion: {version}\nkind: {bare}\nmetadata: {{name: {name}, namespace: n}}\n{body}"


def check(one: Workload) -> None:
    assert one.container.name == "engine"
    assert [container.name for container in one.containers] == ["side", "engine"]
    assert one.containers[1] is one.container
    assert one.engine.value("tensor-parallel-size") == "8"


@pytest.mark.parametrize("kind", KINDS)
def test_pods_of_every_kind(kind: str) -> None:
    one = workload(of_kind(kind, KINDS[kind]))
    check(one)
    assert one.object.title == f"{kind.partition(' ')[2]} n/o"
    assert one.everything is not None
    assert one.everything.workloads == (one,)


@pytest.mark.parametrize("kind", ["v1 List", "apps/v1 DeploymentList"])
def test_lists_are_opened(kind: str) -> None:
    items = (
        ["", "apiVersion: apps/v1\nkind: Deployment\n"]
        if "Deployment" in kind
        else ["apiVersion: apps/v1\nkind: Deployment\n"]
    )
    body = "".join(
        "- " + textwrap.indent(f"{head}metadata: {{name: o{index}, namespace: n}}\n{at('spec', 'template')}", "  ")[2:]
        for index, head in enumerate(items)
    )
    found = manifests(f"apiVersion: {kind.partition(' ')[0]}\nkind: {kind.partition(' ')[2]}\nitems:\n{body}")
    assert [one.object.title for one in found.workloads] == [f"Deployment n/o{index}" for index in range(len(items))]
    for one in found.workloads:
        check(one)


def test_leader_and_workers_know_their_group() -> None:
    text = textwrap.dedent(
        """\
        apiVersion: leaderworkerset.x-k8s.io/v1
        kind: LeaderWorkerSet
        metadata: {name: o}
        spec:
          leaderWorkerTemplate:
            size: 2
            leaderTemplate:
              spec:
                containers:
                - name: leader
                  image: vllm/vllm-openai:v0.21.0
                  command: [sh, -c, "bash /x/multi-node-serving.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE);
                    vllm serve m --tensor-parallel-size 8 --pipeline-parallel-size $(LWS_GROUP_SIZE)"]
            workerTemplate:
              spec:
                containers:
                - name: worker
                  image: vllm/vllm-openai:v0.21.0
                  command: [sh, -c, "bash /x/multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)"]
        """
    )
    leader, *others = manifests(text).workloads
    assert leader.engine.value("pipeline-parallel-size") == "2"
    assert text_at(leader.engine.options["pipeline-parallel-size"].at) == "2"
    assert [(one.container.name, one.engine.opaque) for one in others] == [("worker", "a shell script in a file")]


def test_models_of_kserve_are_containers() -> None:
    text = """
        apiVersion: serving.kserve.io/v1beta1
        kind: InferenceService
        metadata: {name: o, labels: {glowplug.dev/mode: node}}
        spec:
          predictor:
            nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}
            model:
              modelFormat: {name: vLLM}
              runtime: vllm-cuda
              storageUri: s3://b/m
              args: [--max-model-len=8192]
              env: [{name: A, value: "1"}]
              resources: {limits: {nvidia.com/gpu: 8}}
        """
    one = workload(text)
    assert (one.engine.name, one.engine.opaque, one.engine.version) == ("vllm", "", "")
    assert one.engine.value("max-model-len") == "8192"
    assert not one.engine.lacks("load-format")
    assert one.engine.model is not None
    assert (one.engine.model.value, text_at(one.engine.model.at)) == ("/mnt/models", "s3://b/m")
    assert one.container.image is None
    assert one.container.environment.value("A") == "1"
    assert one.container.quantity("limits", "nvidia.com/gpu") == 8
    assert one.mode == "node"
    assert [machine.instance.name for machine in one.machines if machine.instance] == ["p5.48xlarge"]
    assert manifests(text.replace("vllm-cuda", "triton").replace("vLLM", "onnx")).workloads == ()


def test_containers_without_an_image_are_kserve_s_own() -> None:
    one = workload(
        """
        apiVersion: serving.kserve.io/v1alpha1
        kind: LLMInferenceService
        metadata: {name: o}
        spec:
          model: {uri: hf://a/b}
          template:
            containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]
          prefill:
            template:
              containers: [{name: other, image: nginx}]
        """
    )
    assert (one.engine.name, one.engine.words, one.container.image) == ("vllm", (), None)
    assert one.engine.opaque


@pytest.mark.parametrize(
    ("annotation", "size", "wanted"),
    [
        ("67GB", None, 67_000_000_000),
        ("64GiB", None, 64 << 30),
        ("67GB", 5, 5),
        ("a lot", None, None),
        ("", None, None),
    ],
)
def test_the_size_of_the_weights(annotation: str, size: int | None, wanted: int | None) -> None:
    text = pod("image: vllm/vllm-openai:v0.21.0\nargs: [m]")
    for place, indent in (("metadata: {name: d", ""), ("  template:\n", "    ")):
        told = (
            text.replace(place, f'metadata: {{annotations: {{glowplug.dev/weights: "{annotation}"}}, name: d')
            if not indent
            else text.replace(
                place, f'{place}    metadata: {{annotations: {{glowplug.dev/weights: "{annotation}"}}}}\n'
            )
        )
        assert workload(told, size=size).weights_bytes == wanted


def test_objects_are_found_by_name() -> None:
    found = manifests(
        of_kind("v1 ConfigMap", "", "a"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: other}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: everywhere}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: b-}\n",
    )
    for name, namespace, wanted in (
        ("a", "n", "n"),
        ("a", "other", "other"),
        ("a", "", "n"),
        ("a", "third", None),
        ("everywhere", "third", ""),
        ("b-", "", ""),
        ("none", "", None),
    ):
        one = found.named("ConfigMap", name, namespace)
        assert (one.namespace if one else None) == wanted
    assert found.named("Secret", "a") is None
    assert len(found.of_kind("ConfigMap", "Secret")) == 4


OTHERS = ("image: {repository: vllm/vllm-openai}\n", "- a\n", "kind: [x]\napiVersion: 1\n", "services: {vllm: {}}\n")


@pytest.mark.parametrize("text", OTHERS)
def test_another_document_is_told_with_its_place(text: str) -> None:
    found = manifests(of_kind("v1 List", "items: []"), "---\n---\n" + text)
    assert (found.objects, found.workloads) == ((), ())
    assert found.skipped == ("2.yaml, line 3: no Kubernetes object (it has no apiVersion and kind)",)


def test_several_are_told_in_one_line() -> None:
    (line,) = manifests(OTHERS[0] + "---\n" + OTHERS[1], *OTHERS[1:]).skipped
    assert line.startswith("5 documents in 4 files are no Kubernetes objects")
    assert line.endswith(": 1.yaml, 2.yaml, 3.yaml and 1 more")
    (line,) = manifests("---\n".join(OTHERS)).skipped
    assert line.startswith("4 documents in 1 file are no")
    assert line.endswith(": 1.yaml")


def test_what_is_no_yaml_is_bad_input() -> None:
    with pytest.raises(BadInputError, match=r"1\.yaml, line 1"):
        manifests("a: {{ .Values.x }}\nb: }\n")


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x", "vllm", "$(A)", "/a", "--tp=8"])
)
_KEYS = st.sampled_from(
    [
        "spec",
        "template",
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "containers",
        "initContainers",
        "volumes",
        "volumeMounts",
        "mountPath",
        "env",
        "envFrom",
        "value",
        "valueFrom",
        "configMapKeyRef",
        "configMapRef",
        "key",
        "image",
        "command",
        "args",
        "resources",
        "limits",
        "items",
        "nodeSelector",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
        "matchExpressions",
        "operator",
        "values",
        "tolerations",
        "effect",
        "taints",
        "requirements",
        "nodeClassRef",
        "group",
        "kind",
        "predictor",
        "model",
        "modelFormat",
        "storageUri",
        "leaderWorkerTemplate",
        "workerTemplate",
        "size",
        "hostPath",
        "path",
        "emptyDir",
        "configMap",
        "data",
        "volumeClaimTemplates",
        "glowplug.dev/weights",
    ]
)
_TREES = st.recursive(
    _SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(_KEYS, below, max_size=4)),
    max_leaves=25,
)
_OBJECTS = st.sampled_from(
    [*KINDS, "karpenter.sh/v1 NodePool", "v1 ConfigMap", "v1 List", "karpenter.k8s.aws/v1 EC2NodeClass"]
)


@given(_OBJECTS, _TREES, _TREES, st.lists(st.tuples(_KEYS, _TREES), max_size=4))
def test_nothing_that_parses_is_too_broken_to_read(
    kind: str, metadata: object, spec: object, container: list[tuple[str, object]]
) -> None:
    import json

    version, _, name = kind.partition(" ")
    engine = {"name": "e", "image": "vllm/vllm-openai:v0.21.0", "args": ["m", "--x=$(A)"], **dict(container)}
    template = {"spec": {"containers": [engine, None, 3], "volumes": spec}}
    for body in (
        spec,
        {"template": template, "predictor": template["spec"], "leaderWorkerTemplate": {"workerTemplate": template}},
    ):
        text = json.dumps(
            {"apiVersion": version, "kind": name, "metadata": metadata, "spec": body, "items": spec, "template": spec}
        )
        for one in objects.read([Source("x", text)]).workloads:
            assert one.mode is not None
            assert one.cache_root is None or one.cache_root.startswith("/")
            one.container.mount_of("/a/b")
            one.container.quantity("limits", "memory")
            for option in one.engine.options.values():
                assert text_at(option.at) is not None
