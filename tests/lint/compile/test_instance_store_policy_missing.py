"""Karpenter's node class and the disks of its nodes."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import cached, nodes
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "a NodePool for GPUs": Fires(nodes(), ("spec",), "NodePool `gpu` buys g6e.12xlarge"),
    "Bottlerocket": Fires(nodes(spec="amiSelectorTerms: [{alias: bottlerocket@latest}]"), ("spec",)),
    "another value": Fires(nodes(spec="instanceStorePolicy: raid0"), ("raid0",)),
    "a pod that keeps its cache there": Fires(
        cached(spec="nodeSelector: {karpenter.sh/nodepool: gpu}") + "---\n" + nodes(instance="g6e.12xlarge"), ("spec",)
    ),
    "a class alone, by its name": Fires(nodes(pool=False), ("spec",), "its name says GPU"),
}

SILENT = {
    "RAID0": Silent(nodes(spec="instanceStorePolicy: RAID0")),
    "types without disks": Silent(nodes(name="arm", instance="g5g.xlarge")),
    "no GPUs": Silent(nodes(name="cpu", instance="m7i.large")),
    "a class alone": Silent(nodes(name="default", pool=False)),
    "an image of one's own": Silent(nodes(spec="amiFamily: Custom")),
    "user data that mounts the disks": Silent(nodes(spec="userData: |\n  mkfs.xfs /dev/nvme1n1")),
    "nodeadm's own configuration": Silent(
        nodes(spec="userData: |\n  kind: NodeConfig\n  localStorage: {strategy: Mount}")
    ),
    "Auto Mode has no such field": Silent(nodes("NodeClass"), compute="auto-mode"),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_fix_adds_the_line() -> None:
    assert fixed(RULE, nodes()) == nodes(spec="instanceStorePolicy: RAID0")
    assert fixed(RULE, nodes(spec="instanceStorePolicy: raid0")) == nodes(spec="instanceStorePolicy: RAID0")
