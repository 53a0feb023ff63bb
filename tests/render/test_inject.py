"""An edit gives a pod exactly what `render` would have given it, and touches nothing else (render/inject.py, lint/inject.py)."""

from __future__ import annotations

import difflib
import itertools
import json
from typing import Any

import pytest
import yaml

from glowplug.engines.command import see_through
from glowplug.lint import inject
from glowplug.manifests import recipe
from glowplug.manifests.source import Source
from glowplug.plan.outcome import Plan
from glowplug.render import kinds
from glowplug.render.injecting import carried
from glowplug.render.options import Compute, Mode
from tests.render import planned
from tests.render.injected import (
    DEPLOYMENT,
    STORE,
    changed,
    document,
    engine,
    options,
    refused,
    result,
    sets,
    stripped,
    template,
    text,
)

MODES = ("direct", "node", "shared")
IMAGE = "registry.example/glowplug:1"
ENGINES = [pytest.param(plan, id=plan.engine) for plan in (planned.AUTO, planned.SGLANG, planned.TENSORRT)]
# The cache variables of the fixed plans are not an adapter's; those of the edit are.
_CACHES = "torch.compile cache"


def _rendered(plan: Plan, mode: str, **given: Any) -> dict[str, Any]:
    value: dict[str, Any] = kinds.render("deployment", planned.options(plan, mode=Mode(mode), **given)).value
    return value


def _rendered_text(plan: Plan, mode: str, **given: Any) -> str:
    return kinds.render("deployment", planned.options(plan, mode=Mode(mode), **given)).text


def _without_caches(value: Any, plan: Plan) -> Any:
    """An edited pod without cache variables, of which the fixed plan has its own."""
    found = sets(value)
    for one in found["spec"]["containers"]:
        one["env"] = [
            entry for entry in one["env"] if not str(entry.get("value", "")).startswith(f"{recipe.CACHE_ROOT}/")
        ]
    return found


# What it makes is what `render` makes.


@pytest.mark.parametrize("compute", list(Compute))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("plan", ENGINES)
def test_a_pod_without_anything_gets_what_render_would_have_given_it(plan: Plan, mode: str, compute: Compute) -> None:
    given = {"store": STORE, "glowplug_image": IMAGE, "compute": compute}
    wanted = _rendered(plan, mode, **given)
    bare = document(stripped(wanted, plan.compile.env))
    assert recipe.CACHE_VOLUME not in bare
    after = yaml.safe_load(text(bare, mode, **given))
    assert _without_caches(after, plan) == _without_caches(wanted, plan)
    assert after["spec"]["selector"] == wanted["spec"]["selector"]


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(MODES, 2)))
@pytest.mark.parametrize("plan", ENGINES)
def test_another_mode_gives_what_render_gives_for_it(plan: Plan, one: str, other: str) -> None:
    given = {"store": STORE, "glowplug_image": IMAGE}
    after = text(text(_rendered_text(plan, one, **given), one, **given), other, **given)
    assert _without_caches(after, plan) == _without_caches(_rendered(plan, other, **given), plan)


@pytest.mark.parametrize("mode", MODES)
def test_its_cache_variables_are_those_of_the_engines_adapter(mode: str) -> None:
    env = {one["name"]: one.get("value") for one in engine(text(DEPLOYMENT, mode))["env"]}
    assert env["VLLM_CACHE_ROOT"] == "/compile-cache/vllm"
    assert {name for name, value in env.items() if str(value).startswith("/compile-cache/")} == {
        "VLLM_CACHE_ROOT",
        "VLLM_ASSETS_CACHE",
        "VLLM_XLA_CACHE_PATH",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "FLASHINFER_WORKSPACE_BASE",
        "DG_JIT_CACHE_DIR",
        "CUDA_CACHE_PATH",
    }


# What it touches.


@pytest.mark.parametrize("mode", MODES)
def test_a_first_edit_only_adds_lines(mode: str) -> None:
    after = text(DEPLOYMENT, mode, store=STORE)
    diff = list(difflib.ndiff(DEPLOYMENT.splitlines(), after.splitlines()))
    gone = [line[2:] for line in diff if line.startswith("- ")]
    # Words of a flow sequence, and labels in one line, stand where they stood.
    assert [line.split(":")[0].strip() for line in gone] in (
        [],
        ["labels", "command"],
        ["labels"],
        ["command"],
    )
    for comment in ("do not touch before Friday", "one for each zone", "the engine", "two cards", "the end"):
        assert comment in after


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "before", [DEPLOYMENT, _rendered_text(planned.AUTO, "direct"), _rendered_text(planned.GUIDE, "shared")]
)
def test_a_second_edit_finds_nothing_to_do(before: str, mode: str) -> None:
    once = text(before, mode, store=STORE, domain="team-a")
    again = result(once, mode, store=STORE, domain="team-a")
    assert [(one.outcome, one.changes) for one in again.objects] == [("unchanged", ())]
    assert again.sources[0].text == once


@pytest.mark.parametrize("mode", MODES)
def test_what_render_printed_needs_nothing_but_the_adapters_variables(mode: str) -> None:
    (found,) = result(_rendered_text(planned.AUTO, mode, store=STORE), mode, store=STORE).objects
    assert [change for change in found.changes if "=/compile-cache/" not in change] == []


@pytest.mark.parametrize(
    ("mode", "given", "again", "differ"),
    [
        ("direct", {"store": STORE}, {"store": "s3://other/place"}, {"s3://cache/fleet", "s3://other/place"}),
        ("direct", {"glowplug_image": IMAGE}, {"glowplug_image": "mine/glowplug:2"}, {IMAGE, "mine/glowplug:2"}),
        ("shared", {}, {"compute": Compute.AUTO_MODE}, {"/mnt/k8s-disks/0/", "/mnt/.ephemeral/"}),
        ("node", {"domain": "a"}, {"domain": "b"}, {"store/a", "store/b", "value: a", "value: b"}),
    ],
)
def test_another_value_changes_the_lines_that_hold_it(
    mode: str, given: dict[str, Any], again: dict[str, Any], differ: set[str]
) -> None:
    once = text(DEPLOYMENT, mode, **given)
    twice = text(once, mode, **again)
    lines = [
        line
        for line in difflib.unified_diff(once.splitlines(), twice.splitlines(), n=0)
        if line[:3] not in ("---", "+++")
    ]
    moved = [line[1:] for line in lines if not line.startswith("@@")]
    assert moved
    assert [line for line in moved if not any(word in line for word in differ)] == []
    assert all(any(word in line for line in moved) for word in differ)


def test_a_store_image_or_domain_that_is_not_named_again_stays() -> None:
    once = text(DEPLOYMENT, store=STORE, glowplug_image=IMAGE, domain="team-a")
    assert text(once) == once
    env = {one["name"]: one.get("value") for one in engine(text(once, "node"))["env"]}
    assert env["GLOWPLUG_DOMAIN"] == "team-a"


def test_a_way_through_all_modes_leads_back() -> None:
    there = text(DEPLOYMENT, "shared")
    back = text(text(text(there, "direct", store=STORE), "node"), "shared")
    assert sets(back) == sets(there)
    assert "initContainers" not in back
    assert recipe.MODE_LABEL not in back


# The command.


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (["vllm", "serve"], ["s3://models/llama", "--tensor-parallel-size=2"]),
        (["/bin/sh", "-c"], ["exec vllm serve s3://models/llama --port $PORT"]),
        (["bash", "-c", "vllm serve s3://models/llama"], None),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model=m"], []),
        (["env", "A=b", "vllm", "serve", "m"], None),
    ],
)
@pytest.mark.parametrize("mode", ["direct", "node"])
def test_the_client_stands_in_front_and_is_seen_through(mode: str, command: list[str], args: list[str] | None) -> None:
    found = engine(text(changed(DEPLOYMENT, {"command": command, "args": args}), mode))
    assert found["command"][: carried.PREFIX_WORDS + len(command)][-len(command) :] == command
    assert found.get("args") == args
    plain = see_through([*command, *(args or [])], {"PORT": "1"})
    assert see_through([*found["command"], *found.get("args", [])], {"PORT": "1"}) == plain


@pytest.mark.parametrize(
    ("version", "written"),
    [
        ("v0.11.0", ["python3", "-m", "vllm.entrypoints.openai.api_server"]),
        ("v0.11.2", ["vllm", "serve"]),
        ("v0.21.0", ["vllm", "serve"]),
        ("v0.33.0", ["vllm", "serve"]),
    ],
)
def test_an_entrypoint_that_is_known_is_written_out_and_told(version: str, written: list[str]) -> None:
    before = changed(DEPLOYMENT, {"command": None, "image": f"vllm/vllm-openai:{version}"})
    assert engine(text(before))["command"][carried.PREFIX_WORDS :] == written
    (found,) = result(before).objects
    assert any("entrypoint" in change and " ".join(written) in change for change in found.changes)


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-openai:latest",
        "vllm/vllm-openai:v0.11.1",
        "vllm/vllm-openai:v0.99.0",
        "vllm/vllm-openai@sha256:" + "0" * 64,
        "registry.example/vllm/vllm-openai:v0.21.0",
        "lmcache/vllm-openai:v0.3.9",
    ],
)
def test_an_entrypoint_that_is_not_known_for_certain_refuses(image: str) -> None:
    before = changed(DEPLOYMENT, {"command": None, "image": image})
    assert "write its entrypoint as `command`" in refused(before)
    assert "command" not in engine(text(before, "shared"))


def test_a_command_that_cannot_be_followed_is_wrapped_and_told() -> None:
    before = changed(DEPLOYMENT, {"command": ["sh", "-c", "if true; then vllm serve m; fi"], "args": None})
    assert engine(text(before))["command"][carried.PREFIX_WORDS :] == ["sh", "-c", "if true; then vllm serve m; fi"]
    (found,) = result(before).objects
    assert any("cannot be followed by reading" in note for note in found.notes)


def test_dollars_in_what_is_written_are_kubelets_no_more_than_they_were() -> None:
    for mode in ("direct", "node"):
        assert "$(" not in " ".join(engine(text(DEPLOYMENT, mode))["command"])


# What a person has set.


@pytest.mark.parametrize("mode", MODES)
def test_a_persons_variables_stay_and_are_told(mode: str) -> None:
    env = [
        {"name": "VLLM_CACHE_ROOT", "value": "/data/vllm"},
        {"name": "TRITON_CACHE_DIR", "value": "/compile-cache/triton"},
        {"name": "CUDA_CACHE_PATH", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    before = changed(DEPLOYMENT, {"env": env})
    (found,) = result(before, mode).objects
    after = engine(text(before, mode))["env"]
    assert after[:3] == env
    assert len({one["name"] for one in after}) == len(after)
    assert any(note == "variable VLLM_CACHE_ROOT=/data/vllm stays as it is" for note in found.notes)
    assert any(note == "variable CUDA_CACHE_PATH stays as it is" for note in found.notes)
    assert not any("TRITON_CACHE_DIR" in note for note in found.notes)


def test_variables_of_a_config_map_count_as_set() -> None:
    config = document(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "inference"}}
        | {"data": {"VLLM_CACHE_ROOT": "/data/vllm", "GLOWPLUG_STORE": "s3://from/map"}}
    )
    before = f"{config}---\n{changed(DEPLOYMENT, {'envFrom': [{'configMapRef': {'name': 'c'}}]})}"
    names = [one["name"] for one in engine(text(before).partition("---\n")[2])["env"]]
    assert "VLLM_CACHE_ROOT" not in names
    assert "GLOWPLUG_STORE" not in names
    unseen = changed(DEPLOYMENT, {"envFrom": [{"secretRef": {"name": "c"}}]})
    assert any("win over them" in note for note in result(unseen).objects[0].notes)


def test_switches_of_the_client_that_a_person_set_stay() -> None:
    env = [{"name": "GLOWPLUG_DISABLE", "value": "1"}, {"name": "GLOWPLUG_NO_PUBLISH", "value": "0"}]
    assert engine(text(changed(DEPLOYMENT, {"env": env})))["env"][:2] == env


def test_a_uid_that_a_persons_words_use_stays_when_node_mode_goes() -> None:
    before = changed(DEPLOYMENT, {"args": ["m", "--served-model-name=$(POD_UID)"]})
    names = [one["name"] for one in engine(text(text(before, "node"), "direct"))["env"]]
    assert "POD_UID" in names
    assert "POD_UID" not in [one["name"] for one in engine(text(text(DEPLOYMENT, "node"), "direct"))["env"]]


def test_variables_of_a_pod_that_never_was_glowplugs_stay_in_shared_mode() -> None:
    env = [{"name": "GLOWPLUG_STORE", "value": STORE}]
    before = changed(DEPLOYMENT, {"command": ["glowplug", "run", "--", "vllm", "serve"], "env": env})
    after = engine(text(before, "shared"))
    assert after["env"][:1] == env
    assert after["command"][0] == "glowplug"


@pytest.mark.parametrize(
    ("mode", "volume"),
    [
        ("direct", {"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}}),
        (
            "shared",
            {"name": "nvme", "hostPath": {"path": "/mnt/k8s-disks/0/compile-cache", "type": "DirectoryOrCreate"}},
        ),
        ("direct", {"name": "compile-cache", "emptyDir": {"sizeLimit": "20Gi"}}),
        ("shared", {"name": "compile-cache", "hostPath": {"path": "/mnt/k8s-disks/0/compile-cache/"}}),
    ],
)
def test_a_volume_at_the_cache_root_that_is_as_good_stays(mode: str, volume: dict[str, Any]) -> None:
    mounts = [{"name": volume["name"], "mountPath": "/compile-cache/"}]
    after = text(changed(DEPLOYMENT, {"volumeMounts": mounts}, volumes=[volume]), mode)
    assert template(after)["spec"]["volumes"][0] == volume
    at_root = [one for one in engine(after)["volumeMounts"] if one["mountPath"].rstrip("/") == "/compile-cache"]
    assert at_root == mounts


# What is refused.

_CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
_MOUNT = {"name": "compile-cache", "mountPath": "/compile-cache"}
REFUSED: list[tuple[str, str, dict[str, Any], dict[str, Any], str]] = [
    ("windows", "direct", {}, {"os": {"name": "windows"}}, "Windows"),
    ("windows-selector", "shared", {}, {"nodeSelector": {"kubernetes.io/os": "windows"}}, "Windows"),
    ("host-network", "direct", {}, {"hostNetwork": True}, "hostNetwork"),
    ("host-network-node", "node", {}, {"hostNetwork": True}, "hostNetwork"),
    (
        "claim-by-that-name",
        "direct",
        {},
        {"volumes": [{"name": "compile-cache", **_CLAIM}]},
        "volume compile-cache is another one",
    ),
    (
        "claim-in-shared",
        "shared",
        {},
        {"volumes": [{"name": "compile-cache", **_CLAIM}]},
        "volume compile-cache is another one",
    ),
    (
        "host-path-elsewhere",
        "direct",
        {},
        {"volumes": [{"name": "compile-cache", "hostPath": {"path": "/data/cache"}}]},
        "hostPath /data/cache",
    ),
    (
        "limited-emptydir-to-shared",
        "shared",
        {},
        {"volumes": [{"name": "compile-cache", "emptyDir": {"sizeLimit": "1Gi"}}]},
        "emptyDir",
    ),
    (
        "another-volume-at-the-root",
        "direct",
        {"volumeMounts": [{"name": "mine", "mountPath": "/compile-cache"}]},
        {"volumes": [{"name": "mine", **_CLAIM}]},
        "volume mine (persistentVolumeClaim) is mounted at /compile-cache",
    ),
    (
        "a-volume-below-the-root",
        "shared",
        {"volumeMounts": [{"name": "mine", "mountPath": "/compile-cache/vllm"}]},
        {"volumes": [{"name": "mine", **_CLAIM}]},
        "mounted at /compile-cache/vllm",
    ),
    (
        "a-volume-at-the-clients-place",
        "direct",
        {"volumeMounts": [{"name": "mine", "mountPath": "/glowplug/"}]},
        {"volumes": [{"name": "mine", **_CLAIM}]},
        "mounted at /glowplug",
    ),
    (
        "mounted-read-only",
        "direct",
        {"volumeMounts": [{**_MOUNT, "readOnly": True}]},
        {"volumes": [{"name": "compile-cache", "emptyDir": {}}]},
        "read-only",
    ),
    ("volume-name", "direct", {}, {"volumes": [{"name": "glowplug", **_CLAIM}]}, "volume glowplug is another one"),
    (
        "init-container-name",
        "direct",
        {},
        {"initContainers": [{"name": "glowplug", "image": "busybox", "command": ["true"]}]},
        "container is called glowplug",
    ),
    ("container-name", "node", {"name": "glowplug"}, {}, "container is called glowplug"),
    ("uid", "node", {"env": [{"name": "POD_UID", "value": "7"}]}, {}, "variable POD_UID is set"),
    (
        "root",
        "direct",
        {"env": [{"name": "GLOWPLUG_CACHE_ROOT", "value": "/x"}]},
        {},
        "variable GLOWPLUG_CACHE_ROOT is set",
    ),
    ("run", "direct", {"command": ["glowplug", "run", "--", "vllm", "serve"]}, {}, "glowplug run"),
    (
        "run-in-script",
        "node",
        {"command": ["sh", "-c", "glowplug run -- vllm serve m"], "args": None},
        {},
        "glowplug run",
    ),
    ("not-root", "shared", {}, {"securityContext": {"runAsUser": 1000}}, "user 1000"),
    (
        "not-root-after-direct",
        "shared",
        {"volumeMounts": [_MOUNT]},
        {"securityContext": {"runAsUser": 1000}, "volumes": [{"name": "compile-cache", "emptyDir": {}}]},
        "user 1000",
    ),
    (
        "not-root-with-a-directory-that-the-engine-does-not-use-yet",
        "shared",
        {"volumeMounts": [_MOUNT], "env": None},
        {
            "securityContext": {"runAsNonRoot": True},
            "volumes": [{"name": "compile-cache", "hostPath": {"path": "/mnt/k8s-disks/0/compile-cache"}}],
        },
        "another user than root",
    ),
    ("not-root-itself", "shared", {"securityContext": {"runAsNonRoot": True}}, {}, "another user than root"),
]


@pytest.mark.parametrize(
    ("mode", "container", "pod", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_done_safely_is_refused_with_the_reason(
    mode: str, container: dict[str, Any], pod: dict[str, Any], says: str
) -> None:
    assert says in refused(changed(DEPLOYMENT, container, **pod), mode)


def test_what_was_so_before_is_not_refused() -> None:
    shared = text(DEPLOYMENT, "shared")
    (found,) = result(changed(shared, securityContext={"runAsUser": 1000}), "shared").objects
    assert (found.outcome, found.reason) == ("unchanged", "")


@pytest.mark.parametrize(
    ("mode", "level", "pod", "says"),
    [
        ("direct", "privileged", {}, ""),
        ("direct", "baseline", {}, ""),
        ("direct", "restricted", {}, "restricted"),
        ("direct", "restricted", {"securityContext": {"runAsNonRoot": True}}, ""),
        ("node", "baseline", {}, "baseline"),
        ("node", "privileged", {}, ""),
        ("shared", "baseline", {}, "baseline"),
        ("shared", "restricted", {}, "restricted"),
    ],
)
def test_what_the_namespace_enforces_decides_where_the_input_says_it(
    mode: str, level: str, pod: dict[str, Any], says: str
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "inference", "labels": labels}}
    before = f"{document(namespace)}---\n{changed(DEPLOYMENT, **pod)}"
    if says:
        assert f"enforces Pod Security {says}" in refused(before, mode)
    else:
        text(before, mode)
    elsewhere = before.replace("name: inference\n  labels", "name: other\n  labels")
    text(elsewhere, mode)


def test_two_engines_in_one_pod_would_write_one_cache() -> None:
    value = yaml.safe_load(DEPLOYMENT)
    spec = value["spec"]["template"]["spec"]
    spec["containers"].append({**spec["containers"][0], "name": "second"})
    assert "vllm, second" in refused(document(value))
    assert "vllm, second" in refused(document(value), "shared")


def test_a_volume_that_another_container_uses_does_not_go() -> None:
    value = yaml.safe_load(text(DEPLOYMENT, "direct"))
    side = {"name": "side", "image": "busybox", "volumeMounts": [{"name": "glowplug", "mountPath": "/x"}]}
    value["spec"]["template"]["spec"]["containers"].append(side)
    assert "mounted in side too" in refused(document(value), "shared")


def test_node_mode_needs_to_know_the_namespace() -> None:
    before = DEPLOYMENT.replace("  namespace: inference\n", "")
    assert "--namespace or --domain" in refused(before, "node")
    assert "store/team-a" in text(before, "node", domain="team-a")
    assert "store/team-b" in text(before, "node", namespace="team-b")
    text(before, "direct")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replicas: 2", "replicas: {{ .Values.replicas }}"),
        ('"vllm/vllm-openai:v0.21.0"', '"{{ .Values.image }}"'),
        ("name: llama", 'name: "{{ include "x" . }}"'),
    ],
)
def test_a_charts_template_is_refused_where_it_can_be_read_at_all(old: str, new: str) -> None:
    before = DEPLOYMENT.replace(old, new, 1)
    try:
        reason = refused(before)
    except Exception as error:  # noqa: BLE001 - what is no YAML is the command line's to tell
        assert getattr(error, "code", "") == "bad-yaml"
        assert inject.is_template(Source("x", before))
    else:
        assert "helm template" in reason


def test_a_chat_template_is_not_a_charts() -> None:
    words = ["m", "--chat-template={{ messages[0]['content'] }}{% if x %}{{ bos_token }}{% endif %}"]
    assert engine(text(changed(DEPLOYMENT, {"args": words})))["args"] == words


def test_a_file_is_changed_as_a_whole_or_not_at_all() -> None:
    bad = changed(DEPLOYMENT, hostNetwork=True).replace("name: llama\n", "name: bad\n", 1)
    both = f"{DEPLOYMENT}---\n{bad}"
    found = result(both)
    assert found.sources[0].text == both
    assert [(one.object, one.outcome) for one in found.objects] == [
        ("Deployment inference/llama", "unchanged"),
        ("Deployment inference/bad", "refused"),
    ]
    assert "another object of this file is refused" in found.objects[0].reason
    chosen = result(both, chosen=("Deployment/llama",))
    assert [(one.object, one.outcome) for one in chosen.objects] == [("Deployment inference/llama", "changed")]
    assert chosen.sources[0].text.endswith(f"---\n{bad}")


def test_other_files_are_changed_all_the_same() -> None:
    bad = changed(DEPLOYMENT, hostNetwork=True)
    found = inject.inject([Source("bad.yaml", bad), Source("good.yaml", DEPLOYMENT)], options(), (), "")
    assert [one.outcome for one in found.objects] == ["refused", "changed"]
    assert (found.sources[0].text, found.sources[1].text != DEPLOYMENT) == (bad, True)


def test_an_anchor_that_others_use_is_refused_not_rewritten() -> None:
    before = DEPLOYMENT.replace("          env:\n", "          env: &env\n").replace(
        "      tolerations:\n",
        "        - {name: side, image: busybox, env: *env}\n      tolerations:\n",
    )
    found = result(before)
    after = found.sources[0].text
    if found.objects[0].outcome == "refused":
        assert after == before
    else:
        side = yaml.safe_load(after)["spec"]["template"]["spec"]["containers"][1]
        assert side["env"] == [{"name": "HF_HUB_OFFLINE", "value": "1"}]


# Kinds.


def _kind(kind: str) -> dict[str, Any]:
    """An object of that kind with the Deployment's pod."""
    pod = template(DEPLOYMENT)
    metadata = {"name": "llama", "namespace": "inference"}
    versions = {
        "Pod": "v1",
        "Job": "batch/v1",
        "CronJob": "batch/v1",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
        "InferenceService": "serving.kserve.io/v1beta1",
        "ServingRuntime": "serving.kserve.io/v1alpha1",
        "RayService": "ray.io/v1",
    }
    specs: dict[str, Any] = {
        "Pod": pod["spec"],
        "Job": {"template": pod},
        "CronJob": {"jobTemplate": {"spec": {"template": pod}}},
        "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 2, "leaderTemplate": pod, "workerTemplate": pod}},
        "InferenceService": {"predictor": pod["spec"]},
        "ServingRuntime": pod["spec"],
        "RayService": {"rayClusterConfig": {"headGroupSpec": {"template": pod}}},
    }
    head = {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": metadata}
    return {**head, "spec": specs.get(kind, {"selector": {"matchLabels": {"app": "llama"}}, "template": pod})}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "kind",
    [
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Pod",
        "Job",
        "CronJob",
        "LeaderWorkerSet",
        "InferenceService",
        "ServingRuntime",
        "RayService",
    ],
)
def test_every_kind_with_a_pod_gets_the_same_and_gives_it_back(kind: str, mode: str) -> None:
    before = document(_kind(kind))
    after = text(before, mode, store=STORE)
    assert json.dumps(yaml.safe_load(after)).count('"mountPath": "/compile-cache"') == (
        2 if kind == "LeaderWorkerSet" else 1
    )
    assert text(after, mode, store=STORE) == after
    assert text(text(after, "direct"), "shared") == text(before, "shared") or mode != "shared"


def test_labels_are_where_pods_get_them_from() -> None:
    def found(kind: str, *path: str) -> Any:
        value = yaml.safe_load(text(document(_kind(kind))))
        for step in path:
            value = value[step]
        return value["labels"][recipe.MODE_LABEL]

    assert found("Pod", "metadata") == "direct"
    assert found("InferenceService", "metadata") == "direct"
    assert found("ServingRuntime", "spec") == "direct"
    assert found("CronJob", "spec", "jobTemplate", "spec", "template", "metadata") == "direct"


def test_what_only_a_serving_runtime_knows_is_refused() -> None:
    model = {"modelFormat": {"name": "vllm"}, "args": ["--tensor-parallel-size=2"]}
    value = _kind("InferenceService")
    value["spec"] = {"predictor": {"model": model}}
    assert "serving runtime" in refused(document(value))


def test_a_claim_template_by_the_name_of_the_cache_is_refused() -> None:
    value = _kind("StatefulSet")
    value["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "compile-cache"}, "spec": {}}]
    assert "volume claim template" in refused(document(value))


def test_a_selector_that_names_the_mode_is_refused() -> None:
    value = _kind("Deployment")
    value["spec"]["selector"]["matchLabels"][recipe.MODE_LABEL] = "node"
    assert "selects its pods by the label" in refused(document(value))


def test_what_cannot_be_changed_while_it_runs_is_told() -> None:
    for kind in ("Pod", "Job"):
        assert any("delete" in note for note in result(document(_kind(kind))).objects[0].notes)


def test_a_bake_job_stays_as_it_is() -> None:
    everything = kinds.render("all", planned.options(mode=Mode.NODE, store=STORE)).text
    found = {one.object.partition(" ")[0]: one for one in result(everything, "shared").objects}
    assert (found["Job"].outcome, found["Job"].changes) == ("unchanged", ())
    assert "bake job" in found["Job"].notes[0]
    assert found["Deployment"].outcome == "changed"


def test_lists_are_looked_into() -> None:
    value = {"apiVersion": "v1", "kind": "List", "items": [_kind("Deployment"), _kind("StatefulSet")]}
    after = yaml.safe_load(text(document(value)))
    assert all(recipe.MODE_LABEL in one["spec"]["template"]["metadata"]["labels"] for one in after["items"])


def test_json_stays_json() -> None:
    after = text(json.dumps(_kind("Deployment"), indent=2))
    assert recipe.MODE_LABEL in json.loads(after)["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("way", [(), *itertools.product(MODES, repeat=1), *itertools.product(MODES, repeat=2)])
@pytest.mark.parametrize("mode", MODES)
def test_the_way_to_a_mode_is_not_seen_in_the_text(mode: str, way: tuple[str, ...]) -> None:
    """Neither what stands there nor its order; comments of what both modes have may differ."""
    before = DEPLOYMENT
    for one in way:
        before = text(before, one, store=STORE)
    after, straight = text(before, mode, store=STORE), text(DEPLOYMENT, mode, store=STORE)
    assert yaml.safe_load(after) == yaml.safe_load(straight)
    assert mode == "node" or after == straight


@pytest.mark.parametrize("other", MODES)
def test_what_a_person_wrote_behind_a_name_stays(other: str) -> None:
    direct = text(DEPLOYMENT, "direct", store=STORE)
    before = direct.replace("- name: compile-cache\n", "- name: compile-cache  # ours\n")
    assert before.count("# ours") == 2
    assert text(before, other, store=STORE).count("# ours") == 2
    before = direct.replace("- name: GLOWPLUG_STORE\n", "- name: GLOWPLUG_STORE  # ours\n")
    assert text(before, "direct", store="s3://another/cache").count("# ours") == 1
