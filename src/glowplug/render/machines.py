"""Which instance types a node pool may buy, and whether a pod can use their GPUs and their disks there.

Each kind of compute has its own gaps: Karpenter and Cluster Autoscaler believe EC2, which counts no GPU on fractional types; Auto
Mode knows a list of families. Asked for early, since what fails later is a pod that stays Pending with nobody to say why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.catalog import instances as catalog
from glowplug.core.errors import BadInputError, UsageError
from glowplug.render.options import Compute

if TYPE_CHECKING:
    from glowplug.catalog.instances import Instance
    from glowplug.render.options import Options

_ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "ARM_64"}


def machines(options: Options) -> tuple[Instance, ...]:
    """The types that the pool may buy: the one that was asked for, else every type with the plan's GPUs that this compute can use.

    Raises UsageError where nothing says which, BadInputError (`instance-unfit`) where a pod could not use it.
    """
    if options.instance is not None:
        return (_fit(options.instance, options.compute),)
    if options.gpu is not None:
        return _with_gpus(options.gpu.name, options.gpu_count, options.compute)
    placement = options.plan.placement if options.plan else None
    if placement is None:
        raise UsageError("a node pool needs to know what to buy", hint="name an instance type: --instance p5.48xlarge")
    if placement.instance is not None:
        return (_fit(catalog.instance(placement.instance), options.compute),)
    return _with_gpus(placement.gpu, placement.gpus_per_node, options.compute)


def check_pods(options: Options) -> None:
    """Raises BadInputError (`instance-unfit`) where no pod could use the machine that was asked or planned for.

    A disk is no matter here: a pod runs without one. Node groups are not looked at: what they hold is there already.
    """
    if options.instance is not None:
        _raise(options.instance, _no_gpu(options.instance, options.compute))
        return
    gpu = options.plan.placement.gpu if options.plan else None
    alike = [one for one in catalog.instances() if one.gpu.name == gpu]
    if alike and all(_no_gpu(one, options.compute) for one in alike):
        _raise(alike[-1], _no_gpu(alike[-1], options.compute))


def _with_gpus(gpu: str, count: int, compute: Compute) -> tuple[Instance, ...]:
    alike = [one for one in catalog.instances() if (one.gpu.name, one.gpus) == (gpu, count)]
    found = tuple(one for one in alike if not _unfit(one, compute))
    if not found:
        raise BadInputError(
            f"no instance type has {count} × {gpu} for --compute {compute.value}",
            code="instance-unfit",
            hint="name an instance type: --instance p5.48xlarge",
        )
    return found


def smallest_disk(pool: tuple[Instance, ...]) -> Instance:
    """The type with the smallest instance store: what holds for it holds for the others."""
    return min(pool, key=lambda one: one.nvme_bytes)


def gpus_of(pool: tuple[Instance, ...]) -> int:
    """GPUs of one node, of the largest type."""
    return max(one.gpus for one in pool)


def architecture(pool: tuple[Instance, ...]) -> str:
    """Kubernetes' name of the processor, one for the whole pool."""
    return pool[0].arch


def ami_architecture(pool: tuple[Instance, ...]) -> str:
    """The processor as names of Amazon machine images have it."""
    return _ARCHITECTURES[architecture(pool)]


def _fit(one: Instance, compute: Compute) -> Instance:
    _raise(one, _unfit(one, compute))
    return one


def _raise(one: Instance, why: tuple[str, str] | None) -> None:
    if why:
        raise BadInputError(f"{one.name}: {why[0]}", code="instance-unfit", hint=why[1])


def _no_gpu(one: Instance, compute: Compute) -> tuple[str, str] | None:
    """Why a pod would never get its GPU there."""
    if compute is Compute.NODEGROUP:
        return None
    why = _unfit(one, compute)
    return why if one.fractional or (compute is Compute.AUTO_MODE and not one.auto_mode) else None


def _unfit(one: Instance, compute: Compute) -> tuple[str, str] | None:
    """Why a pod cannot use this type there, and what to do instead; None where it can."""
    if compute is Compute.AUTO_MODE and not one.auto_mode:
        return f"EKS Auto Mode does not offer the family {one.family}", "use another family, or --compute karpenter"
    if one.fractional:
        return (
            "EC2 counts no GPU on it, so a pod that asks for nvidia.com/gpu is never planned onto it",
            f"a whole {one.gpu.name.upper()}: --instance {_whole(one)}",
        )
    if not one.nvme_bytes:
        return (
            "it has no NVMe instance store, so a cache kept on the node would silently lie on EBS",
            "choose a type with an instance store; `glowplug plan` lists candidates",
        )
    return None


def _whole(fraction: Instance) -> str:
    """The smallest type with one whole card of that kind."""
    whole = [one for one in catalog.instances() if one.gpu == fraction.gpu and one.gpus == 1]
    return min(whole, key=lambda one: one.vcpus).name
