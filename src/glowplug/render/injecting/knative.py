"""What of an edit Knative refuses unless its cluster switches it on (knative/serving: pkg/apis/config/features.go, where each of
these is Disabled by default, and pkg/apis/serving/fieldmask.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.manifests.writing import plain
from glowplug.render.injecting.pod import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.manifests.recipe import Recipe
    from glowplug.render.injecting.pod import Pod
    from glowplug.render.options import Options

_CONFIG: Final = "the ConfigMap config-features of knative-serving"
_MAYBE: Final = (
    "unless KServe makes these pods itself (deploymentMode Standard, in older versions RawDeployment; the annotation "
    "serving.kserve.io/deploymentMode says so), Knative does, and refuses "
)


def demand(pod: Pod, options: Options, added: Recipe) -> None:
    """Raises RefusedError for what Knative takes by no switch."""
    if pod.knative and _by_expression(added):
        raise RefusedError(
            f"Knative makes its pods, and never takes the subPathExpr of mode {options.mode.value}: use another mode"
        )


def notes(pod: Pod, added: Recipe) -> Iterator[str]:
    """Which switches an edit needs."""
    needed = list(_needed(added))
    if pod.knative is False or not needed:
        return
    flags = " and ".join(f"{flag} ({what})" for flag, what in needed)
    if pod.knative:
        yield f"Knative makes its pods, and refuses them unless {_CONFIG} enables {flags}"
        return
    never = "; subPathExpr it never takes" if _by_expression(added) else ""
    yield f"{_MAYBE}them unless {_CONFIG} enables {flags}{never}"


def _needed(added: Recipe) -> Iterator[tuple[str, str]]:
    if added.init_containers:
        yield "kubernetes.podspec-init-containers", "the init container"
    if any(variable.field_path for variable in added.variables):
        yield "kubernetes.podspec-fieldref", "a variable from a field"
    if any("hostPath" in plain(volume) for volume in added.volumes):
        yield "kubernetes.podspec-volumes-hostpath", "the hostPath"


def _by_expression(added: Recipe) -> bool:
    return any("subPathExpr" in plain(mount) for mount in added.mounts)
