"""What Knative refuses by default is no safe fix for pods that it makes, or may make."""

from __future__ import annotations

import pytest
import yaml

from glowplug.lint.findings import Finding
from tests.lint.checking import found
from tests.lint.compile.manifests import ROOT, cached


def _service(deployment: str, annotation: str) -> str:
    value = yaml.safe_load(deployment)
    metadata = {"name": "vllm", "annotations": {"serving.kserve.io/deploymentMode": annotation} if annotation else {}}
    return yaml.safe_dump(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": metadata,
            "spec": {"predictor": value["spec"]["template"]["spec"]},
        },
        sort_keys=False,
    )


def _found(rule: str, annotation: str) -> Finding:
    (one,) = found(rule, _service(cached("emptyDir: {}", env=ROOT), annotation), compute="auto-mode")
    return one


MODES = pytest.mark.parametrize(
    ("annotation", "plain"),
    [("RawDeployment", True), ("Standard", True), ("Serverless", False), ("Knative", False), ("", False)],
)


@MODES
def test_a_toleration_is_safe_only_where_kubernetes_itself_takes_the_pod(annotation: str, *, plain: bool) -> None:
    fix = _found("gpu-toleration-missing", annotation).fix
    assert fix is not None
    assert fix.safe is plain


@MODES
def test_a_hostpath_is_offered_only_there(annotation: str, *, plain: bool) -> None:
    assert (_found("cache-on-emptydir", annotation).fix is not None) is plain
