"""A real torch.compile program: miss, hit on the same node, hit on a new one; five hits publish nothing."""

from __future__ import annotations

import pytest

from tests.engine.conftest import Fleet, publishes, told, verdicts
from tests.parts import requires

pytestmark = [requires("engine", "s3"), pytest.mark.slow]


def test_miss_then_hit_then_hit_on_new_nodes(fleet: Fleet) -> None:
    rows = [fleet.start_torch(node) for node in ("first", "first", "new-1", "new-1", "new-2", "new-2")]
    assert verdicts(rows) == ["miss", "hit", "hit", "hit", "hit", "hit"], [told(row) for row in rows]
    assert publishes(rows) == ["published", *["unchanged"] * 5], [told(row) for row in rows]
    assert rows[2].start["restore"]["outcome"] == "restored"
    assert (rows[0].engine_init_seconds or 0) / (rows[2].engine_init_seconds or 1) >= 2


def test_a_program_that_compiles_other_graphs_is_partial_and_adds_an_entry(fleet: Fleet) -> None:
    first = fleet.start_torch("first", ("--layers", "1"))
    more = fleet.start_torch("first", ("--layers", "2"))
    new = fleet.start_torch("new", ("--layers", "2"))
    assert [first.verdict, new.verdict] == ["miss", "hit"], [told(row) for row in (first, more, new)]
    assert more.verdict in ("miss", "partial"), told(more)
    assert more.start["publish"]["outcome"] == "published"
