"""What a person still has to know or do beside the manifest, in sentences for stderr.

Also the one place that says which parts of what the manifests describe this version does not contain; it goes when they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.plan.loaders import UNKNOWN
from glowplug.render.options import Mode, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODEL_KINDS: Final = ("deployment", "bake", "all")
_STREAMED: Final = ("s3://", "gs://", "az://")

NOT_YET: Final = {
    "direct": (
        "this version contains neither the client that these pods look for nor an image of glowplug that holds it: as they are, "
        "the pods wait for the image of their init container. `--mode shared` needs nothing of glowplug in the pod"
    ),
    "node": "this version does not contain the client that these pods look for: they start as if glowplug were not there",
    "bake": (
        "this version does not contain the client that the bake job needs, nor its image; `glowplug run --exit-when-ready` bakes "
        "on any machine"
    ),
    "agent": "this version does not contain the program `glowplug agent`, nor its image: the manifests are what it will run with",
    "taint": (
        "until `glowplug agent` is there, leave the startup taint out of the node pool (or give --mode node): nothing else "
        "removes it, and the nodes take no pod"
    ),
}
"""Parts that the manifests describe and that are not there yet."""


def notes(kind: str, options: Options) -> tuple[str, ...]:
    """For one rendering, the most important first."""
    return tuple(dict.fromkeys([*_missing_parts(kind, options), *_left_out(kind, options), *_findings(kind, options)]))


def _missing_parts(kind: str, options: Options) -> Iterator[str]:
    if kind in ("deployment", "all") and options.mode is not Mode.SHARED:
        yield NOT_YET[options.mode.value]
    if kind == "bake" or (kind == "all" and options.mode is not Mode.SHARED):
        yield NOT_YET["bake"]
    if kind == "agent" or (kind == "all" and options.mode is not Mode.DIRECT):
        yield NOT_YET["agent"]
    if kind in ("agent", "nodepool", "all") and options.mode is Mode.SHARED:
        yield NOT_YET["taint"]


def _left_out(kind: str, options: Options) -> Iterator[str]:
    uses_image = kind in ("bake", "agent", "all") or (kind == "deployment" and options.mode is Mode.DIRECT)
    if uses_image and not options.glowplug_image:
        yield "no image of glowplug is published: build and push one, and name it with --glowplug-image"
    if kind == "agent" or (kind == "all" and options.mode is not Mode.DIRECT):
        if options.store is None:
            yield "no --store: the agent has nothing to fetch from and nowhere to publish"
    elif kind in _MODEL_KINDS and options.store is None and options.mode is not Mode.NODE and uses_image:
        yield "no --store: nothing is restored or published until GLOWPLUG_STORE is set"
    if options.store is not None and options.store.startswith("file:") and uses_image:
        yield f"{options.store}: no volume is rendered for a store that is a directory"
    if kind in _MODEL_KINDS:
        yield from _of_model(kind, options)


def _of_model(kind: str, options: Options) -> Iterator[str]:
    model = options.model or ""
    if options.plan is not None and options.plan.engine_version == UNKNOWN and options.image is None:
        yield f"no release of {options.engine} is known here: give --engine-version V, or --image"
    if not model.startswith(_STREAMED):
        yield f"{model}: no volume is rendered for it; the image has to hold it, or the engine to find it by that name"
        return
    if options.account is None and kind != "bake":
        yield "no --service-account: the pods read the model with the rights of their namespace's default account"
    if model.startswith("s3://") and options.region is None and options.profile != "guide":
        yield "no --region: AWS_REGION is left out; EKS Pod Identity and IRSA set it, else the streamer asks us-east-1"


def _findings(kind: str, options: Options) -> Iterator[str]:
    if kind not in _MODEL_KINDS or options.plan is None:
        return
    for one in options.plan.findings:
        if one.severity == "info" or (one.rule == "region-missing"):
            continue
        yield f"{one.rule}: {one.message}" + (f" ({one.hint})" if one.hint else "")
