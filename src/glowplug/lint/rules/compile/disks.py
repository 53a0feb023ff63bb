"""Where the nodes of a pod have their instance store, as far as the input or `--compute` says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.tables import table
from glowplug.lint.rules.compile.keeping import below, normal
from glowplug.manifests import recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.lint.view import Node, Object, Workload
    from glowplug.manifests.values import Value

AL2023: Final = recipe.nvme_mount("karpenter", "al2023")
BOTTLEROCKET: Final = recipe.nvme_mount("karpenter", "bottlerocket")
MOUNTED: Final = {AL2023: "Amazon Linux", BOTTLEROCKET: "Bottlerocket"}
_PACKAGE: Final = "glowplug.lint.rules.compile"
_FAMILIES: Final = {"al2023": AL2023, "al2": AL2023, "bottlerocket": BOTTLEROCKET}
# A node's own user data may mount disks wherever it likes.
_DISK_COMMANDS: Final = ("localstorage", "ephemeral-storage", "setup-local-disks", "mdadm", "mkfs", "mount ")


@dataclass(frozen=True)
class Disks:
    """`roots` are the mount points that the instance store can have there; `only` says that nothing else can be one; `who` names
    the nodes in a sentence."""

    roots: frozenset[str]
    only: bool
    who: str


def disks(workload: Workload) -> Disks:
    """For the nodes that a pod may land on."""
    known = [_of_node(node) for node in workload.nodes]
    if known:
        roots = frozenset(root for one in known for root in one.roots)
        names = " and ".join(f"`{node.pool.name}`" for node in workload.nodes[:2])
        return Disks(roots, all(one.only for one in known), f"nodes of {names}")
    if workload.compute == "auto-mode":
        return Disks(frozenset({BOTTLEROCKET}), only=True, who="nodes of EKS Auto Mode")
    if workload.compute == "karpenter":
        return Disks(frozenset(MOUNTED), only=False, who="nodes of Karpenter")
    return Disks(frozenset(MOUNTED), only=False, who="these nodes")


def _of_node(node: Node) -> Disks:
    if node.auto_mode:
        return Disks(frozenset({BOTTLEROCKET}), only=True, who="")
    if node.node_class is None:
        return Disks(frozenset(MOUNTED), only=False, who="")
    family = ami_family(node.node_class)
    root = _FAMILIES.get(family)
    if root is None:
        return Disks(frozenset(MOUNTED), only=False, who="")
    return Disks(frozenset({root}), only=not sets_up_disks(node.node_class), who="")


def ami_family(node_class: Object) -> str:
    """al2023, bottlerocket, custom …, "" where the class does not say it: from an alias, else from `amiFamily`."""
    spec = node_class.value.get("spec")
    if spec is None:
        return ""
    terms = spec.get("amiSelectorTerms")
    for term in terms.elements() if terms is not None else ():
        alias = term.get("alias")
        if alias is not None and "@" in alias.text:
            return alias.text.partition("@")[0].lower()
    family = spec.get("amiFamily")
    return family.text.lower() if family is not None else ""


def sets_up_disks(node_class: Object) -> bool:
    """Whether the nodes' own user data may set up disks."""
    data = node_class.value.get("spec", "userData")
    text = data.text.lower() if data is not None else ""
    return any(word in text for word in _DISK_COMMANDS)


def owner_of(path: str) -> str:
    """Who keeps its files in that directory of a node already, "" where nobody is known to."""
    wanted = normal(path)
    for row in _reserved():
        root, name = row["root"], row["name"]
        if name.endswith("*"):
            inside = wanted.removeprefix(f"{root}/").partition("/")[0]
            if below(wanted, root) and wanted != root and inside.startswith(name[:-1]):
                return row["owner"]
        elif below(wanted, f"{root}/{name}"):
            return row["owner"]
    return ""


def _reserved() -> tuple[Mapping[str, str], ...]:
    return table(_PACKAGE, "places")


def host_path(volume: Value | None) -> Value | None:
    """The value that says the directory of a hostPath volume."""
    return None if volume is None else volume.get("hostPath", "path")


def root_of(path: str) -> str:
    """The instance store's mount point that a path lies in, "" for none."""
    return next((root for root in MOUNTED if below(path, root)), "")


def without_instance_store(workload: Workload) -> Iterator[str]:
    """The types of machine that the pod may run on, where all of them are known and none has an instance store."""
    found = [one.instance for one in workload.machines]
    if found and all(one is not None and one.nvme_bytes == 0 for one in found):
        yield from dict.fromkeys(one.name for one in found if one is not None)
