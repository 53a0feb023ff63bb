"""How long the agent, and its watch of the API, wait before they try again."""

from __future__ import annotations

from glowplug.kube.backoff import Backoff


def test_doubles_up_to_a_most_and_begins_again_once_it_worked() -> None:
    one = Backoff(2.0, 60.0)
    assert [one.next() for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    for _ in range(5000):
        assert one.next() == 60
    one.reset()
    assert one.next() == 2


def test_a_fleet_does_not_come_back_in_step() -> None:
    drawn = iter([0.0, 0.5, 0.999])
    one = Backoff(10.0, 10.0, lambda: next(drawn))
    assert [round(one.next(), 1) for _ in range(3)] == [5.0, 7.5, 10.0]


def test_what_the_server_asks_for_counts_within_bounds() -> None:
    one = Backoff(1.0, 30.0)
    assert one.next(7.0) == 7
    assert one.next(9e9) == 60
    assert one.next(0.5) == 4
