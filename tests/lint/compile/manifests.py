"""Pods as the tables of these tests write them: short to say, whole enough for lint to see a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VLLM = "vllm/vllm-openai:v0.33.0"
ROOT = {"VLLM_CACHE_ROOT": "/compile-cache/vllm"}
GUIDE = {
    "XDG_CACHE_HOME": "/compile-cache",
    "TORCHINDUCTOR_CACHE_DIR": "/compile-cache/inductor",
    "TRITON_CACHE_DIR": "/compile-cache/triton",
}
SGLANG = {"SGLANG_CACHE_DIR": "/compile-cache/sglang"}
NVME = "hostPath: {path: /mnt/k8s-disks/0/compile-cache, type: DirectoryOrCreate}"
MOUNT = "{name: compile-cache, mountPath: /compile-cache}"


def host(path: str, kind: str = "DirectoryOrCreate") -> str:
    """A hostPath volume."""
    return f"hostPath: {{path: {path}, type: {kind}}}" if kind else f"hostPath: {{path: {path}}}"


def field(path: str) -> str:
    """A variable that kubelet takes from the pod."""
    written = f'"{path}"' if "[" in path else path
    return f"valueFrom: {{fieldRef: {{fieldPath: {written}}}}}"


def pod(
    *,
    name: str = "vllm",
    kind: str = "Deployment",
    image: str = VLLM,
    command: Sequence[str] = (),
    args: Sequence[str] = ("--model=/models/llama",),
    env: Mapping[str, str] | None = None,
    env_from: str = "",
    mounts: Sequence[str] = (),
    volumes: Mapping[str, str] | None = None,
    container: str = "",
    spec: str = "",
    labels: str = "",
) -> str:
    """A workload. Values of `env` are text, or a whole `valueFrom: …`."""
    lines = [
        f"apiVersion: {'batch/v1' if kind == 'Job' else 'apps/v1'}",
        f"kind: {kind}",
        f"metadata: {{name: {name}, namespace: default}}",
        "spec:",
        f"  selector: {{matchLabels: {{app: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: {name}{labels}}}}}",
        "    spec:",
        *([f"      {spec}"] if spec else []),
        "      containers:",
        f"        - name: {name}",
        f"          image: {image}",
        *(["          command:", *(f"            - {word}" for word in command)] if command else []),
        "          args:",
        *(f"            - {word}" for word in args),
        *([f"          envFrom: {env_from}"] if env_from else []),
        *_env(env or {}),
        '          resources: {limits: {nvidia.com/gpu: "1"}}',
        *([f"          {container}"] if container else []),
        *(["          volumeMounts:", *(f"            - {one}" for one in mounts)] if mounts else []),
        *(
            ["      volumes:", *(f"        - name: {key}\n          {value}" for key, value in (volumes or {}).items())]
            if volumes
            else []
        ),
    ]
    return "\n".join(lines) + "\n"


def cached(volume: str = NVME, *, mount: str = MOUNT, env: Mapping[str, str] | None = None, **more: object) -> str:
    """A pod with a volume for compiled artifacts, and by default the variable that uses it."""
    return pod(env=ROOT if env is None else env, mounts=[mount], volumes={"compile-cache": volume}, **more)  # type: ignore[arg-type]


def _env(env: Mapping[str, str]) -> list[str]:
    lines = ["          env:"] if env else []
    for name, value in env.items():
        lines.append(f"            - name: {name}")
        lines.append(
            f"              {value}" if value.startswith("valueFrom:") else f"              value: {_quoted(value)}"
        )
    return lines


def _quoted(value: str) -> str:
    return f'"{value}"' if value.isdigit() or value == "" else value


def nodes(
    kind: str = "EC2NodeClass", *, spec: str = "", instance: str = "g6e.12xlarge", name: str = "gpu", pool: bool = True
) -> str:
    """A node class, and the NodePool that uses it. `spec`: lines of the class's specification."""
    group = "karpenter.k8s.aws" if kind == "EC2NodeClass" else "eks.amazonaws.com"
    own = "".join(f"  {line}\n" for line in spec.splitlines())
    text = f"apiVersion: {group}/v1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n  role: nodes\n{own}"
    if not pool:
        return text
    return f"""{text}---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: {name}
spec:
  template:
    spec:
      nodeClassRef: {{group: {group}, kind: {kind}, name: {name}}}
      requirements:
        - key: node.kubernetes.io/instance-type
          operator: In
          values: [{instance}]
"""
