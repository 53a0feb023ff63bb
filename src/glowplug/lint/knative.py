"""Whether Knative makes the pods of an object. It takes a part of a pod's fields only; others wait for switches of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.pods import text_of

if TYPE_CHECKING:
    from glowplug.lint.view import Object

_OWN_GROUP: Final = "serving.knative.dev"
_KSERVE: Final = "serving.kserve.io"
_MODE: Final = f"{_KSERVE}/deploymentMode"
# KServe's constants.go: the second of each pair is its older name.
_KNATIVE: Final = ("Knative", "Serverless")
_OTHERS: Final = ("Standard", "RawDeployment", "ModelMesh")
_KINDS: Final = ("InferenceService", "ServingRuntime", "ClusterServingRuntime")


def makes_pods(found: Object) -> bool | None:
    """None where the cluster decides: an InferenceService that names no deployment mode, or a runtime that any of them may use.

    KServe's order (GetDeploymentMode): the status, the annotation, `defaultDeploymentMode` of its ConfigMap, which its charts set
    to Knative.
    """
    if found.group == _OWN_GROUP:
        return True
    if found.group != _KSERVE or found.kind not in _KINDS:
        return False
    if (
        found.value.get("spec", "predictor", "workerSpec") is not None
        or found.value.get("spec", "workerSpec") is not None
    ):
        return False  # several nodes are Kubernetes' own only
    said = text_of(found.value.get("status", "deploymentMode")) or text_of(
        found.value.get("metadata", "annotations", _MODE)
    )
    if found.kind == "InferenceService" and said in (*_KNATIVE, *_OTHERS):
        return said in _KNATIVE
    return None
