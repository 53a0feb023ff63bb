"""What kubelet and Prometheus are answered, and that nobody can keep the agent busy with questions."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from glowplug.agent import health as module
from glowplug.agent.health import Health, Pulse
from glowplug.core.errors import UnavailableError
from tests.clocks import Held


class Asked:
    """An agent's health and what it is made of."""

    def __init__(self) -> None:
        self.clock = Held()
        self.pulse = Pulse(60.0, self.clock.monotonic)
        self.unready = ""
        self.health = Health("127.0.0.1", 0, {"prewarm": self.pulse}, lambda: self.unready, lambda: b"m 1\n")
        self.health.start()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health.port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def asked() -> Iterator[Asked]:
    one = Asked()
    yield one
    one.health.close()


def test_alive_is_who_shows_itself_in_time(asked: Asked) -> None:
    assert asked.get("/healthz") == (200, "ok\n")
    asked.clock.at = 61.0
    assert asked.get("/healthz") == (503, "prewarm\n")
    asked.pulse.tick()
    assert asked.get("/healthz") == (200, "ok\n")


def test_ready_is_when_nothing_is_missing(asked: Asked) -> None:
    asked.unready = "team-a: ready is missing"
    assert asked.get("/readyz") == (503, "team-a: ready is missing\n")
    asked.unready = ""
    assert asked.get("/readyz?verbose") == (200, "ok\n")


def test_metrics_are_the_registry_s(asked: Asked) -> None:
    assert asked.get("/metrics") == (200, "m 1\n")


def test_other_pages_are_not_there(asked: Asked) -> None:
    assert asked.get("/")[0] == 404


def test_who_says_nothing_is_hung_up_on_and_others_are_answered(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 0.3)
    with ExitStack() as silent:
        for _ in range(3 * module._AT_ONCE):
            silent.enter_context(socket.create_connection(("127.0.0.1", asked.health.port)))
        deadline = time.monotonic() + 60
        answer = (0, "")
        while answer != (200, "ok\n"):
            assert time.monotonic() < deadline
            with suppress(urllib.error.URLError, ConnectionError):
                answer = asked.get("/healthz")


def test_a_port_that_is_taken_is_said(asked: Asked) -> None:
    with pytest.raises(UnavailableError, match="cannot listen on"):
        Health("127.0.0.1", asked.health.port, {}, lambda: "", lambda: b"")


def test_without_a_host_it_listens_for_both_kinds_of_addresses() -> None:
    one = Health("", 0, {}, lambda: "", lambda: b"")
    one.start()
    try:
        for host in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            with urllib.request.urlopen(f"http://{host}:{one.port}/healthz", timeout=60) as answer:
                assert answer.status == 200
    finally:
        one.close()
