"""A Deployment and rules for the tests of what is around the rules: small ones, so that a test says all that it relies on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from glowplug.lint.rule import Fix, Problem, Rule, Severity
from glowplug.lint.view import Manifests, Node, Workload
from glowplug.manifests.edit import Insert, Put, Remove, Rename, Replace

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
  namespace: default
spec:
  selector: {matchLabels: {app: vllm}}
  template:
    metadata:
      labels: {app: vllm}
    spec:
      containers:
        - name: vllm # the engine
          image: vllm/vllm-openai:v0.21.0
          command: [vllm, serve]
          args:
            - s3://bucket/model
            - --enforce-eager
          env:
            - name: OLD_ONE
              value: "1"
            - {name: OLD_TWO, value: "2"}
            - name: VLLM_API_KEY
              value: sk-very-secret
"""

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
"""


def _eager(workload: Workload) -> Iterator[Problem]:
    args = workload.container.value.get("args")
    for index, item in enumerate(args.elements() if args else ()):
        if args and item.text == "--enforce-eager":
            fix = Fix("remove --enforce-eager", (Remove(args, index),), safe=False)
            yield Problem(item, "`--enforce-eager` turns compiling off", "remove it", fix)


def _old(workload: Workload) -> Iterator[Problem]:
    env = workload.container.value.get("env")
    for index, item in enumerate(env.elements() if env else ()):
        name = item.get("name")
        if env and name and name.text.startswith("OLD_"):
            yield Problem(name, f"{name.text} is read by nobody", "", Fix(f"remove {name.text}", (Remove(env, index),)))


def _region(workload: Workload) -> Iterator[Problem]:
    container = workload.container.value
    env = container.get("env")
    names = [item.get("name") for item in env.elements()] if env else []
    if any(name and name.text == "AWS_REGION" for name in names):
        return
    new = {"name": "AWS_REGION", "value": "eu-west-1"}
    operation = Insert(env, new) if env and env.elements() else Put(container, "env", [new])
    yield Problem(container.get("name") or container, "no region is known", "", Fix("set AWS_REGION", (operation,)))


def _image(workload: Workload) -> Iterator[Problem]:
    image = workload.container.image
    if image and image.text.endswith("v0.21.0"):
        yield Problem(
            image,
            "v0.21.0 is old",
            "",
            Fix("take v0.22.0", (Replace(image, image.text.replace("v0.21.0", "v0.22.0")),)),
        )
    elif image and image.text.endswith("v0.22.0"):
        yield Problem(image, "v0.22.0 is new")


def _secret(workload: Workload) -> Iterator[Problem]:
    for name, variable in workload.container.environment.variables.items():
        if name == "VLLM_API_KEY":
            yield Problem(variable.at, "a key in clear")


def _pool(node: Node) -> Iterator[Problem]:
    name = node.pool.value.get("metadata", "name")
    if name:
        yield Problem(name, "a pool")


def _maps(manifests: Manifests) -> Iterator[Problem]:
    for one in manifests.of_kind("ConfigMap"):
        key = one.value.get("metadata")
        if key:
            yield Problem(key.key("name") or key, "a map", "", Fix("rename it", (Rename(key, "name", "label"),)))


def _broken(workload: Workload) -> Iterator[Problem]:
    yield Problem(workload.container.value, "this much was found")
    raise ZeroDivisionError(workload.object.name)


EAGER = Rule("eager", "compile", Severity.WARNING, "", workload=_eager)
OLD = Rule("old", "streaming", Severity.ERROR, "", workload=_old)
REGION = Rule("region", "streaming", Severity.ERROR, "", workload=_region)
REGION_TOO = dataclasses.replace(REGION, name="region-too", severity=Severity.INFO)
IMAGE = Rule("image", "compile", Severity.INFO, "", workload=_image)
SECRET = Rule("secret", "kubernetes", Severity.WARNING, "", workload=_secret)
POOLS = Rule("pool", "kubernetes", Severity.INFO, "", node=_pool)
MAPS = Rule("map", "kubernetes", Severity.WARNING, "", everything=_maps)
BROKEN = Rule("broken", "compile", Severity.ERROR, "", workload=_broken)

RULES = (EAGER, OLD, REGION, REGION_TOO, IMAGE, SECRET, POOLS, MAPS)

_DOCUMENTATION = """{summary}

## What it does
It looks.
## Why is this bad
Seconds are lost, `about` 30 of them.
## Example
```yaml
a: 1
```
Finds `1`.
## Use instead
```yaml
a: 2
```
## Fix safety
Safe.
## Source
- A page
"""


def documented(rule: Rule) -> Rule:
    """The rule with all sections of documentation."""
    text = _DOCUMENTATION.format(summary=f"What {rule.name} finds.")
    return dataclasses.replace(rule, documentation=text)


def each(
    check: Callable[[Workload], Iterator[Problem]], name: str = "sample", severity: Severity = Severity.ERROR
) -> Rule:
    """A rule of a test's own."""
    return Rule(name, "compile", severity, "", workload=check)
