"""A start out of what an API says: whatever is in the objects, and the cases of which a table says more than a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from glowplug.cache.quarantine import Quarantine
from glowplug.core.clock import iso
from glowplug.core.documents import codec
from glowplug.core.documents.start import (
    Compile,
    PublishOutcome,
    PublishResult,
    RestoreOutcome,
    RestoreResult,
    Start,
    Verdict,
)
from glowplug.launch.options import RunOptions
from glowplug.launch.outgoing import NodeOwner
from glowplug.launch.telling import tell_restore
from glowplug.launch.words import NOT_STARTED_LINE
from glowplug.nodestore.read import NodeStore
from glowplug.starts import from_log, from_pod, pod_status, told
from glowplug.starts.pod_status import Around, Run
from glowplug.supervise.owner import StoreOwner
from glowplug.supervise.prepare import plain

T0 = 1_796_000_000.0
FIELDS = """
    metadata spec status containers initContainers containerStatuses initContainerStatuses conditions name
    state lastState running terminated waiting startedAt finishedAt exitCode reason message type
    lastTransitionTime creationTimestamp restartCount image nodeName labels annotations resources limits
    readinessProbe periodSeconds uid lastTimestamp eventTime imageID phase command
""".split()  # noqa: SIM905
VALUES = some.sampled_from(
    ["Ready", "PodScheduled", "True", "False", "c", iso(T0), iso(T0 + 50), "2026-99-99T00:00:00Z", "0001-01-01T00:00:00Z", "Pulled",
     'Successfully pulled image "i" in 99999h0m0s', "", -1, 0, 10**30, math.inf, None, True]
)  # fmt: skip
JUNK = some.recursive(
    VALUES,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(FIELDS), inner, max_size=6),
    max_leaves=12,
)
OBJECTS = some.dictionaries(some.sampled_from(FIELDS), JUNK, max_size=8)


def at(seconds: float) -> str:
    return iso(T0 + seconds)[:19] + "Z"


def pod(**status: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i:1", "command": ["vllm", "serve", "m"]}
    metadata = {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": at(0)}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [container]}, "status": status}


def condition(kind: str, seconds: float, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at(seconds)}


def event(reason: str, seconds: float, message: str = "", **fields: Any) -> dict[str, Any]:
    return {"reason": reason, "lastTimestamp": at(seconds), "message": message, **fields}


def before(
    one: Mapping[str, Any], began: float | None, *events: Any, node: Any = None, now: float = 500
) -> dict[str, Any]:
    """Phases before the engine: name → (start, seconds)."""
    run = None if began is None else Run(1, previous=False, began=T0 + began)
    start = from_pod.from_pod(one, "c", run, None, "", Around(events, node, T0 + now))
    claims = pod_status.before(one, "c", T0, None if began is None else T0 + began, Around(events, node, T0 + now))
    assert start.phases == () or start.phases[0].start_seconds == 0
    return {claim.name: (claim.start_seconds, claim.seconds) for claim in claims}


@settings(max_examples=50)
@given(OBJECTS, some.lists(OBJECTS, max_size=2), some.none() | OBJECTS, some.text(max_size=50))
def test_whatever_is_in_the_objects_a_start_comes_of_it(
    one: dict[str, Any], events: list[Any], node: Any, text: str
) -> None:
    around = Around(events, node, T0)
    container = pod_status.container_of(one)
    for run in (None, *pod_status.runs(one, container)):
        start = from_pod.from_pod(one, container, run, None, text, around)
        assert all(phase.seconds >= 0 for phase in start.phases)
        assert codec.from_json(Start, codec.to_json(start), "start") == start


@pytest.mark.parametrize("seconds", [0.21, 1.2, 119.9, 120.0, 600.0, 5025.0])
@pytest.mark.parametrize("size", [0, 999, 1_000_000, 14_900_000, 99_960_000, 5_200_000_000, 2 * 10**15])
def test_what_the_launcher_says_of_its_restore_is_read(seconds: float, size: int) -> None:
    """Whatever it took, and however much it was: to the digits that are said."""
    lines: list[str] = []
    restored = RestoreResult(RestoreOutcome.RESTORED, bytes=size, seconds=seconds, source="node:/glowplug/store")
    tell_restore(restored, lines.append)
    run = Run(1, previous=False, began=T0)
    text = f"{iso(T0 + 9000)} glowplug: {lines[0]}\n"
    found = from_pod.from_pod(pod(), "c", run, None, text, Around((), None, T0 + 9999)).restore
    assert (found.outcome, found.source) == (RestoreOutcome.RESTORED, restored.source)
    assert found.seconds == pytest.approx(seconds, rel=0.01)
    assert found.bytes == pytest.approx(size, rel=0.01)


def owner(kind: str, lines: list[str]) -> Any:
    """Who tells the publish: a bake's, or one with an outbox."""
    options = RunOptions(store="file:///s", exit_when_ready=True)
    prepared = plain([], {}, "torch", "")
    if kind == "store":
        return StoreOwner(prepared, options, Quarantine(Path("none")), lines.append)
    return NodeOwner(prepared, options, NodeStore(Path("none")), lines.append)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("store", PublishResult(PublishOutcome.PUBLISHED, bytes=399_000, seconds=0.3)),
        ("store", PublishResult(PublishOutcome.PUBLISHED, bytes=5_200_000_000, seconds=125.0)),
        ("store", PublishResult(PublishOutcome.UNCHANGED)),
        ("store", PublishResult(PublishOutcome.SKIPPED, "no_bucket")),
        ("store", PublishResult(PublishOutcome.SKIPPED, "access_denied")),
        ("store", PublishResult(PublishOutcome.SKIPPED, "no_store")),
        ("store", PublishResult(PublishOutcome.SKIPPED, "incomplete: no (index) yet")),
        ("store", PublishResult(PublishOutcome.SKIPPED, "unknown:gpu,torch")),
        ("store", PublishResult(PublishOutcome.FAILED, "store_unavailable")),
        ("store", PublishResult(PublishOutcome.FAILED, "secret_found: AWS_SECRET_ACCESS_KEY in a/b (c)")),
        ("node", PublishResult(PublishOutcome.PUBLISHED, "outbox", bytes=353_000)),
        ("node", PublishResult(PublishOutcome.FAILED, "no_space")),
    ],
)
def test_what_the_launcher_says_of_its_publish_is_read(kind: str, result: PublishResult) -> None:
    lines: list[str] = []
    owner(kind, lines).tell_publish(result)
    text = f"{iso(T0 + 60)} ready\n{iso(T0 + 61)} glowplug: {lines[0]}\n{iso(T0 + 62)} INFO serving\n"
    run = Run(1, previous=False, began=T0)
    assert from_pod.from_pod(pod(), "c", run, None, text, Around((), None, T0 + 99)).publish == result


def test_a_bake_that_did_not_start_its_engine_is_no_log_of_an_unknown_engine() -> None:
    text = "".join(f"{iso(T0)} glowplug: {line}\n" for line in ("not published: no_bucket", NOT_STARTED_LINE))
    log = Start(id="l", source="log", started_at="", verdict=Verdict(Compile.UNKNOWN, reason=from_log.UNRECOGNISED))
    run = Run(1, previous=False, began=T0, ended=T0 + 1, exit_status=5)
    start = from_pod.from_pod(pod(), "c", run, log, text, Around((), None, T0 + 99))
    assert start.verdict.reason == "the engine was not started: nothing can be published"
    assert start.publish == PublishResult(PublishOutcome.SKIPPED, "no_bucket")


def test_nothing_told_of_a_publish_is_not_known_and_two_are_one() -> None:
    assert told.published(f"{iso(T0)} published 3 MB (packed) in 1.0 s\n") is None
    lines = ["published 3 MB (packed) in 1.0 s", "published 2 MB (packed) in 0.5 s", "not published: deadline"]
    text = "".join(f"{iso(T0)} glowplug: {line}\n" for line in lines)
    expected = PublishResult(PublishOutcome.PUBLISHED, "deadline", bytes=5_000_000, seconds=1.5)
    assert told.published(text) == expected


class TestBefore:
    def test_an_image_that_was_pulled_with_its_wait(self) -> None:
        pulled = event(
            "Pulled", 40, 'Successfully pulled image "i" in 1m2.5s (30s including waiting). Image size: 7 bytes.'
        )
        seen = before(pod(conditions=[condition("PodScheduled", 2)]), 42, pulled)
        assert seen == {"schedule": (0, 2), "image_pull": (10, 30)}

    def test_one_that_was_there_already(self) -> None:
        there = event("Pulled", 3, 'Container image "i" already present on machine')
        assert before(pod(conditions=[condition("PodScheduled", 2)]), 60, there) == {"schedule": (0, 2)}

    def test_without_events_a_long_pause_is_the_pull(self) -> None:
        conditions = [condition("PodScheduled", 2), condition("PodReadyToStartContainers", 5)]
        assert before(pod(conditions=conditions), 65)["image_pull"] == (5, 60)
        assert "image_pull" not in before(pod(conditions=conditions), 6)

    def test_a_pull_that_goes_on(self) -> None:
        seen = before(pod(conditions=[condition("PodScheduled", 2)]), None, event("Pulling", 10), now=100)
        assert seen == {"schedule": (0, 2), "image_pull": (10, 90)}

    def test_a_pull_of_a_later_run_is_not_the_first_ones(self) -> None:
        late = event("Pulled", 400, 'Successfully pulled image "i" in 5s')
        assert "image_pull" not in before(pod(conditions=[condition("PodScheduled", 2)]), 3, late)

    def test_a_node_that_was_made_for_the_pod(self) -> None:
        node = {"metadata": {"creationTimestamp": at(40)}, "status": {"conditions": [condition("Ready", 70)]}}
        one = pod(conditions=[condition("PodScheduled", 75)])
        assert before(one, 80, node=node)["node_launch"] == (0, 70)
        older = {"metadata": {"creationTimestamp": at(-40)}}
        assert "node_launch" not in before(one, 80, node=older)
        flapped = {"metadata": {"creationTimestamp": at(40)}, "status": {"conditions": [condition("Ready", 9000)]}}
        assert before(one, 80, node=flapped)["node_launch"] == (0, 75)

    def test_init_containers(self) -> None:
        done = {"name": "i", "state": {"terminated": {"startedAt": at(5), "finishedAt": at(25), "exitCode": 0}}}
        beside = {"name": "s", "state": {"running": {"startedAt": at(25)}}}
        one = pod(conditions=[condition("PodScheduled", 2)], initContainerStatuses=[done, beside])
        claims = [*pod_status.before(one, "c", T0, T0 + 26, Around((), None, T0 + 500))]
        assert [(one.start_seconds, one.seconds) for one in claims if one.name == "init"] == [(5, 20), (25, 0)]

    def test_the_scheduler_is_more_exact_than_the_condition(self) -> None:
        told = {"reason": "Scheduled", "eventTime": iso(T0 + 2.25)}
        assert before(pod(conditions=[condition("PodScheduled", 2)]), 3, told)["schedule"] == (0, 2.25)


class TestReady:
    @pytest.mark.parametrize(("condition_at", "seconds"), [(41, 41), (40, 40.5), (9000, 40.5), (3, 40.5)])
    def test_the_engines_word_counts_where_the_pods_is_of_another_time(self, condition_at: int, seconds: float) -> None:
        log = Start(id="l", source="log", started_at=iso(T0 + 10), ready_seconds=30.5)
        run = Run(1, previous=False, began=T0 + 9)
        start = from_pod.from_pod(
            pod(conditions=[condition("Ready", condition_at)]), "c", run, log, "", Around((), None, T0)
        )
        assert start.ready_seconds == seconds
        assert math.isclose(sum(one.seconds for one in start.phases), seconds)

    def test_an_engine_that_nobody_knows_is_ready_when_the_pod_is(self) -> None:
        run = Run(1, previous=False, began=T0 + 9)
        start = from_pod.from_pod(pod(conditions=[condition("Ready", 20)]), "c", run, None, "", Around((), None, T0))
        assert start.ready_seconds == 20


@pytest.mark.parametrize(
    ("reason", "said"),
    [("FailedMount", "ContainerCreating: volume v"), ("MissingClusterDNS", "ContainerCreating")],
)
def test_a_container_that_waits_without_a_word_is_explained_by_what_failed(reason: str, said: str) -> None:
    state = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
    around = Around((event(reason, 3, "volume v", type="Warning"),), None, T0 + 9)
    assert pod_status.waiting(pod(containerStatuses=[state]), "c", around) == said


def test_what_the_scheduler_says_of_preemption_is_left_out() -> None:
    told = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    more = " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    unscheduled = condition("PodScheduled", 0, "False") | {"reason": "Unschedulable", "message": told + more}
    assert pod_status.waiting(pod(conditions=[unscheduled]), "c", Around((), None, T0)) == f"Unschedulable: {told}"


@pytest.mark.parametrize(
    ("containers", "chosen"),
    [
        ([{"name": "a"}, {"name": "b", "command": ["vllm", "serve", "m"]}], "b"),
        ([{"name": "a"}, {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "1"}}}], "b"),
        ([{"name": "a"}, {"name": "b"}], "a"),
        ([], ""),
    ],
)
def test_the_engines_container(containers: list[dict[str, Any]], chosen: str) -> None:
    assert pod_status.container_of({"spec": {"containers": containers}}) == chosen
    default = {"annotations": {"kubectl.kubernetes.io/default-container": "a"}}
    assert pod_status.container_of({"metadata": default, "spec": {"containers": [{"name": "x"}, {"name": "a"}]}}) == "a"
