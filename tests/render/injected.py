"""Manifests as people write them, what an edit makes of them, and what `render` would have made. One place for all tests of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import yaml

from glowplug.lint import inject
from glowplug.manifests import recipe
from glowplug.manifests.source import Source
from glowplug.render.injecting import carried
from glowplug.render.options import Mode, Options

STORE = "s3://cache/fleet"
DEPLOYMENT = """\
# Our model, do not touch before Friday.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: llama
  namespace: inference
spec:
  replicas: 2 # one for each zone
  selector:
    matchLabels: {app: llama}
  template:
    metadata:
      labels: {app: llama}
    spec:
      serviceAccountName: serving
      containers:
        - name: vllm   # the engine
          image: "vllm/vllm-openai:v0.21.0"
          command: ["vllm", "serve"]
          args:
          - s3://models/llama

          - --load-format=runai_streamer
          # two cards
          - '--tensor-parallel-size=2'
          env:
          - name: HF_HUB_OFFLINE
            value: "1"
          resources: {limits: {nvidia.com/gpu: "2"}}
          volumeMounts:
          - {name: shm, mountPath: /dev/shm}
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      volumes:
      - name: shm
        emptyDir: {medium: Memory}
# the end
"""


def options(mode: str = "direct", **given: Any) -> Options:
    """Options of an injection as the command line makes them."""
    return Options(name="pods", mode=Mode(mode), **given)


def result(
    text: str, mode: str = "direct", *, namespace: str = "", chosen: tuple[str, ...] = (), **given: Any
) -> inject.Result:
    """What becomes of one text."""
    return inject.inject([Source("deploy.yaml", text)], options(mode, **given), chosen, namespace)


def text(before: str, mode: str = "direct", **given: Any) -> str:
    """The text afterwards; nothing may be refused."""
    found = result(before, mode, **given)
    assert [one.reason for one in found.objects if one.outcome == "refused"] == []
    (source,) = found.sources
    return source.text


def refused(before: str, mode: str = "direct", **given: Any) -> str:
    """The reason why the one object of a text is refused; the text is as it was."""
    found = result(before, mode, **given)
    (source,) = found.sources
    assert source.text == before
    (one,) = [one for one in found.objects if one.outcome == "refused"]
    assert one.changes == ()
    return one.reason


def document(value: Any) -> str:
    """A value as YAML without comments."""
    # Through JSON, since values that are used twice would become anchors.
    return yaml.safe_dump(json.loads(json.dumps(value)), sort_keys=False)


def changed(before: str, change: Mapping[str, Any] | None = None, **pod: Any) -> str:
    """The Deployment with fields of its container (`change`) and of its pod's spec; None takes one out."""
    value = yaml.safe_load(before)
    spec = value["spec"]["template"]["spec"]
    for target, changes in ((spec["containers"][0], change or {}), (spec, pod)):
        for name, new in changes.items():
            target.pop(name, None)
            if new is not None:
                target[name] = new
    return document(value)


def template(value: str | dict[str, Any]) -> dict[str, Any]:
    """The pod template of a Deployment."""
    found: dict[str, Any] = (yaml.safe_load(value) if isinstance(value, str) else value)["spec"]["template"]
    return found


def engine(value: str | dict[str, Any]) -> dict[str, Any]:
    """Its engine's container."""
    found: dict[str, Any] = template(value)["spec"]["containers"][0]
    return found


def sets(value: str | dict[str, Any]) -> Any:
    """A Deployment's pod template with those lists sorted whose order means nothing to Kubernetes."""
    found = copy.deepcopy(template(value))
    spec = found["spec"]
    for owner, name in (
        (spec, "volumes"),
        *((one, key) for one in spec["containers"] for key in ("env", "volumeMounts")),
    ):
        if owner.get(name):
            owner[name] = sorted(owner[name], key=lambda one: str(one["name"]))
    return found


def stripped(value: dict[str, Any], caches: Mapping[str, str]) -> dict[str, Any]:
    """What `render` printed without all that the mode added and without cache variables: the pod that a person would have had."""
    found = copy.deepcopy(value)
    pod = template(found)
    spec, container = pod["spec"], engine(found)
    own = {recipe.CACHE_VOLUME, recipe.CLIENT_VOLUME, recipe.STORE_VOLUME, recipe.OUTBOX_VOLUME}
    names = {*carried.VARIABLES, *caches}
    pod["metadata"]["labels"].pop(recipe.MODE_LABEL, None)
    _keep(spec, "initContainers", [one for one in spec.get("initContainers", []) if one["name"] != "glowplug"])
    _keep(spec, "volumes", [one for one in spec["volumes"] if one["name"] not in own])
    _keep(container, "volumeMounts", [one for one in container["volumeMounts"] if one["name"] not in own])
    _keep(container, "env", [one for one in container["env"] if one["name"] not in names])
    if container["command"][:2] == ["sh", "-c"]:
        container["command"] = container["command"][carried.PREFIX_WORDS :]
    return found


def _keep(owner: dict[str, Any], name: str, left: list[Any]) -> None:
    owner.pop(name, None)
    if left:
        owner[name] = left
