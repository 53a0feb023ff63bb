"""What `inject` makes of manifests is taken by a real API server: strictly, without a warning, at the mode's Pod Security level.

The server reads the very text that the edit left, comments and all.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from glowplug.plan.request import ENGINES
from lab import kube
from tests.parts import requires
from tests.render.asked import printed
from tests.render.injected import DEPLOYMENT, STORE, changed, document, template, text

pytestmark = requires("kube")

MODES = ("direct", "node", "shared")
ARGS_ONLY = changed(DEPLOYMENT, {"command": None, "env": None, "volumeMounts": None}, volumes=None)
SCRIPT = changed(DEPLOYMENT, {"command": ["/bin/sh", "-c"], "args": ["exec vllm serve s3://models/llama"]})
GUIDE = printed("deployment", mode="shared", profile="guide", namespace="inference")
WRITTEN = {"flow-and-comments": DEPLOYMENT, "args-only": ARGS_ONLY, "script": SCRIPT, "guide": GUIDE}


@pytest.fixture(scope="module")
def admin(kube_server: kube.Server) -> kube.Client:
    """The administrator, in a cluster that has the namespaces of these manifests."""
    kube_server.make_namespace("inference")
    for level in ("baseline", "restricted"):
        labels = {f"pod-security.kubernetes.io/{what}": level for what in ("enforce", "warn")}
        kube_server.make_namespace(level, labels)
    return kube_server.admin


def accept(admin: kube.Client, manifests: str) -> None:
    """Fails where the server refuses the text or warns; nothing is stored."""
    answers = admin.apply_text(manifests, dry_run=True)
    assert answers
    assert [warning for answer in answers for warning in answer.warnings] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", WRITTEN.values(), ids=WRITTEN)
def test_a_deployment_with_a_warm_start_is_accepted(admin: kube.Client, before: str, mode: str) -> None:
    accept(admin, before)
    accept(admin, text(before, mode, store=STORE))


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(MODES, 2)))
@pytest.mark.parametrize("engine", ENGINES)
def test_what_render_printed_is_accepted_in_another_mode(admin: kube.Client, engine: str, one: str, other: str) -> None:
    accept(admin, text(printed("deployment", mode=one, engine=engine, namespace="inference"), other, store=STORE))


def _kinds() -> dict[str, dict[str, Any]]:
    pod = template(DEPLOYMENT)
    once = {"spec": {**pod["spec"], "restartPolicy": "Never"}}
    selector = {"matchLabels": {"app": "llama"}}
    return {
        "apps/v1 StatefulSet": {"serviceName": "llama", "selector": selector, "template": pod},
        "apps/v1 DaemonSet": {"selector": selector, "template": pod},
        "apps/v1 ReplicaSet": {"selector": selector, "template": pod},
        "batch/v1 Job": {"template": once},
        "batch/v1 CronJob": {"schedule": "0 5 * * *", "jobTemplate": {"spec": {"template": once}}},
    }


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", _kinds())
def test_every_kind_of_kubernetes_own_is_accepted(admin: kube.Client, kind: str, mode: str) -> None:
    version, _, name = kind.partition(" ")
    metadata = {"name": "llama", "namespace": "inference"}
    value = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": _kinds()[kind]}
    accept(admin, text(document(value), mode, store=STORE))


def _pod(namespace: str, mode: str, **spec: Any) -> dict[str, Any]:
    """The pod that a Deployment would make in that namespace, after the edit."""
    made = template(text(changed(DEPLOYMENT, **spec), mode, store=STORE))
    made["spec"].pop("serviceAccountName")
    metadata = {"name": "p", "namespace": namespace, **made["metadata"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}


def test_direct_mode_is_admitted_at_baseline_and_the_others_are_not(admin: kube.Client) -> None:
    assert admin.create(_pod("baseline", "direct"), dry_run=True).warnings == ()
    for mode in ("node", "shared"):
        assert admin.create(_pod("inference", mode), dry_run=True).warnings == ()
        with pytest.raises(kube.RefusedError, match=r"violates PodSecurity .*hostPath volumes"):
            admin.create(_pod("baseline", mode), dry_run=True)


def test_direct_mode_keeps_a_restricted_pod_restricted(admin: kube.Client) -> None:
    value = yaml.safe_load(DEPLOYMENT)
    container = value["spec"]["template"]["spec"]["containers"][0]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    whole = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    made = template(text(changed(document(value), securityContext=whole), store=STORE))
    made["spec"].pop("serviceAccountName")
    metadata = {"name": "p", "namespace": "restricted", **made["metadata"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]}
    assert admin.create(pod, dry_run=True).warnings == ()
