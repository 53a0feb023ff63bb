"""Pods as data: the few fields that tests set, everything else left to Kubernetes' defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.cluster import images, spaces
from lab.vllm import PLUGIN

_ALTERNATIVES = Path("/etc/alternatives")


def pod(
    name: str,
    argv: Sequence[str],
    *,
    image: str = images.PYTHON,
    env: Mapping[str, str] | None = None,
    host_paths: Mapping[str, str] | None = None,
    read_only: Sequence[str] = (),
    empty_dirs: Sequence[str] = (),
    node: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container ("main") that is not restarted and is given one second to end.

    `host_paths` are {path in the container: path on the node}, made there if missing; `read_only` are paths that show the node's
    own content at the same path; `empty_dirs` are paths. `node` asks for a node by its label, so that the scheduler decides;
    other fields of the pod's specification come as they are (`tolerations=[…]`).
    """
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []

    def add(path: str, source: dict[str, Any], **options: Any) -> None:
        volumes.append({"name": f"v{len(volumes)}", **source})
        mounts.append({"name": volumes[-1]["name"], "mountPath": path, **options})

    for path, there in (host_paths or {}).items():
        add(path, {"hostPath": {"path": there, "type": "DirectoryOrCreate"}})
    for path in read_only:
        add(path, {"hostPath": {"path": path}}, readOnly=True)
    for path in empty_dirs:
        add(path, {"emptyDir": {"medium": "Memory"} if path == "/dev/shm" else {}})
    container = {
        "name": "main",
        "image": image,
        "command": list(argv),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "volumeMounts": mounts,
    }
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": volumes,
            **chosen,
            **spec,
        },
    }


def engine_paths(python: Path) -> tuple[str, ...]:
    """The paths (for `read_only`) that let the engine environment with interpreter `python` run in the image images.PYTHON.

    The environment is 6 GB, and importing it as a layer would take longer than most tests. It is shown where it lies, with the
    interpreter that it was made of, the machine's libraries and compiler, and the plugin that makes a CPU compile.
    """
    own = [Path("/usr"), Path(sys.base_prefix), python.parent.parent, PLUGIN]
    own += [top for name in ("bin", "lib", "lib64") if (top := Path("/", name)).is_dir() and not top.is_symlink()]
    own += [_ALTERNATIVES] if _ALTERNATIVES.is_dir() else []
    return _outermost(own)


def glowplug_paths() -> tuple[str, ...]:
    """The paths (for `read_only`) that let this checkout's glowplug run in the image images.PYTHON, with its own environment."""
    return _outermost([Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), spaces.CHECKOUT])


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's readiness probes pass."""
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether all of the pod's containers ended for good."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _outermost(paths: Sequence[Path]) -> tuple[str, ...]:
    """Each path once, and none that lies in another."""
    return tuple(
        str(one)
        for one in dict.fromkeys(paths)
        if not any(one != other and one.is_relative_to(other) for other in paths)
    )
