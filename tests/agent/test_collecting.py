"""From outboxes into the store: once, of pods that may, and only what an engine's caches hold; nothing is lost or kept for ever."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from glowplug.agent import collecting, quarantine
from glowplug.agent.outboxes import Bounds
from glowplug.agent.pods import Pod, Said
from glowplug.cache import bundle
from glowplug.core.clock import Deadline
from glowplug.core.documents.node import ENTRY, SUPPORT
from glowplug.core.documents.start import Compile, RestoreOutcome, RestoreResult
from glowplug.nodestore.outbox import Outbox
from lab import s3
from tests.agent.outboxes import DIGEST, DOMAIN, ENTRY_NAME, FACTORS, INDEX, START, Node, claim, document, pod, tree
from tests.clocks import by
from tests.parts import requires
from tests.store.conftest import s3_server

__all__ = ["s3_server"]

DAY = 86_400.0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one pod of the workload, whose store is a directory."""
    return Node(tmp_path, pod())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return tree(tmp_path / "made")


class TestReplicas:
    """All of them hand over the same entry."""

    def test_of_what_the_node_has_fetch_nothing(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made)
        node.round()
        node.hold()
        node.keys.asked.clear()
        node.run(pod(2))
        node.hand_over(pod(2), made)
        assert node.round().publishes() == ["published", "unchanged"]
        assert node.keys.asked == []

    def test_of_what_the_node_lacks_fetch_it_and_say_that_it_has_not_changed(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made)
        node.round()
        node.run(pod(2))
        node.hand_over(pod(2), made)
        node.round()
        assert node.keys.asked == [("want", claim().key.digest()), ("want unchanged", claim().key.digest())]


class TestWhatAPodCompiled:
    def test_is_published_with_its_support_and_fetched_for_the_node(self, node: Node, made: Path) -> None:
        box = node.hand_over(pod(), made)
        heard = node.round()
        manifest = node.published()
        assert {(part.kind, part.name) for part in manifest.parts} == {
            (ENTRY, ENTRY_NAME),
            (SUPPORT, f"{ENTRY_NAME}/support"),
        }
        (entry,) = manifest.entries()
        assert entry.index == (INDEX,) and entry.observed == {"ready_ms": 61_000}
        assert entry.created_by == f"agent node-1 {START}"
        assert heard.publishes() == ["published"] and heard.refusals() == []
        assert node.keys.asked == [("want", claim().key.digest())]
        assert [path.name for path in box.iterdir()] == [f"{START}.json"]
        assert node.scratch() == []

    def test_can_be_restored_by_the_next_node(self, node: Node, made: Path, tmp_path: Path) -> None:
        node.hand_over(pod(), made)
        node.round()
        other = Node(tmp_path / "other", url=node.url)
        other.hold()
        held = other.root / "store" / DOMAIN / claim().key.digest()
        files = {path.name: path.read_bytes() for path in held.rglob("*") if path.is_file()}
        assert files["vllm_compile_cache.py"] == (made / INDEX).read_bytes()
        assert files["kernel0.py"] == (made / "inductor/ab/kernel0.py").read_bytes()

    def test_has_the_image_as_the_runtime_says_it_among_its_guards(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, said=replace(claim(), guards={"triton": "3.4.0"}))
        node.round()
        assert {tuple(sorted(part.guards.items())) for part in node.published().parts} == {
            (("image_digest", DIGEST), ("triton", "3.4.0"))
        }

    def test_is_published_by_one_of_many_replicas(self, node: Node, tmp_path: Path) -> None:
        """Two cold compiles never give the same files: the first one's stay."""
        for number in range(1, 5):
            one = pod(number)
            node.run(one)
            node.hand_over(one, tree(tmp_path / f"made{number}", salt=str(number)))
        assert node.round().publishes() == ["published", "unchanged", "unchanged", "unchanged"]
        assert len(node.blobs()) == 2
        assert [node.archives(pod(number)) for number in range(1, 5)] == [[]] * 4

    def test_and_is_in_the_store_already_is_not_even_unpacked(
        self, node: Node, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.hand_over(pod(), made)
        node.round()
        node.run(pod(2))
        node.hand_over(pod(2), tree(tmp_path / "other", salt="2"))
        monkeypatch.setattr("glowplug.tree.archive.unpack", lambda *_: pytest.fail("unpacked"))
        assert node.round().publishes() == ["published", "unchanged"]

    def test_is_published_again_where_a_blob_of_it_has_gone(self, node: Node, made: Path, tmp_path: Path) -> None:
        node.hand_over(pod(), made)
        node.round()
        shutil.rmtree(tmp_path / "bucket" / "v1" / DOMAIN / "blobs")
        node.run(pod(2))
        node.hand_over(pod(2), tree(tmp_path / "other", salt="2"))
        assert node.round().publishes() == ["published", "published"]

    def test_loses_the_secrets_that_engines_write_into_metadata(self, node: Node, made: Path, tmp_path: Path) -> None:
        """The launcher redacts too; the agent does not rely on it."""
        (made / FACTORS).write_text(json.dumps({"env": {"VLLM_API_KEY": "sk-very-secret-indeed"}}))
        node.hand_over(pod(), made)
        node.round()
        (entry,) = node.published().entries()
        bundle.fetch(node.store(), DOMAIN, entry, tmp_path / "back", Deadline.after(60))
        text = (tmp_path / "back" / FACTORS).read_text()
        assert "VLLM_API_KEY" in text and "very-secret" not in text

    @requires("s3")
    def test_goes_to_s3_when_credentials_come_late(self, s3_server: s3.Server, tmp_path: Path) -> None:
        """First none, then wrong ones, then some that may only read; what was handed over waits for those that may write."""
        s3_server.make_bucket("collecting")
        none = {name: value for name, value in s3_server.env().items() if "KEY" not in name}
        node = Node(tmp_path, pod(), url=f"s3://collecting/{os.urandom(4).hex()}", environ=none)
        node.hand_over(pod(), tree(tmp_path / "made"))
        assert [outcome.split()[-1] for outcome in node.round().publishes()] == ["no_credentials"]
        node.environ = s3_server.with_keys(s3.WRONG).env()
        node.clock.shift += 3600
        node.round()
        node.environ = s3_server.with_keys(s3.READER).env()
        node.clock.shift += 3600
        node.round()
        assert len(node.archives(pod())) == 2
        node.environ = s3_server.env()
        node.clock.shift += 3600
        outcomes = node.round().publishes()
        assert outcomes[-1] == "published" and "published" not in outcomes[:-1] and len(outcomes) == 4
        waits = [word[4] for word in node.heard.of("published")[:3]]
        assert waits == pytest.approx([15.0, 15.0, 30.0]), "the store's, then this key's own"
        assert node.archives(pod()) == [] and len(node.published().parts) == 2


class TestSupportAlone:
    """What an entry made on its first hit: sealed without the entry, which the node has."""

    def completed(self, node: Node, tmp_path: Path) -> Path:
        node.hand_over(pod(), tree(tmp_path / "made"))
        node.round()
        node.hold()
        node.run(pod(2))
        return tree(tmp_path / "made", support=6)

    def test_completes_what_is_published(self, node: Node, tmp_path: Path) -> None:
        more = self.completed(node, tmp_path)
        node.hand_over(pod(2), more, kinds=[SUPPORT])
        assert node.round().publishes() == ["published", "published"]
        manifest = node.published()
        support = manifest.support(manifest.entries()[0])
        assert support is not None and (support.revision, support.files) == (1, 6)

    def test_waits_while_its_entry_may_still_come(self, node: Node, made: Path) -> None:
        """A round in the middle of sealing must not take half for the whole."""
        one, running = pod(), document(publish=None)
        node.hand_over(one, made, start=running, kinds=[SUPPORT])
        assert node.round().publishes() == []
        assert len(node.archives(one)) == 1
        node.hand_over(one, made, kinds=[ENTRY])
        assert node.round().publishes() == ["published"]
        assert len(node.published().parts) == 2

    def test_whose_entry_never_came_goes(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, start=document(publish=None), kinds=[SUPPORT])
        node.round()
        node.clock.shift += 3600
        assert node.round().publishes() == ["skipped entry_missing"]
        assert node.archives(pod()) == []


class TestSeveralArchivesOfOneStart:
    """An engine has several caches, and one start is one thing to whoever reads its events."""

    def test_are_one_event_with_the_sum(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, start=document(publish=None), kinds=[ENTRY])
        assert node.round().publishes() == [], "more of it may come"
        assert len(node.published().parts) == 1, "what lies there is in the store, and waits for nothing"
        node.hold()
        node.hand_over(pod(), made, start=document(), kinds=[SUPPORT])
        assert node.round().publishes() == ["published"]
        ((_, _, _, result),) = node.heard.of("published")
        assert set(result.parts) == {part.sha256 for part in node.published().parts}

    def test_are_told_after_a_minute_where_the_start_says_no_more(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, start=document(publish=None), kinds=[ENTRY])
        node.round()
        node.clock.shift += 61
        assert node.round().publishes() == ["published"]

    def test_are_told_when_the_agent_ends(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, start=document(publish=None), kinds=[ENTRY])
        node.round()
        node.collector.close()
        assert node.heard.publishes() == ["published"]

    def test_are_one_refusal(self, node: Node, made: Path) -> None:
        one = pod(account="default")
        node.run(one)
        for kind in (SUPPORT, ENTRY):
            node.hand_over(one, made, kinds=[kind])
            node.round()
        assert node.archives(one) == []
        assert node.heard.refusals() == ["publisher"]

    def test_of_another_start_are_another_refusal(self, node: Node, made: Path) -> None:
        one = pod(account="default")
        node.run(one)
        for start_id in ("50dd", "50de"):
            node.hand_over(one, made, start=document(start_id))
        assert node.round().refusals() == ["publisher", "publisher"]


def test_of_pods_that_are_long_gone_the_largest_are_forgotten_first(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While their outboxes wait for a store; somebody with many large pods takes nobody's place but their own."""
    monkeypatch.setattr(collecting, "_REMEMBERED", 500)
    for number, size in enumerate((100, 300, 200, 10)):
        one = replace(pod(number), gone=True, object=Said(json.dumps({"spec": {}, "x": "x" * size})))
        node.run(one).joinpath("waits").touch()
    node.round()
    node.pods.here.clear()
    assert [node.collector._pod(f"uid-{number}") is not None for number in range(4)] == [True, False, True, True]


class TestAClaim:
    """Compared with what the API says (tests/agent/test_claims.py has all of them)."""

    @pytest.mark.parametrize(
        ("said", "one", "reason"),
        [
            (claim(domain="team-b"), pod(), "claim:domain"),
            (claim(model="s3://models/other"), pod(), "claim:model"),
            (claim(gpu="NVIDIA A100-SXM4-80GB"), pod(), "claim:gpu"),
            (claim(), pod(account="default"), "publisher"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_that_differs_is_told_once_and_leaves_nothing(
        self, node: Node, made: Path, said: object, one: Pod, reason: str
    ) -> None:
        node.run(one)
        node.hand_over(one, made, said=said)  # type: ignore[arg-type]
        node.round()
        assert node.round().refusals() == [reason]
        assert (node.blobs(), node.archives(one)) == ([], [])
        assert node.keys.asked == []

    def test_waits_while_the_node_s_processors_are_not_known(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made)
        node.candidates = ()
        assert (node.round().publishes(), node.heard.refusals()) == ([], [])
        node.candidates = [claim().key.gpu]
        node.clock.shift += 60
        assert node.round().publishes() == ["published"]

    def test_waits_while_the_pod_s_domain_is_not_known(self, node: Node, made: Path) -> None:
        node.run(pod(domain=""))
        node.hand_over(pod(), made)
        assert node.round().words == [("waiting", node.heard.of("waiting")[0][0], 2)]
        node.run(pod())
        assert node.round().publishes() == ["published"]

    def test_is_read_once_more_when_the_archive_is_unpacked(
        self, node: Node, made: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A pod that changes its words in between has not said them to anybody who compares."""
        box = node.hand_over(pod(), made)
        from glowplug.agent import claims

        def judged(*args: object) -> None:
            for path in box.glob("*-*.json"):
                path.write_text(path.read_text().replace("s3://models/llama", "s3://models/other"))

        monkeypatch.setattr(node.collector, "_judge", judged)
        assert (node.round().publishes(), node.blobs()) == ([], [])
        monkeypatch.setattr(node.collector, "_judge", claims.judge)
        assert node.round().refusals() == ["claim:model"]


def _empty_index(root: Path) -> None:
    (root / INDEX).write_text("")


def _no_index(root: Path) -> None:
    (root / INDEX).unlink()


class TestBytes:
    """Believed no further than an engine's caches go."""

    @pytest.mark.parametrize(
        ("change", "reason"), [(_empty_index, "incomplete"), (_no_index, "damaged")], ids=["empty-index", "no-entry"]
    )
    def test_that_are_no_whole_entry_are_refused(
        self, node: Node, made: Path, change: Callable[[Path], None], reason: str
    ) -> None:
        change(made)
        said = replace(claim(), index=()) if reason == "damaged" else claim()
        node.hand_over(pod(), made, said=said)
        assert node.round().refusals() == [reason]
        assert (node.blobs(), node.archives(pod()), node.scratch()) == ([], [], [])

    @pytest.mark.parametrize("path", ["vllm/assets/token", "huggingface/token", "vllm/startup_plan/x", "x"])
    def test_that_may_not_travel_are_refused(self, node: Node, made: Path, path: str) -> None:
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text("hf_secret")
        node.hand_over(pod(), made)
        assert node.round().refusals() == ["allowlist"]
        assert node.blobs() == []

    def test_that_claim_other_index_files_are_refused(self, node: Node, made: Path) -> None:
        node.hand_over(
            pod(), made, said=replace(claim(), index=(INDEX, f"vllm/{ENTRY_NAME}/rank_0_0/backbone/artifact"))
        )
        assert node.round().refusals() == ["damaged"]

    def test_that_claim_another_entry_are_refused(self, node: Node, made: Path) -> None:
        node.hand_over(pod(), made, said=replace(claim(), name="torch_compile_cache/ffffffffff"))
        assert node.round().refusals() == ["damaged"]

    @pytest.mark.parametrize("place", [0, 700, -2000])
    def test_that_differ_from_their_digest_are_refused(self, node: Node, made: Path, place: int) -> None:
        box = node.hand_over(pod(), made)
        for path in box.glob("*.sealed"):
            data = bytearray(path.read_bytes())
            data[place] ^= 1
            path.write_bytes(data)
        assert node.round().refusals() == ["damaged"]
        assert (node.blobs(), node.archives(pod()), node.scratch()) == ([], [], [])

    def test_of_one_archive_do_not_keep_the_next_from_being_published(self, node: Node, made: Path) -> None:
        box = node.hand_over(pod(), made)
        evil = document("0evi1")
        Outbox(box).put_start(evil)
        for suffix in (".sealed", ".json"):
            shutil.copy(box / f"{START}-1{suffix}", box / f"{evil.id}-1{suffix}")
        (box / f"{evil.id}-1.sealed").write_bytes(b"x" * 5000)
        heard = node.round()
        assert (heard.refusals(), heard.publishes()) == (["damaged"], ["published"])


class TestAStoreThatDoesNotAnswer:
    @pytest.fixture
    def away(self, node: Node) -> str:
        """The store's address; the node has one where nobody listens."""
        known = node.url
        node.environ = {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        node.url = "s3://lab"
        return known

    def test_costs_nothing_but_time(self, node: Node, made: Path, away: str) -> None:
        node.hand_over(pod(), made)
        assert node.round().publishes() == ["failed store_unavailable"]
        assert len(node.archives(pod())) == 2
        node.url = away
        assert node.round().publishes() == ["failed store_unavailable"]  # not asked again at once
        node.clock.shift += 60
        assert node.round().publishes() == ["failed store_unavailable", "published"]
        assert node.archives(pod()) == []

    def test_is_asked_by_one_pod_and_not_by_each(self, node: Node, tmp_path: Path, away: str) -> None:
        for number in range(1, 4):
            node.run(pod(number))
            node.hand_over(pod(number), tree(tmp_path / "made"), start=document(f"5{number}"))
        heard = node.round()
        assert heard.publishes() == ["failed store_unavailable"]
        assert len(heard.of("started")) == 3

    def test_is_waited_for_within_bounds_and_the_oldest_go(self, node: Node, tmp_path: Path, away: str) -> None:
        made = tree(tmp_path / "made")
        for number in (1, 2):
            node.run(pod(number))
            node.hand_over(pod(number), made)
        node.bounds = Bounds(node_bytes=sum(path.stat().st_blocks * 512 for path in node.box(pod(2)).glob("*.sealed")))
        node.anew()
        heard = node.round()
        assert heard.refusals() == ["too_large", "too_large"]
        assert (len(node.archives(pod(1))), len(node.archives(pod(2)))) == (0, 2)
        node.clock.shift += 2 * DAY
        assert node.round().refusals() == ["too_large", "too_large", "too_old", "too_old"]
        assert node.heard.of("waiting")[-1] == (0, 0)

    def test_is_not_too_old_because_the_clock_was_set(self, node: Node, made: Path, away: str) -> None:
        """A node that comes up with a clock of 1970 and is told the time: what came before that is not a lifetime old."""
        node.hand_over(pod(), made)
        node.clock.set_forward = 50 * 365 * DAY
        node.round()
        node.clock.shift += 300
        assert node.round().refusals() == []
        assert len(node.archives(pod())) == 2
        node.clock.shift += 600
        assert set(node.round().refusals()) == {"too_old"}

    def test_is_waited_for_when_the_pod_has_gone_for_long(self, node: Node, made: Path, away: str) -> None:
        node.hand_over(pod(), made)
        node.round()
        node.run(replace(pod(), gone=True))
        node.round()
        node.pods.here.clear()  # the API's word is forgotten after an hour
        node.clock.shift += 7200
        node.url = away
        assert node.round().publishes()[-1] == "published"


class TestAPodThatIsGone:
    def test_has_its_last_work_published_and_its_outbox_removed(self, node: Node, made: Path) -> None:
        box = node.hand_over(replace(pod(), gone=True), made)
        node.run(replace(pod(), gone=True))
        assert node.round().publishes() == ["published"]
        assert box.exists()  # its watcher may be at it for some seconds more
        node.clock.shift += 60
        node.round()
        assert not box.exists()
        assert len(node.heard.of("started")) == 1

    def test_and_was_never_heard_of_has_its_outbox_removed_after_a_while(self, node: Node, made: Path) -> None:
        box = node.hand_over(pod(), made)
        node.pods.here.clear()
        node.pods.synced.clear()
        node.round()
        node.clock.shift += 7200
        node.round()
        assert box.exists()  # nobody has said yet which pods there are
        node.pods.synced.set()
        assert node.round().refusals() == []  # it may be one that the API is about to tell of
        node.clock.shift += 3600
        assert node.round().refusals() == ["pod_unknown"]
        assert (box.exists(), node.blobs()) == (False, [])


class TestAStart:
    def test_is_told_once_and_by_its_verdict(self, node: Node) -> None:
        box = Outbox(node.box(pod()))
        box.put_start(document(compile=Compile.UNKNOWN, publish=None))
        assert node.round().of("started") == []
        box.put_start(document(compile=Compile.HIT))
        node.round()
        box.put_start(document(compile=Compile.HIT, exit_status=0))
        node.round()
        ((told_of, start),) = node.heard.of("started")
        assert (told_of, start.verdict.compile) == (pod(), Compile.HIT)

    def test_is_told_once_by_an_agent_that_is_started_again(self, node: Node) -> None:
        Outbox(node.box(pod())).put_start(document())
        node.round()
        node.anew()
        Outbox(node.box(pod())).put_start(document("0ther"))
        assert [start.id for _, start in node.round().of("started")] == [START, "0ther"]

    def test_of_each_of_more_pods_than_any_node_has_is_told(self, node: Node) -> None:
        for number in range(1200):
            Outbox(node.run(pod(number))).put_start(document(f"s{number}"))
        assert len(node.round().of("started")) == 1200

    def test_is_forgotten_with_its_pod(self, node: Node) -> None:
        Outbox(node.box(pod())).put_start(document())
        node.round()
        shutil.rmtree(node.box(pod()))
        node.round()
        assert START not in (node.root / ".glowplug" / "told.json").read_text()

    def test_is_one_of_many_and_the_newest_stay(self, node: Node) -> None:
        """A container that restarts again and again fills no disk and hides no start."""
        box = Outbox(node.box(pod()))
        for number in range(40):
            box.put_start(document(f"s{number:02}", started_at=f"2026-11-30T20:{number:02}:00.000Z"))
        for _ in range(8):
            node.round()
        assert len(node.heard.of("started")) == 40
        assert len(list(node.box(pod()).glob("*.json"))) <= 8

    def test_that_was_given_a_key_keeps_it_longest_and_one_that_found_damage_has_it_looked_at(self, node: Node) -> None:
        digest = claim().key.digest()
        box = Outbox(node.box(pod()))
        given = RestoreResult(RestoreOutcome.RESTORED, parts=("ab" * 32,), bytes=5)
        box.put_start(document("a1", compile=Compile.HIT, key_digest=digest, restore=given))
        damaged = RestoreResult(RestoreOutcome.FAILED, "integrity")
        box.put_start(document("a2", key_digest=digest, restore=damaged))
        box.put_start(document("a3", key_digest="../../etc", restore=damaged))
        node.round()
        assert node.keys.asked == [("used", digest), ("suspect", digest)]


class TestARejection:
    """The engine loaded what it was given and threw it away: as `run` does, a row in the manifest, and two of them block."""

    def rejected(self, node: Node, start_id: str, **more: object) -> None:
        manifest = node.published()
        given = RestoreResult(RestoreOutcome.RESTORED, parts=tuple(part.sha256 for part in manifest.parts), bytes=5)
        said = document(start_id, compile=Compile.REJECTED, restore=given, key_digest=manifest.key_digest, **more)
        Outbox(node.box(pod())).put_start(said)

    @pytest.fixture
    def warm(self, node: Node, made: Path) -> Node:
        node.hand_over(pod(), made)
        node.round()
        node.hold()
        node.keys.asked.clear()
        node.heard.words.clear()
        return node

    def test_by_two_starts_blocks_the_key_here_and_everywhere(self, warm: Node) -> None:
        self.rejected(warm, "r1")
        warm.round()
        assert [row.start_id for row in warm.published().rejections] == ["r1"]
        assert warm.published().blocked is None
        warm.anew()
        self.rejected(warm, "r2")
        warm.round()
        manifest = warm.published()
        assert ({row.start_id for row in manifest.rejections}, manifest.blocked is None) == ({"r1", "r2"}, False)
        assert warm.keys.asked.count(("want", manifest.key_digest)) == 2

    def test_of_a_pod_that_may_not_publish_is_told_and_goes_no_further(self, warm: Node) -> None:
        warm.run(pod(account="default"))
        self.rejected(warm, "r1")
        assert len(warm.round().of("started")) == 1
        assert warm.published().rejections == ()

    def test_of_what_this_node_never_gave_goes_no_further(self, warm: Node) -> None:
        given = RestoreResult(RestoreOutcome.RESTORED, parts=("ab" * 32,), bytes=5)
        said = document("r1", compile=Compile.REJECTED, restore=given, key_digest=warm.published().key_digest)
        Outbox(warm.box(pod())).put_start(said)
        warm.round()
        assert warm.published().rejections == ()

    def test_waits_for_a_store_that_does_not_answer(self, warm: Node) -> None:
        self.rejected(warm, "r1")
        known, warm.url = warm.url, "s3://lab"
        warm.environ = {
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        }
        warm.anew()
        warm.round()
        warm.url = known
        warm.anew()
        warm.round()
        assert [row.start_id for row in warm.published().rejections] == ["r1"]


class TestACrash:
    """A start ended before it was ready with what this node gave it, the next became ready without."""

    def crashed(self, node: Node, made: Path, *, restarts: int = 1, **more: object) -> None:
        node.hand_over(pod(), made)
        node.round()
        node.hold()
        manifest = node.published()
        one = pod()
        state = {"name": "vllm", "restartCount": restarts}
        node.run(replace(one, object={**one.object, "status": {"containerStatuses": [state]}}))
        without = RestoreResult(RestoreOutcome.NONE, "quarantined", aside=tuple(part.sha256 for part in manifest.parts))
        Outbox(node.box(one)).put_start(
            document("c2", restore=without, key_digest=manifest.key_digest, **{"ready_seconds": 60.0, **more})
        )
        node.heard.words.clear()
        node.round()

    def test_takes_the_parts_from_this_node_and_nothing_from_the_store(self, node: Node, made: Path) -> None:
        self.crashed(node, made)
        manifest = node.published()
        digests = frozenset(part.sha256 for part in manifest.parts)
        ((_, domain, key, detail),) = node.heard.of("set_aside")
        assert (domain, key) == (DOMAIN, manifest.key_digest)
        assert str(node.root / ".glowplug" / "quarantine.json") in detail
        assert quarantine.left_out(node.root) == digests
        assert node.keys.asked[-1] == ("want", manifest.key_digest)
        node.hold()
        assert not any((node.root / "store" / DOMAIN / manifest.key_digest / digest).exists() for digest in digests)
        node.anew()
        node.round()
        assert len(node.heard.of("set_aside")) == 1

    @pytest.mark.parametrize("more", [{"restarts": 0}, {"ready_seconds": None}], ids=["never-restarted", "not-ready"])
    def test_that_nobody_else_saw_or_that_proves_nothing_is_no_evidence(
        self, node: Node, made: Path, more: dict[str, int]
    ) -> None:
        self.crashed(node, made, **more)
        assert (node.heard.of("set_aside"), quarantine.left_out(node.root)) == ([], frozenset())


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"observe": True}, "observe"), ({"read_only": True}, "read_only"), ({"store": ""}, "no_store")],
    ids=["observe", "read-only", "no-store"],
)
def test_an_agent_that_publishes_nothing_tells_starts_and_keeps_no_archive(
    node: Node, made: Path, settings: dict[str, object], reason: str
) -> None:
    node.hand_over(pod(), made)
    node.anew(**settings)
    heard = node.round()
    assert (heard.publishes(), len(heard.of("started"))) == ([f"skipped {reason}"], 1)
    assert (node.archives(pod()), node.blobs(), node.opened) == ([], [], 1)


class TestAnEnemy:
    def test_that_fills_its_outbox_with_junk_harms_nobody_and_keeps_no_place(self, node: Node, made: Path) -> None:
        box = node.box(pod())
        deep = box
        for _ in range(30):
            deep = deep / "d"
            deep.mkdir()
        (box / "big.sealed.x").write_bytes(b"x" * 100_000)
        os.mkfifo(box / "a1-1.sealed")
        (box / "a2-1.sealed").symlink_to("/etc/passwd")
        (box / "a3.json").mkdir()
        (box / "0-1.json").write_bytes(b"\xff" * 10)
        node.run(pod(2))
        node.hand_over(pod(2), made)
        with by(60):
            assert node.round().publishes() == ["published"]
        node.clock.shift += 2 * 3600
        node.round()
        assert list(box.iterdir()) == []

    def test_that_writes_more_than_one_pod_may_loses_the_largest(self, node: Node, made: Path) -> None:
        box = node.hand_over(pod(), made)
        (box / ".glowplug-tmp-x").write_bytes(b"x" * 3_000_000)
        node.bounds = Bounds(pod_bytes=1_000_000)
        node.anew()
        heard = node.round()
        assert (heard.refusals(), heard.publishes()) == (["too_large"], ["published"])

    def test_that_makes_up_archives_makes_up_no_log_without_end(self, node: Node) -> None:
        box = node.box(pod())
        for turn in range(20):
            for number in range(16):
                (box / f"x{turn}x{number}-1.sealed").write_bytes(b"x")
            node.round()
        assert len(node.heard.refusals()) == 100
        assert list(box.iterdir()) == []

    def test_that_makes_up_starts_is_not_listened_to_for_ever(self, node: Node) -> None:
        box = Outbox(node.box(pod()))
        for number in range(0, 600, 16):
            for one in range(16):
                box.put_start(document(f"s{number + one}", started_at=f"{number + one:06}"))
            node.round()
        assert len(node.heard.of("started")) == 200

    def test_whose_outbox_cannot_be_dealt_with_does_not_stop_the_others(
        self, node: Node, made: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node.run(pod(2))
        node.hand_over(pod(2), made)
        node.hand_over(pod(), made)
        judge = node.collector._judge

        def failing(part: object, one: Pod, *more: object) -> object:
            if one.uid == pod().uid:
                raise RuntimeError("a fault of ours")
            return judge(part, one, *more)  # type: ignore[arg-type]

        monkeypatch.setattr(node.collector, "_judge", failing)
        heard = node.round()
        assert heard.publishes() == ["published"]
        assert [(what, type(error)) for what, error in heard.of("failed")] == [("outbox", RuntimeError)]


def test_an_outbox_in_which_nothing_changes_costs_a_listing(
    node: Node, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.hand_over(pod(), made)
    node.round()
    monkeypatch.setattr("glowplug.nodestore.inbox._open", lambda *_: pytest.fail("opened"))
    node.round()


def test_a_round_that_has_no_time_tells_no_failure(node: Node, made: Path) -> None:
    node.hand_over(pod(), made)
    node.collector.round(Deadline.after(0))
    assert node.heard.words == []
    assert node.round().publishes() == ["published"]
