"""The model on the node's disk, for engines that cannot read an object store: an init container copies it first.

TensorRT-LLM takes a Hugging Face name or a directory, and an address of S3 for neither. So AWS's own command line copies the
prefix into an emptyDir, which lies on the instance store, and the engine is told the directory. Files that no engine reads
beside safetensors are left out. What was copied is complete or the pod does not start: a prefix without objects is no success.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog.allocatable import for_workloads
from glowplug.core.errors import UsageError
from glowplug.manifests import recipe
from glowplug.manifests.kubelet import Verbatim
from glowplug.manifests.writing import noted
from glowplug.plan.loaders import STREAMER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.plan.outcome import Plan
    from glowplug.render.options import Options

IMAGE: Final = "public.ecr.aws/aws-cli/aws-cli:2.34.0"
VOLUME: Final = "model"
ROOT: Final = "/models"
STORAGE: Final = "ephemeral-storage"
_GIB: Final = 1 << 30
_MARGIN: Final = 1.1
_OTHER_FILES: Final = 2 * _GIB
_OBJECTS: Final = ("s3://", "gs://", "az://")
_PLAIN: Final = re.compile(r"[A-Za-z0-9][\w.+=@-]*", re.ASCII)
# Beside safetensors: the same weights once more, in forms that only other programs read.
_DUPLICATES: Final = ("original/*", "metal/*", "*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack")
_SCRIPT: Final = (
    'from=$1 to=$2; shift 2; aws s3 sync --only-show-errors "$@" "$from" "$to" && [ -n "$(ls -A "$to" 2>/dev/null)" ] || '
    '{ echo "glowplug: $from was not copied, or holds nothing" >&2; exit 1; }'
)


@dataclass(frozen=True)
class Copy:
    """What a pod carries for it. `path` is where the engine finds the model, `storage` the request for the node's disk."""

    path: str
    storage: Any
    init_containers: tuple[Any, ...]
    mounts: tuple[Any, ...]
    volumes: tuple[Any, ...]


def needed(options: Options) -> bool:
    """Whether the engine cannot read the address that the model has."""
    plan = options.plan
    return (
        plan is not None
        and plan.streaming.load_format != STREAMER
        and (options.model or "").lower().startswith(_OBJECTS)
    )


def copy(options: Options, plan: Plan) -> Copy:
    """The copy step. Raises UsageError for a store that is not S3."""
    source = options.model or ""
    if not source.lower().startswith("s3://"):
        raise UsageError(
            f"{plan.engine} cannot read {source}, and only models in S3 are copied for it",
            hint="put the model into S3, or into the image or a volume and give its absolute path",
        )
    path = f"{ROOT}/{_name(source)}"
    return Copy(
        path=path,
        storage=noted(
            _storage(plan), "The copy of the weights, and a margin. Without it a node whose disk is full is chosen too."
        ),
        init_containers=(_container(options, plan, source, path),),
        mounts=({"name": VOLUME, "mountPath": ROOT, "readOnly": True},),
        volumes=(
            {
                "name": VOLUME,
                "emptyDir": noted({}, "On the instance store, as kubelet's directory is. It goes with the pod."),
            },
        ),
    )


def notes(options: Options) -> tuple[str, ...]:
    """What a person has to know of it: that it happens, and where the disk is too small for all pods of the node."""
    plan = options.plan
    if plan is None or not needed(options):
        return ()
    found = [
        f"{plan.engine} cannot read {options.model}: an init container copies it to the node's disk first, for each pod again"
    ]
    if options.instance is not None and options.instance.nvme_bytes:
        disk = for_workloads(options.instance).disk_bytes
        pods = max(1, plan.placement.pods_per_node)
        if _bytes(plan) * pods > disk:
            found.append(
                f"the disk of {options.instance.name} holds {disk // _bytes(plan)} copies of the model, not one for each of "
                f"the {pods} pods that its GPUs are enough for"
            )
    return tuple(found)


def _name(source: str) -> str:
    last = source.rstrip("/").rpartition("/")[2]
    return last if _PLAIN.fullmatch(last) else "model"


def _bytes(plan: Plan) -> int:
    return math.ceil(plan.model.weights_bytes * _MARGIN) + _OTHER_FILES


def _storage(plan: Plan) -> str:
    return f"{math.ceil(_bytes(plan) / _GIB)}Gi"


def _container(options: Options, plan: Plan, source: str, path: str) -> dict[str, Any]:
    why = f"{plan.engine} reads a directory, and no address of S3. Only what is missing is copied when it has to begin again."
    return {
        "name": "copy-model",
        "image": IMAGE,
        "command": ["sh", "-c", noted(Verbatim(_SCRIPT), why), "copy-model"],
        "args": [source, path, *_flags(options, plan)],
        "env": _environment(options),
        "resources": {
            "requests": {
                "cpu": noted(
                    "1", "Less than the engine's: a pod needs the larger of its init containers and its containers."
                ),
                "memory": "1Gi",
            }
        },
        "securityContext": recipe.unprivileged(),
        "volumeMounts": [{"name": VOLUME, "mountPath": ROOT}],
    }


def _flags(options: Options, plan: Plan) -> list[str]:
    unsigned = ["--no-sign-request"] if options.unsigned else []
    return [*unsigned, *(f"--exclude={pattern}" for pattern in _excluded(plan))]


def _excluded(plan: Plan) -> Sequence[str]:
    """Without the files having been looked at (--size), only what is never a model's own."""
    return _DUPLICATES if plan.model.shards else _DUPLICATES[:1]


def _environment(options: Options) -> list[dict[str, str]]:
    values = {"AWS_REGION": options.region, "AWS_ENDPOINT_URL": options.endpoint}
    return [{"name": name, "value": value} for name, value in values.items() if value]
