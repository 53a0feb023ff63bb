"""What a person still has to know or do beside the manifest: notes, and the warnings that must not be missed.

A warning is for what does not work as rendered. It is printed last on stderr and stands in the first comment of the YAML too, since
stderr is lost where output goes into a pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.manifests.marks import DOMAIN_LABEL
from glowplug.plan.loaders import PUBLISHED
from glowplug.render import accepted, budget, copying
from glowplug.render.options import Compute, Mode, Options
from glowplug.render.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODEL_KINDS: Final = ("deployment", "bake", "all")
_STREAMED: Final = ("s3://", "gs://", "az://")

IMAGE: Final = "an image of glowplug, and none is published (--glowplug-image names one that you built)"
UNBUILT: Final = {
    "deployment": f"these pods do not start: they wait for {IMAGE}. `--mode shared` needs nothing of glowplug in the pod",
    "bake": f"the bake job waits for {IMAGE}; `glowplug run --exit-when-ready` bakes on any machine",
    "agent": f"the agent's pods do not start: they wait for {IMAGE}",
}
"""What waits for an image that nobody has named."""


def notes(kind: str, options: Options) -> tuple[str, ...]:
    """For one rendering, the most important first."""
    return tuple(dict.fromkeys([*_left_out(kind, options), *_findings(kind, options)]))


def warnings(kind: str, options: Options) -> tuple[str, ...]:
    """What does not work as it is rendered, the most important last."""
    found = (_unkept, _endpoint, _too_large, _unstored, _unbuilt)
    return tuple(dict.fromkeys(warning for each in found for warning in each(kind, options)))


def _unbuilt(kind: str, options: Options) -> Iterator[str]:
    if options.glowplug_image:
        return
    if kind in ("bake", "all"):
        yield UNBUILT["bake"]
    if kind == "agent" or (kind == "all" and options.mode is not Mode.DIRECT):
        yield UNBUILT["agent"]
    if kind in ("deployment", "all") and options.mode is Mode.DIRECT:
        yield UNBUILT["deployment"]


def _unkept(kind: str, options: Options) -> Iterator[str]:
    """Mostly a name that is misspelt once; all else looks well then. A domain that was named has its own note, about labels."""
    if options.domain is not None or options.mode is not Mode.NODE or kind not in ("agent", "all"):
        return
    kept = options.namespace
    for namespace in dict.fromkeys(entry.partition("/")[0] for entry in options.publish_from):
        if namespace != kept:
            yield (
                f"--publish-from names {namespace}, and this agent keeps the domain {kept} alone (-n, --domain): the pods of "
                f"{namespace} are of the domain {namespace}, for which it neither fetches nor publishes, unless that namespace has "
                f"the label {DOMAIN_LABEL}={kept}"
            )


def _unstored(kind: str, options: Options) -> Iterator[str]:
    if kind in ("bake", "all") and options.store is None:
        yield "the bake job compiles for nothing: no --store says where it publishes"


def _endpoint(kind: str, options: Options) -> Iterator[str]:
    asked = options.model if kind in _MODEL_KINDS else options.store if kind == "agent" else None
    if not (asked or "").startswith("s3://"):
        return
    if options.unreachable is not None:
        yield (
            f"{options.unreachable}, from your environment, is an address of this machine that no pod can reach: it is left out, "
            "and the pods would ask S3 of AWS; set AWS_ENDPOINT_URL to the address that the server has in the cluster"
        )
    elif (
        kind in _MODEL_KINDS
        and options.endpoint is not None
        and options.profile == "guide"
        and not copying.needed(options)
    ):
        yield f"profile guide knows no server but S3 of AWS: {options.endpoint}, from your environment, is left out"


def _too_large(kind: str, options: Options) -> Iterator[str]:
    """The guide's requests are its own; on a small machine they are never met."""
    machine = options.instance
    if kind not in _MODEL_KINDS or options.profile != "guide" or machine is None:
        return
    found = budget.guide_shortage(machine)
    if found:
        yield (
            f"the pods stay Pending: the guide's requests are {found}; --profile auto asks for what {machine.name} has"
        )


def of_store(kind: str, options: Options) -> Iterator[str]:
    """What follows from the store that was named, or from none."""
    uses_image = kind in ("bake", "agent", "all") or (kind == "deployment" and options.mode is Mode.DIRECT)
    if kind == "agent" or (kind == "all" and options.mode is not Mode.DIRECT):
        if options.store is None:
            yield "no --store: the agent has nothing to fetch from and nowhere to publish"
    elif kind == "deployment" and options.store is None and options.mode is not Mode.NODE and uses_image:
        yield "no --store: nothing is restored or published until GLOWPLUG_STORE is set"
    if options.store is not None and options.store.startswith("file:") and uses_image:
        yield f"{options.store}: no volume is rendered for a store that is a directory"


def _left_out(kind: str, options: Options) -> Iterator[str]:
    yield from of_store(kind, options)
    yield from _of_agent(kind, options)
    yield from _of_domain(kind, options)
    if kind in _MODEL_KINDS:
        yield from _of_profile(options)
        yield from _of_model(kind, options)
        yield from _of_disk(options)


def _of_agent(kind: str, options: Options) -> Iterator[str]:
    """What one part of a mode is without the others."""
    if kind == "deployment" and options.mode is Mode.NODE:
        yield "on a node without the agent (`glowplug render agent`) the pods start as if glowplug were not there"
    if kind == "nodepool" and options.mode is Mode.SHARED:
        yield (
            f"only the agent removes {options.startup_taint} (`glowplug render agent --mode shared`, to be applied first): without "
            "it no pod starts on these nodes"
        )
    if kind in ("agent", "all") and options.mode is Mode.SHARED:
        yield (
            "what pods write into the directory that they share is not published, since nobody knows whose it is: the bake job "
            "(`glowplug render bake`), or agents of node mode, publish what this agent puts there"
        )


def _of_domain(kind: str, options: Options) -> Iterator[str]:
    """In node mode a namespace's own label says its domain, to the agent and to the policy of host paths; nothing here sets it."""
    domain = options.domain
    if domain is None or options.mode is not Mode.NODE or kind not in ("deployment", "agent", "all"):
        return
    served = [entry.partition("/")[0] for entry in options.publish_from] if kind != "deployment" else []
    own = [] if kind == "agent" and served else [options.namespace]
    for namespace in dict.fromkeys([*own, *served]):
        if namespace != domain:
            yield label_of(namespace, domain)


def label_of(namespace: str, domain: str) -> str:
    """How a namespace comes to be of a domain that is not its name, and what it is without that."""
    return (
        f"`kubectl label namespace {namespace} {DOMAIN_LABEL}={domain}`, unless it has that label: without it the pods "
        f"there are of the domain {namespace}, may not mount the store of {domain}, and publish nothing into it"
    )


def _of_profile(options: Options) -> Iterator[str]:
    if options.profile != "guide":
        return
    if options.mode is not Mode.SHARED:
        yield "the AWS guide's own Deployment is `--profile guide --mode shared`"
    if options.nodepool is None:
        yield "no --nodepool: the guide selects no machine, so that the pods may land on any GPU node of the cluster"


def _of_model(kind: str, options: Options) -> Iterator[str]:
    model = options.model or ""
    plan = options.plan
    if plan is not None and plan.engine_version == PUBLISHED.get(plan.engine) and options.image is None:
        image = serving(plan.engine).image_of(plan.engine_version)
        yield (
            f"no list of {plan.engine}'s releases is here: the image is {image}, which is known to be published; "
            "--engine-version V or --image names another"
        )
    if not model.startswith(_STREAMED):
        yield f"{model}: no volume is rendered for it; the image has to hold it, or the engine to find it by that name"
        unpinned = accepted.reasons(options).get("model-unpinned")
        if unpinned:
            yield f"model-unpinned: {unpinned} (add --revision=COMMIT to the arguments)"
        return
    yield from copying.notes(options)
    if options.account is None and kind != "bake":
        yield "no --service-account: the pods read the model with the rights of their namespace's default account"
    if model.startswith("s3://") and options.region is None and options.profile != "guide":
        yield "no --region: AWS_REGION is left out; EKS Pod Identity and IRSA set it, else the streamer asks us-east-1"


def _of_disk(options: Options) -> Iterator[str]:
    one = options.instance
    if one is not None and not one.nvme_bytes and options.mode is not Mode.DIRECT:
        yield f"{one.name} has no NVMe instance store: what is cached on the node lies on its EBS root volume"
    if copying.needed(options) and options.compute is Compute.AUTO_MODE:
        yield (
            "whether EKS Auto Mode plans ephemeral-storage by the instance store or by the NodeClass's ephemeralStorage.size is "
            "not documented: where the pod stays Pending, raise that size, but keep it below the capacity of the NVMe"
        )


def _findings(kind: str, options: Options) -> Iterator[str]:
    if kind not in _MODEL_KINDS or options.plan is None:
        return
    for one in options.plan.findings:
        if one.severity == "info" or one.rule == "region-missing":
            continue
        if one.rule == "streamer-missing" and copying.needed(options):
            continue
        yield f"{one.rule}: {one.message}" + (f" ({one.hint})" if one.hint else "")
