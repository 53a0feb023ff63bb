"""The storage that a node class of EKS Auto Mode asks for, and the disks of its nodes."""

from __future__ import annotations

import pytest

from tests.lint.checking import fixed
from tests.lint.compile.manifests import nodes
from tests.lint.compile.tables import Fires, Silent, name_of

RULE = name_of(__file__)

FIRES = {
    "more than the disk": Fires(
        nodes("NodeClass", spec="ephemeralStorage: {size: 500Gi}", instance="g6.2xlarge"),
        ("500Gi",),
        "g6.2xlarge (450 GB)",
    ),
    "the smallest of several decides": Fires(
        nodes("NodeClass", spec="ephemeralStorage: {size: 300Gi}", instance="g6.2xlarge, g6.xlarge"),
        ("300Gi",),
        "g6.xlarge (250 GB)",
    ),
    "as much as the disk": Fires(
        nodes("NodeClass", spec="ephemeralStorage: {size: 250G}", instance="g6.xlarge"), ("250G",)
    ),
    "Gi are more than GB": Fires(
        nodes("NodeClass", spec="ephemeralStorage: {size: 233Gi}", instance="g6.xlarge"), ("233Gi",)
    ),
    "more than any type has": Fires(nodes("NodeClass", spec="ephemeralStorage: {size: 58Ti}", pool=False), ("58Ti",)),
}

SILENT = {
    "the default, written": Silent(nodes("NodeClass", spec="ephemeralStorage: {size: 80Gi}", instance="g6.xlarge")),
    "nothing asked for": Silent(nodes("NodeClass", instance="g6.xlarge")),
    "just below": Silent(nodes("NodeClass", spec="ephemeralStorage: {size: 232Gi}", instance="g6.xlarge")),
    "a type without disks": Silent(nodes("NodeClass", spec="ephemeralStorage: {size: 500Gi}", instance="g5g.xlarge")),
    "types nobody names": Silent(nodes("NodeClass", spec="ephemeralStorage: {size: 500Gi}", pool=False)),
    "no quantity": Silent(nodes("NodeClass", spec="ephemeralStorage: {size: much}", instance="g6.xlarge")),
    "Karpenter's class": Silent(nodes(spec="ephemeralStorage: {size: 500Gi}", instance="g6.xlarge")),
}


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES)
def test_it_is_found_where_it_stands(case: Fires) -> None:
    case.check(RULE)


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT)
def test_it_is_silent(case: Silent) -> None:
    case.check(RULE)


def test_the_unsafe_fix_asks_for_the_default() -> None:
    text = nodes("NodeClass", spec="ephemeralStorage: {size: 500Gi}", instance="g6.2xlarge")
    assert fixed(RULE, text) == text
    assert fixed(RULE, text, unsafe=True) == text.replace("500Gi", "80Gi")
