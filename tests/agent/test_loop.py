"""An agent of which a thread dies of a fault of ours is not alive, so that kubelet begins anew."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.agent.loop import Agent, Outside
from glowplug.agent.prewarm import Prewarm
from glowplug.agent.root import Root
from glowplug.core.clock import SYSTEM, Deadline
from glowplug.core.errors import UnavailableError
from glowplug.kube.contract import Api, Change, Seen
from glowplug.store.contract import Store
from lab.kube.client import wait_for
from tests.agent import hearing

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class _Api:
    """Of a node without pods; what a test sets raises instead."""

    fault: Exception | None = None

    def node(self, name: str) -> dict[str, Any]:
        raise UnavailableError("not yet")

    def annotate_node(self, name: str, _annotations: object) -> None:
        pass

    def put_event(self, _event: object) -> bool:
        return True

    def watch_pods(self, *, node: str, stop: threading.Event) -> Iterator[Change]:
        yield Change(Seen.SYNCED, {})
        while not stop.wait(0.05):
            if self.fault is not None:
                raise self.fault


@contextmanager
def running(root: Path, api: _Api) -> Iterator[tuple[Agent, Callable[[], str]]]:
    """An agent at work, and what its /healthz says."""

    def opened() -> Store:
        raise UnavailableError("away")

    stop = threading.Event()
    ports: list[int] = []
    told = hearing.settings(root, host="127.0.0.1", port=0)
    agent = Agent(told, Outside(cast("Api", api), opened, Root(root, nvme_backed=True, why="it is")), stop)
    thread = threading.Thread(target=agent.run, args=(ports.append,))
    thread.start()
    wait_for(60, "it listens", lambda: ports)

    def health() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ports[0]}/healthz", timeout=60) as answer:
                return cast("bytes", answer.read()).decode().strip()
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode().strip()

    try:
        yield agent, health
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_a_thread_without_a_pulse_that_dies_is_seen(tmp_path: Path) -> None:
    api = _Api()
    with running(tmp_path, api) as (_, health):
        assert health() == "ok"
        api.fault = RuntimeError("can't start new thread")
        wait_for(60, "it is seen", lambda: health() == "pods")


def test_one_that_has_done_its_work_is_none_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prewarm, "run_patience", lambda *_: None)
    with running(tmp_path, _Api()) as (agent, health):
        ended = {one.name: one for one in agent._threads}
        wait_for(60, "they end", lambda: not ended["node"].is_alive() and not ended["patience"].is_alive())
        assert health() == "ok"


def test_the_one_that_posts_events_counts_too(tmp_path: Path) -> None:
    with running(tmp_path, _Api()) as (agent, health):
        posting = agent.voice._posting
        assert posting is not None

        def counted(_outcome: str) -> None:
            raise RuntimeError("a fault of ours")

        posting._counted = counted
        agent.voice.nvme(backed=False, where="a network disk")
        wait_for(60, "it is seen", lambda: health() == "events")
        agent.voice.close(Deadline.after(1, SYSTEM))
