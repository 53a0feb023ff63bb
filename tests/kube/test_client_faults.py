"""What a real API server cannot be made to do when a test wants it: expire, ask for patience, hang, break off, answer nonsense."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    InternalError,
    NotFoundError,
    UnavailableError,
)
from glowplug.kube import answers, connect, listing, questions, watching
from glowplug.kube.backoff import Backoff
from glowplug.kube.client import Client
from glowplug.kube.contract import Change
from tests.clocks import SLACK
from tests.kube.scripted import Asked, Scripted, listed, pod, serving, status

Script = Callable[[Scripted, Asked], None]


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., tuple[Client, Scripted]]]:
    """A client of a server that answers by a function, or by one function after the other."""
    with contextlib.ExitStack() as open_ones:

        def start(
            *scripts: Script, seconds: float = 30.0, most_bytes: int = questions.MOST_ANSWER
        ) -> tuple[Client, Scripted]:
            turns = itertools.chain(scripts, itertools.repeat(scripts[-1]))

            def answer(server: Scripted, one: Asked) -> None:
                next(turns)(server, one)

            scripted = open_ones.enter_context(serving(answer))
            config = scripted.kubeconfig(tmp_path, token="secret-token")
            return open_ones.enter_context(
                connect.from_kubeconfig(config, seconds=seconds, most_bytes=most_bytes)
            ), scripted

        yield start


def answering(code: int, body: object, **headers: str) -> Script:
    return lambda _, one: one.answer(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


def paging(names: Sequence[str], *, pages: bool = True) -> Script:
    """A list in pages of the size that is asked for, or as the server's memory has it: whole."""

    def answer(_: Scripted, one: Asked) -> None:
        begin = int(one.query.get("continue") or 0)
        end = begin + int(one.query["limit"]) if pages else len(names)
        one.answer(200, listed(*names[begin:end], more=str(end) if end < len(names) else ""))

    return answer


def breaking(_: Scripted, one: Asked) -> None:
    """The connection ends without an answer."""
    one.handler.connection.close()
    one.handler.close_connection = True


def hanging(server: Scripted, one: Asked) -> None:
    server.ended.wait(60)
    one.handler.close_connection = True


def telling(*events: tuple[str, object], then: Script = lambda _, __: None) -> Script:
    """A watch that says these and ends, or goes on with `then`."""

    def answer(server: Scripted, one: Asked) -> None:
        one.begin()
        for kind, item in events:
            one.tell(kind, item)
        then(server, one)
        one.handler.close_connection = True

    return answer


def raised(work: Callable[[], object]) -> GlowplugError:
    with pytest.raises(GlowplugError) as caught:
        work()
    assert "secret-token" not in f"{caught.value.message} {caught.value.hint}"
    return caught.value


class TestAnswers:
    @pytest.mark.parametrize(
        ("code", "body", "kind"),
        [
            (400, status(400, "bad"), BadInputError),
            (401, b"", AccessDeniedError),
            (403, b"<html>blocked</html>", AccessDeniedError),
            (403, status(403, "x is forbidden: admission webhook w denied the request: no"), BadInputError),
            (404, b"404 page not found", NotFoundError),
            (405, status(405, "no"), BadInputError),
            (408, b"", UnavailableError),
            (409, status(409, "modified", "Conflict"), ConflictError),
            (302, b"", UnavailableError),
            (500, status(500, "etcdserver: leader changed"), UnavailableError),
            (502, b"\xff\xfe", UnavailableError),
            (599, b"", UnavailableError),
        ],
    )
    def test_each_refusal_is_an_error_that_says_what_was_asked(
        self, ask: Callable[..., tuple[Client, Scripted]], code: int, body: object, kind: type[GlowplugError]
    ) -> None:
        client, _ = ask(answering(code, body), seconds=2)
        error = raised(lambda: client.annotate_node("n1", {}))
        assert type(error) is kind
        assert "patch node n1" in error.message

    @pytest.mark.parametrize("body", [b"", b"<html>sign in</html>", b"[]", b"7", b"[" * 100_000, b"\xff"])
    def test_what_is_no_answer_of_kubernetes(self, ask: Callable[..., tuple[Client, Scripted]], body: bytes) -> None:
        client, _ = ask(answering(200, body))
        assert "is no Kubernetes API" in raised(lambda: client.node("n")).message
        assert isinstance(raised(lambda: list(client.pods())), UnavailableError)

    @pytest.mark.parametrize("body", [{}, {"items": 7, "metadata": {}}, {"items": []}, {"metadata": 3, "items": []}])
    def test_a_list_that_is_none(self, ask: Callable[..., tuple[Client, Scripted]], body: object) -> None:
        client, _ = ask(answering(200, body))
        assert isinstance(raised(lambda: list(client.pods())), UnavailableError)

    def test_words_of_others_are_one_printable_line_without_credentials(self) -> None:
        said = answers.refusal(500, b"\x1b[31mAuthorization: Bearer abcdefghijklmnop1234\nsecond", {}, "get node n")
        assert "\x1b" not in said.message
        assert "\n" not in said.message
        assert "abcdefghijklmnop1234" not in said.message

    @pytest.mark.parametrize(
        ("headers", "details", "seconds"),
        [
            ({"retry-after": "7"}, {}, 7.0),
            ({}, {"retryAfterSeconds": 3}, 3.0),
            ({"retry-after": "soon"}, {"retryAfterSeconds": 3}, 3.0),
            ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, {}, 0.0),
            ({"retry-after": "-1"}, {}, None),
            ({"retry-after": "nan"}, {}, None),
            ({"retry-after": "1e300"}, {}, 3600.0),
            ({}, {"retryAfterSeconds": [1]}, None),
            ({}, {}, None),
        ],
    )
    def test_how_long_to_wait_is_passed_on(
        self, headers: dict[str, str], details: dict[str, object], seconds: float | None
    ) -> None:
        error = answers.refusal(429, json.dumps(status(429, "slow down", **details)).encode(), headers, "get node n")
        assert isinstance(error, UnavailableError)
        assert (error.code, error.retry_after) == ("throttled", seconds)


class TestAgain:
    def test_a_question_is_asked_again_where_the_connection_broke(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(breaking, breaking, answering(200, pod("p")))
        assert client.pod("n", "p")["metadata"]["name"] == "p"
        assert len(server.asked) == 3

    def test_a_change_is_not_since_it_may_have_been_made(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(breaking, answering(200, {}))
        assert isinstance(raised(lambda: client.annotate_node("n", {"a": "b"})), UnavailableError)
        assert len(server.asked) == 1

    def test_but_where_the_server_did_not_look_at_it(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(answering(429, status(429, "later"), Retry_After="1"), answering(200, pod("n")))
        began = time.monotonic()
        assert client.annotate_node("n", {"a": "b"})["metadata"]["name"] == "n"
        assert len(server.asked) == 2
        assert time.monotonic() - began >= 1

    def test_not_where_the_wait_is_longer_than_the_patience(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(answering(429, status(429, "later"), Retry_After="600"), seconds=5)
        error = raised(lambda: client.node("n"))
        assert isinstance(error, UnavailableError)
        assert error.retry_after == 600
        assert len(server.asked) == 1

    def test_a_server_that_hangs_costs_the_calls_own_time(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, _ = ask(hanging, seconds=1)
        began = time.monotonic()
        assert raised(lambda: client.node("n")).code == "timeout"
        assert time.monotonic() - began < 1 + SLACK

    def test_a_server_that_trickles_does_not_get_more(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        def trickling(server: Scripted, one: Asked) -> None:
            one.begin()
            while not server.ended.wait(0.1):
                try:
                    one.handler.wfile.write(b" ")
                    one.handler.wfile.flush()
                except OSError:
                    return

        client, server = ask(trickling, seconds=1)
        others = set(threading.enumerate())
        began = time.monotonic()
        assert raised(lambda: client.node("n")).code == "timeout"
        assert time.monotonic() - began < 1 + SLACK
        until(lambda: not [one for one in set(threading.enumerate()) - others if one.name == "glowplug-bounded"])
        assert not server.ended.is_set()

    def test_an_answer_that_is_too_long_is_not_taken_for_nonsense(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(answering(200, pod("n" * 2000)), most_bytes=1000)
        assert "answers with too much (get node n)" in raised(lambda: client.node("n")).message
        assert len(server.asked) == 1, "it would be as long again"

    def test_nobody_there(self, tmp_path: Path) -> None:
        config = Scripted("http://127.0.0.1:1").kubeconfig(tmp_path, token="secret-token")
        with connect.from_kubeconfig(config, seconds=2) as client:
            assert "cannot be reached (get node n)" in raised(lambda: client.node("n")).message


class TestPages:
    def test_a_list_whose_next_page_expired_begins_again_without_what_was_told(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(
            answering(200, listed("a", "b", more="next")),
            answering(410, status(410, "too old", "Expired")),
            answering(200, listed("a", "b", "c", version="9")),
        )
        assert [one["metadata"]["name"] for one in client.pods()] == ["a", "b", "c"]
        assert ["continue" in one.query for one in server.asked] == [False, True, False]

    def test_not_for_ever(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, _ = ask(*[answering(200, listed("a", more="next")), answering(410, b"")] * 9)
        assert "expire faster" in raised(lambda: list(client.pods())).message

    def test_a_page_that_is_too_large_is_asked_for_again_as_a_smaller_one(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(paging([f"{number:0300d}" for number in range(100)]), most_bytes=8000)
        assert len(list(client.pods())) == 100
        assert [int(one.query["limit"]) for one in server.asked][:3] == [32, 8, 32]

    def test_until_there_is_nothing_smaller(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(paging(["n" * 2000]), most_bytes=1000)
        assert "answers with too much" in raised(lambda: list(client.pods())).message
        assert [one.query["limit"] for one in server.asked] == ["32", "8", "2", "1"]

    def test_pages_grow_while_their_bytes_are_few_and_shrink_where_they_are_many(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(paging([f"{number}" for number in range(500)]))
        assert len(list(client.pods())) == 500
        assert [int(one.query["limit"]) for one in server.asked] == [32, 128, 250, 250]
        client, server = ask(paging([f"{number:0200000d}" for number in range(50)]))
        assert len(list(client.pods())) == 50
        assert [int(one.query["limit"]) for one in server.asked] == [32, 10, 10]


class TestSurveys:
    def test_of_a_list_no_more_is_kept_than_is_asked_for(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        names = [f"{number:0100000d}" for number in range(64)]
        client, server = ask(paging(names, pages=False), most_bytes=4_000_000)
        found = list(client.survey_pods(lambda one: {"metadata": {"uid": one["metadata"]["uid"][-4:]}}))
        assert len(found) == 64
        assert [one.query["resourceVersion"] for one in server.asked] == ["0"], "from the server's memory"
        client, server = ask(paging(names, pages=False), most_bytes=4_000_000)
        assert "answers with too much" in raised(lambda: list(client.pods())).message

    def test_nothing_of_those_that_are_left_out(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, _ = ask(paging(["a", "b", "c"]))
        kept = client.survey_pods(lambda one: one if one["metadata"]["name"] != "b" else None, labels="x=y")
        assert [one["metadata"]["name"] for one in kept] == ["a", "c"]

    def test_the_next_page_is_not_of_two_versions(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(paging(["a"] * 32 + ["b"]))
        list(client.survey_pods(lambda one: None))
        assert [one.query.get("resourceVersion") for one in server.asked] == ["0", None]

    def test_where_what_was_remembered_expired_it_is_read_anew(
        self, ask: Callable[..., tuple[Client, Scripted]]
    ) -> None:
        client, server = ask(answering(410, status(410, "too old", "Expired")), answering(200, listed("a")))
        assert len(list(client.survey_pods(lambda one: one))) == 1
        assert [one.query.get("resourceVersion") for one in server.asked] == ["0", None]


PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=5)


class TestTakingApart:
    @given(
        st.dictionaries(
            st.text(max_size=5),
            st.none() | st.floats(allow_nan=False) | st.lists(st.text(max_size=4), max_size=2),
            max_size=3,
        ),
        st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=2), max_size=3),
        st.booleans(),
        PIECES,
    )
    def test_it_is_what_json_reads_wherever_the_pieces_end(
        self, head: dict[str, object], items: list[dict[str, object]], indented: bool, sizes: list[int]
    ) -> None:
        document = {**head, "items": items, "more": 1}
        data = json.dumps(document, ensure_ascii=False, indent=2 if indented else None).encode("utf-8", "replace")
        assert listing.take(cut(data, sizes), listing.whole) == json.loads(data)

    @given(st.binary(max_size=40) | st.text('[]{}":,1e items\\').map(str.encode), PIECES)
    def test_and_what_is_none_is_refused_as_none(self, data: bytes, sizes: list[int]) -> None:
        try:
            expected = json.loads(data.decode())
        except ValueError:
            expected = None
        if isinstance(expected, dict):
            listing.take(cut(data, sizes), listing.whole)
        else:
            with pytest.raises(ValueError):
                listing.take(cut(data, sizes), listing.whole)

    def test_memory_is_for_one_object_at_a_time(self) -> None:
        item = json.dumps(pod("x" * 1_000_000)).encode()

        def many() -> Iterator[bytes]:
            yield b'{"items": ['
            for number in range(60):
                yield from cut((b"," if number else b"") + item, [1 << 16])
            yield b'], "metadata": {}}'

        tracemalloc.start()
        found = listing.take(many(), lambda one: {})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(found["items"]) == 60
        assert most < 15 * len(item), "not 60 of them"

    def test_one_value_is_not_waited_for_without_end(self) -> None:
        def endless() -> Iterator[bytes]:
            yield b'{"items": ["'
            for _ in range(1000):
                yield b"x" * (1 << 20)

        with pytest.raises(ValueError, match="without end"):
            listing.take(endless(), listing.whole)


def cut(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            return
        yield data[at : at + size]
        at += size


class TestLogs:
    def test_a_log_is_cut_whatever_the_server_sends(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        client, server = ask(answering(200, b"2026-11-30T09:00:00Z \xff\n" * 1000))
        text = client.log("n", "p", "c", previous=True, most_bytes=50)
        assert len(text) == 50
        assert "\ufffd" in text
        assert server.asked[0].path == "/api/v1/namespaces/n/pods/p/log"
        assert server.asked[0].query == {
            "container": "c", "timestamps": "true", "limitBytes": "50", "previous": "true"
        }  # fmt: skip

    def test_there_is_none_yet(self, ask: Callable[..., tuple[Client, Scripted]]) -> None:
        words = 'container "c" in pod "p" is waiting to start: ContainerCreating'
        client, _ = ask(answering(400, status(400, words, "BadRequest")))
        error = raised(lambda: client.log("n", "p", "c"))
        assert isinstance(error, NotFoundError)
        assert words in error.message


class TestWatches:
    @staticmethod
    def follow(
        client: Client, stop: threading.Event, until: int, idle_seconds: float = 30.0
    ) -> Sequence[tuple[str, str]]:
        """The first `until` things that a watch tells."""
        what = watching.Watched("pods of node n", "api/v1/pods", {"fieldSelector": "spec.nodeName=n"})
        told: Iterator[Change] = watching.watch(
            client._link, what, stop, page=10, idle_seconds=idle_seconds, backoff=Backoff(0.01, 0.05)
        )
        found = [
            (one.seen.value, one.object.get("metadata", {}).get("name", "")) for one in itertools.islice(told, until)
        ]
        told.close()  # type: ignore[attr-defined]
        return found

    def test_it_goes_on_at_the_version_that_was_told_last(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        client, server = ask(
            answering(200, listed("a", version="5")),
            telling(("ADDED", pod("b", "6"))),
            telling(("MODIFIED", pod("b", "7")), ("BOOKMARK", pod("", "20"))),
            breaking,
            telling(("DELETED", pod("a", "21"))),
            hanging,
        )
        assert self.follow(client, stop, 6) == [
            ("listing", ""), ("here", "a"), ("synced", ""), ("here", "b"), ("here", "b"), ("gone", "a"),
        ]  # fmt: skip
        assert [one.query.get("resourceVersion") for one in server.asked] == ["0", "5", "6", "20", "20"]
        assert all(one.query["allowWatchBookmarks"] == "true" for one in server.asked[1:])

    @pytest.mark.parametrize(
        "expired",
        [
            answering(410, status(410, "too old")),
            telling(("ERROR", status(410, "too old resource version", "Expired"))),
        ],
        ids=["as an answer", "as an event"],
    )
    def test_it_lists_again_where_its_version_expired(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event, expired: Script
    ) -> None:
        client, server = ask(
            answering(200, listed("a", "b")), expired, answering(200, listed("b", version="9")), hanging
        )
        assert self.follow(client, stop, 7) == [
            ("listing", ""), ("here", "a"), ("here", "b"), ("synced", ""), ("listing", ""), ("here", "b"), ("synced", ""),
        ]  # fmt: skip
        assert "resourceVersion" not in server.asked[2].query

    def test_a_listing_that_breaks_off_is_not_taken_for_whole(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        client, _ = ask(
            answering(200, listed("a", more="next")),
            answering(400, b""),
            answering(200, listed("a", more="next")),
            answering(200, listed("b")),
            hanging,
        )
        assert self.follow(client, stop, 6) == [
            ("listing", ""), ("here", "a"), ("listing", ""), ("here", "a"), ("here", "b"), ("synced", ""),
        ]  # fmt: skip

    def test_a_connection_that_fell_silent_is_given_up(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        client, server = ask(
            answering(200, listed()), telling(("ADDED", pod("a", "6")), then=hanging), telling(("ADDED", pod("b", "7")))
        )
        assert self.follow(client, stop, 4, idle_seconds=0.3) == [
            ("listing", ""), ("synced", ""), ("here", "a"), ("here", "b"),
        ]  # fmt: skip
        assert server.asked[2].query["resourceVersion"] == "6"

    @pytest.mark.parametrize(
        "fault",
        [
            breaking,
            answering(503, status(503, "starting")),
            answering(429, status(429, "later"), Retry_After="0"),
            answering(404, b"404 page not found"),
            answering(403, status(403, "RBAC is not ready")),
            answering(401, b""),
            answering(200, b"<html>\n"),
            telling(("ERROR", status(500, "no"))),
            telling(("WHAT", {})),
            telling(("ADDED", 7)),
        ],
    )
    def test_it_survives(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event, fault: Script
    ) -> None:
        client, server = ask(answering(200, listed()), fault, fault, telling(("ADDED", pod("a", "6"))))
        assert self.follow(client, stop, 3) == [("listing", ""), ("synced", ""), ("here", "a")]
        assert len(server.asked) == 4

    def test_a_server_that_ends_each_watch_at_once_is_not_hurried(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        client, server = ask(answering(200, listed()), telling())
        threading.Timer(1.0, stop.set).start()
        assert [one.seen.value for one in client.watch_pods(node="n", stop=stop)] == ["listing", "synced"]
        assert 2 <= len(server.asked) <= 5

    @pytest.mark.parametrize("where", [hanging, telling(then=hanging)], ids=["before the answer", "within it"])
    def test_it_ends_when_it_is_told_to_even_within_a_read(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event, where: Script
    ) -> None:
        client, server = ask(answering(200, listed("a")), where)
        threading.Thread(target=lambda: (until(lambda: len(server.asked) == 2), stop.set()), daemon=True).start()
        began = time.monotonic()
        assert len(list(client.watch_pods(node="n", stop=stop))) == 3
        assert time.monotonic() - began < SLACK

    def test_a_refusal_that_stays_one_is_raised(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        client, server = ask(answering(403, status(403, "no")))
        assert isinstance(raised(lambda: self.follow(client, stop, 1)), AccessDeniedError)
        assert len(server.asked) == watching._DENIALS

    def test_its_thread_ends_with_it(self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event) -> None:
        client, _ = ask(answering(200, listed("a")), telling(("ADDED", pod("b")), then=hanging))
        assert len(self.follow(client, stop, 4)) == 4
        until(lambda: not [one for one in threading.enumerate() if one.name == "glowplug-watch"])

    def test_its_thread_ends_too_where_the_answer_begins_later(
        self, ask: Callable[..., tuple[Client, Scripted]], stop: threading.Event
    ) -> None:
        ended = threading.Event()

        def late(server: Scripted, one: Asked) -> None:
            ended.wait(60)
            telling(then=hanging)(server, one)

        client, server = ask(answering(200, listed("a")), late)
        threading.Thread(target=lambda: (until(lambda: len(server.asked) == 2), stop.set()), daemon=True).start()
        assert len(list(client.watch_pods(node="n", stop=stop))) == 3
        ended.set()
        until(lambda: not [one for one in threading.enumerate() if one.name == "glowplug-watch"])


def until(holds: Callable[[], object]) -> None:
    limit = time.monotonic() + 60
    while not holds():
        if time.monotonic() > limit:
            raise InternalError("it did not come")
        time.sleep(0.02)
