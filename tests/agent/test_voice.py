"""Every decision told three times: a number, an event, a line; a pod's claims as claims, and everything once."""

from __future__ import annotations

import inspect
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from glowplug.agent import describe, voice
from glowplug.agent.metrics import METRICS
from glowplug.agent.pods import Pod
from glowplug.agent.settings import Mode, Settings
from glowplug.agent.telling import Telling
from glowplug.agent.voice import Voice
from glowplug.core.clock import SYSTEM, Clock, Deadline
from glowplug.core.documents.start import (
    Compile,
    PublishOutcome,
    PublishResult,
    RestoreOutcome,
    RestoreResult,
    Start,
    Verdict,
)
from glowplug.core.errors import AccessDeniedError, UnavailableError
from glowplug.launch import reasons
from tests.clocks import Held

POD = Pod("uid-1", "team-a", "vllm-0", "vllm", "team-a", {})
DIGEST = "0123456789abcdef" * 4
STRANGER = Pod("uid-7", "inference", "llama-0", "vllm", "inference", {})
SECRET = "hf_AbCdEfGhIjKlMnOpQrStUvWx"


class Server:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def put_event(self, event: Any) -> bool:
        self.events.append(event)
        return True


class Spoken:
    """A voice, and what came of it."""

    def __init__(self, mode: Mode = Mode.NODE, clock: Clock = SYSTEM) -> None:
        self._stream = io.StringIO()
        self._server = Server()
        settings = Settings(Path("/x"), "node-1", mode, domains=("team-a",))
        self.voice = Voice(self._server, settings, stream=self._stream, clock=clock)  # type: ignore[arg-type]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    @property
    def events(self) -> list[dict[str, Any]]:
        self.voice.close(Deadline.after(60))
        return self._server.events

    def said(self) -> list[tuple[str, str]]:
        return [(event["reason"], event["message"]) for event in self.events]

    def numbers(self) -> dict[str, float]:
        """`name{label="value"}` → value, of all that is not 0."""
        return {
            sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.voice.metrics.render().decode())
            for sample in family.samples
            if sample.value and not sample.name.endswith("_bucket")
        }

    def all_text(self) -> str:
        return self._stream.getvalue() + json.dumps(self.events) + self.voice.metrics.render().decode()


@pytest.fixture
def spoken() -> Spoken:
    return Spoken()


def start(compile: Compile = Compile.HIT, reason: str = "", **more: Any) -> Start:  # noqa: A002
    said = {
        "verdict": Verdict(compile, 0.5, reason),
        "restore": RestoreResult(RestoreOutcome.RESTORED, parts=(DIGEST,), bytes=12_300_000, seconds=0.4),
        "ready_seconds": 21.3,
        "key_digest": DIGEST,
        **more,
    }
    return Start("50dd", "exec", "2026-11-30T20:00:00.000Z", **said)


MISSED = RestoreResult(RestoreOutcome.NONE, "key:tp,args.max_model_len", seconds=0.1)


class TestAStart:
    def test_that_hit(self, spoken: Spoken) -> None:
        spoken.voice.started(POD, start())
        assert spoken.said() == [
            ("CompileCacheHit", "restored 12.3 MB in 400 ms; compiled for 500 ms; ready after 21.3 s")
        ]
        expected = {
            "glowplug_starts_total domain=team-a restore=restored verdict=hit": 1,
            "glowplug_restored_bytes_total domain=team-a": 12_300_000,
            "glowplug_restore_seconds_sum domain=team-a restore=restored": 0.4,
            "glowplug_start_ready_seconds_sum domain=team-a verdict=hit": 21.3,
            "glowplug_start_compile_seconds_count domain=team-a verdict=hit": 1,
        }
        assert expected.items() <= spoken.numbers().items()
        (line,) = spoken.lines
        assert (line["what"], line["pod"], line["verdict"], line["key"]) == ("start", "vllm-0", "hit", DIGEST[:12])

    def test_that_missed_says_which_fields_differed(self, spoken: Spoken) -> None:
        spoken.voice.started(POD, start(Compile.MISS, "no entry was in the cache", restore=MISSED))
        ((reason, message),) = spoken.said()
        assert reason == "CompileCacheMiss"
        assert "key:tp,args.max_model_len" in message and "another tp, args.max_model_len" in message
        numbers = spoken.numbers()
        assert numbers["glowplug_restore_misses_total domain=team-a reason=key"] == 1
        assert numbers["glowplug_restore_miss_fields_total domain=team-a field=tp"] == 1
        assert numbers["glowplug_restore_miss_fields_total domain=team-a field=args"] == 1

    @pytest.mark.parametrize(
        "restore",
        [
            RestoreResult(RestoreOutcome.SKIPPED, "already_present", parts=(DIGEST,)),
            RestoreResult(RestoreOutcome.RESTORED, parts=(DIGEST,)),
        ],
        ids=["of a container that was started again", "of one that says it otherwise"],
    )
    def test_that_hit_on_what_was_there_already_is_no_miss(self, spoken: Spoken, restore: RestoreResult) -> None:
        spoken.voice.started(POD, start(restore=restore))
        ((reason, message),) = spoken.said()
        assert reason == "CompileCacheHit"
        assert message.startswith("what was restored before is still there; ")
        assert not [name for name in spoken.numbers() if "misses" in name]

    @pytest.mark.parametrize("reason", sorted(reasons.RESTORE - {"already_present"}))
    def test_that_was_given_nothing_is_a_miss_with_its_reason(self, spoken: Spoken, reason: str) -> None:
        spoken.voice.started(POD, start(Compile.MISS, restore=RestoreResult(RestoreOutcome.NONE, reason)))
        assert spoken.numbers()[f"glowplug_restore_misses_total domain=team-a reason={reason}"] == 1

    @pytest.mark.parametrize("compile", list(Compile))
    def test_of_every_verdict_has_an_event_of_its_own(self, spoken: Spoken, compile: Compile) -> None:  # noqa: A002
        spoken.voice.started(POD, start(compile, "why"))
        (event,) = spoken.events
        assert event["reason"] == f"CompileCache{compile.value.capitalize()}" and "why" in event["message"]
        assert event["type"] == ("Warning" if compile is Compile.REJECTED else "Normal")

    def test_is_told_once(self, spoken: Spoken) -> None:
        for _ in range(3):
            spoken.voice.started(POD, start())
        assert (len(spoken.events), len(spoken.lines)) == (1, 1)

    @pytest.mark.parametrize(
        ("outcome", "word"), [(PublishOutcome.PUBLISHED, "sealed"), (PublishOutcome.UNCHANGED, "unchanged")]
    )
    def test_does_not_call_published_what_nobody_has_judged(
        self, spoken: Spoken, outcome: PublishOutcome, word: str
    ) -> None:
        """For a pod all is done that lies in its outbox; what becomes of it is the agent's word, and comes after."""
        spoken.voice.started(POD, start(publish=PublishResult(outcome, "outbox")))
        assert spoken.lines[0]["handed_over"] == word

    def test_of_a_domain_that_is_not_kept_has_no_label_of_its_own(self, spoken: Spoken) -> None:
        spoken.voice.started(Pod("u", "mine", "p", "", "mine", {}), start())
        assert "glowplug_starts_total domain=other restore=restored verdict=hit" in spoken.numbers()

    @given(
        st.text(max_size=100),
        st.text(max_size=100),
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-(2**63), 2**63),
    )
    def test_says_whatever_a_pod_claims_without_harm(self, reason: str, other: str, seconds: float, size: int) -> None:
        spoken = Spoken()
        restore = RestoreResult(RestoreOutcome.RESTORED, other, bytes=size, seconds=seconds)
        spoken.voice.started(
            POD,
            start(
                Compile.MISS,
                reason,
                restore=restore,
                ready_seconds=seconds,
                verdict=Verdict(Compile.MISS, seconds, reason),
                key_digest=other,
            ),
        )
        assert len(spoken.lines) == 1 and len(spoken.events[0]["message"]) <= 1000
        assert all(math.isfinite(value) for value in spoken.numbers().values())


class TestAPublish:
    def test_that_brought_something(self, spoken: Spoken) -> None:
        spoken.voice.published(
            POD, "team-a", DIGEST, PublishResult(PublishOutcome.PUBLISHED, "", (DIGEST, DIGEST), 12_345, 2.0)
        )
        assert spoken.said() == [("CompileCachePublished", f"published 2 parts, 12.3 kB, under the key {DIGEST[:12]}")]
        numbers = spoken.numbers()
        assert numbers["glowplug_publishes_total domain=team-a outcome=published reason=none"] == 1
        assert numbers["glowplug_published_bytes_total domain=team-a"] == 12_345

    def test_that_found_everything_there_is_no_event(self, spoken: Spoken) -> None:
        spoken.voice.published(POD, "team-a", DIGEST, PublishResult(PublishOutcome.UNCHANGED))
        assert (spoken.events, len(spoken.lines)) == ([], 1)

    @pytest.mark.parametrize(
        ("outcome", "why", "words"),
        [
            (PublishOutcome.FAILED, "store_unavailable", "the store does not answer"),
            (PublishOutcome.SKIPPED, "no_credentials", "no_credentials ("),
        ],
    )
    def test_that_waits_says_that_it_is_tried_again_and_when(
        self, spoken: Spoken, outcome: PublishOutcome, why: str, words: str
    ) -> None:
        """Neither a failure nor a decision; however often it is tried, one event."""
        for seconds in (15.0, 30.0, 60.0):
            spoken.voice.published(POD, "team-a", DIGEST, PublishResult(outcome, why), again=seconds)
        ((reason, message),) = spoken.said()
        assert reason == "CompileCacheNotPublished"
        until = "tried again by itself, next in 15.0 s, for 24 hours at most"
        assert message.startswith(f"not published yet under the key {DIGEST[:12]}, {until}: ")
        assert words in message
        assert spoken.numbers()[f"glowplug_publishes_total domain=team-a outcome=waiting reason={why}"] == 3
        assert [(line["outcome"], line["reason"], line["again_seconds"]) for line in spoken.lines] == [
            ("waiting", why, 15.0),
            ("waiting", why, 30.0),
            ("waiting", why, 60.0),
        ]

    def test_that_failed_for_good_does_not_say_so(self, spoken: Spoken) -> None:
        for _ in range(2):
            spoken.voice.published(POD, "team-a", DIGEST, PublishResult(PublishOutcome.FAILED, "tree_changing"))
        ((_, message),) = spoken.said()
        assert message.startswith(f"not published under the key {DIGEST[:12]}: tree_changing")
        assert spoken.numbers()["glowplug_publishes_total domain=team-a outcome=failed reason=tree_changing"] == 2

    @pytest.mark.parametrize("reason", ["observe", "read_only", "no_store", "publish_off"])
    def test_that_somebody_does_not_want_is_no_event(self, spoken: Spoken, reason: str) -> None:
        spoken.voice.published(POD, "team-a", DIGEST, PublishResult(PublishOutcome.SKIPPED, reason))
        assert spoken.events == []
        assert spoken.numbers()[f"glowplug_publishes_total domain=team-a outcome=skipped reason={reason}"] == 1


class TestARefusal:
    def test_is_a_warning_with_its_reason(self, spoken: Spoken) -> None:
        for _ in range(2):
            spoken.voice.refused(POD, POD.uid, "claim:env.VLLM_USE_V1", "the pod's is '0', claimed is '1'")
        (event,) = spoken.events
        assert (event["reason"], event["type"]) == ("OutboxRefused", "Warning")
        assert event["message"] == "claim:env.VLLM_USE_V1: the pod's is '0', claimed is '1'"
        assert spoken.numbers()["glowplug_outbox_refusals_total reason=claim:env"] == 2

    def test_of_nobody_s_outbox_is_a_line(self, spoken: Spoken) -> None:
        spoken.voice.refused(None, "uid-9", "pod_unknown", "")
        assert spoken.events == []
        assert (spoken.lines[0]["uid"], spoken.lines[0]["reason"]) == ("uid-9", "pod_unknown")


class TestAPodThatNobodyServesHere:
    def test_is_told_once_and_its_domain_is_a_line(self, spoken: Spoken) -> None:
        others = [Pod(f"u{number}", "inference", f"llama-{number}", "", "inference", {}) for number in range(3)]
        for pod in (STRANGER, STRANGER, *others):
            spoken.voice.unkept(pod)
        said = "pod inference/llama-0 is of domain inference, which this agent does not keep (--domain)"
        assert spoken.said()[0] == ("CompileCacheNotKept", said)
        assert [event["involvedObject"]["uid"] for event in spoken.events] == ["uid-7", "u0", "u1", "u2"]
        assert [(line["what"], line["detail"], line["keeps"]) for line in spoken.lines] == [
            ("unkept", said, ["team-a"])
        ]
        assert spoken.numbers()["glowplug_unkept_pods_total"] == 4

    def test_is_one_of_so_many_a_minute(self) -> None:
        clock = Held()
        spoken = Spoken(clock=clock)
        for number in range(100):
            spoken.voice.unkept(Pod(f"u{number}", "x", f"p{number}", "", "x", {}))
        clock.at = 61.0
        spoken.voice.unkept(Pod("later", "x", "later", "", "x", {}))
        assert len(spoken.events) == voice.UNKEPT_A_MINUTE + 1
        assert spoken.numbers()["glowplug_events_total outcome=dropped"] == 100 - voice.UNKEPT_A_MINUTE


def test_a_store_that_gives_nothing_for_long_is_an_event_of_the_node_once_an_hour() -> None:
    clock = Held()
    spoken = Spoken(clock=clock)
    error = UnavailableError("there is no bucket lab-x", code="no-bucket")
    for second in range(0, 7200, 60):
        clock.at = float(second)
        spoken.voice.lasting(["team-a", "team-b"], error, 61.0 + second)
    assert spoken.said() == [
        (
            "CompileCacheNotFetched",
            f"domain team-a and 1 more: not fetched for {lasted}: no_bucket: there is no bucket lab-x",
        )
        for lasted in ("61.0 s", "61 min 1 s")
    ]
    assert {event["involvedObject"]["kind"] for event in spoken.events} == {"Node"}


@pytest.mark.parametrize("mode", list(Mode))
def test_no_metric_of_the_other_mode_is_shown(mode: Mode) -> None:
    """A zero of what cannot happen here would be read as "it does not happen"."""
    shown = Spoken(mode).voice.metrics.render().decode()
    there = {one.name for one in METRICS if f"# HELP {one.name} " in shown or f"# HELP {one.name}\n" in shown}
    assert there == {one.name for one in METRICS if one.mode in (None, mode)}
    assert {one.name for one in METRICS if one.mode is mode}


def test_the_node_s_own_events_are_about_the_node(spoken: Spoken) -> None:
    voice = spoken.voice
    voice.nvme(backed=False, where="/mnt is ext4 on the boot volume")
    voice.nvme(backed=False, where="/mnt is ext4 on the boot volume")
    voice.prewarmed("team-a", 3, 120_000_000, 8.0)
    voice.taint("removed", 42.0)
    voice.taint("failed", 43.0)
    voice.taint("put_back", 43.0)
    assert spoken.said() == [
        ("InstanceStoreMissing", "/mnt is ext4 on the boot volume"),
        ("CompileCachePrewarmed", "domain team-a: 3 keys, 120 MB, after 8.0 s"),
        ("StartupTaintRemoved", "removed 42.0 s after the node's creation"),
        ("StartupTaintNotRemoved", "not removed 43.0 s after the node's creation"),
    ]
    assert {event["involvedObject"]["name"] for event in spoken.events} == {"node-1"}


def test_an_agent_that_is_started_again_says_what_it_said_by_the_same_names() -> None:
    """So that the server has it already. What happens anew is said anew."""
    one, other = Spoken(), Spoken()
    for seconds, spoken in enumerate((one, other)):
        spoken.voice.started(POD, start())
        spoken.voice.nvme(backed=False, where="/mnt is ext4 on the boot volume")
        spoken.voice.prewarmed("team-a", 3 + seconds, 1, 8.0 + seconds)
    assert [event["metadata"]["name"] for event in one.events] == [event["metadata"]["name"] for event in other.events]
    assert len(one.events) == 3


def test_failures_are_counted_by_what_and_code(spoken: Spoken) -> None:
    spoken.voice.failed("list", AccessDeniedError("no"))
    spoken.voice.failed("fetch", UnavailableError("slow", code="timeout"))
    spoken.voice.failed("disk", OSError(28, "No space left on device"))
    spoken.voice.failed("a word of nobody's", ValueError("x"))
    numbers = spoken.numbers()
    assert [
        numbers[f"glowplug_failures_total code={code} what={what}"]
        for what, code in (("list", "access_denied"), ("fetch", "timeout"), ("disk", "disk"), ("other", "internal"))
    ] == [1] * 4


def test_the_same_fault_for_a_night_is_a_line_in_ten_minutes() -> None:
    """Faults that differ are lines of their own, however many come; each is counted."""
    stream, clock = io.StringIO(), Held()
    voice = Voice(None, Settings(Path("/x"), "node-1"), stream=stream, clock=clock)
    for second in range(0, 8 * 3600, 20):
        clock.at = float(second)
        voice.failed("api", UnavailableError("the Kubernetes API cannot be reached"))
    voice.failed("api", UnavailableError("something else"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 8 * 6 + 1
    assert [line.get("repeated") for line in lines[:3]] == [None, 29, 29]
    assert "repeated" not in lines[-1]
    assert b'failures_total{code="unavailable",what="api"} 1441.0' in voice.metrics.render()


def test_a_damaged_part_is_an_event_of_the_node_a_number_and_a_line(spoken: Spoken) -> None:
    for _ in range(2):
        spoken.voice.damaged("team-a", DIGEST, "ab" * 32)
    ((reason, message),) = spoken.said()
    assert (reason, "part abababababab of the key" in message) == ("CompileCacheDamaged", True)
    assert spoken.numbers()["glowplug_damaged_parts_total domain=team-a"] == 2
    assert [(line["what"], line["part"]) for line in spoken.lines] == [("damaged", "ab" * 6)] * 2


def test_what_may_fail_is_what_does() -> None:
    """A word that is not known is "other" to whoever counts; one that nobody says is of no use."""
    sources = "\n".join(path.read_text() for path in Path(voice.__file__).parent.glob("*.py"))
    calls = re.findall(r"\bfailed\((.*), \w", sources)
    said = {word for call in calls for word in re.findall(r'"([a-z]+)"', call)}
    assert said == voice._WHAT


def test_no_secret_comes_through(spoken: Spoken) -> None:
    voice = spoken.voice
    voice.started(POD, start(Compile.MISS, f"token {SECRET}", restore=RestoreResult(RestoreOutcome.FAILED, SECRET)))
    voice.refused(POD, POD.uid, f"claim:{SECRET}", f"claimed is {SECRET}")
    voice.published(POD, SECRET, DIGEST, PublishResult(PublishOutcome.FAILED, f"secret_found: {SECRET}"))
    voice.failed("fetch", UnavailableError(f"https://user:{SECRET}@host/ does not answer"))
    assert SECRET not in spoken.all_text()


def test_without_an_api_server_there_are_lines_and_numbers() -> None:
    stream = io.StringIO()
    voice = Voice(None, Settings(Path("/x"), ""), stream=stream)
    voice.started(POD, start())
    voice.nvme(backed=False, where="here")
    voice.close(Deadline.after(1))
    assert len(stream.getvalue().splitlines()) == 2


def test_a_stream_that_is_gone_costs_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    stream.close()
    voice = Voice(None, Settings(Path("/x"), ""), stream=stream)
    voice.started(POD, start())


def test_it_answers_to_every_word_of_telling_and_every_metric_is_moved_by_one(spoken: Spoken) -> None:
    """A metric that nothing moves, or a word that moves none, would be noticed by nobody."""
    voice = spoken.voice
    shared = Spoken(Mode.SHARED)
    words = {name for name, _ in inspect.getmembers(Telling, inspect.isfunction) if not name.startswith("_")}
    assert {name for name in words if not hasattr(voice, name)} == set()
    voice.started(POD, start(Compile.MISS, restore=MISSED))
    voice.started(POD, Start("other", "exec", "", restore=RestoreResult(RestoreOutcome.RESTORED, bytes=1)))
    voice.published(POD, "team-a", DIGEST, PublishResult(PublishOutcome.PUBLISHED, "", (DIGEST,), 1, 1.0))
    voice.refused(POD, POD.uid, "publisher", "")
    voice.waiting(5, 1)
    voice.fetched("team-a", DIGEST, 1, 1, 1.0)
    voice.removed("team-a", DIGEST, "space")
    voice.set_aside(POD, "team-a", DIGEST, "1 part, for 24 h")
    voice.unkept(STRANGER)
    voice.damaged("team-a", DIGEST, "ab" * 32)
    voice.prewarmed("team-a", 1, 1, 1.0)
    voice.held(1, 1, 1)
    shared.voice.filled(1, 0, 0, 1, 1.0)
    voice.nvme(backed=True, where="")
    shared.voice.taint("removed", 1.0)
    voice.failed("list", UnavailableError("x"))
    assert spoken.events
    moved = {name.partition(" ")[0] for name in (*spoken.numbers(), *shared.numbers())}
    names = {metric.name for metric in METRICS}
    assert {name for name in names if not {name, f"{name}_count"} & moved} == set()
    assert {line["what"] for line in (*spoken.lines, *shared.lines)} == set(describe.LINES)


def test_its_import_asks_for_no_metrics_before_there_is_an_agent() -> None:
    """`glowplug --help` must not pay for it."""
    code = "import sys, glowplug.agent.voice; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
