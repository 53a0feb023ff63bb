"""What a volume for compiled artifacts is made of: whether it lies on a network, and whether the engine can write it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from glowplug.core.tables import table
from glowplug.lint.rules.compile.keeping import runs_as_root

if TYPE_CHECKING:
    from glowplug.lint.view import Mount, Workload
    from glowplug.manifests.values import Value

_ROWS: Final = table("glowplug.lint.rules.compile", "filesystems")
_KINDS: Final = {row["name"]: row["filesystem"] for row in _ROWS if row["how"] == "kind"}
_DRIVERS: Final = {row["name"]: row["filesystem"] for row in _ROWS if row["how"] == "driver"}
_CLASSES: Final = tuple(
    (re.compile(rf"(?:^|[-_.]){row['name']}"), row["filesystem"]) for row in _ROWS if row["how"] == "class"
)
_MANY: Final = ("ReadWriteMany", "ReadOnlyMany")
_READ_ONLY: Final = {
    "configMap": "a ConfigMap",
    "secret": "a Secret",
    "projected": "a projected volume",
    "downwardAPI": "a projection of the pod",
    "image": "an image",
}


def is_fit(workload: Workload, mount: Mount) -> bool:
    """Whether a volume is one to put more into: no network file system, and not one for reading only. Those are findings of their
    own, and cured by another volume."""
    return network(workload, mount) is None and not mount.read_only and read_only(workload, mount) is None


def is_surely_writable(workload: Workload, mount: Mount) -> bool:
    """Whether whoever the engine runs as may write there. kubelet makes directories of nodes and new claims as root; an emptyDir
    is everybody's, and `fsGroup` gives a claim to the pod."""
    if mount.kind == "emptyDir" or runs_as_root(workload):
        return True
    return mount.kind != "hostPath" and workload.spec.get("securityContext", "fsGroup") is not None


def network(workload: Workload, mount: Mount) -> tuple[Value, str] | None:
    """What says that a volume is a network file system, and its name; None where nothing does."""
    volume = mount.volume
    if volume is None:
        return None
    for kind, filesystem in _KINDS.items():
        there = volume.get(kind)
        if there is not None:
            return volume.key(kind) or there, filesystem
    driver = volume.get("csi", "driver")
    if driver is not None:
        return (driver, _DRIVERS[driver.text]) if driver.text in _DRIVERS else None
    name = volume.get("persistentVolumeClaim", "claimName")
    everything = workload.everything
    if name is not None and everything is not None:
        claim = everything.named("PersistentVolumeClaim", name.text, workload.object.namespace)
        filesystem = _of_claim(workload, claim.value.get("spec")) if claim is not None else ""
        return (name, filesystem) if filesystem else None
    template = volume.get("spec") or volume.get("ephemeral", "volumeClaimTemplate", "spec")
    filesystem = _of_claim(workload, template)
    return (volume.get("metadata", "name") or volume.get("name") or volume, filesystem) if filesystem else None


def _of_claim(workload: Workload, spec: Value | None) -> str:
    """The network file system that a claim gets, "" for none or an unknown one."""
    if spec is None:
        return ""
    block = spec.get("volumeMode")
    if block is not None and block.text == "Block":
        return ""
    stored = spec.get("storageClassName")
    if stored is not None and workload.everything is not None:
        known = workload.everything.named("StorageClass", stored.text)
        provisioner = known.value.get("provisioner") if known is not None else None
        if provisioner is not None:
            return _DRIVERS.get(provisioner.text, "")
    named = stored.text.lower() if stored is not None else ""
    filesystem = next((filesystem for pattern, filesystem in _CLASSES if pattern.search(named)), "")
    modes = spec.get("accessModes")
    many = modes is not None and any(mode.text in _MANY for mode in modes.elements())
    return filesystem or ("a file system that many nodes mount" if many else "")


def read_only(workload: Workload, mount: Mount) -> tuple[Value, str] | None:
    """What makes a volume one for reading only, and in words; None where nothing does."""
    volume = mount.volume
    if volume is None:
        return None
    for kind, what in _READ_ONLY.items():
        if mount.kind == kind:
            return volume.key(kind) or volume, what
    inner = volume.get(mount.kind) if mount.kind else None
    flag = inner.get("readOnly") if inner is not None else None
    if flag is not None and flag.data is True:
        return flag, "a read-only volume"
    name = volume.get("persistentVolumeClaim", "claimName")
    if name is None or workload.everything is None:
        return None
    claim = workload.everything.named("PersistentVolumeClaim", name.text, workload.object.namespace)
    modes = claim.value.get("spec", "accessModes") if claim is not None else None
    texts = [mode.text for mode in modes.elements()] if modes is not None else []
    return (name, "a claim for reading only") if texts and set(texts) == {"ReadOnlyMany"} else None
