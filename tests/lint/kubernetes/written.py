"""Manifests for tests of rules about Kubernetes, written as a person writes them; each part is one argument."""

from __future__ import annotations

import json
from textwrap import indent

GPU_TOLERATION = "tolerations:\n- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n"


def deployment(
    *args: str,
    name: str = "vllm",
    namespace: str = "",
    image: str = "vllm/vllm-openai:v0.21.0",
    command: str = "[vllm, serve]",
    gpus: str | None = "1",
    pod: str = GPU_TOLERATION,
    container: str = "",
    annotations: str = "",
) -> str:
    """A Deployment of one engine. `pod` and `container` are more fields of theirs, as YAML."""
    where = f"\n  namespace: {namespace}" if namespace else ""
    resources = "" if gpus is None else f"resources:\n  limits:\n    nvidia.com/gpu: {gpus}\n"
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}{where}
spec:
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
{indent(annotations, " " * 6)}\
    spec:
{indent(pod, " " * 6)}\
      containers:
      - name: engine
        image: {image}
        command: {command}
        args: {json.dumps(list(args) or ["s3://models/llama"])}
{indent(resources, " " * 8)}\
{indent(container, " " * 8)}"""


def node_pool(
    requirements: str = "[{key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}]",
    *,
    name: str = "gpu",
    template: str = "",
    labels: str = "",
    auto_mode: bool = False,
) -> str:
    """A NodePool. `template` are more fields of its template's spec."""
    group, kind = ("eks.amazonaws.com", "NodeClass") if auto_mode else ("karpenter.k8s.aws", "EC2NodeClass")
    metadata = f"    metadata:\n      labels: {labels}\n" if labels else ""
    return f"""\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: {name}
spec:
  template:
{metadata}\
    spec:
      nodeClassRef: {{group: {group}, kind: {kind}, name: {name}}}
      requirements: {requirements}
{indent(template, " " * 6)}"""


TAINTS = "taints:\n- {key: nvidia.com/gpu, effect: NoSchedule}\n"
STARTUP = "startupTaints:\n- {key: glowplug.dev/prewarming, effect: NoSchedule}\n"


def daemon_set(
    *, name: str, image: str, command: str = "[]", args: str = "[]", pod: str = "", container: str = ""
) -> str:
    """A DaemonSet of one container."""
    return f"""\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {name}
  namespace: kube-system
spec:
  selector:
    matchLabels: {{app: {name}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
{indent(pod, " " * 6)}\
      containers:
      - name: {name}
        image: {image}
        command: {command}
        args: {args}
{indent(container, " " * 8)}"""


def agent(args: str = "[--mode=shared]", pod: str = "tolerations:\n- operator: Exists\n") -> str:
    """glowplug's agent."""
    image, command = "registry.example/glowplug:1", "[glowplug, agent]"
    return daemon_set(name="glowplug-agent", image=image, command=command, args=args, pod=pod)


def device_plugin(pod: str = GPU_TOLERATION) -> str:
    """NVIDIA's device plugin."""
    return daemon_set(name="nvidia-device-plugin", image="nvcr.io/nvidia/k8s-device-plugin:v0.17.4", pod=pod)


def line_of(text: str, part: str) -> int:
    """The line, from 1, of the one place where this stands."""
    assert text.count(part) == 1, f"{part!r} stands {text.count(part)} times"
    return text[: text.index(part)].count("\n") + 1
