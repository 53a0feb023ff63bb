"""When a call is repeated, how long is waited, and what a repetition must never hide. On a clock that the test holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import (
    AccessDeniedError,
    ConflictError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)
from glowplug.store.contract import Meta, Object
from glowplug.store.readonly import ReadOnly
from glowplug.store.retrying import PATIENT, Policy, Retrying
from tests.clocks import Held


@dataclass(frozen=True)
class Silence:
    """No answer for so many seconds, or until the deadline where that comes first."""

    seconds: float = 1000.0


class Scripted:
    """A store whose calls go as the script says: an error is raised, bytes are the object's content."""

    url = "memory://"

    def __init__(self, *script: GlowplugError | bytes | Silence) -> None:
        self.script = list(script)
        self.calls: list[str] = []

    def _next(self, name: str, deadline: Deadline) -> bytes:
        self.calls.append(name)
        deadline.check(name)
        step = self.script.pop(0)
        if isinstance(step, Silence):
            deadline.clock.sleep(min(step.seconds, deadline.remaining()))
            deadline.check(name)
            raise UnavailableError("no answer in time", code="timeout")
        if isinstance(step, GlowplugError):
            raise step
        return step

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        data = self._next("get", deadline)
        return Object(data, Meta(path, len(data), 0.0, "v"))

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """A content that ends in `!` breaks off there."""
        data = self._next("stream", deadline)
        for number in range(len(data)):
            if data[number : number + 1] == b"!":
                raise UnavailableError("broken off")
            yield data[number : number + 1]

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        return Meta(path, len(self._next("head", deadline)), 0.0, "v")

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        for piece in self.stream(prefix, deadline):
            yield Meta(piece.decode(), 0, 0.0, "v")

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        self._next("put", deadline)

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        return self._next("put_new", deadline).decode()

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        return self._next("put_if", deadline).decode()

    def delete(self, path: str, deadline: Deadline) -> None:
        self._next("delete", deadline)


BUSY = UnavailableError("503")
CALLS: dict[str, Callable[[Retrying, Deadline], object]] = {
    "get": lambda store, deadline: store.get("a", deadline).data,
    "stream": lambda store, deadline: b"".join(store.stream("a", deadline)),
    "head": lambda store, deadline: store.head("a", deadline),
    "list": lambda store, deadline: list(store.list("a", deadline)),
    "put": lambda store, deadline: store.put("a", b"", deadline),
    "put_new": lambda store, deadline: store.put_new("a", b"", deadline),
    "put_if": lambda store, deadline: store.put_if("a", b"", "v", deadline),
    "delete": lambda store, deadline: store.delete("a", deadline),
}


def run(
    inner: Scripted, name: str, *, seconds: float = 60, policy: Policy = PATIENT, draw: float = 1.0
) -> tuple[object, Held]:
    clock = Held()
    return CALLS[name](Retrying(inner, policy, lambda: draw), Deadline.after(seconds, clock)), clock


@pytest.mark.parametrize("name", CALLS)
def test_waits_double_up_to_the_longest(name: str) -> None:
    inner = Scripted(*[BUSY] * 7, b"x")
    _, clock = run(inner, name)
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_waits_are_drawn_between_half_and_the_whole() -> None:
    _, clock = run(Scripted(BUSY, BUSY, b"x"), "get", draw=0.0)
    assert clock.slept == [0.05, 0.1]


@pytest.mark.parametrize("name", CALLS)
def test_attempts_are_counted(name: str) -> None:
    inner = Scripted(*[BUSY] * 20)
    with pytest.raises(UnavailableError):
        run(inner, name, policy=Policy(attempts=3))
    assert len(inner.calls) == 3


@pytest.mark.parametrize("name", CALLS)
def test_no_wait_goes_beyond_the_deadline(name: str) -> None:
    inner = Scripted(*[BUSY] * 20)
    clock = Held()
    with pytest.raises(UnavailableError, match="503"):
        CALLS[name](Retrying(inner, Policy(attempts=20), lambda: 1.0), Deadline.after(1.0, clock))
    assert clock.at <= 1.0


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("script", [[BUSY, Silence()], [Silence(3), BUSY, BUSY, Silence()]], ids=["first", "later"])
def test_a_deadline_that_passes_in_the_middle_of_a_try_names_the_failure_before_it(
    name: str, script: list[GlowplugError | Silence]
) -> None:
    with pytest.raises(UnavailableError, match=r"^503 \(out of time while trying again\)$") as caught:
        run(Scripted(*script), name, seconds=9)
    assert caught.value.code == BUSY.code
    assert caught.value.hint == BUSY.hint
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert caught.value.__cause__.code == "timeout"


@pytest.mark.parametrize("name", CALLS)
def test_a_pause_of_the_machine_that_eats_the_deadline_changes_no_cause(name: str) -> None:
    """The sleep before the second try takes far longer than was asked for."""

    class Pausing(Held):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds + 100)

    inner = Scripted(BUSY, b"x")
    with pytest.raises(UnavailableError, match="503"):
        CALLS[name](Retrying(inner, PATIENT, lambda: 1.0), Deadline.after(9, Pausing()))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("script", [[Silence()], [BUSY, Silence(3), Silence()]], ids=["alone", "after a failure"])
def test_silence_is_a_cause_of_its_own(name: str, script: list[GlowplugError | Silence]) -> None:
    """Nothing was heard for as long as a try has: what failed before that is not what is the matter now."""
    with pytest.raises(UnavailableError) as caught:
        run(Scripted(*script), name, seconds=9)
    assert caught.value.code == "timeout"
    assert "503" not in str(caught.value)


def test_what_was_overcome_is_no_cause() -> None:
    """A stream that got further after a failure and then ran out of time was too slow, not refused."""

    class Slow(Scripted):
        def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
            yield self._next("stream", deadline)
            deadline.clock.sleep(deadline.remaining())
            deadline.check("reading")

    with pytest.raises(UnavailableError) as caught:
        run(Slow(BUSY, b"abc"), "stream")
    assert caught.value.code == "timeout"
    assert "503" not in str(caught.value)


def test_what_the_server_asks_for_is_waited() -> None:
    _, clock = run(Scripted(UnavailableError("429", retry_after=7.0), b"x"), "get")
    assert clock.slept == [7.0]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("absent"),
        ConflictError("lost"),
        AccessDeniedError("no"),
        AccessDeniedError("elsewhere", code="wrong-region"),
        IntegrityError("damaged"),
        UnavailableError("full", code="no-space"),
    ],
)
def test_an_answer_is_an_answer(name: str, error: GlowplugError) -> None:
    inner = Scripted(error)
    with pytest.raises(type(error)):
        run(inner, name)
    assert len(inner.calls) == 1


def test_a_stream_goes_on_where_it_broke_off() -> None:
    result, _ = run(Scripted(b"abc!", b"abcd!", b"a!", b"abcdef"), "stream")
    assert result == b"abcdef"


@pytest.mark.parametrize("other", [b"xbcdef", b"ab", b"abX", b""])
def test_a_stream_never_mixes_two_versions(other: bytes) -> None:
    with pytest.raises(IntegrityError):
        run(Scripted(b"abc!", other), "stream")


def test_progress_is_patience() -> None:
    """Attempts are counted in a row: a stream that gets further each time may break off more often than that."""
    text = b"abcdefghijkl"
    script = [text[:end] + b"!" for end in range(1, len(text))]
    result, _ = run(Scripted(*script, text), "stream", policy=Policy(attempts=2))
    assert result == text


def test_a_listing_gives_each_path_once() -> None:
    result, _ = run(Scripted(b"ab!", b"abc"), "list")
    assert isinstance(result, list)
    assert [meta.path for meta in result] == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["put", "put_new", "put_if", "delete"])
def test_read_only_writes_nothing(name: str) -> None:
    inner = Scripted()
    with pytest.raises(AccessDeniedError) as caught:
        CALLS[name](Retrying(ReadOnly(inner)), Deadline.after(1))
    assert caught.value.code == "read-only-store"
    assert inner.calls == []


@pytest.mark.parametrize("name", ["get", "stream", "head", "list"])
def test_read_only_reads(name: str) -> None:
    CALLS[name](Retrying(ReadOnly(Scripted(b"x"))), Deadline.after(1))
