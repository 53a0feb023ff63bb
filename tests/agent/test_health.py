"""What kubelet and Prometheus are answered, and that nobody can keep the agent busy with questions."""

from __future__ import annotations

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

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
        self.fallen: list[str] = []
        pulses, fallen = {"prewarm": self.pulse}, lambda: self.fallen
        self.health = Health("127.0.0.1", 0, pulses, lambda: self.unready, lambda: b"m 1\n", fallen)
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


def test_alive_is_nobody_who_has_lost_a_thread(asked: Asked) -> None:
    asked.fallen.append("pods")
    assert asked.get("/healthz") == (503, "pods\n")


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
    monkeypatch.setattr(module, "_SECONDS", 0.3)
    with ExitStack() as silent:
        for _ in range(3 * module._AT_ONCE):
            silent.enter_context(socket.create_connection(("127.0.0.1", asked.health.port)))
        deadline = time.monotonic() + 60
        answer = (0, "")
        while answer != (200, "ok\n"):
            assert time.monotonic() < deadline
            with suppress(urllib.error.URLError, ConnectionError):
                answer = asked.get("/healthz")


class Dripping:
    """Connections that say one byte after the other, never a whole request."""

    def __init__(self, port: int, number: int) -> None:
        self.alive = [socket.create_connection(("127.0.0.1", port)) for _ in range(number)]

    def drip(self) -> None:
        for one in list(self.alive):
            try:
                one.send(b"G")
            except OSError:
                self.alive.remove(one)
                one.close()

    def close(self) -> None:
        for one in self.alive:
            one.close()


def test_a_request_that_trickles_in_has_a_deadline_as_a_whole(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    with closing(Dripping(asked.health.port, 4)) as slow:
        deadline = time.monotonic() + 60
        while slow.alive:
            assert time.monotonic() < deadline
            slow.drip()
            time.sleep(0.05)


def test_a_probe_is_answered_while_others_hold_all_threads(asked: Asked) -> None:
    with closing(Dripping(asked.health.port, module._AT_ONCE)) as slow:
        time.sleep(2 * module._YOUNG_SECONDS)
        slow.drip()
        assert asked.get("/healthz") == (200, "ok\n")


def test_a_head_without_end_is_hung_up_on(asked: Asked) -> None:
    with socket.create_connection(("127.0.0.1", asked.health.port), timeout=60) as talker:
        with suppress(OSError):
            for _ in range(1000):
                talker.sendall(b"X-More: and more\r\n" * 1000)
        with suppress(ConnectionError):
            assert talker.recv(100) == b""
    assert asked.get("/healthz") == (200, "ok\n")


@pytest.mark.parametrize("said", [b"\r\n\r\n", b"GET\r\n\r\n", b"POST /healthz HTTP/1.1\r\n\r\n", b"\xff \xff\r\n\r\n"])
def test_what_is_no_question_gets_no_page(asked: Asked, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", asked.health.port), timeout=60) as talker:
        talker.sendall(said)
        assert talker.recv(100).startswith(b"HTTP/1.1 404 ")


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
