"""`glowplug check network`: how S3 is reached from each subnet, what that costs, and what to do about it."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import click

from glowplug.cli.check import text
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.cli.run import Duration
from glowplug.cli.values import Whole
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError, NotFoundError, UsageError
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.aws.network import Cluster, Subnet
    from glowplug.aws.sessions import Session
    from glowplug.check.local import Here
    from glowplug.check.question import Bucket, Question
    from glowplug.check.results import Check

_PLACE: Final = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([^\x00-\x1f\x7f?#]{0,1024}))?", re.ASCII)


@click.command(
    "network",
    epilog=epilog(
        "Exit status: 0 every subnet reaches S3 free of charge, or it cannot be seen; 1 something fails or warns; 3 AWS does "
        "not let itself be asked. Read-only: docs/howto/check-the-network.md has the IAM policy.",
        "glowplug check network --cluster prod",
        "glowplug check network --cluster prod s3://bucket/model --nodes 8 --size 67GB --instance p5.48xlarge",
        "glowplug check network --subnet subnet-0a1b --subnet subnet-0c2d --region us-west-2 -o json",
        "glowplug check network  # on an instance or in a pod: its own subnet",
    ),
)
@click.argument("model", required=False)
@click.option("--cluster", metavar="NAME", help="An EKS cluster: the subnets that its nodes come to stand in.")
@click.option("--subnet", metavar="ID", multiple=True, help="A subnet; several are allowed.")
@click.option("--vpc", metavar="ID", help="All subnets of a VPC.")
@click.option("--bucket", metavar="NAME", multiple=True, help="A bucket that is to be read; several are allowed.")
@click.option("--store", metavar="URL", help="The store of the compile cache: its bucket is looked at too.")
@click.option(
    "--region", metavar="NAME", help="Where the subnets are.  [default: AWS_REGION, AWS_DEFAULT_REGION, profile]"
)
@click.option("--nodes", type=Whole(1, 100_000), default=1, show_default=True, help="Nodes that load at once.")
@click.option("--size", metavar="SIZE", help="What each node loads: 67GB, 64GiB. Time and cost are told for it.")
@click.option("--instance", metavar="TYPE", help="Instance type of the nodes, for the speed of its network card.")
@click.option("--timeout", type=Duration(), default="30s", show_default=True, help="Give up on AWS after this.")
@output_option
@click.pass_context
def command(
    context: click.Context,
    model: str | None,
    cluster: str | None,
    subnet: tuple[str, ...],
    vpc: str | None,
    bucket: tuple[str, ...],
    store: str | None,
    region: str | None,
    nodes: int,
    size: str | None,
    instance: str | None,
    timeout: float,
    output: Output,
) -> None:
    """Say how S3 is reached from each subnet: gateway endpoint, NAT, interface endpoint or internet, and at what price.

    MODEL is s3://bucket/prefix (may the endpoint's policy pass it? is it in this region?) or a bare size. Without --cluster,
    --subnet or --vpc it is this machine's own subnet, and what the machine can tell without any rights.
    """
    from glowplug.check.results import Checks
    from glowplug.store import endpoints

    for option, given in (("--cluster", (cluster,)), ("--vpc", (vpc,)), ("--subnet", subnet), ("--region", (region,))):
        if "" in given:
            raise UsageError(f"{option} is empty", hint="leave the option out, or name one; is a variable not set?")
    if sum(map(bool, (cluster, subnet, vpc))) > 1:
        raise UsageError("--cluster, --subnet and --vpc exclude each other")
    if region:
        endpoints.check_region(region, "--region")
    deadline = Deadline.after(timeout)
    question = _question(model, bucket, store, nodes, size, instance)
    asked = bool(cluster or subnet or vpc)
    here = None if asked else _look(deadline, region)
    found: list[Check] = list(here.checks) if here else []
    wanted = subnet or ((here.subnet,) if here and here.subnet else ())
    fault: GlowplugError | None = None
    if asked or wanted:
        try:
            found += _asked(deadline, region or (here.region if here else ""), question, cluster, wanted, vpc)
        except (NotFoundError, UsageError):
            raise
        except GlowplugError as error:
            fault = error
            found += [_refused(error), *(_look(deadline, region).checks if asked else ())]
    answer = Checks(tuple(found))
    raised = fault if asked else None
    text.show(output, answer, {"aws": "AWS does not let itself be asked: the error says why"} if raised else None)
    if raised is not None:
        raise raised
    text.finish(context, answer)


def _look(deadline: Deadline, region: str | None) -> Here:
    from glowplug.check import local

    return local.look(os.environ, local.Machine(), deadline.at_most(local.SECONDS), region or "")


def _asked(
    deadline: Deadline, region: str, question: Question, cluster: str | None, subnets: Sequence[str], vpc: str | None
) -> tuple[Check, ...]:
    """The answers of AWS. Raises as `aws.sessions` says."""
    import dataclasses

    from glowplug.aws import network as aws
    from glowplug.aws import sessions
    from glowplug.check import local, network

    session = sessions.connect(os.environ, deadline, region)
    of, chosen = _chosen(session, cluster, subnets, vpc)
    topology = aws.topology(session, chosen)
    located = tuple(
        dataclasses.replace(bucket, region=local.region_of(bucket.name, os.environ, deadline, session.region))
        for bucket in question.buckets
    )
    return network.checks(topology, dataclasses.replace(question, buckets=located), of)


def _chosen(
    session: Session, cluster: str | None, subnets: Sequence[str], vpc: str | None
) -> tuple[Cluster | None, tuple[Subnet, ...]]:
    from glowplug.aws import network as aws

    if cluster:
        found = aws.cluster(session, cluster)
        return found, aws.subnets_of_cluster(session, found)
    return None, aws.subnets_of_vpc(session, vpc) if vpc else aws.subnets_by_id(session, subnets)


def _refused(error: GlowplugError) -> Check:
    from glowplug.check.results import Check

    return Check("aws", "unknown", error.message, error.hint, {"code": error.code})


def _question(
    model: str | None,
    buckets: Sequence[str],
    store: str | None,
    nodes: int,
    size: str | None,
    instance: str | None,
) -> Question:
    """Raises UsageError (`unknown-instance` among its codes)."""
    from glowplug.catalog.instances import instance as machine
    from glowplug.check.question import Question
    from glowplug.models import address

    nbytes = address.parse_size(size) if size else None
    places = [f"s3://{bucket}" if "://" not in bucket else bucket for bucket in buckets]
    if model is not None and address.is_size(model):
        nbytes = address.parse_size(model) if nbytes is None else nbytes
    elif model is not None:
        source = address.parse(model, os.environ).source
        if not source.startswith("s3://"):
            raise UsageError(f"{model} is not in S3", hint="write s3://bucket/prefix, or a bare size")
        places.insert(0, source)
    if store is not None:
        if not store.startswith("s3://"):
            raise UsageError("--store is no address in S3", hint="write s3://bucket/prefix, or leave it out")
        places.append(store)
    asked = {bucket.name: bucket for place in reversed(places) for bucket in [_bucket(place)]}
    return Question(tuple(reversed(asked.values())), nodes, nbytes, machine(instance) if instance else None)


def _bucket(place: str) -> Bucket:
    from glowplug.check.question import Bucket

    found = _PLACE.fullmatch(place)
    if found is None or ".." in found[1]:
        # What was meant for a URL of another kind may hold a password: it is not shown.
        shown = "an address with credentials in it" if "@" in place else one_line(repr(place))
        raise UsageError(f"not a bucket of S3: {shown}", hint="write its name, or s3://bucket/prefix")
    return Bucket(found[1], (found[2] or "").strip("/"))
