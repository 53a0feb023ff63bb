"""Reading a part of an object: the right bytes or an error, from every back end and from servers that do it wrong."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    GlowplugError,
    NotFoundError,
    UnavailableError,
)
from glowplug.store.contract import Store
from glowplug.store.counting import Counter, Counting, Counts
from glowplug.store.readonly import ReadOnly
from glowplug.store.retrying import Policy
from glowplug.store.schemes import open_store
from lab import faults, s3
from lab.faults import Proxy, nobody
from tests.clocks import SLACK
from tests.parts import requires

ONCE = Policy(attempts=1)
DATA = bytes(range(256)) * 40


@pytest.fixture
def full(store: Store, soon: Deadline) -> Store:
    """A store with an object `a/b` that holds DATA."""
    store.put("a/b", DATA, soon)
    return store


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, 1), (0, 8), (5, 11), (0, len(DATA)), (len(DATA) - 1, 1), (0, 4096), (4096, 4096), (1, len(DATA) - 1)],
)
def test_exactly_what_was_asked_for(full: Store, soon: Deadline, start: int, length: int) -> None:
    assert full.get_range("a/b", start, length, soon) == DATA[start : start + length]


@pytest.mark.parametrize(("start", "length"), [(0, len(DATA) + 1), (0, 1 << 40), (len(DATA) - 3, 100), (1, len(DATA))])
def test_an_object_that_ends_sooner_gives_what_there_is(full: Store, soon: Deadline, start: int, length: int) -> None:
    assert full.get_range("a/b", start, length, soon) == DATA[start:]


@pytest.mark.parametrize("start", [len(DATA), len(DATA) + 1, 1 << 40, (1 << 62) - 1])
def test_beyond_the_end_is_nothing(full: Store, soon: Deadline, start: int) -> None:
    assert full.get_range("a/b", start, 10, soon) == b""


def test_an_empty_object_has_no_bytes(store: Store, soon: Deadline) -> None:
    store.put("empty", b"", soon)
    assert store.get_range("empty", 0, 10, soon) == b""
    assert store.get_range("empty", 7, 10, soon) == b""


@pytest.mark.parametrize("path", ["absent", "a", "a/b/c", "deep/down/absent"])
def test_an_absent_object_is_not_found(full: Store, soon: Deadline, path: str) -> None:
    for start in (0, 100):
        with pytest.raises(NotFoundError) as caught:
            full.get_range(path, start, 10, soon)
        assert caught.value.code == "not-found"


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 0), (0, -1), (1 << 62, 1), (0, 1 << 62), (-(1 << 70), 5)])
def test_what_is_no_range_is_refused(full: Store, soon: Deadline, start: int, length: int) -> None:
    with pytest.raises(BadInputError):
        full.get_range("a/b", start, length, soon)


@pytest.mark.parametrize("path", ["", "a//b", "../a", "a/", "a b", ".glowplug-locks/00"])
def test_the_grammar_of_paths_holds(store: Store, soon: Deadline, path: str) -> None:
    with pytest.raises(BadInputError):
        store.get_range(path, 0, 1, soon)


def test_a_passed_deadline_ends_the_call(full: Store) -> None:
    with pytest.raises(UnavailableError) as caught:
        full.get_range("a/b", 0, 1, Deadline.after(0))
    assert caught.value.code == "timeout"


def test_a_large_range_comes_whole(store: Store, soon: Deadline) -> None:
    data = secrets.token_bytes(20 << 20)
    store.put("large", data, soon)
    assert store.get_range("large", 3, 17 << 20, soon) == data[3 : 3 + (17 << 20)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(0, 3000), start=st.integers(0, 4000), length=st.integers(1, 4000))
def test_a_range_is_a_slice(store: Store, size: int, start: int, length: int) -> None:
    soon = Deadline.after(30)
    path = f"sizes/{size}"
    store.put(path, DATA[:size], soon)
    assert store.get_range(path, start, length, soon) == DATA[:size][start : start + length]


def test_a_range_is_of_one_version(store: Store, soon: Deadline) -> None:
    """A writer replaces an object by others of other sizes; a range never holds bytes of two of them."""
    store.put("m", b"A" * 100_000, soon)
    ended = threading.Event()
    torn: list[bytes] = []

    def read() -> None:
        while not ended.is_set():
            data = store.get_range("m", 10, 80_000, soon)
            if len(set(data)) != 1:
                torn.append(data)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(60):
        store.put("m", bytes([65 + number % 4]) * (100_000 + 50_000 * (number % 4)), soon)
    ended.set()
    for reader in readers:
        reader.join()
    assert torn == []


def test_what_is_only_read_reads_ranges(full: Store, soon: Deadline) -> None:
    assert ReadOnly(full).get_range("a/b", 5, 5, soon) == DATA[5:10]


def test_ranges_are_counted(full: Store, soon: Deadline) -> None:
    counter = Counter()
    store = Counting(full, counter)
    store.get_range("a/b", 0, 100, soon)
    store.get_range("a/b", len(DATA) - 10, 100, soon)
    with pytest.raises(NotFoundError):
        store.get_range("absent", 0, 100, soon)
    assert counter.counts == Counts(calls=3, bytes_read=110)


def test_a_directory_s_object_is_a_file(tmp_path: Path, soon: Deadline) -> None:
    """Neither a link, which may lead out of the store, nor something that would be waited for."""
    (tmp_path / "outside").write_bytes(DATA)
    root = tmp_path / "store"
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    store = open_store(root.as_uri(), {})
    for path in ("link", "pipe"):
        with pytest.raises(NotFoundError):
            store.get_range(path, 0, 1, soon)


# A server that fails, or does not do as it was asked.


@pytest.fixture
def url(s3_server: s3.Server, soon: Deadline) -> str:
    """A store that holds `v1/m` with DATA."""
    address = f"s3://lab/{secrets.token_hex(8)}"
    open_store(address, s3_server.env()).put("v1/m", DATA, soon)
    return address


def asked(server: s3.Server, url: str, deadline: Deadline, policy: Policy = ONCE) -> bytes:
    return open_store(url, server.env(), policy=policy).get_range("v1/m", 16, 100, deadline)


def fails(server: s3.Server, url: str, seconds: float = 60.0, policy: Policy = ONCE) -> GlowplugError:
    """The error, which comes by the deadline."""
    began = time.monotonic()
    with pytest.raises(GlowplugError) as caught:
        asked(server, url, Deadline.after(seconds), policy)
    assert time.monotonic() - began < seconds + SLACK
    assert caught.value.hint
    return caught.value


@requires("s3")
@pytest.mark.parametrize("fault", [faults.Answer(503), faults.Refuse(), faults.Truncate(40)], ids=str)
def test_a_passing_fault_is_tried_again(url: str, proxy: Proxy, soon: Deadline, fault: faults.Fault) -> None:
    proxy.add(fault, times=2)
    assert asked(proxy.server, url, soon, Policy()) == DATA[16:116]
    assert [one.fault for one in proxy.seen[:2]] == [fault, fault]


@requires("s3")
@pytest.mark.parametrize("keep", [0, 1, 99])
@pytest.mark.parametrize("fault", [faults.Truncate, faults.ShortLength])
def test_fewer_bytes_than_announced_are_an_error(
    url: str, proxy: Proxy, keep: int, fault: Callable[[int], faults.Fault]
) -> None:
    proxy.add(fault(keep), times=None)
    assert isinstance(fails(proxy.server, url), UnavailableError)


@requires("s3")
def test_refusals_are_named(url: str, proxy: Proxy, s3_server: s3.Server) -> None:
    assert fails(s3_server.with_keys(s3.WRONG), url).code == "access-denied"
    assert fails(s3_server, f"s3://no-{secrets.token_hex(8)}/p").code == "no-bucket"
    assert fails(nobody(s3_server), url).code == "unavailable"
    proxy.add(faults.OtherRegion("eu-central-1"), times=None)
    error = fails(proxy.server, url)
    assert isinstance(error, AccessDeniedError)
    assert (error.code, error.hint) == ("wrong-region", "set AWS_REGION=eu-central-1")


@requires("s3")
@pytest.mark.parametrize("fault", [faults.Hang(), faults.Slow(20)], ids=["hang", "slow"])
def test_a_slow_server_costs_the_deadline(url: str, proxy: Proxy, fault: faults.Fault) -> None:
    proxy.add(fault, times=None)
    error = fails(proxy.server, url, seconds=1.0, policy=Policy())
    assert (type(error), error.code) == (UnavailableError, "timeout")


class Otherwise(Proxy):
    """A proxy that asks the server for another range than the client did (signed anew, since the range was signed)."""

    def __init__(self, upstream: s3.Server, instead: str) -> None:
        super().__init__(upstream)
        self._instead = instead
        self.statuses: list[int] = []

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> faults._Reply:
        assert any(name.lower() == "range" for name, _ in headers)
        host = f"{self._upstream.host}:{self._upstream.port}"
        signed = s3._signed(self._upstream.keys, method, host, target, "", body, datetime.now(UTC))
        asked = [("Range", self._instead)] if self._instead else []
        reply = super().forward(method, target, [*signed.items(), *asked], b"")
        self.statuses.append(reply.status)
        return reply


@requires("s3")
def test_one_range_is_one_request(url: str, s3_server: s3.Server, soon: Deadline) -> None:
    with Otherwise(s3_server, "bytes=16-115") as proxy:
        assert asked(proxy.server, url, soon) == DATA[16:116]
        assert proxy.statuses == [206]


@requires("s3")
def test_a_server_that_ignores_ranges_is_named_at_once(url: str, s3_server: s3.Server) -> None:
    with Otherwise(s3_server, "") as proxy:
        error = fails(proxy.server, url, policy=Policy())
        assert (type(error), error.code) == (UnavailableError, "no-ranges")
        assert proxy.statuses == [200]


@requires("s3")
@pytest.mark.parametrize("instead", ["bytes=0-99", "bytes=17-116", "bytes=16-114", "bytes=16-116", "bytes=-100"])
def test_another_range_is_an_error(url: str, s3_server: s3.Server, instead: str) -> None:
    with Otherwise(s3_server, instead) as proxy:
        assert isinstance(fails(proxy.server, url), UnavailableError)
        assert proxy.statuses == [206]


_HEAD = b"Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n" + b'ETag: "a"\r\n'
_ENDLESS = 256 << 20


@contextlib.contextmanager
def answering(head: bytes, body_bytes: int) -> Iterator[int]:
    """A port where every request is answered with this head and so many bytes, as long as the client takes them."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(5)
                    connection.recv(1 << 16)
                    connection.sendall(head + b"\r\n")
                    for _ in range(0, body_bytes, 1 << 16):
                        connection.sendall(bytes(1 << 16))

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + _HEAD + b"Content-Length: %d\r\n" % _ENDLESS,
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Range: bytes 16-115/900\r\nContent-Length: %d\r\n" % _ENDLESS,
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Range: bytes 16-115/900\r\n",
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Range: bytes 0-99/900\r\nContent-Length: %d\r\n" % _ENDLESS,
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Range: bytes 16-115/*\r\nContent-Length: %d\r\n" % _ENDLESS,
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Range: bytes 115-16/900\r\nContent-Length: %d\r\n" % _ENDLESS,
        b"HTTP/1.1 206 Partial\r\n" + _HEAD + b"Content-Length: %d\r\n" % _ENDLESS,
    ],
    ids=lambda head: re.sub(r"[^0-9a-z*/-]+", "-", head.decode().replace(_HEAD.decode(), " "))[:60],
)
def test_a_body_without_an_end_costs_no_memory(head: bytes) -> None:
    resident = _resident()
    tracemalloc.start()
    try:
        with answering(head, _ENDLESS) as port:
            server = s3.Server(port)
            assert isinstance(fails(server, "s3://lab/p"), UnavailableError)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert _resident() - resident < 64 << 20


def _resident() -> int:
    """Bytes of memory that this process has now (obstore's are not Python's)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096
