"""When kubelet ends a start: its worker as a model, against the arithmetic."""

from __future__ import annotations

import pytest

from glowplug.render import budget


def kubelet(delay: int, period: int, failures: int, phase: float) -> float:
    """Seconds of the container at its last failure: `pkg/kubelet/prober/worker.go`, whose ticks began before the container did."""
    failed = 0
    tick = phase
    while True:
        if int(tick) >= delay:
            failed += 1
            if failed == failures:
                return tick
        tick += period


PROBES = [(0, 10, 3), (60, 10, 3), (30, 10, 60), (0, 1, 1), (7, 5, 4), (95, 30, 2)]


@pytest.mark.parametrize(("delay", "period", "failures"), PROBES)
def test_no_start_is_ended_earlier(delay: int, period: int, failures: int) -> None:
    ends = [kubelet(delay, period, failures, part / 2) for part in range(2 * period)]
    earliest = budget.earliest_end(delay, period, failures)
    assert earliest <= min(ends) < earliest + 1
    assert max(ends) < earliest + period


@pytest.mark.parametrize("seconds", [1, 80, 90, 210, 620, 1206.5])
@pytest.mark.parametrize(("delay", "period"), [(0, 10), (30, 10), (0, 1), (2000, 10)])
def test_so_many_failures_give_the_time_and_one_less_does_not(seconds: float, delay: int, period: int) -> None:
    failures = budget.failures(seconds, period, delay)
    assert budget.earliest_end(delay, period, failures) >= seconds
    assert failures == 1 or budget.earliest_end(delay, period, failures - 1) < seconds
