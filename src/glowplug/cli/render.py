"""`glowplug render KIND [MODEL]`: options into one checked value, manifests on stdout, everything for people on stderr."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import click

from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.cli.plan import Asked, planned, planning_options
from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.render.options import Options

KINDS: Final = ("deployment", "bake", "agent", "nodepool", "network", "iam", "all")
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NEED_MODEL: Final = ("deployment", "bake", "all")
_PLANNED: Final = (*_NEED_MODEL, "nodepool")


@click.command(
    "render",
    epilog=epilog(
        "Text and YAML are the same: manifests with the reason of each tuned value as a comment; JSON is one object, or a List. "
        "Exit status: 0 rendered; 1 the model does not fit (then nothing is printed); 2 wrong usage.",
        "glowplug render deployment s3://bucket/model --instance p5.48xlarge --store s3://bucket/cache",
        "glowplug render deployment s3://bucket/model --size 67GB --instance p5.48xlarge --profile guide --mode shared",
        "glowplug render all s3://bucket/model --instance p5.48xlarge --mode node --store s3://bucket/cache | kubectl apply -f -",
        "glowplug render iam s3://bucket/model --store s3://bucket/cache --service-account vllm > iam.yaml",
    ),
)
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("model", required=False, metavar="[MODEL]")
@planning_options
@click.option(
    "--compute",
    type=click.Choice(["karpenter", "auto-mode", "nodegroup"]),
    default="karpenter",
    show_default=True,
    help="What makes the nodes.",
)
@click.option(
    "--mode",
    type=click.Choice(["direct", "node", "shared"]),
    help="How artifacts reach the pods.  [default: direct; node for KIND agent]",
)
@click.option("--name", help="Name of the workload.  [default: ENGINE-inference]")
@click.option("-n", "--namespace", default="default", show_default=True, help="Its namespace.")
@click.option("--nodepool", metavar="NAME", help="The NodePool (or node group) that it runs on.")
@click.option(
    "--service-account", metavar="NAME", help="Service account of the pods, with a role that may read the model."
)
@click.option(
    "--image", metavar="IMAGE", help="The engine's image.  [default: the engine's own, pinned to its version]"
)
@click.option("--glowplug-image", metavar="IMAGE", help="glowplug's own image; none is published.")
@click.option("--store", metavar="URL", help="Where bundles live: s3://, gs://, az:// or file://.")
@click.option("--domain", help="Trust domain.  [default: the namespace]")
@click.option("--replicas", type=click.IntRange(min=0), default=1, show_default=True, metavar="N", help="Pods.")
@click.option("--region", help="AWS region of model and store.  [default: AWS_REGION]")
@click.option(
    "--publish-from", multiple=True, metavar="NS[/ACCOUNT]", help="Whose artifacts the agent publishes; repeatable."
)
@click.option("--role-arn", metavar="ARN", help="IAM role that the agent's service account takes (IRSA).")
@click.option(
    "--ami",
    type=click.Choice(["al2023", "bottlerocket"]),
    default="al2023",
    show_default=True,
    help="Image of the nodes.",
)
@click.option("--cluster", metavar="NAME", help="Name of the EKS cluster.")
@click.option("--node-role", metavar="NAME", help="Name of the IAM role of the nodes.")
@click.option("--vpc", metavar="ID", help="VPC of the S3 endpoint.")
@click.option("--route-table", multiple=True, metavar="ID", help="Route table of the nodes' subnets; repeatable.")
@click.option("--kms-key", metavar="ARN", help="Key that encrypts model and store.")
@click.option("--oidc-provider", metavar="ISSUER", help="Roles for IRSA instead of EKS Pod Identity.")
@output_option
def command(kind: str, model: str | None, asked: Asked, output: Output, **named: Any) -> None:
    """Print manifests that are ready to apply: a Deployment tuned for its model, the job that bakes its cache, the agent, node
    pools; the network and the roles around them as CloudFormation.
    """
    from glowplug.render import kinds

    options = _options(kind, model, asked, named)
    made = kinds.render(kind, options)
    shown = Output("text") if output.form == "yaml" else output
    shown.document(made.value, made.text.rstrip)
    for note in made.notes:
        output.note(note)


def _options(kind: str, model: str | None, asked: Asked, named: dict[str, Any]) -> Options:
    """All names are checked before the model is read, which may take seconds."""
    from dataclasses import replace

    from glowplug.render.kinds import default_mode
    from glowplug.render.options import Compute, Mode, Options

    if kind in _NEED_MODEL and model is None:
        raise UsageError(f"render {kind} needs a model", hint=f"glowplug render {kind} s3://bucket/model")
    if kind == "agent" and model is not None:
        raise UsageError(f"render agent takes no model: {model!r} is one word too many")
    region = named.pop("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
    mode = named.pop("mode")
    options = Options(
        name=named.pop("name") or f"{asked.engine}-inference",
        model=None if model is None else _address(kind, model),
        engine=asked.engine,
        profile=asked.profile,
        instance=_instance(asked.instance),
        gpu=_gpu(asked.gpu),
        gpu_count=asked.gpu_count or 1,
        mode=Mode(mode) if mode else default_mode(kind),
        compute=Compute(named.pop("compute")),
        region=region,
        glowplug_image=named.pop("glowplug_image") or "",
        publish_from=tuple(named.pop("publish_from")),
        route_tables=tuple(named.pop("route_table")),
        **named,
    )
    if options.model is None or kind not in _PLANNED:
        return options
    environ = {**os.environ, "AWS_REGION": region} if region else os.environ
    plan = planned(options.model, asked, environ)
    return replace(options, plan=plan, instance=options.instance or _instance(plan.placement.instance))


def _instance(name: str | None) -> Instance | None:
    if name is None:
        return None
    from glowplug.catalog.instances import instance

    return instance(name)


def _gpu(name: str | None) -> Gpu | None:
    if name is None:
        return None
    from glowplug.catalog.gpus import gpu

    return gpu(name)


def _address(kind: str, model: str) -> str:
    """MODEL as the engine is told it: an address without its trailing slash, anything else as it was typed."""
    from glowplug.models import address

    if address.is_size(model):
        if kind in _NEED_MODEL:
            raise UsageError(
                f"{model} is a size: the pods need the model's address",
                hint=f"glowplug render {kind} s3://bucket/model --size {model}",
            )
        return model
    return address.parse(model, os.environ).source if _WITH_SCHEME.match(model) else model
