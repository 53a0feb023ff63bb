"""A pod or NodePool selects a GPU by a name that no node has.

## What it does
Compares what `nvidia.com/gpu.product` (the label of GPU feature discovery), `karpenter.k8s.aws/instance-gpu-name`
and `eks.amazonaws.com/instance-gpu-name` (Karpenter's and EKS Auto Mode's) are selected by with how these labels
are spelt. It speaks of a selector, a required node affinity or a NodePool's requirement of which every value is
plainly another spelling of a card that EC2 has. Values that it does not know it leaves alone: they may be cards of
other machines.

It also speaks of a pod that selects a NodePool that was given *and* `nvidia.com/gpu.product`, where the NodePool
does not set that label.

## Why is this bad
Labels are compared letter by letter. The same card is `NVIDIA-H100-80GB-HBM3` to GPU feature discovery and `h100`
to Karpenter; with the one in the place of the other no node ever matches, and the pod stays Pending. And Karpenter
buys nodes by the labels that it can know beforehand: one that a DaemonSet puts on a running node is not among them,
unless the NodePool has it in its template.

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
      nodeSelector:
        karpenter.k8s.aws/instance-gpu-name: NVIDIA-L40S
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args: ["s3://models/llama"]
          resources:
            limits:
              nvidia.com/gpu: 1
```
Finds `NVIDIA-L40S`.

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
      nodeSelector:
        karpenter.k8s.aws/instance-gpu-name: l40s
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
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
The right spelling is put in. Safe where the value is a name of exactly that card, written differently; unsafe where
it is a short name that other cards bear too (`h100` as a product), or one that is only like it. Nothing is put in
where a name is two cards (`a100`).

## Source
NVIDIA/k8s-device-plugin `internal/lm/resource.go`; aws/karpenter-provider-aws v1.14.1 `pkg/apis/v1/labels.go` and
its list of instance types; kubernetes-sigs/karpenter v1.14.1 `pkg/scheduling/requirements.go`; glowplug's catalogue
of GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.gpus import gpus, meanings
from glowplug.catalog.spelling import folded, nearest
from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import selection
from glowplug.manifests.edit import Replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from glowplug.catalog.gpus import Gpu
    from glowplug.lint.rules.kubernetes.selection import Term
    from glowplug.lint.view import Manifests, Workload
    from glowplug.manifests.values import Value

_PRODUCT: Final = "nvidia.com/gpu.product"
_EC2: Final = ("karpenter.k8s.aws/instance-gpu-name", "eks.amazonaws.com/instance-gpu-name")
_POOL: Final = "karpenter.sh/nodepool"
_SUFFIX: Final = re.compile(r"-(?:SHARED|MIG-.+)\Z")
_DIGITS: Final = re.compile(r"\d+")
_LIKE_PRODUCT, _LIKE_EC2 = 0.9, 0.8
_LONG: Final = 16


@dataclass(frozen=True)
class _Wrong:
    """A value that no node has, and what it should be: one name, or several cards'. `same` says that it is that name, only written
    in another way."""

    at: Value
    right: tuple[str, ...]
    same: bool


def _check(manifests: Manifests) -> Iterator[Problem]:
    for workload in manifests.workloads:
        terms = tuple(selection.required(workload.spec))
        found = tuple(_misspelt(terms, "the pod stays Pending"))
        yield from found
        if not found:
            yield from _unknown_to_pool(workload, manifests, terms)
    for node in manifests.nodes:
        yield from _misspelt(
            (term for term in selection.of_pool(node) if term.key in _EC2), "the NodePool buys no node"
        )


def _misspelt(terms: Iterable[Term], end: str) -> Iterator[Problem]:
    for term in terms:
        if term.key not in (_PRODUCT, *_EC2) or term.operator != "In" or not term.only or not term.values:
            continue
        wrong = [_wrong(term.key, value) for value in term.values]
        # One right, or unknown, value among several is enough to be placed.
        for one in wrong if None not in wrong else ():
            if one is not None:
                yield _problem(term.key, one, end)


def _problem(key: str, wrong: _Wrong, end: str) -> Problem:
    names = " or ".join(wrong.right)
    fix = (
        Fix(f"write {names}", (Replace(wrong.at, wrong.right[0]),), safe=wrong.same) if len(wrong.right) == 1 else None
    )
    return Problem(
        wrong.at,
        f"no node has the label {key}={wrong.at.text}: {end}",
        f"it is spelt {names}",
        fix,
    )


def _wrong(key: str, value: Value) -> _Wrong | None:
    if value.is_mapping or value.is_sequence or not value.text:
        return None
    return _wrong_product(value) if key == _PRODUCT else _wrong_ec2(value)


def _wrong_product(value: Value) -> _Wrong | None:
    suffix = _SUFFIX.search(value.text)
    base = value.text[: suffix.start()] if suffix else value.text
    labels = [card.label for card in gpus() if card.label]
    known = {*labels, *(alias for card in gpus() for alias in card.aliases)}
    # Examples of NVIDIA's own have TESLA-T4, which older versions may have made.
    if base in known or base in {label.upper() for label in labels}:
        return None
    cards = meanings(base)
    if cards:
        right = tuple(dict.fromkeys(card.label for card in cards if card.label))
        return _made(value, right, suffix[0] if suffix else "")
    # A10 and A10G, L40 and L40S are different cards: only what is long can be told from a slip of the hand.
    alike = nearest(base, labels, 1, _LIKE_PRODUCT) if len(base) >= _LONG else []
    if alike and _DIGITS.findall(alike[0]) == _DIGITS.findall(base):
        return _made(value, (alike[0],), suffix[0] if suffix else "")
    return None


def _wrong_ec2(value: Value) -> _Wrong | None:
    names = list(dict.fromkeys(card.ec2_name for card in gpus() if card.ec2_name))
    if value.text in names:
        return None
    cards: tuple[Gpu, ...] = meanings(value.text)
    if cards:
        right = tuple(dict.fromkeys(card.ec2_name for card in cards if card.ec2_name))
        own = {folded(spelling) for card in cards for spelling in card.spellings}
        same = len(right) == 1 and (folded(value.text) in own or folded(value.text).removeprefix("nvidia-") == right[0])
        return _Wrong(value, right, same) if right else None
    alike = nearest(value.text.lower(), names, 1, _LIKE_EC2)
    if alike and alike[0][0] == value.text[0].lower() and _DIGITS.findall(alike[0]) == _DIGITS.findall(value.text):
        return _Wrong(value, (alike[0],), same=False)
    return None


def _made(value: Value, right: tuple[str, ...], suffix: str) -> _Wrong | None:
    whole = tuple(name + suffix for name in right)
    return _Wrong(value, whole, len(whole) == 1 and folded(whole[0]) == folded(value.text)) if whole else None


def _unknown_to_pool(workload: Workload, manifests: Manifests, terms: tuple[Term, ...]) -> Iterator[Problem]:
    """A label of running nodes, asked of a pool that does not have it in its template."""
    wanted = next(
        (one for one in terms if one.key == _PRODUCT and one.only and one.operator == "In" and one.values), None
    )
    chosen = next((one for one in terms if one.key == _POOL and one.only and one.operator == "In"), None)
    if wanted is None or chosen is None:
        return
    pools = {node.pool.name: node for node in manifests.nodes}
    named = [pools.get(name) for name in chosen.texts]
    if not named or any(node is None or _sets_label(node.pool.value, _PRODUCT) for node in named):
        return
    yield Problem(
        wanted.values[0],
        f"the NodePool {chosen.texts[0]} does not set the label {_PRODUCT}: Karpenter buys no node for a pod that selects by a "
        "label that it cannot know beforehand",
        f"select by instance-gpu-name, or put {_PRODUCT} among the labels of the NodePool's template",
    )


def _sets_label(pool: Value, key: str) -> bool:
    labels = pool.get("spec", "template", "metadata", "labels")
    if labels is not None and labels.get(key) is not None:
        return True
    requirements = pool.get("spec", "template", "spec", "requirements")
    return any(
        (named := one.get("key")) is not None and named.text == key
        for one in (requirements.elements() if requirements is not None else ())
    )


RULE = Rule(
    name="gpu-product-selector",
    area="kubernetes",
    severity=Severity.ERROR,
    documentation=__doc__,
    everything=_check,
)
