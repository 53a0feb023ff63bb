"""`glowplug render KIND [MODEL]`: options into one checked value, manifests on stdout, everything for people on stderr."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.cli.plan import Asked, named_machine, planned, planning_options
from glowplug.cli.values import Whole
from glowplug.cli.warming import ami_option, compute_option, domain_option, image_option, store_option
from glowplug.core.errors import UsageError

if TYPE_CHECKING:
    from glowplug.catalog.gpus import Gpu
    from glowplug.catalog.instances import Instance
    from glowplug.render.options import Options
    from glowplug.render.surroundings import Surroundings

KINDS: Final = ("deployment", "bake", "agent", "nodepool", "network", "iam", "all")
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_NEED_MODEL: Final = ("deployment", "bake", "all")
_PLANNED: Final = (*_NEED_MODEL, "nodepool")


def _each(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """One value for each: words of a variable are split at spaces, and all of them at commas, which none of these names has."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip() or not value.strip())


@click.command(
    "render",
    epilog=epilog(
        "Text and YAML are the same: manifests with the reason of each tuned value as a comment; JSON is one object, or a List. "
        "Exit status: 0 rendered; 1 the model does not fit (then nothing is printed); 2 wrong usage. What does not work as it is "
        "rendered is said last on stderr, and in the first lines of the YAML.",
        "glowplug render agent --store s3://bucket/cache --glowplug-image registry.example/glowplug:1 > agent.yaml",
        "glowplug render deployment s3://bucket/model --instance p5.48xlarge --mode node --service-account vllm > pods.yaml",
        "glowplug render deployment s3://bucket/model --size 67GB --instance p5.48xlarge --profile guide --mode shared",
        "glowplug render nodepool --instance p5.48xlarge --cluster prod > nodes.yaml",
        "glowplug render iam s3://bucket/model --mode shared --cluster prod --service-account vllm > iam.yaml",
        "glowplug render network s3://bucket/model --vpc vpc-0123456789abcdef0 --route-table rtb-0123456789abcdef0 > network.yaml",
    ),
)
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("model", required=False, metavar="[MODEL]")
@planning_options
@compute_option
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
@image_option
@store_option
@domain_option
@click.option("--replicas", type=Whole(0), default=1, show_default=True, metavar="N", help="Pods.")
@click.option("--region", help="AWS region of model and store.  [default: AWS_REGION]")
@click.option(
    "--publish-from",
    multiple=True,
    metavar="NS[/ACCOUNT]",
    callback=_each,
    help="Whose artifacts the agent publishes; repeatable, or a,b.",
)
@click.option("--role-arn", metavar="ARN", help="IAM role that the agent's service account takes (IRSA).")
@ami_option
@click.option("--cluster", metavar="NAME", help="Name of the EKS cluster.")
@click.option("--node-role", metavar="NAME", help="Name of the IAM role of the nodes.")
@click.option("--vpc", metavar="ID", help="VPC of the S3 endpoint.")
@click.option(
    "--route-table",
    multiple=True,
    metavar="ID",
    callback=_each,
    help="Route table of the nodes' subnets; repeatable, or a,b.",
)
@click.option("--kms-key", metavar="ARN", help="Key that encrypts model and store.")
@click.option("--oidc-provider", metavar="ISSUER", help="Roles for IRSA instead of EKS Pod Identity.")
@output_option
@click.pass_context
def command(
    context: click.Context, /, kind: str, model: str | None, asked: Asked, output: Output, **named: Any
) -> None:
    """Print manifests that are ready to apply: a Deployment tuned for its model, the job that bakes its cache, the agent, node
    pools; the network and the roles around them as CloudFormation.
    """
    from glowplug.render import kinds, surroundings
    from glowplug.store.endpoints import REGIONS

    # A server's address matters where a model is read, and where the store is; nowhere else.
    environ = os.environ if kind in (*_NEED_MODEL, "agent") else {name: os.environ.get(name, "") for name in REGIONS}
    found = surroundings.read(environ, region=named.pop("region"))
    options = _options(kind, model, asked, named, found)
    made = kinds.render(kind, options)
    shown = Output("text") if output.form == "yaml" else output
    shown.document(made.value, made.text.rstrip)
    for note in (*made.notes, *_from_environment(context, found.used_in(made.text))):
        output.note(note)
    for warning in made.warnings:
        output.warning(warning)


def _from_environment(context: click.Context, told: dict[str, str]) -> list[str]:
    """One note that names every value which nobody typed into this call."""
    variables = [
        f"{context.auto_envvar_prefix}_{parameter.name.upper()}"
        for parameter in context.command.params
        if parameter.name and context.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT
    ]
    named = {**told, **{name: os.environ.get(name, "") for name in variables}}
    return [f"from your environment: {', '.join(f'{name}={value}' for name, value in named.items())}"] if named else []


def _options(kind: str, model: str | None, asked: Asked, named: dict[str, Any], found: Surroundings) -> Options:
    """All names are checked before the model is read, which may take seconds."""
    from dataclasses import replace

    from glowplug.models.address import shown
    from glowplug.render.kinds import default_mode
    from glowplug.render.options import Compute, Mode, Options

    if kind in _NEED_MODEL and model is None:
        raise UsageError(f"render {kind} needs a model", hint=f"glowplug render {kind} s3://bucket/model")
    if kind == "agent" and model is not None:
        raise UsageError(
            f"render agent takes no model: {shown(model)!r} is one word too many",
            hint="the agent serves the workloads of a node: glowplug render agent --store s3://bucket/cache",
        )
    named_machine(asked)
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
        region=found.region,
        endpoint=found.endpoint,
        unreachable=found.unreachable,
        unsigned=found.unsigned,
        glowplug_image=named.pop("glowplug_image") or "",
        publish_from=tuple(named.pop("publish_from")),
        route_tables=tuple(named.pop("route_table")),
        **named,
    )
    if options.model is None or kind not in _PLANNED:
        return options
    environ = {**os.environ, "AWS_REGION": found.region} if found.region else os.environ
    plan = found.without_what_pods_cannot_reach(planned(options.model, asked, environ))
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
    told = address.unread(model)
    if kind in _NEED_MODEL and _is_of_this_machine(told):
        raise UsageError(
            f"MODEL: {address.shown(model)!r} is a path relative to this directory, which pods do not have",
            hint="write s3://bucket/prefix, or the absolute path that the model has in the image or on a volume",
        )
    return told


def _is_of_this_machine(model: str) -> bool:
    """Neither an address nor an absolute path, and not ORGANISATION/NAME, which engines look up in the Hugging Face Hub."""
    return not (_WITH_SCHEME.match(model) or model.startswith("/")) and (
        not _HUB_NAME.fullmatch(model) or Path(model).is_dir()
    )
