"""What of the caller's own environment gets into a manifest, and what of it no pod could use.

The model is read from here, and pods read it from there. Region and address of an S3-compatible server usually hold for both; an
address of this very machine (a port forwarded to a server in the cluster) does not, and is left out with a warning.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from glowplug.core.errors import UsageError
from glowplug.render.options import REGION
from glowplug.store import endpoints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.plan.outcome import Plan

ENDPOINT: Final = "AWS_ENDPOINT_URL"
_UNSIGNED: Final = ("RUNAI_STREAMER_S3_UNSIGNED", "AWS_SKIP_SIGNATURE")
_TRUE: Final = ("1", "true", "yes")


@dataclass(frozen=True)
class Surroundings:
    """Values for the pods, None or False where there is none, and the variables that they are from.

    `unreachable` is an address that only this machine can reach; `endpoint` is None then.
    """

    region: str | None = None
    endpoint: str | None = None
    unsigned: bool = False
    unreachable: str | None = None
    sources: tuple[tuple[str, str], ...] = ()

    def without_what_pods_cannot_reach(self, plan: Plan) -> Plan:
        """The plan without an address that only this machine can reach."""
        if self.unreachable is None or ENDPOINT not in plan.streaming.env:
            return plan
        env = {name: value for name, value in plan.streaming.env.items() if name != ENDPOINT}
        return replace(plan, streaming=replace(plan.streaming, env=env))

    def used_in(self, text: str) -> dict[str, str]:
        """The variables whose values stand in what was rendered, with these."""
        return {name: value for name, value in self.sources if any(word in text for word in _words(name, value))}


def read(environ: Mapping[str, str], region: str | None) -> Surroundings:
    """The environment; `region` is the option, which goes first.

    Raises UsageError for what is no region or no server's address, by the name of the variable.
    """
    sources: list[tuple[str, str]] = []
    if region is None:
        region = endpoints.region(environ)
        sources += _source(environ, endpoints.REGIONS)
        if region is not None and not REGION.fullmatch(region):
            raise UsageError(
                f"{sources[0][0]}: {region!r} is not a region of AWS such as eu-central-1",
                hint="set it, or give --region",
            )
    server = endpoints.endpoint(environ)
    reachable = server is not None and not is_of_this_machine(server)
    sources += _source(environ, endpoints.ENDPOINTS) if reachable else []
    unsigned = [(name, environ[name]) for name in _UNSIGNED if environ.get(name, "").lower() in _TRUE]
    return Surroundings(
        region=region,
        endpoint=server if reachable else None,
        unsigned=bool(unsigned),
        unreachable=None if reachable else server,
        sources=(*sources, *unsigned),
    )


def is_of_this_machine(url: str) -> bool:
    """Whether the host of an address is this machine itself, or one that is only beside it: loopback, link-local, unspecified."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified)


def _source(environ: Mapping[str, str], names: tuple[str, ...]) -> list[tuple[str, str]]:
    """The variable that decides, with its value."""
    return [(name, environ[name]) for name in names if environ.get(name)][:1]


def _words(name: str, value: str) -> tuple[str, ...]:
    """How a value shows in a manifest."""
    return ("RUNAI_STREAMER_S3_UNSIGNED", "--no-sign-request") if name in _UNSIGNED else (value.rstrip("/"),)
