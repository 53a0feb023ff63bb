"""Where a bucket is, and what that means for subnets: endpoints serve the buckets of their own region only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from glowplug.catalog.limits import fact
from glowplug.check import paths
from glowplug.check.paths import Way
from glowplug.check.results import Check
from glowplug.check.words import usd

if TYPE_CHECKING:
    from glowplug.aws.network import Topology
    from glowplug.check.question import Bucket

_WORDS: Final = {Way.NAT: "NAT gateway", Way.INTERNET: "internet gateway"}
_EXPRESS: Final = "--x-s3"


def bucket_check(topology: Topology, bucket: Bucket) -> Check:
    """The answer for one bucket."""
    name, url = f"bucket:{bucket.name}", f"s3://{bucket.name}"
    evidence: dict[str, Any] = {"bucket": bucket.name, "region": bucket.region or None}
    if bucket.name.endswith(_EXPRESS):
        said = (
            f"{url} is a directory bucket (S3 Express One Zone): it has an endpoint of its own, which is not looked at"
        )
        return Check(
            name, "unknown", said, f"a gateway endpoint for com.amazonaws.{topology.region}.s3express", evidence
        )
    if not bucket.region:
        hint = f"aws s3api head-bucket --bucket {bucket.name}"
        return Check(name, "unknown", f"nobody says in which region {url} is", hint, evidence)
    if bucket.region == topology.region:
        return Check(name, "pass", f"{url} is in {bucket.region}, as the subnets are", "", evidence)
    ways = [paths.elsewhere(topology, subnet) for subnet in topology.subnets]
    evidence["ways"] = {path.subnet.id: path.way.value for path in ways}
    shown = ", ".join(sorted({_WORDS[path.way] for path in ways if path.open}))
    said = f"{url} is in {bucket.region}, which no endpoint of {topology.region} serves"
    hint = f"copy it: aws s3 sync --source-region {bucket.region} --region {topology.region} {url} s3://…"
    lost = [path.subnet.id for path in ways if path.open is False]
    if lost:
        return Check(name, "fail", f"{said}: not reached from {', '.join(lost)}", hint, evidence)
    price = fact("cross_region.usd_per_gb")
    said += f": it goes by {shown}" if shown else ""
    said += f" and costs {usd(price.value)} per GB besides (the price between {price.note.partition(';')[0]})"
    return Check(name, "warn", said, hint, evidence)
