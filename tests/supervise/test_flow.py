"""What becomes of the artifacts: published after a miss, restored on another machine, unchanged after a hit."""

from __future__ import annotations

from tests.supervise.machine import Machine


def test_a_miss_is_published_and_another_machine_hits(machine: Machine) -> None:
    cold = machine.run()
    assert (cold.status, cold.verdict, cold.publish) == (0, "miss", ("published", "")), cold
    assert cold.restore == ("none", "no_keys")
    made = machine.artifacts()
    machine.move()
    warm = machine.run()
    assert "hit g1" in warm.out
    assert (warm.restore, warm.verdict, warm.publish) == (("restored", ""), "hit", ("unchanged", "")), warm
    assert machine.artifacts() == made
