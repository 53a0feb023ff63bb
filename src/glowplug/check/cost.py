"""What one load of all nodes takes and costs, on the ways that are taken and on the one that could be (plan/roofline.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.catalog.limits import fact
from glowplug.check.paths import Path, Way
from glowplug.check.results import Check
from glowplug.check.words import count, usd
from glowplug.core.units import format_seconds, format_size
from glowplug.plan import bounds, roofline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.aws.network import Topology
    from glowplug.catalog.instances import Instance
    from glowplug.check.question import Question
    from glowplug.check.results import Status

_ROOFLINE: Final = {
    Way.GATEWAY: roofline.Path.GATEWAY,
    Way.NAT: roofline.Path.NAT,
    Way.INTERFACE: roofline.Path.INTERFACE,
    Way.INTERNET: roofline.Path.INTERNET,
}
_WAYS: Final = {
    Way.GATEWAY: "gateway endpoint",
    Way.NAT: "NAT",
    Way.INTERFACE: "interface endpoint",
    Way.INTERNET: "internet",
}


def fleet(topology: Topology, found: Sequence[Path], question: Question) -> Iterator[Check]:
    """One load of all nodes at once: each way that is taken, beside the gateway endpoint that could be."""
    if question.size is None:
        return
    taken = {path.way for path in found if path.way in _ROOFLINE and path.open is not False}
    if not taken:
        return
    rows = {way: _load(topology, found, question, way) for way in _ROOFLINE if way in taken or way is Way.GATEWAY}
    texts = [_load_said(way, load) for way, load in rows.items()]
    evidence = {
        way.value: {
            "seconds": round(load.seconds, 3),
            "seconds_at_start": round(load.seconds_at_start, 3),
            "bound": load.bound,
            "usd": round(load.usd, 4),
        }
        for way, load in rows.items()
    }
    instance = question.machine.name if question.machine else None
    hint = "" if instance else "with --instance TYPE its network card counts too"
    said = f"{format_size(question.size)} on {count(question.nodes, 'node')} at once: {'; '.join(texts)}"
    status: Status = "pass" if taken == {Way.GATEWAY} else "warn"
    yield Check(
        "fleet", status, said, hint, {"nodes": question.nodes, "bytes": question.size, "instance": instance, **evidence}
    )


def _load(topology: Topology, found: Sequence[Path], question: Question, way: Way) -> roofline.Fleet:
    vias = {path.via for path in found if path.way is way}
    zones = {
        topology.zones.get(subnet, "")
        for endpoint in topology.endpoints
        if endpoint.id in vias
        for subnet in endpoint.subnets
    }
    machine: Instance | float = question.machine or float("inf")
    nats = max(1, len(vias))
    return roofline.fleet(question.size or 0, question.nodes, machine, _ROOFLINE[way], nats, zones=max(1, len(zones)))


def _load_said(way: Way, load: roofline.Fleet) -> str:
    grows = load.seconds_at_start > load.seconds
    later = f"; {format_seconds(load.seconds_at_start)} before it has grown" if grows else ""
    cost = f"{usd(load.usd)} each time" if load.usd else "free"
    return f"{_WAYS[way]} {format_seconds(load.seconds)} at best ({bounds.SAID[load.bound]}{later}), {cost}"


def usd_per_gb(path: Path) -> float | None:
    """The price of the way itself, None where it is not known."""
    if path.way is Way.NAT:
        return fact("nat.usd_per_gb").value
    if path.way is Way.INTERFACE:
        return fact("interface.usd_per_gb").value
    if path.way is Way.GATEWAY:
        return fact("gateway.usd_per_gb").value
    return 0.0 if path.way is Way.INTERNET else None
