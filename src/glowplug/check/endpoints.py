"""The endpoints for S3 that a VPC has: whether they work, where they are missing, whom their policies keep out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.check import paths, policy, remedies
from glowplug.check.paths import Path, Way
from glowplug.check.results import Check
from glowplug.check.words import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.aws.network import Endpoint, Topology
    from glowplug.check.question import Bucket, Question
    from glowplug.check.results import Status

LAYERS: Final = "prod-{region}-starport-layer-bucket"
"""The bucket from which Amazon ECR serves the layers of images."""


def endpoints(topology: Topology, found: Sequence[Path]) -> Iterator[Check]:
    """Each endpoint, also those that are for another region's S3."""
    vpcs = {path.subnet.vpc for path in found}
    for endpoint in topology.endpoints:
        if endpoint.vpc not in vpcs:
            continue
        evidence = {
            "endpoint": endpoint.id,
            "type": endpoint.kind.lower(),
            "service": endpoint.service,
            "state": endpoint.state,
            "route_tables": list(endpoint.route_tables),
            "private_dns": endpoint.private_dns and endpoint.kind == "Interface",
        }
        status, said, hint = _endpoint_verdict(topology, endpoint)
        kind = f"{endpoint.kind.lower()} endpoint {endpoint.id}"
        yield Check(f"endpoint:{endpoint.id}", status, f"{kind}: {said}", hint, evidence)


def _endpoint_verdict(topology: Topology, endpoint: Endpoint) -> tuple[Status, str, str]:
    if not paths.serves(endpoint, topology.region):
        return "pass", f"for {endpoint.service}, of no use for buckets in {topology.region}", ""
    if endpoint.state in paths.PENDING:
        return "unknown", f"{endpoint.state}: not available yet", ""
    if endpoint.state != paths.AVAILABLE:
        return "fail", f"{endpoint.state or 'of unknown state'}, not available", "delete it and create it anew"
    if endpoint.kind == "Interface":
        return _interface_verdict(topology, endpoint)
    used = remedies.used_tables(topology, endpoint.vpc)
    lacking = [table.id for table in used if paths.gateway_in(topology, table) is None]
    if not lacking:
        return "pass", f"available, in every route table of these subnets ({len(used)})", ""
    said = f"missing in {len(lacking)} of {count(len(used), 'route table')} of these subnets: {', '.join(lacking)}"
    main = topology.main_tables.get(endpoint.vpc)
    if main is not None and main.id in endpoint.route_tables and main not in used:
        said += f"; it is in the main route table {main.id}, which subnets with a table of their own do not use"
    return "warn", said, remedies.remedy(topology, endpoint.vpc)


def _interface_verdict(topology: Topology, endpoint: Endpoint) -> tuple[Status, str, str]:
    if not endpoint.private_dns:
        return "pass", "available, without private DNS: only clients that name it use it", ""
    if endpoint.inbound_only:
        return "pass", "available, private DNS for inbound resolvers only: this VPC's own traffic does not use it", ""
    if not paths.resolves(topology, endpoint.vpc):
        said = f"private DNS is on, but the DNS settings of {endpoint.vpc} keep it from working"
        return "warn", said, remedies.dns_command(topology, endpoint.vpc)
    return "pass", "available, with private DNS: S3's names lead to it in this VPC", ""


def policies(topology: Topology, found: Sequence[Path], question: Question) -> Iterator[Check]:
    """Policies of the endpoints that traffic takes. What one denies is answered 403; it takes no other way."""
    taken = {path.via for path in found if path.way in (Way.GATEWAY, Way.INTERFACE)}
    here = [bucket for bucket in question.buckets if bucket.region in ("", topology.region)]
    for endpoint in topology.endpoints:
        if endpoint.id not in taken:
            continue
        if not here:
            yield _policy_for_all(topology, endpoint)
        for bucket in here:
            answer = policy.ask(endpoint.policy, policy.reading(bucket.name, bucket.prefix, topology.region))
            yield _policy_check(topology, endpoint, bucket, answer)
        layers = LAYERS.format(region=topology.region)
        reading = policy.reading(layers, "", topology.region)[1:]
        if policy.ask(endpoint.policy, reading).verdict is policy.Verdict.DENY:
            said = f"the policy of {endpoint.id} does not let image layers through: Amazon ECR has them in {layers}"
            hint = f"allow s3:GetObject on arn:{policy.partition(topology.region)}:s3:::{layers}/* in it"
            yield Check(f"image-layers:{endpoint.id}", "warn", said, hint, {"endpoint": endpoint.id, "bucket": layers})


def _policy_for_all(topology: Topology, endpoint: Endpoint) -> Check:
    everything = f"arn:{policy.partition(topology.region)}:s3:::"
    questions = [policy.Question(action, everything, below=True) for action in ("s3:ListBucket", "s3:GetObject")]
    answer = policy.ask(endpoint.policy, questions)
    name, evidence = f"policy:{endpoint.id}", {"endpoint": endpoint.id, "verdict": answer.verdict.value}
    if answer.verdict is policy.Verdict.ALLOW:
        return Check(name, "pass", f"the policy of {endpoint.id} lets every bucket be read", "", evidence)
    said = f"the policy of {endpoint.id} does not let everything through"
    return Check(name, "unknown", said, "name the bucket: `glowplug check network s3://bucket/prefix …`", evidence)


def _policy_check(topology: Topology, endpoint: Endpoint, bucket: Bucket, answer: policy.Answer) -> Check:
    name = f"policy:{endpoint.id}:{bucket.name}"
    evidence = {"endpoint": endpoint.id, "bucket": bucket.name, "verdict": answer.verdict.value, "why": answer.why}
    if answer.verdict is policy.Verdict.ALLOW:
        return Check(name, "pass", f"the policy of {endpoint.id} lets s3://{bucket.name} be read", "", evidence)
    command = f"{remedies.modify(topology, endpoint)} --policy-document file://policy.json"
    if answer.verdict is policy.Verdict.DENY:
        said = f"the policy of {endpoint.id} refuses s3://{bucket.name}: {answer.why}"
        return Check(name, "fail", said, f"allow s3:ListBucket and s3:GetObject on it: {command}", evidence)
    said = (
        f"whether the policy of {endpoint.id} lets s3://{bucket.name} be read cannot be known from here: {answer.why}"
    )
    return Check(name, "unknown", said, "", evidence)
