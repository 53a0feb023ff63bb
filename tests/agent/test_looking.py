"""A pod that comes to a node finds what others published since the last listing, and waits for that no longer than is of use."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from glowplug.agent import looking
from glowplug.agent.pods import Pod
from glowplug.agent.prewarm import Prewarm
from glowplug.agent.stopping import StoppableClock
from glowplug.cache import control
from glowplug.core.clock import Deadline
from glowplug.core.errors import UnavailableError
from glowplug.nodestore.read import NodeStore
from glowplug.store.contract import Store
from glowplug.store.schemes import open_store
from tests.agent.hearing import DOMAIN, Heard, entries, mount, prewarm, put, settings
from tests.agent.meddling import Meddled
from tests.cache import making
from tests.clocks import Held

MODEL = "s3://bucket/m"


@pytest.fixture
def store(tmp_path: Path) -> Meddled:
    return Meddled(open_store((tmp_path / "store").as_uri(), {}))


@pytest.fixture
def clock() -> Held:
    return Held()


@pytest.fixture
def one(store: Meddled, root: Path, heard: Heard, clock: Held) -> Prewarm:
    """An agent that has listed the store, which was empty then."""
    found = prewarm(settings(root), heard, cast("Store", store))
    assert found.begin()
    assert found.round()
    found.looking._clock = clock
    store.asked.clear()
    return found


def pod(model: str = MODEL, domain: str = DOMAIN, command: list[str] | None = None) -> Pod:
    container = {
        "name": "c",
        "image": "vllm/vllm-openai:v0.21.0",
        "command": command or ["vllm", "serve", model],
    }
    metadata = {"uid": "u1", "name": "p", "namespace": "team", "labels": {"glowplug.dev/mode": "node"}}
    return Pod("u1", "team", "p", "a", domain, {"metadata": metadata, "spec": {"containers": [container]}})


def waits(root: Path) -> bool:
    """Whether the agent says that pods are to wait, ready before or not."""
    node = NodeStore(mount(root)).node()
    assert node is not None
    return node.prefetching


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def lists(store: Meddled) -> int:
    return store.of("list", "/keys/")


def test_a_pod_that_comes_is_told_to_wait_and_gets_what_was_published_since(
    one: Prewarm, store: Meddled, root: Path, trees: Path
) -> None:
    key = put(cast("Store", store), trees, making.key(model=MODEL))
    store.asked.clear()
    one.looking.arrived(pod())
    assert waits(root), "at once"
    one.looking.serve()
    assert (entries(root, key), waits(root), lists(store)) == ({"e1"}, False, 1)


def test_what_others_ask_for_is_left_to_the_next_listing(one: Prewarm, store: Meddled, root: Path, trees: Path) -> None:
    theirs = put(cast("Store", store), trees, making.key(model="s3://bucket/other"))
    one.looking.arrived(pod())
    one.looking.serve()
    assert entries(root, theirs) is None


def test_a_pod_that_cannot_be_read_may_use_any(one: Prewarm, store: Meddled, root: Path, trees: Path) -> None:
    key = put(cast("Store", store), trees, making.key(model="s3://bucket/other"))
    one.looking.arrived(pod(command=["sh", "-c", 'eval "$(cat /start)"']))
    one.looking.serve()
    assert entries(root, key) == {"e1"}


def test_many_pods_cost_one_look_and_one_more_when_its_time_has_come(
    one: Prewarm, store: Meddled, root: Path, trees: Path, clock: Held
) -> None:
    for _ in range(100):
        one.looking.arrived(pod())
    one.looking.serve()
    assert lists(store) == 1
    one.looking.arrived(pod())
    one.looking.serve()
    assert (lists(store), waits(root)) == (1, False), "and who comes in between is not kept waiting"
    clock.at = 15.0
    one.looking.serve()
    assert lists(store) == 2
    clock.at = 100.0
    one.looking.serve()
    assert lists(store) == 2, "nobody came"


def test_pods_of_other_domains_are_nobody_s(one: Prewarm, store: Meddled, root: Path) -> None:
    one.looking.arrived(pod(domain="elsewhere"))
    one.looking.arrived(pod(domain=""))
    one.looking.serve()
    assert (lists(store), waits(root)) == (0, False)


def test_a_store_that_does_not_answer_keeps_nobody_waiting(
    one: Prewarm, store: Meddled, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_IMPATIENT_SECONDS", 0.1)
    go_on = threading.Event()

    def hang(what: str, _path: str) -> None:
        if what == "list":
            assert go_on.wait(60)

    store.before = hang
    one.looking.arrived(pod())
    thread = threading.Thread(target=one.looking.serve)
    thread.start()
    assert waits(root)
    until(lambda: not waits(root))
    go_on.set()
    thread.join(60)


def test_a_look_that_fails_is_made_again_and_nobody_waits_for_it(
    one: Prewarm, store: Meddled, root: Path, trees: Path, clock: Held, heard: Heard
) -> None:
    key = put(cast("Store", store), trees, making.key(model=MODEL))

    def refuse(what: str, path: str) -> None:
        said.append(waits(root))
        if what == "list":
            raise UnavailableError("slow down")

    said: list[bool] = []
    store.before = refuse
    one.looking.arrived(pod())
    one.looking.serve()
    assert (heard.of("failed"), waits(root)) == ([("list", "unavailable")], False)
    clock.at = 16.0
    one.looking.arrived(pod())
    assert not waits(root)
    said.clear()
    one.looking.serve()
    assert said
    assert not any(said)
    store.before = lambda *_: None
    clock.at = 60.0
    one.looking.serve()
    assert entries(root, key) == {"e1"}


def test_what_could_not_be_fetched_is_fetched_by_the_next_look(
    one: Prewarm, store: Meddled, root: Path, trees: Path, clock: Held
) -> None:
    """Also for a pod that cannot be read: the key was met before by then."""
    key = put(cast("Store", store), trees, making.key(model=MODEL))

    def refuse(_what: str, path: str) -> None:
        if "/blobs/" in path:
            raise UnavailableError("slow down")

    store.before = refuse
    one.looking.arrived(pod(command=["sh", "-c", 'eval "$(cat /start)"']))
    one.looking.serve()
    assert entries(root, key) is None
    store.before = lambda *_: None
    clock.at = 60.0
    one.looking.serve()
    assert entries(root, key) == {"e1"}


def test_while_the_switch_is_off_nobody_waits_and_nothing_is_listed(one: Prewarm, store: Meddled, root: Path) -> None:
    control.change(cast("Store", store), Deadline.after(30), restore=False)
    assert one.round()
    store.asked.clear()
    one.looking.arrived(pod())
    assert not waits(root)
    one.looking.serve()
    assert lists(store) == 0


def test_the_first_fetch_goes_on_being_waited_for(store: Meddled, root: Path, heard: Heard) -> None:
    one = prewarm(settings(root), heard, cast("Store", store))
    assert one.begin()
    one.looking.arrived(pod())
    one.looking.serve()
    assert waits(root)


def test_its_thread_ends_with_the_agent(store: Meddled, root: Path, heard: Heard, trees: Path) -> None:
    stop = threading.Event()
    one = prewarm(settings(root), heard, cast("Store", store), clock=StoppableClock(stop))
    assert one.begin()
    assert one.round()
    key = put(cast("Store", store), trees, making.key(model=MODEL))
    thread = threading.Thread(target=one.looking.run, args=(stop,))
    thread.start()
    one.looking.arrived(pod())
    until(lambda: entries(root, key) == {"e1"})
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_busy_look_promises_nothing_for_another_domain(store: Meddled, root: Path, heard: Heard) -> None:
    """It would be waited for as long as that takes."""
    one = prewarm(settings(root, domains=(DOMAIN, "other")), heard, cast("Store", store))
    assert one.begin()
    assert one.round()
    seen: list[Any] = []

    def between(what: str, _path: str) -> None:
        if what == "list" and not seen:
            one.looking.arrived(dataclasses.replace(pod(), domain="other"))
            seen.append(NodeStore(mount(root, "other")).node())

    store.before = between
    one.looking.arrived(pod())
    one.looking.serve()
    assert not seen[0].prefetching
