"""How S3-compatible services want a bucket to be addressed. Data: data/endpoints.csv."""

from __future__ import annotations

import functools
import ipaddress

from glowplug.core.tables import table

_INSIDE = (".svc", ".local", ".internal", ".localhost")


def only_virtual(host: str) -> bool:
    """Whether the service answers under `bucket.host` alone."""
    name = host.lower().rstrip(".")
    return any(name == suffix or name.endswith("." + suffix) for suffix in _virtual())


def never_virtual(host: str) -> bool:
    """Whether `bucket.host` is certainly no name: an address, one word, a Service of the cluster."""
    name = host.lower().strip("[]").rstrip(".")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(_INSIDE)
    return True


@functools.cache
def _virtual() -> tuple[str, ...]:
    return tuple(row["suffix"] for row in table("glowplug.catalog", "endpoints"))
