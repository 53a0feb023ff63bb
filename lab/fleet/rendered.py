"""What `glowplug render` prints, as a user gets it, made to run on the laboratory's nodes with as few changes as will do.

The engine's image does not exist here: it is `images.PYTHON` with the engine environment of this machine mounted read-only, where
PATH leads to its `python3`, and two cores stand for a GPU. So an engine's container gets that image, those mounts, the variables
without which no vLLM runs on a CPU (`lab.vllm`), where S3 is, fewer CPUs, and COUNTED in the place of GPUs. The selector of an
instance type goes, since it names a GPU, and agents believe that. Tolerations, probes, accounts, volumes, commands and glowplug's
own image stay as they are rendered.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml

from lab import s3, vllm
from lab.cluster import GPU, Cluster, Shape, images, pods
from lab.kube.client import wait_for

Document = dict[str, Any]

INSTANCE = "g6e.xlarge"
ENGINE_IMAGE = "example.com/vllm:0.32.0"
SYSTEM = "glowplug-system"
AGENT = "glowplug-agent"
REPORT = "/report/start.json"
COUNTED = "example.com/engine"
_FEW = {"cpu": "10m"}
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount of the pod's own
_INSTANCE_LABEL = "node.kubernetes.io/instance-type"
GPU_NODE = {"karpenter.k8s.aws/instance-gpu-count": "1"}
"""By which the agent's DaemonSet knows its nodes."""


def gpu_node(engines: int = 1, **labels: str) -> Shape:
    """A node as Karpenter makes it for GPUs, as far as the agent's manifests look at it, with room for so many engines.

    Neither a label nor a resource says that it has GPUs: engines here run on a CPU, and that is what agents have to believe.
    """
    return Shape(GPU_NODE | labels, ("nvidia.com/gpu=true:NoSchedule",), engines, COUNTED)


def render(*words: str) -> list[Document]:
    """The documents that `glowplug render` prints for these words. Raises CalledProcessError."""
    program = str(Path(sys.executable).with_name("glowplug"))
    done = subprocess.run([program, "render", *words, "--instance", INSTANCE], check=True, capture_output=True)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def on_a_cpu(
    documents: Iterable[Document], python: Path, server: s3.Server, *, extra: Mapping[str, str] | None = None
) -> list[Document]:
    """Engines in these documents run here; `server` is S3 with the keys that they have, `extra` are more variables."""
    launch = vllm.Launch(python, "", 0)
    changed = list(documents)
    for pod in _pods(changed):
        (container,) = pod["containers"]
        container["image"] = images.PYTHON
        for item in (container, *pod.get("initContainers", ())):
            for wanted in item.get("resources", {}).values():
                wanted.update({name: few for name, few in _FEW.items() if name in wanted})
                if GPU in wanted:
                    wanted[COUNTED] = wanted.pop(GPU)
        set_variables(container, launch.env(server.env()) | {"GLOWPLUG_REPORT": REPORT} | dict(extra or {}))
        for number, path in enumerate(pods.engine_paths(python)):
            _mount(pod, f"lab-{number}", {"hostPath": {"path": path}}, path, readOnly=True)
        if all(mount["mountPath"] != _SHARED_MEMORY for mount in container["volumeMounts"]):
            # On a CPU vLLM talks through it with a single worker too.
            _mount(pod, "lab-memory", {"emptyDir": {"medium": "Memory"}}, _SHARED_MEMORY)
        _mount(pod, "lab-report", {"emptyDir": {}}, str(Path(REPORT).parent))
        pod["terminationGracePeriodSeconds"] = 1
        pod.get("nodeSelector", {}).pop(_INSTANCE_LABEL, None)
    return changed


def reaching(documents: Iterable[Document], server: s3.Server) -> list[Document]:
    """The same documents with the variables by which what runs in them finds S3; as Pod Identity would give them."""
    return told(documents, server.env())


def told(documents: Iterable[Document], variables: Mapping[str, str]) -> list[Document]:
    """The same documents with more variables for all that runs in them."""
    changed = list(documents)
    for pod in _pods(changed):
        for container in pod["containers"]:
            set_variables(container, variables)
    return changed


def set_variables(container: Document, variables: Mapping[str, str]) -> None:
    """Add variables to a container, in the place of those with the same names."""
    kept = [one for one in container.get("env", ()) if one["name"] not in variables]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in variables.items())]


def apply(running: Cluster, documents: Iterable[Document]) -> None:
    """`kubectl apply`."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    running.kubectl("apply", "-f", "-", stdin=json.dumps(listed))


def keys(running: Cluster, domain: str, bucket: str = "cache") -> list[str]:
    """The digests of the keys that the store has for that domain, as their objects are named."""
    return [path.stem for path in key_paths(running, domain, bucket)]


def key_paths(running: Cluster, domain: str, bucket: str = "cache") -> list[PurePosixPath]:
    """The names of their objects, from the GPU on. Raises OSError."""
    prefix = f"v1/{domain}/keys/"
    status, body = running.s3.request("GET", f"/{bucket}", query=f"list-type=2&prefix={quote(prefix, safe='')}")
    if status != 200:
        raise OSError(f"listing {bucket}: {status}")
    found = re.findall(rf"<Key>{re.escape(prefix)}([^<]*/[0-9a-f]+\.json)</Key>", body.decode())
    return list(map(PurePosixPath, found))


def wait_for_keys(running: Cluster, domain: str, number: int = 1, seconds: float = 90.0) -> None:
    """Return when the store has so many keys for that domain. Raises TimeoutError with what the agents said last."""
    try:
        wait_for(seconds, f"{number} keys of {domain} are published", lambda: len(keys(running, domain)) >= number)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {agents_log(running)[-6000:]}") from None


def wait_for_agents(running: Cluster, seconds: float = 120.0) -> None:
    """Return when an agent is ready on every node that its DaemonSet means."""

    def ready() -> bool:
        status = running.kube.admin.get("apps/v1", "DaemonSet", AGENT, SYSTEM).document.get("status", {})
        wanted = status.get("desiredNumberScheduled", 0)
        return bool(wanted) and status.get("numberReady") == wanted

    try:
        wait_for(seconds, "an agent is ready on every node", ready)
    except TimeoutError as error:
        states = [pod["status"] for pod in running.kube.admin.list("v1", "Pod", SYSTEM)]
        raise TimeoutError(f"{error}: {states}\n{agents_log(running)[-6000:]}") from None


def agents_log(running: Cluster) -> str:
    """What the agents printed."""
    return running.kubectl("logs", f"--namespace={SYSTEM}", f"--selector=app={AGENT}", "--tail=-1", "--prefix")


def may_read(server: s3.Server, bucket: str) -> None:
    """Let everybody read that bucket: `s3.GUEST` too, who may do nothing otherwise."""
    own = f"arn:aws:s3:::{bucket}"
    anybody = {"Effect": "Allow", "Principal": "*"}
    reading = {**anybody, "Action": ["s3:GetObject"], "Resource": [f"{own}/*"]}
    server.set_policy(bucket, [{**anybody, "Action": ["s3:ListBucket"], "Resource": [own]}, reading])


def _pods(documents: Iterable[Document]) -> Iterator[Document]:
    """The pods that the documents' objects make."""
    for document in documents:
        template = document.get("spec", {}).get("template")
        if template is not None:
            yield template["spec"]


def _mount(pod: Document, name: str, source: Document, path: str, **options: Any) -> None:
    pod.setdefault("volumes", []).append({"name": name, **source})
    pod["containers"][0].setdefault("volumeMounts", []).append({"name": name, "mountPath": path, **options})
