"""The pod asks for a GPU and does not tolerate the taint of GPU nodes.

## What it does
Looks at pods with an engine that ask for `nvidia.com/gpu`. Where NodePools on which the pod may land are among what
was given, their taints decide: the rule speaks when every one of them has a taint that the pod does not tolerate.
Where none is, it asks for a toleration of `nvidia.com/gpu:NoSchedule`: that taint keeps GPU nodes free of other pods
by convention, and where another NodePool of the input has it, the message names that one.

It says nothing on clusters that add the toleration themselves (GKE), and for pods that are bound to a node by name.
Where nothing in the input has the taint, it also says nothing of pods that choose their nodes, by a node selector or a
required affinity for more than a zone, an architecture or a label of the GPU itself: whoever has chosen knows whether
those nodes are tainted.

## Why is this bad
The pod stays Pending: "had untolerated taint {nvidia.com/gpu: true}". Karpenter and EKS Auto Mode do not even buy a
node for it. Kubernetes adds the toleration only where the admission plugin ExtendedResourceToleration is on, and on
EKS it is not.

## Example
```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      serviceAccountName: model-reader
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: ["s3://models/llama"]
          resources:
            limits:
              nvidia.com/gpu: 1
```
Finds `1` in line 20.

## Use instead
```yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  selector:
    matchLabels: {app: vllm}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      serviceAccountName: model-reader
      tolerations:
        - key: nvidia.com/gpu
          operator: Exists
          effect: NoSchedule
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: ["s3://models/llama"]
          resources:
            limits:
              nvidia.com/gpu: 1
```

## Fix safety
The toleration of `nvidia.com/gpu` is added, which is safe: it only lets the pod onto more nodes, and it needs a GPU
anyway. A toleration of another taint is unsafe, since that taint may be there to keep this very pod off. So is any where Knative
makes the pods or may (an InferenceService whose deployment mode is not said to be Standard): it refuses tolerations until
`kubernetes.podspec-tolerations` is enabled in its ConfigMap config-features.

## Source
The AWS guide "Accelerate model loading on Amazon EKS", its Deployment; EKS user guide, GPU workloads with Auto
Mode; Kubernetes, admission plugin ExtendedResourceToleration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint import knative
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import parallel, pools, selection, taints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.rules.kubernetes.taints import Taint
    from glowplug.lint.view import Workload
    from glowplug.manifests.values import Value

_CONVENTION: Final = {"key": taints.GPU, "operator": "Exists", "effect": "NoSchedule"}
# Labels that say nothing of who runs the node: where it is, what it is made of, and what NVIDIA's software finds on it.
_ON_ANY_NODE: Final = (
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "karpenter.sh/capacity-type",
    "nvidia.com/",
    "feature.node.kubernetes.io/",
)
# Who selects by these labels is on another cloud, whose clusters tolerate for the pod or taint otherwise.
_OTHER_CLOUDS: Final = (
    "cloud.google.com/",
    "kubernetes.azure.com/",
    "agentpool",
    "accelerator",
    "oci.oraclecloud.com/",
)


def _check(workload: Workload) -> Iterator[Problem]:
    at = workload.container.value.get("resources", "limits", parallel.GPU)
    if at is None or not parallel.asked(workload.container) or workload.spec.get("nodeName") is not None:
        return
    if workload.nodes:
        return
    missing = _missing(workload)
    if missing:
        yield _of_pools(workload, at, missing)
    elif not taints.tolerates_key(workload.spec, taints.GPU) and not _on_another_cloud(workload.spec):
        yield from _by_convention(workload, at)


def _by_convention(workload: Workload, at: Value) -> Iterator[Problem]:
    pool = _tainted(workload)
    if pool:
        who = f"which the NodePool {pool} gives its nodes"
    elif not _chooses_nodes(workload.spec):
        who = "which GPU nodes have by convention"
    else:
        return
    yield Problem(
        at,
        f"the pod asks for {parallel.GPU} and does not tolerate the taint {parallel.GPU}:NoSchedule, {who}",
        "tolerate it; where the GPU nodes of this pod have no taint, ignore this rule",
        Fix(
            f"tolerate {parallel.GPU}",
            taints.add(workload.spec, dict(_CONVENTION)),
            safe=knative.makes_pods(workload.object) is False,
        ),
    )


def _tainted(workload: Workload) -> str:
    """A NodePool of the input whose nodes have the taint, "" for none."""
    nodes = workload.everything.nodes if workload.everything is not None else ()
    return next((node.pool.name for node in nodes if any(one.key == taints.GPU for one in taints.lasting(node))), "")


def _chooses_nodes(pod: Value) -> bool:
    return any(not term.key.startswith(_ON_ANY_NODE) for term in selection.required(pod))


def _missing(workload: Workload) -> dict[str, tuple[Taint, ...]]:
    """The NodePools that the pod would land on but for their taints, with those that it does not tolerate."""
    found = {}
    for node in pools.with_gpus(workload.everything) if workload.everything is not None else ():
        if selection.is_planned(workload.spec, node):
            untolerated = (taint for taint in taints.lasting(node) if not taints.tolerated(taint, workload.spec))
            found[node.pool.name] = tuple({taint.key: taint for taint in untolerated}.values())
    return {name: of_pool for name, of_pool in found.items() if of_pool}


def _of_pools(workload: Workload, at: Value, missing: dict[str, tuple[Taint, ...]]) -> Problem:
    name, wanted = next(iter(missing.items()))
    written = " and ".join(taint.written for taint in wanted)
    what = "a taint" if len(wanted) == 1 else "taints"
    return Problem(
        at,
        f"the pod does not tolerate {written}, {what} of the NodePool {name}: no node is bought for it",
        "tolerate it",
        Fix(
            f"tolerate {', '.join(taint.key for taint in wanted)}",
            taints.add(workload.spec, *(taints.toleration(taint) for taint in wanted)),
            safe=all(taint.key == taints.GPU for taint in wanted) and knative.makes_pods(workload.object) is False,
        ),
    )


def _on_another_cloud(pod: Value) -> bool:
    return any(term.key.startswith(_OTHER_CLOUDS) for term in selection.required(pod))


RULE = Rule(
    name="gpu-toleration-missing",
    area="kubernetes",
    severity=Severity.WARNING,
    documentation=__doc__,
    workload=_check,
)
