"""What may be done in S3, and to which objects: the one statement behind `render iam` and the policy of `render network`.

Each follows from the requests that glowplug and the engine's streamer make. A test holds the real store code to them on a real
server, another one holds docs/security.md to them. Serving pods read. Who publishes writes below `keys/`, `blobs/`, `uses/` and
`.probe/` of one domain, and deletes the one-byte probes of conditional writes and nothing else: removing keys and blobs
(`cache gc`, `cache rm`) is a person's work with a person's rights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from glowplug.cache import layout
from glowplug.core.errors import BadInputError
from glowplug.render.cloudformation import literal, parameter, sub
from glowplug.render.options import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.render.cloudformation import Parameters

Statement = dict[str, Any]

_S3: Final = re.compile(r"s3://([^/]*)(?:/(.*))?", re.DOTALL)
# Whether a bucket may be called so is S3's to say; what a policy would misread is ours.
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
# A policy reads `*` and `?` as wildcards and `${…}` as a variable: such a name would let in others.
_NO_POLICY: Final = re.compile(r"[*?$\x00-\x1f\x7f]")
_WRITTEN: Final = ("keys", "blobs", "uses", ".probe")


@dataclass(frozen=True)
class Place:
    """A bucket and what lies below a prefix in it, as texts for `Fn::Sub`; `parameters` are the ones that they name.

    `prefix` is "" for the whole bucket, else it ends with a slash (or is a parameter that does).
    """

    bucket: str
    prefix: str
    parameters: Parameters = field(default_factory=dict)

    def arn(self) -> dict[str, str]:
        """The bucket's ARN."""
        return sub(f"arn:${{AWS::Partition}}:s3:::{self.bucket}")

    def objects(self, below: str = "*") -> dict[str, str]:
        """The ARN of the objects below the prefix."""
        return sub(f"arn:${{AWS::Partition}}:s3:::{self.bucket}/{self.prefix}{below}")


def place(url: str | None, what: str) -> Place | None:
    """The place that an `s3://` URL names; None for another scheme or a directory. Without a URL, a place that deploying asks for.

    `what` names its parameters: `Model` gives `ModelBucket` and `ModelPrefix`. Raises BadInputError for what is no bucket, or would
    match more in a policy than it says.
    """
    if url is None:
        return _asked_for(what)
    found = _S3.fullmatch(url)
    if found is None:
        return None
    bucket, prefix = found.group(1), (found.group(2) or "").rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise BadInputError(f"{quoted(url)} names no bucket", hint="write it as s3://bucket/prefix")
    if _NO_POLICY.search(prefix):
        raise BadInputError(f"{quoted(url)}: a policy takes `*`, `?` and `$` in a name for something else")
    if {"", ".", ".."} & set(prefix.split("/") if prefix else ()):
        raise BadInputError(
            f"{quoted(url)}: S3 takes double slashes and dots for names of their own", hint="write it without"
        )
    return Place(bucket, f"{literal(prefix)}/" if prefix else "")


def _asked_for(what: str) -> Place:
    words = what.lower()
    return Place(
        f"${{{what}Bucket}}",
        f"${{{what}Prefix}}",
        {
            f"{what}Bucket": parameter("String", f"Bucket of the {words}.", AllowedPattern="[a-z0-9][a-z0-9.-]+"),
            f"{what}Prefix": parameter(
                "String",
                f"What the names of the {words}'s objects begin with, ending with a slash; empty for the whole bucket.",
                "",
                AllowedPattern="|[^/*?$][^*?$]*/",
            ),
        },
    )


def read_model(model: Place) -> list[Statement]:
    """What an engine needs to find and load its weights."""
    # With and without the slash: streamers ask either way. A parameter's slash is its own.
    bare = [model.prefix.removesuffix("/")] if model.prefix.endswith("/") else []
    listing = _listing("ListModel", model, *bare, f"{model.prefix}*")
    if not model.prefix:
        del listing["Condition"]
    return [listing, _allow("ReadModel", "s3:GetObject", model.objects())]


def read_cache(store: Place, domain: str) -> list[Statement]:
    """What a start needs to restore: the domain's objects, and the switch for the whole store. Listing also makes S3 answer 404."""
    below = f"{layout.domain_prefix(domain)}/"
    return [
        _listing("ListCache", store, f"{store.prefix}{below}*"),
        _allow("ReadCache", "s3:GetObject", store.objects(f"{below}*"), store.objects(layout.CONTROL)),
    ]


def write_cache(store: Place, domain: str) -> list[Statement]:
    """What publishing needs beyond reading. Large blobs go up in parts, and an upload that fails is taken back."""
    below = layout.domain_prefix(domain)
    written = [store.objects(f"{below}/{name}/*") for name in _WRITTEN]
    return [
        _allow("WriteCache", ["s3:PutObject", "s3:AbortMultipartUpload"], *written),
        _allow("RemoveProbes", "s3:DeleteObject", store.objects(f"{below}/.probe/*")),
    ]


def pass_store(store: Place) -> list[Statement]:
    """All that anybody does in a store, people who keep it in order too, for what bounds requests and grants none."""
    actions = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"]
    return [_listing("ListStore", store, f"{store.prefix}*"), _allow("UseStore", actions, store.objects())]


def read_buckets(sid: str, buckets: Sequence[str]) -> Statement:
    """Reading all objects of buckets that belong to others; names are texts for `Fn::Sub`."""
    return _allow(sid, "s3:GetObject", *(Place(bucket, "").objects() for bucket in buckets))


def use_key(key: str, actions: list[str]) -> list[Statement]:
    """Rights on the KMS key that encrypts the buckets, through S3 alone. `key` is its ARN, or its id in this account and region."""
    resource: Any = (
        key
        if key.startswith("arn:")
        else sub(f"arn:${{AWS::Partition}}:kms:${{AWS::Region}}:${{AWS::AccountId}}:key/{key}")
    )
    through_s3 = {"StringLike": {"kms:ViaService": "s3.*.amazonaws.com*"}}
    return [{**_allow("UseKey", [f"kms:{action}" for action in actions], resource), "Condition": through_s3}]


def _listing(sid: str, where: Place, *prefixes: str) -> Statement:
    asked = [sub(prefix) if "${" in prefix else prefix for prefix in prefixes]
    return {**_allow(sid, "s3:ListBucket", where.arn()), "Condition": {"StringLike": {"s3:prefix": _alone(asked)}}}


def _allow(sid: str, actions: str | list[str], *resources: Any) -> Statement:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": _alone(list(resources))}


def _alone(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else items
