"""The pod of an engine: what a profile says of it, put together with what the mode adds (`manifests/recipe.py`).

Profile `guide` is the AWS guide's pod, field for field and in its order; what the guide leaves to the reader comes from
options or is left out. Profile `auto` has the same skeleton with the plan's values, each with its reason above it, and what a
pod needs beyond the guide: shared memory for several ranks, a context without privileges, a selector that keeps it on the GPU
that was planned for.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug import __version__
from glowplug.catalog.gpus import MIB, gpu
from glowplug.core.errors import UsageError
from glowplug.engines.vllm.caches import REASONS
from glowplug.manifests import recipe
from glowplug.manifests.writing import noted
from glowplug.render import budget, copying
from glowplug.render.options import Compute, Mode, Options, quoted
from glowplug.render.serving import serving

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.manifests.recipe import Recipe
    from glowplug.plan.outcome import Plan

GPU: Final = "nvidia.com/gpu"
_STREAMED: Final = re.compile(r"(?:s3|gs|az):")
_IN_BUCKET: Final = re.compile(r"\w+://[^/\s]+")
_STARTUP_PERIOD: Final = 5
_GRACE: Final = 60
_SHM: Final = "shared-memory"
_TOLERATIONS: Final = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
_LABELS: Final = {Compute.KARPENTER: "karpenter.k8s.aws", Compute.AUTO_MODE: "eks.amazonaws.com"}


@dataclass(frozen=True)
class Engine:
    """What one profile says of the container and its pod. Values may carry notes."""

    cpu: Any
    memory: Any
    probes: Mapping[str, Any]
    container: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    mounts: tuple[Any, ...] = ()
    volumes: tuple[Any, ...] = ()


def planned(options: Options) -> Plan:
    """The plan, which a kind with a model always has. Raises UsageError without one, or for an address that names no bucket."""
    if options.plan is None or options.model is None:
        raise UsageError("a deployment needs a model", hint="glowplug render KIND s3://bucket/model")
    if _STREAMED.match(options.model) and not _IN_BUCKET.match(options.model):
        raise UsageError(f"MODEL: {quoted(options.model)} names no bucket", hint="write it as s3://bucket/prefix")
    return options.plan


def tool_image(options: Options) -> str:
    """glowplug's own image: none is published, so that the default has to be built and pushed first."""
    return options.glowplug_image or f"glowplug:{__version__}"


def nvme(options: Options) -> str:
    """Where the nodes' instance store is mounted."""
    return recipe.nvme_mount(options.compute.value, options.ami)


def warmed(options: Options) -> Recipe:
    """What the mode adds to the pod that was planned."""
    return warming(options, planned(options).compile.cache_root)


def warming(options: Options, cache_root: str) -> Recipe:
    """What the mode adds to a pod, whatever runs in it."""
    if options.mode is Mode.NODE:
        return recipe.node(nvme(options), options.trust_domain, cache_root)
    if options.mode is Mode.DIRECT:
        return recipe.direct(tool_image(options), recipe.Start(options.store, options.domain, cache_root))
    if options.profile == "guide":
        return recipe.shared(nvme(options))
    return recipe.shared(
        nvme(options),
        why="The NVMe instance store of these nodes. All pods of a node, of every workload, write this one directory, as the AWS "
        "guide has it. Engines name temporary files by process id, which is the same in every pod: two that compile at the same "
        "time can tear each other's files. `--mode direct` and `--mode node` give each pod a copy of its own.",
        why_type="Where the disk is not mounted, Kubernetes makes the directory on the EBS root volume without a word: "
        "`glowplug render nodepool` makes nodes where it is mounted.",
    )


def start(options: Options) -> recipe.Start:
    """What the client in the pod is told."""
    return recipe.Start(options.store, options.domain, planned(options).compile.cache_root)


def template(options: Options, added: Recipe, engine: Engine, app: str, account: Any) -> dict[str, Any]:
    """A pod template. Keys stand in the guide's order. `account` may carry a note; None leaves it out."""
    spec: dict[str, Any] = {}
    if account is not None:
        spec["serviceAccountName"] = account
    selector = node_selector(options)
    if selector:
        spec["nodeSelector"] = selector
    spec["tolerations"] = _TOLERATIONS
    spec.update(engine.pod)
    copied = model_copy(options)
    init_containers = [*added.init_containers, *(copied.init_containers if copied else ())]
    if init_containers:
        spec["initContainers"] = init_containers
    spec["containers"] = [container(options, added, engine)]
    spec["volumes"] = [*added.volumes, *engine.volumes, *(copied.volumes if copied else ())]
    return {"metadata": {"labels": {"app": app, **added.labels}}, "spec": spec}


def container(options: Options, added: Recipe, engine: Engine) -> dict[str, Any]:
    """The engine's container."""
    plan = planned(options)
    served = serving(plan.engine)
    guide = options.profile == "guide"
    copied = model_copy(options)
    arguments = served.arguments(copied.path if copied else options.model or "", plan)
    cpu = {} if engine.cpu is None else {"cpu": engine.cpu}
    storage = {copying.STORAGE: copied.storage} if copied else {}
    return {
        "name": served.container,
        "image": options.image or served.image_of(plan.engine_version),
        "command": added.command(served.command),
        "args": [word if guide else noted(word, why) for word, why in arguments],
        "ports": [{"containerPort": served.port, "name": "http"}],
        "env": environment(options, added),
        "resources": {
            "requests": {**cpu, "memory": engine.memory, **storage, GPU: str(plan.placement.tensor_parallel_size)},
            "limits": {GPU: str(plan.placement.tensor_parallel_size)},
        },
        **engine.container,
        "volumeMounts": [*added.mounts, *engine.mounts, *(copied.mounts if copied else ())],
        **engine.probes,
    }


def environment(options: Options, added: Recipe) -> list[Any]:
    """Variables: AWS's region, the streamer's, the caches', the client's. The last two groups have one comment each."""
    plan = planned(options)
    entries: list[Any] = []
    if options.profile != "guide" and options.region and "AWS_REGION" not in plan.streaming.env:
        why = "Without it the streamer asks the instance's metadata service, which many clusters keep pods from (hop limit 1)."
        entries.append(noted({"name": "AWS_REGION", "value": options.region}, why))
    groups = (
        (plan.streaming.env, "Run:ai streamer tuning"),
        (plan.compile.env, "torch.compile cache"),
    )
    for group, title in groups:
        for place, (name, value) in enumerate(group.items()):
            why = plan.why(name) or REASONS.get(name, "") if options.profile != "guide" else ""
            entries.append(noted({"name": name, "value": value}, why or (title if place == 0 else "")))
    return entries + [variable.entry() for variable in added.variables]


def model_copy(options: Options) -> copying.Copy | None:
    """The copy of the model on the node's disk, where the engine cannot read the address itself."""
    return copying.copy(options, planned(options)) if copying.needed(options) else None


def node_selector(options: Options) -> dict[str, str]:
    """The pool that was named; in profile auto else the machine that was planned for."""
    if options.nodepool is not None:
        nodegroup = options.compute is Compute.NODEGROUP
        return {"eks.amazonaws.com/nodegroup" if nodegroup else "karpenter.sh/nodepool": options.nodepool}
    if options.profile == "guide":
        return {}
    placement = planned(options).placement
    if placement.instance is not None:
        return {"node.kubernetes.io/instance-type": placement.instance}
    prefix = _LABELS.get(options.compute)
    card = gpu(placement.gpu)
    if prefix is None or not card.ec2_name:
        return {}
    # Memory too, since the name alone is two cards for a100; as EC2 states it, which is what these labels hold.
    return {
        f"{prefix}/instance-gpu-name": card.ec2_name,
        f"{prefix}/instance-gpu-memory": str(card.ec2_memory_bytes // MIB),
    }


def engine(options: Options) -> Engine:
    """What the profile says."""
    return _guide(options) if options.profile == "guide" else _auto(options)


def _guide(options: Options) -> Engine:
    served = serving(planned(options).engine)
    health = {"httpGet": {"path": served.health, "port": served.port}}
    return Engine(
        cpu="12",
        memory="80Gi",
        probes={
            "startupProbe": {**health, "periodSeconds": 10, "failureThreshold": 60, "initialDelaySeconds": 30},
            "readinessProbe": {**health, "periodSeconds": 5, "timeoutSeconds": 3},
        },
    )


def _auto(options: Options) -> Engine:
    plan = planned(options)
    several = plan.placement.tensor_parallel_size > 1
    shm = budget.shared_memory_gib(plan)
    volume = {
        "name": _SHM,
        "emptyDir": {
            "medium": "Memory",
            "sizeLimit": noted(
                f"{shm}Gi", "The ranks talk through /dev/shm, which is 64Mi otherwise. A roof, not a request."
            ),
        },
    }
    return Engine(
        cpu=_cpu(options, plan),
        memory=_memory(options, plan),
        probes=_probes(plan),
        container={"securityContext": recipe.unprivileged()},
        pod={
            "terminationGracePeriodSeconds": noted(
                _GRACE, "Requests that are being answered get this long when the pod is ended; the default is 30."
            )
        },
        mounts=({"name": _SHM, "mountPath": "/dev/shm"},) if several else (),  # noqa: S108 - the container's, not ours
        volumes=(volume,) if several else (),
    )


def _cpu(options: Options, plan: Plan) -> Any:
    found = budget.cpus(plan, options.instance)
    if found is None or options.instance is None:
        return None
    gpus = f"{plan.placement.tensor_parallel_size} of {max(1, options.instance.gpus)} GPUs"
    return noted(
        str(found), f"This pod's share of {options.instance.name}, by {gpus}. A request only: compiling may use more."
    )


def _memory(options: Options, plan: Plan) -> Any:
    found = budget.memory(plan, options.instance)
    own = plan.why("host_memory_bytes")
    if not found.enough and options.instance is not None:
        short = (
            f"All that {options.instance.name} has for this pod beside kubelet's share and daemon sets. Loading may need up to "
            f"{math.ceil(found.needed_bytes / budget.GIB)}Gi: then the node runs out of memory, and kubelet ends the pod."
        )
        return noted(found.quantity, short)
    return noted(found.quantity, own or "The most that loading the weights needs of the node's memory.")


def _probes(plan: Plan) -> dict[str, Any]:
    served = serving(plan.engine)
    health = {"httpGet": {"path": served.health, "port": "http"}}
    tries = budget.failures(budget.undisturbed_seconds(plan), _STARTUP_PERIOD)
    allowed = budget.earliest_end(0, _STARTUP_PERIOD, tries)
    why = (
        f"{allowed} s at the least: 1.5 times a cold start or more, taken as {math.ceil(budget.cold_seconds(plan))} s "
        "(weights at half speed, everything compiled). Too short a probe kills every cold start."
    )
    return {
        "startupProbe": noted(
            {**health, "periodSeconds": _STARTUP_PERIOD, "timeoutSeconds": 3, "failureThreshold": tries}, why
        ),
        "readinessProbe": {**health, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 3},
    }
