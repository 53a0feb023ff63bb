"""Cluster Autoscaler does not know this startup taint, and makes no node for a pod that does not tolerate it.

## What it does
Looks at the startup taint that glowplug's agent removes (`--taint`, by default `glowplug.dev/prewarming`, in shared
mode), where node groups and Cluster Autoscaler make the nodes: with `--compute nodegroup`, where pods select
`eks.amazonaws.com/nodegroup`, and where Cluster Autoscaler itself or an eksctl ClusterConfig is among what was
given. Its name has to begin with `startup-taint.cluster-autoscaler.kubernetes.io/`.

It says nothing where Cluster Autoscaler is told the name (`--startup-taint=KEY`) or how it begins
(`--startup-taint-prefix=PREFIX`, from 1.36 on).

## Why is this bad
Cluster Autoscaler simulates a new node with the taints of its group. One that it does not know as passing keeps the
pod off in the simulation, so the group is never scaled up for it: "pod didn't trigger scale-up: 1 node(s) had
untolerated taint". Karpenter has `startupTaints` for this and does not care for the name.

## Example
```yaml
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: glowplug-agent
  namespace: glowplug-system
spec:
  selector:
    matchLabels: {app: glowplug-agent}
  template:
    metadata:
      labels: {app: glowplug-agent}
    spec:
      tolerations:
        - operator: Exists
      containers:
        - name: agent
          image: registry.example/glowplug:1
          command: [glowplug, agent]
          args: [--mode=shared, --taint=glowplug.dev/prewarming]
```
Linted with `--compute nodegroup`.
Finds `glowplug.dev/prewarming`.

## Use instead
```yaml
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: glowplug-agent
  namespace: glowplug-system
spec:
  selector:
    matchLabels: {app: glowplug-agent}
  template:
    metadata:
      labels: {app: glowplug-agent}
    spec:
      tolerations:
        - operator: Exists
      containers:
        - name: agent
          image: registry.example/glowplug:1
          command: [glowplug, agent]
          args: [--mode=shared, --taint=startup-taint.cluster-autoscaler.kubernetes.io/glowplug-prewarming]
```
Linted with `--compute nodegroup`.

## Fix safety
No fix: the taint of the node group, its agent and what releases it have to change together, and the group is not in
Kubernetes.

## Source
kubernetes/autoscaler, cluster-autoscaler FAQ ("How can I prevent Cluster Autoscaler from …", startup taints),
`utils/taints/taints.go` and `config/flags/flags.go`; kubernetes/autoscaler#9296 (`--startup-taint-prefix`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.lint.rule import Problem, Rule, Severity
from glowplug.lint.rules.kubernetes import daemons
from glowplug.manifests.marks import STARTUP_TAINT
from glowplug.manifests.source import Place
from glowplug.render.options import AUTOSCALER_STARTUP_TAINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.lint.view import Manifests, Object
    from glowplug.manifests.values import Value

_PREFIX: Final = AUTOSCALER_STARTUP_TAINT.partition("/")[0] + "/"
_OLD_PREFIX: Final = "ignore-taint.cluster-autoscaler.kubernetes.io/"
# pflag takes a value behind `=` and as the next word; each may be given several times.
_NAMES: Final = ("--startup-taint", "--ignore-taint")
_PREFIXES: Final = ("--startup-taint-prefix",)
_OWN: Final = STARTUP_TAINT.partition("/")[0] + "/"
_HINT: Final = f"use {AUTOSCALER_STARTUP_TAINT}, in the node group and in every part of glowplug"


def _check(manifests: Manifests) -> Iterator[Problem]:
    told = _Told(manifests)
    if _node_groups(manifests):
        for agent in daemons.agents(manifests):
            if agent.shared and agent.taint and not told.knows(agent.taint):
                yield _problem(_key_in(agent.at, agent.taint), agent.taint)
    for config in _cluster_configs(manifests):
        for key in _taint_keys(config):
            if key.text.startswith(_OWN) and not told.knows(key.text):
                yield _problem(key, key.text)


class _Told:
    """What Cluster Autoscaler is told on its command line."""

    def __init__(self, manifests: Manifests) -> None:
        self._names: set[str] = set()
        self._prefixes: set[str] = {_PREFIX, _OLD_PREFIX}
        for container in _autoscalers(manifests):
            for name, value in _flags(container):
                if name in _NAMES:
                    self._names.add(value)
                elif name in _PREFIXES and value:
                    self._prefixes.add(value)

    def knows(self, key: str) -> bool:
        """Whether a taint of this key counts as one that goes away."""
        return key in self._names or key.startswith(tuple(self._prefixes))


def _problem(at: Value | Place, key: str) -> Problem:
    return Problem(
        at,
        f"Cluster Autoscaler does not take {key} for a startup taint, whose names begin with {_PREFIX}: it makes no node for pods "
        "that do not tolerate it",
        _HINT,
    )


def _key_in(word: Value, key: str) -> Value | Place:
    """The key alone in `--taint=KEY`."""
    start = word.text.find(key) if not (word.is_mapping or word.is_sequence) else -1
    return word if start < 0 else Place(word.source, word.part(start, start + len(key)))


def _node_groups(manifests: Manifests) -> bool:
    """Whether Cluster Autoscaler makes the nodes."""
    if manifests.compute:
        return manifests.compute == "nodegroup"
    if manifests.nodes:
        return False
    return (
        any(workload.compute == "nodegroup" for workload in manifests.workloads)
        or any(True for _ in _autoscalers(manifests))
        or any(True for _ in _cluster_configs(manifests))
    )


def _flags(container: Value) -> Iterator[tuple[str, str]]:
    """Options with their values. In a script, too, where words are what stands between blanks."""
    words: list[str] = []
    for name in ("command", "args"):
        listed = container.get(name)
        for one in listed.elements() if listed is not None else ():
            words += [part.strip("\"'\\;") for part in one.text.split()]
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in (*_NAMES, *_PREFIXES):
            yield name, value.strip("\"'") if equals else "".join(words[index + 1 : index + 2])


def _autoscalers(manifests: Manifests) -> Iterator[Value]:
    for one in manifests.of_kind("Deployment"):
        containers = one.value.get("spec", "template", "spec", "containers")
        for container in containers.elements() if containers is not None else ():
            image = container.get("image")
            if image is not None and "cluster-autoscaler" in image.text:
                yield container


def _cluster_configs(manifests: Manifests) -> Iterator[Object]:
    for one in manifests.of_kind("ClusterConfig"):
        if one.group == "eksctl.io":
            yield one


def _taint_keys(config: Object) -> Iterator[Value]:
    for kind in ("managedNodeGroups", "nodeGroups"):
        groups = config.value.get(kind)
        for group in groups.elements() if groups is not None else ():
            found = group.get("taints")
            for taint in found.elements() if found is not None else ():
                key = taint.get("key")
                if key is not None:
                    yield key


RULE = Rule(
    name="startup-taint-prefix",
    area="kubernetes",
    severity=Severity.WARNING,
    documentation=__doc__,
    everything=_check,
)
