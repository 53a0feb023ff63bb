"""What is rendered is taken by a real API server: strictly, without a warning, at the Pod Security level that each mode promises.

The server reads the printed text itself, so that YAML which two parsers understand differently would show too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from glowplug.plan.request import ENGINES, PROFILES
from glowplug.render import kinds
from glowplug.render.options import AGENT_NAMESPACE, Compute, Mode
from lab import kube
from tests.parts import requires
from tests.render.asked import EVERYTHING, objects, printed

pytestmark = requires("kube")

LONGEST = "l" * 52
COMBINATIONS = [
    pytest.param(compute, engine, mode, profile, id=f"{compute}-{engine}-{mode}-{profile}")
    for compute, engine, mode, profile in itertools.product(Compute, ENGINES, Mode, PROFILES)
]
ALONE = [
    (kind.name, mode, compute)
    for kind, mode, compute in itertools.product(kinds.KINDS.values(), Mode, Compute)
    if not kind.cloud  # CloudFormation, as is a managed node group; and direct mode has no agent
    and (kind.name, compute) != ("nodepool", Compute.NODEGROUP)
    and (kind.name, mode) != ("agent", Mode.DIRECT)
]


@pytest.fixture(scope="module")
def admin(kube_server: kube.Server) -> kube.Client:
    """The administrator, in a cluster that has the namespaces and accounts that a dry run cannot make."""
    for namespace in ("inference", AGENT_NAMESPACE):
        kube_server.make_namespace(namespace)
    for level in ("baseline", "privileged"):
        labels = {f"pod-security.kubernetes.io/{what}": level for what in ("enforce", "warn")}
        kube_server.make_namespace(level, labels)
        for account in ("serving", "llama-bake"):
            _account(kube_server.admin, level, account)
    for account in ("glowplug-agent", "glowplug-release"):
        _account(kube_server.admin, AGENT_NAMESPACE, account)
    return kube_server.admin


def _account(admin: kube.Client, namespace: str, name: str) -> None:
    metadata = {"name": name, "namespace": namespace}
    admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def accept(admin: kube.Client, kind: str, **asked: Any) -> Sequence[dict[str, Any]]:
    """What the server makes of the printed text, nothing stored; fails where it refuses or warns."""
    answers = admin.apply_text(printed(kind, **asked), dry_run=True)
    assert [warning for answer in answers for warning in answer.warnings] == []
    return [answer.document for answer in answers]


@pytest.mark.parametrize("given", [{}, EVERYTHING], ids=["bare", "everything"])
@pytest.mark.parametrize(("compute", "engine", "mode", "profile"), COMBINATIONS)
def test_all_that_can_be_rendered_together_is_accepted(
    admin: kube.Client, compute: Compute, engine: str, mode: Mode, profile: str, given: dict[str, Any]
) -> None:
    asked = {"compute": compute, "engine": engine, "mode": mode, "profile": profile}
    found = [document["kind"] for document in accept(admin, "all", **given, **asked)]
    assert ("Deployment" in found, "NodePool" in found) == (True, compute is not Compute.NODEGROUP)
    assert ("DaemonSet" in found, "Job" in found) == (mode is not Mode.DIRECT, True)


@pytest.mark.parametrize(("kind", "mode", "compute"), ALONE)
def test_each_kind_is_accepted_by_itself(admin: kube.Client, kind: str, mode: Mode, compute: Compute) -> None:
    assert accept(admin, kind, mode=mode, compute=compute)


@pytest.mark.parametrize(
    "given",
    [
        {"instance": "g6.xlarge", "size": "10GB"},
        {"instance": "p4d.24xlarge", "size": "140GiB"},
        {"ami": "bottlerocket"},
        {"name": LONGEST},
        {"name": "l"},
        {"replicas": 0},
        {"replicas": 1000},
        {"domain": "1.2"},
        {"namespace": "inference", "service_account": "a.b.c"},
        {"model": "/models/llama $(HOME) 'quoted' \"twice\" ---"},
        {"model": "s3://models/1e3/yes/null"},
    ],
    ids=lambda given: " ".join(f"{name}={str(value)[:20]}" for name, value in given.items()),
)
@pytest.mark.parametrize("mode", Mode)
def test_unusual_values_are_accepted(admin: kube.Client, mode: Mode, given: dict[str, Any]) -> None:
    accept(admin, "all", **given, mode=mode)


def test_words_reach_the_server_as_they_were_given(admin: kube.Client) -> None:
    model = "/models/1e3 'quoted' \"twice\" # --- yes"
    (deployment,) = accept(admin, "deployment", model=model)
    assert f"--model={model}" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_applying_again_changes_nothing(admin: kube.Client) -> None:
    text = printed("deployment", **EVERYTHING, name="again")
    first, second = (admin.apply_text(text)[0].document for _ in range(2))
    admin.delete(second)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


def _pod(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The pod that a controller would make of the object's template."""
    template = document["spec"]["template"]
    metadata = {**template["metadata"], "name": "probe", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _rendered(kind: str, wanted: str, **asked: Any) -> dict[str, Any]:
    (found,) = [item for item in objects(kind, **asked) if item["kind"] == wanted]
    return found


@pytest.mark.parametrize(
    ("kind", "wanted", "mode", "baseline"),
    [
        ("deployment", "Deployment", Mode.DIRECT, True),
        ("bake", "Job", Mode.DIRECT, True),
        ("bake", "Job", Mode.NODE, True),
        ("deployment", "Deployment", Mode.NODE, False),
        ("deployment", "Deployment", Mode.SHARED, False),
        ("agent", "DaemonSet", Mode.NODE, False),
        ("agent", "DaemonSet", Mode.SHARED, False),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("compute", Compute)
def test_each_mode_needs_the_pod_security_that_it_promises(
    admin: kube.Client, kind: str, wanted: str, mode: Mode, baseline: bool, profile: str, compute: Compute
) -> None:
    document = _rendered(kind, wanted, mode=mode, profile=profile, compute=compute)
    document["spec"]["template"]["spec"].pop("serviceAccountName", None)
    assert admin.create(_pod(document, "privileged"), dry_run=True).warnings == ()
    if baseline:
        assert admin.create(_pod(document, "baseline"), dry_run=True).warnings == ()
        return
    with pytest.raises(kube.RefusedError, match=r'violates PodSecurity "baseline:latest": hostPath volumes'):
        admin.create(_pod(document, "baseline"), dry_run=True)


@pytest.mark.parametrize("mode", [Mode.NODE, Mode.SHARED])
def test_the_agent_s_own_namespace_admits_its_pods(admin: kube.Client, mode: Mode) -> None:
    admin.apply(_rendered("agent", "Namespace", mode=mode))
    for one in ("DaemonSet", *(["Deployment"] if mode is Mode.SHARED else [])):
        answer = admin.create(_pod(_rendered("agent", one, mode=mode), AGENT_NAMESPACE), dry_run=True)
        assert answer.warnings == ()


def test_a_direct_deployment_raises_no_warning_in_a_namespace_of_level_baseline(admin: kube.Client) -> None:
    accept(admin, "deployment", namespace="baseline")
    with pytest.raises(AssertionError, match="would violate PodSecurity"):
        accept(admin, "deployment", namespace="baseline", mode=Mode.NODE)
