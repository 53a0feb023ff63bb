"""What an edit makes of what stands around a pod: its nodes, whoever makes it, volumes at default directories, what is off."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from glowplug.lint import inject
from glowplug.lint.run import Options, lint
from glowplug.manifests.source import Source
from glowplug.render.options import Compute
from tests.lint.compile.manifests import nodes
from tests.render.injected import DEPLOYMENT, changed, engine, options, refused, result, text

AL2023 = "/mnt/k8s-disks/0/compile-cache"
BOTTLEROCKET = "/mnt/.ephemeral/compile-cache"
ON_BOTTLEROCKET = nodes(spec="amiSelectorTerms: [{alias: bottlerocket@latest}]\ninstanceStorePolicy: RAID0")
ON_AL2023 = nodes(spec="amiSelectorTerms: [{alias: al2023@latest}]\ninstanceStorePolicy: RAID0", name="linux")
ON_AUTO_MODE = nodes("NodeClass", name="auto")


def _notes(before: str, mode: str = "shared", **given: Any) -> list[str]:
    return [note for one in result(before, mode, **given).objects for note in one.notes]


def _host_path(before: str, mode: str = "shared", **given: Any) -> str:
    documents = list(yaml.safe_load_all(text(before, mode, **given)))
    (found,) = [one for one in documents if one["kind"] == "Deployment"]
    volumes = {one["name"]: one for one in found["spec"]["template"]["spec"]["volumes"]}
    path: str = volumes["compile-cache" if mode == "shared" else "glowplug-outbox"]["hostPath"]["path"]
    return path


@pytest.mark.parametrize(
    ("around", "given", "path"),
    [
        pytest.param(ON_BOTTLEROCKET, {}, BOTTLEROCKET, id="Bottlerocket"),
        pytest.param(ON_BOTTLEROCKET, {"ami": "bottlerocket"}, BOTTLEROCKET, id="Bottlerocket, and said so"),
        pytest.param(ON_AUTO_MODE, {}, BOTTLEROCKET, id="Auto Mode"),
        pytest.param(ON_AL2023, {"ami": "bottlerocket"}, AL2023, id="Amazon Linux, and said otherwise"),
        pytest.param(ON_AL2023, {"compute": Compute.AUTO_MODE}, AL2023, id="Karpenter, and said otherwise"),
        pytest.param("", {}, AL2023, id="unknown"),
        pytest.param("", {"compute": Compute.AUTO_MODE}, BOTTLEROCKET, id="unknown, and said"),
    ],
)
def test_paths_are_those_of_the_nodes_in_the_input(around: str, given: dict[str, Any], path: str) -> None:
    before = f"{DEPLOYMENT}---\n{around}" if around else DEPLOYMENT
    assert _host_path(before, **given) == path
    after = text(before, "shared", **given)
    compute = str(given.get("compute", "")) if not around else ""
    found = lint([Source("deploy.yaml", after)], Options(None, compute, None)).findings
    assert [one.message for one in found if one.rule == "hostpath-not-nvme"] == []
    assert text(after, "shared", **given) == after
    # Said where it is not what was asked for.
    asked = _host_path(DEPLOYMENT, **given) == path
    assert any("whatever --compute and --ami say" in note for note in _notes(before, **given)) is not asked


def test_mode_node_has_its_paths_there_too_and_mode_direct_has_none() -> None:
    before = f"{DEPLOYMENT}---\n{ON_BOTTLEROCKET}"
    assert _host_path(before, "node") == "/mnt/.ephemeral/glowplug/outbox"
    assert not any("instance store" in note for note in _notes(before, "direct", store="s3://b/c"))


def test_what_the_pod_selects_says_it_as_well() -> None:
    before = changed(DEPLOYMENT, nodeSelector={"eks.amazonaws.com/compute-type": "auto"})
    assert _host_path(before) == BOTTLEROCKET


def test_nodes_of_both_kinds_cannot_both_be_right() -> None:
    before = f"{DEPLOYMENT}---\n{ON_BOTTLEROCKET}---\n{ON_AL2023}"
    assert _host_path(before) == AL2023
    (note,) = [note for note in _notes(before) if "different places" in note]
    assert "/mnt/.ephemeral on `gpu`" in note
    assert "/mnt/k8s-disks/0 on `linux`" in note


# Knative.


def _service(kind: str, *, annotation: str = "", status: str = "", worker: bool = False) -> str:
    pod = yaml.safe_load(DEPLOYMENT)["spec"]["template"]["spec"]
    metadata: dict[str, Any] = {"name": "llama", "namespace": "inference"}
    if annotation:
        metadata["annotations"] = {"serving.kserve.io/deploymentMode": annotation}
    if kind == "Service":
        spec: dict[str, Any] = {"template": {"spec": pod}}
    elif kind == "InferenceService":
        spec = {"predictor": {**pod, **({"workerSpec": {}} if worker else {})}}
    else:
        spec = pod
    group = "serving.knative.dev/v1" if kind == "Service" else "serving.kserve.io/v1beta1"
    value = {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}
    if status:
        value["status"] = {"deploymentMode": status}
    return yaml.safe_dump(value, sort_keys=False)


INIT, FIELD, HOST = (f"kubernetes.podspec-{name}" for name in ("init-containers", "fieldref", "volumes-hostpath"))


@pytest.mark.parametrize(("mode", "flags"), [("direct", {INIT, FIELD}), ("shared", {HOST})], ids=["direct", "shared"])
@pytest.mark.parametrize(
    ("before", "certain"),
    [
        pytest.param(_service("Service"), True, id="Knative's own"),
        pytest.param(_service("InferenceService", annotation="Serverless"), True, id="KServe, Serverless"),
        pytest.param(_service("InferenceService", annotation="Knative"), True, id="KServe, Knative"),
        pytest.param(_service("InferenceService", status="Serverless"), True, id="KServe, by its status"),
        pytest.param(_service("InferenceService"), False, id="KServe, not said"),
        pytest.param(_service("ServingRuntime"), False, id="a runtime"),
    ],
)
def test_what_knative_refuses_is_said_with_its_switches(
    before: str, mode: str, flags: set[str], *, certain: bool
) -> None:
    (note,) = [note for note in _notes(before, mode) if "Knative" in note]
    assert {flag for flag in (INIT, FIELD, HOST) if flag in note} == flags
    assert note.startswith("Knative makes its pods") is certain
    # Once: a second call changes nothing, and there is nothing to refuse.
    assert not any("Knative" in note for note in _notes(text(before, mode), mode))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(DEPLOYMENT, id="a Deployment"),
        pytest.param(_service("InferenceService", annotation="RawDeployment"), id="RawDeployment"),
        pytest.param(_service("InferenceService", annotation="Standard"), id="Standard"),
        pytest.param(_service("InferenceService", annotation="Knative", status="Standard"), id="by its status"),
        pytest.param(_service("InferenceService", worker=True), id="several nodes"),
    ],
)
def test_pods_that_knative_does_not_make_are_not_warned_of_it(before: str) -> None:
    assert not any("Knative" in note for note in _notes(before, "direct"))


def test_mode_node_is_none_for_knative() -> None:
    assert "subPathExpr" in refused(_service("InferenceService", annotation="Serverless"), "node")
    assert any("subPathExpr it never takes" in note for note in _notes(_service("InferenceService"), "node"))


# What is there already.


def _mounted(path: str, **env: str) -> str:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    mount = {"name": "old", "mountPath": path}
    return changed(
        DEPLOYMENT,
        {"volumeMounts": [mount], "env": variables},
        volumes=[{"name": "old", "hostPath": {"path": "/var/x"}}],
    )


@pytest.mark.parametrize(
    ("path", "variable"),
    [
        ("/root/.cache/vllm", "VLLM_CACHE_ROOT"),
        ("/root/.cache/vllm/torch_compile_cache/", "VLLM_CACHE_ROOT"),
        ("/root/.triton", "TRITON_CACHE_DIR"),
        ("/tmp/torchinductor_root", "TORCHINDUCTOR_CACHE_DIR"),
        ("/home/vllm/.cache/flashinfer", "FLASHINFER_WORKSPACE_BASE"),
    ],
)
def test_a_volume_that_is_no_longer_used_is_named(path: str, variable: str) -> None:
    (note,) = [note for note in _notes(_mounted(path)) if "no longer used" in note]
    assert note.startswith(f"the volume old at {path} ")
    assert f"{variable} leads to /compile-cache/" in note


def test_a_tree_that_leaves_another_volume_is_named() -> None:
    (note,) = [note for note in _notes(_mounted("/xdg", XDG_CACHE_HOME="/xdg/")) if "the volume old" in note]
    assert "no longer where vLLM keeps what it compiles" in note


@pytest.mark.parametrize("path", ["/root/.cache", "/models", "/root/.cache/huggingface"])
def test_a_volume_that_others_use_is_not(path: str) -> None:
    assert not any("the volume old" in note for note in _notes(_mounted(path)))


@pytest.mark.parametrize(
    ("mode", "said"), [("shared", "is not in the shared directory"), ("direct", "neither restored nor published")]
)
def test_what_leads_elsewhere_is_lost_in_each_mode_for_what_it_does(mode: str, said: str) -> None:
    before = _mounted("/t", TRITON_CACHE_DIR="/t/triton")
    (note,) = [note for note in _notes(before, mode) if "leads out" in note]
    assert note.endswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"args": ["m", "--enforce-eager"]}, "`--enforce-eager`"),
        ({"args": ["m", "-O0"]}, "`-O0`"),
        ({"env": [{"name": "TORCH_COMPILE_DISABLE", "value": "1"}]}, "`TORCH_COMPILE_DISABLE=1`"),
        ({"env": [{"name": "VLLM_DISABLE_COMPILE_CACHE", "value": "1"}]}, "`VLLM_DISABLE_COMPILE_CACHE=1`"),
    ],
    ids=str,
)
def test_an_engine_that_keeps_nothing_is_told(change: dict[str, Any], said: str) -> None:
    (note,) = [note for note in _notes(changed(DEPLOYMENT, change), "direct") if "nothing to keep" in note]
    assert note.startswith(said)


def test_a_variable_that_is_no_cache_says_why_it_is_there() -> None:
    after = text(DEPLOYMENT, "direct").splitlines()
    (line,) = [number for number, one in enumerate(after) if "VLLM_XLA_CACHE_PATH" in one]
    comments = [one.strip() for one in after[line - 3 : line] if one.strip().startswith("#")]
    assert "compile key" in " ".join(comments)
    assert "VLLM_XLA_CACHE_PATH" not in {
        one["name"] for one in engine(text(changed(DEPLOYMENT, {"image": "vllm/vllm-openai:v0.33.0"}), "direct"))["env"]
    }


def test_options_are_not_changed_for_other_pods() -> None:
    other = DEPLOYMENT.replace("name: llama", "name: other").replace(
        "serviceAccountName: serving", "nodeSelector: {karpenter.sh/nodepool: none}"
    )
    done = inject.inject(
        [Source("a.yaml", f"{DEPLOYMENT}---\n{ON_BOTTLEROCKET}"), Source("b.yaml", other)], options("shared")
    )
    assert BOTTLEROCKET in done.sources[0].text
    assert AL2023 in done.sources[1].text
