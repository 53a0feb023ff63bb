"""Whether a node is one on which artifacts are quickly at hand: disk under the agent's directory, space, GPU, driver, store.

`look` is all that touches the machine, and reads only; `checks` says what it means. Thresholds are kubelet's own: below them it
evicts pods and collects images, whatever the cache does.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog import instances
from glowplug.check import standing
from glowplug.check.results import Check
from glowplug.core import units
from glowplug.fingerprint import hardware
from glowplug.host import blocks, cpu, driver, nvml, space
from glowplug.nodestore import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from glowplug.check.standing import Standing
    from glowplug.host.blocks import Backing, Disk
    from glowplug.host.space import Space

_LEAST_BYTES: Final = 10**9
_FEW_BYTES: Final = 10 * 10**9
_FEW_SHARE: Final = 0.15
_FEW_INODES: Final = 0.05
_KEY: Final = re.compile(r"[0-9a-f]{64}")
_REFLINKS: Final = frozenset({"xfs", "btrfs", "bcachefs"})
_MAKE_RAID: Final = (
    "Karpenter and EKS Auto Mode: EC2NodeClass `instanceStorePolicy: RAID0` (glowplug render nodepool); managed node groups: "
    "NodeConfig `instance.localStorage.strategy: RAID0` (glowplug render nodegroup)"
)


@dataclass(frozen=True)
class Domain:
    """What lies in the node store for one trust domain; `keys` by their digests. `kept`: an agent has put its client there."""

    name: str
    ready: bool
    keys: tuple[str, ...]
    kept: bool = True


@dataclass(frozen=True)
class Seen:
    """What a machine says of itself. `others` are the other places where a node image may mount an instance store.

    `stores`: the instance store disks it has, mounted or not. `cards`: GPUs by name, () for none seen; `devices` NVIDIA's on the
    bus, None where it cannot be seen. `domains` is None without a node store at the root; `standing` is the agent's word, None
    where it said none. `node`: this node's name, "" where it is not known.
    """

    root: str
    exists: bool
    backing: Backing
    others: Mapping[str, Backing] = field(default_factory=dict)
    stores: tuple[Disk, ...] = ()
    space: Space | None = None
    cards: tuple[str, ...] = ()
    devices: int | None = None
    driver: str = ""
    processor: str = ""
    domains: tuple[Domain, ...] | None = None
    standing: Standing | None = None
    node: str = ""


def look(root: Path, others: Sequence[Path] = (), node: str = "") -> Seen:
    """This machine; `node` where its name is known. Reads only, raises nothing."""
    found = nvml.gpus()
    cards = [card.name for card in (found or hardware.from_proc(hardware.PROC)) if card.name]
    room: Space | None = None
    with contextlib.suppress(OSError):
        room = space.free(str(root))
    return Seen(
        root=str(root),
        exists=_is_there(root),
        backing=blocks.of(str(root)),
        others={str(path): blocks.of(str(path)) for path in others},
        stores=blocks.instance_stores(),
        space=room,
        cards=tuple(cards),
        devices=driver.devices(),
        driver=driver.version(),
        processor=cpu.here(),
        domains=_domains(root),
        standing=(said := standing.read(root)),
        node=node or (said.node if said else ""),
    )


def checks(seen: Seen) -> tuple[Check, ...]:
    """All answers, the disk's first."""
    return (_nvme(seen), *_file_system(seen), *_space(seen), _gpu(seen), _driver(seen), *_store(seen))


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _domains(root: Path) -> tuple[Domain, ...] | None:
    try:
        names = sorted(item.name for item in layout.stores(root).iterdir() if layout.is_domain(item.name))
    except OSError:
        return None
    return tuple(_domain(root, name) for name in names)


def _domain(root: Path, name: str) -> Domain:
    folder = layout.store(root, name)
    keys: tuple[str, ...] = ()
    with contextlib.suppress(OSError):
        keys = tuple(sorted(item.name for item in folder.iterdir() if _KEY.fullmatch(item.name)))
    kept = (folder / layout.NODE).exists() or (folder / layout.PROGRAM).exists()
    return Domain(name, (folder / layout.READY).exists(), keys, kept)


def _nvme(seen: Seen) -> Check:
    below = seen.backing
    evidence: dict[str, Any] = {
        "root": seen.root,
        "exists": seen.exists,
        "mount": below.mount.point if below.mount else None,
        "device": below.device or None,
        "level": below.level or None,
        "disks": [{"name": disk.name, "model": disk.model} for disk in below.disks],
        "instance_stores": [disk.name for disk in seen.stores],
    }
    lies = f"{seen.root} lies" if seen.exists else f"{seen.root} does not exist; it would lie"
    if below.nvme:
        return Check("nvme", "pass", f"{lies} on NVMe of this machine: {_made_of(below)}", "", evidence)
    missing = "" if seen.exists else " does not exist"
    said = (
        f"{seen.root}{missing}: {below.why}" if below.why else f"{lies} on {_made_of(below)}, not on an instance store"
    )
    elsewhere = next((path for path, other in seen.others.items() if other.nvme), "")
    if elsewhere:
        return Check(
            "nvme", "fail", said, f"--root {elsewhere} is on NVMe: give the agent and its pods that path", evidence
        )
    if seen.stores:
        said = f"{said}; this machine has {len(seen.stores)} instance store disks that it does not use for it"
        return Check("nvme", "fail", said, _MAKE_RAID, evidence)
    if below.why:
        hint = "look from the node itself, or from the agent's pod: kubectl -n glowplug-system exec POD -- glowplug check node"
        return Check("nvme", "unknown", said, hint, evidence)
    without = ", ".join(instances.without_instance_store())
    hint = f"it works, at that disk's speed; of the GPU instance types that glowplug knows, all but {without} have one"
    return Check("nvme", "warn", said, hint, evidence)


def _made_of(below: Backing) -> str:
    models = [disk.model or f"{disk.name}, a disk without a model" for disk in below.disks]
    counted = " and ".join(
        f"{models.count(one)} × {one}" if models.count(one) > 1 else one for one in dict.fromkeys(models)
    )
    return f"{below.device} ({below.level}: {counted})" if below.level else f"{below.device} ({counted})"


def _file_system(seen: Seen) -> Iterator[Check]:
    mount = seen.backing.mount
    if mount is None or mount.kind == "overlay":
        return
    evidence = {"kind": mount.kind, "read_only": mount.read_only}
    if mount.read_only:
        yield Check(
            "file-system", "fail", f"{mount.point} is mounted read-only", "mount it writable for the agent", evidence
        )
    elif mount.network:
        said = f"{mount.point} is {mount.kind}, shared with other machines: files tear there"
        yield Check("file-system", "fail", said, "give the agent a disk of the node", evidence)
    elif mount.memory:
        said = f"{mount.point} is {mount.kind}: what is kept there takes the node's memory"
        yield Check("file-system", "warn", said, "give the agent a disk of the node", evidence)
    else:
        how = (
            "copies share blocks where the file system was made with reflinks"
            if mount.kind in _REFLINKS
            else "copies are bytes"
        )
        yield Check("file-system", "pass", f"{mount.point} is {mount.kind}: {how}", "", evidence)


def _space(seen: Seen) -> Iterator[Check]:
    room = seen.space
    if room is None:
        yield Check("space", "unknown", f"how much may be written to {seen.root} cannot be seen")
        return
    said = f"{units.format_size(room.bytes)} of {units.format_size(room.total_bytes)} are free"
    evidence: dict[str, Any] = {"free_bytes": room.bytes, "total_bytes": room.total_bytes}
    hint = "a larger instance store, or fewer keys: `glowplug agent --max-bytes`"
    if room.bytes < _LEAST_BYTES:
        yield Check("space", "fail", f"{said}: no bundle fits", hint, evidence)
    elif room.bytes < _FEW_BYTES or room.bytes < _FEW_SHARE * room.total_bytes:
        yield Check("space", "warn", f"{said}: kubelet removes images, and soon pods", hint, evidence)
    else:
        yield Check("space", "pass", said, "", evidence)
    if room.inodes is None or not room.total_inodes:
        yield Check("inodes", "pass", "the file system does not count inodes", "", {"free": None})
        return
    evidence = {"free": room.inodes, "total": room.total_inodes}
    said = f"{room.inodes:,} of {room.total_inodes:,} inodes are free"
    few = room.inodes < _FEW_INODES * room.total_inodes
    yield Check(
        "inodes", "warn" if few else "pass", said, "remove small files: kubelet evicts pods" if few else "", evidence
    )


def _gpu(seen: Seen) -> Check:
    kinds = list(dict.fromkeys(seen.cards))
    evidence: dict[str, Any] = {"gpus": list(seen.cards), "devices": seen.devices, "processor": seen.processor}
    if len(kinds) > 1:
        said = f"GPUs of several kinds: {', '.join(kinds)}; a start that sees more than one has no key"
        return Check("gpu", "warn", said, "give each pod GPUs of one kind (MIG parts of one size)", evidence)
    if kinds:
        return Check("gpu", "pass", f"{len(seen.cards)} × {kinds[0]}", "", evidence)
    if seen.devices:
        said = f"{seen.devices} GPUs of NVIDIA are on the bus, and none has a name"
        return Check("gpu", "fail", said, "see `driver`", evidence)
    if seen.devices is None:
        return Check("gpu", "unknown", "no GPU is seen from here, and the bus is not either", "", evidence)
    return Check("gpu", "pass", f"no GPU of NVIDIA; starts compile for the processor, {seen.processor}", "", evidence)


def _driver(seen: Seen) -> Check:
    evidence = {"version": seen.driver or None}
    if seen.driver:
        return Check("driver", "pass", f"NVIDIA's driver {seen.driver}", "", evidence)
    if seen.devices or seen.cards:
        hint = (
            "use an accelerated image (AL2023 NVIDIA, Bottlerocket nvidia), or install the driver by the GPU operator"
        )
        return Check("driver", "fail", "NVIDIA's driver is not loaded", hint, evidence)
    if seen.devices is None:
        return Check("driver", "unknown", "no driver of NVIDIA's is seen from here", "", evidence)
    return Check("driver", "pass", "no driver is needed", "", evidence)


def _store(seen: Seen) -> Iterator[Check]:
    if seen.domains is None:
        hint = "glowplug render agent | kubectl apply -f -"
        said = f"{seen.root} holds no node store" if seen.exists else f"{seen.root} does not exist"
        yield Check("store", "unknown", f"{said}: no agent has worked there yet", hint)
        return
    for one in seen.domains:
        yield _kept(one, seen) if one.kept else _unkept(one, seen)


def _kept(one: Domain, seen: Seen) -> Check:
    name = f"store:{one.name}"
    evidence = _evidence(one)
    fault = seen.standing.faults.get(one.name) if seen.standing else None
    failed = f"{fault.code}: {fault.error} (last at {fault.at}, since {fault.since})" if fault else ""
    if fault:
        evidence["fault"] = {"code": fault.code, "error": fault.error, "since": fault.since, "at": fault.at}
    if one.ready and not fault:
        return Check(name, "pass", f"domain {one.name!r} is ready, with {len(one.keys)} keys", "", evidence)
    if one.ready:
        said = f"domain {one.name!r} has {len(one.keys)} keys, and the agent gets no more: {failed}"
    elif fault:
        said = f"domain {one.name!r} is not ready: {failed}"
    else:
        said = f"domain {one.name!r} is not ready: its pods wait for the agent, {layout.WAIT_SECONDS} s at most"
    return Check(name, "warn", said, _of_this_node(seen), evidence)


def _unkept(one: Domain, seen: Seen) -> Check:
    """The directory alone says nothing: kubelet makes it for a pod, and another agent may have left it."""
    name, evidence = f"store:{one.name}", {**_evidence(one), "kept": False}
    if seen.standing is None:
        said = f"no agent keeps domain {one.name!r}: its pods wait {layout.WAIT_SECONDS} s in vain, and start cold"
        return Check(name, "warn", said, _of_this_node(seen), evidence)
    pod = seen.standing.strangers.get(one.name)
    if pod is None:
        said = (
            f"no agent keeps domain {one.name!r}, and no pod of it is here: what is left of it is removed after a while"
        )
        return Check(name, "pass", said, "", evidence)
    evidence["pod"] = pod
    said = f"no agent keeps domain {one.name!r}, and pod {pod} is of it: it waits {layout.WAIT_SECONDS} s in vain, and starts cold"
    hint = f"give the agent --domain={one.name}, or look at the label glowplug.dev/domain of the pod's namespace"
    return Check(name, "warn", said, hint, evidence)


def _evidence(one: Domain) -> dict[str, Any]:
    return {"domain": one.name, "ready": one.ready, "keys": len(one.keys), "key_digests": list(one.keys)}


def _of_this_node(seen: Seen) -> str:
    where = f"--field-selector spec.nodeName={seen.node or 'NODE'}"
    return f"its log says more; it is the agent of: kubectl -n glowplug-system get pods -l app=glowplug-agent {where}"
