"""A store that refuses, hangs, answers late or wrongly: the right error by the deadline, and never another type than ours.

The real server behind lab/faults.py; what it cannot be made to say is said by the proxy.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
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
from glowplug.store import objects
from glowplug.store.contract import Store
from glowplug.store.retrying import Policy
from glowplug.store.schemes import open_store
from lab import faults, s3
from lab.faults import Proxy, nobody
from tests.clocks import Held, by, soonest
from tests.parts import requires

pytestmark = requires("s3")

ONCE = Policy(attempts=1)
THREE_TIMES = Policy(attempts=3, first_wait=100.0, longest_wait=100.0)
"""For a `Held` clock, on which the waits cost nothing; each try has its ten seconds."""

Call = Callable[[Store, Deadline], object]
READS: dict[str, Call] = {
    "get": lambda store, deadline: store.get("v1/m", deadline),
    "stream": lambda store, deadline: list(store.stream("v1/m", deadline)),
    "head": lambda store, deadline: store.head("v1/m", deadline),
    "list": lambda store, deadline: list(store.list("v1", deadline)),
}
WRITES: dict[str, Call] = {
    "put": lambda store, deadline: store.put("v1/m", b"2", deadline),
    "put_new": lambda store, deadline: store.put_new("v1/new", b"2", deadline),
    "put_if": lambda store, deadline: store.put_if("v1/m", b"2", '"c4ca4238a0b923820dcc509a6f75849b"', deadline),
    "delete": lambda store, deadline: store.delete("v1/m", deadline),
}
CALLS = READS | WRITES


@pytest.fixture
def url(s3_server: s3.Server) -> str:
    """A store that holds `v1/m` with the content `1`."""
    address = f"s3://lab/{secrets.token_hex(8)}"
    open_store(address, s3_server.env()).put("v1/m", b"1", Deadline.after(30))
    return address


def fails(call: Call, store: Store, deadline: Deadline) -> GlowplugError:
    with pytest.raises(GlowplugError) as caught:
        call(store, deadline)
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


def silent_port() -> tuple[socket.socket, int]:
    """A socket that accepts and never answers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    return listener, int(listener.getsockname()[1])


@pytest.mark.parametrize("name", CALLS)
def test_a_hanging_server_costs_the_deadline(s3_server: s3.Server, name: str) -> None:
    listener, port = silent_port()

    def ask() -> None:
        error = fails(CALLS[name], open_store("s3://lab/p", s3_server.at(port).env()), Deadline.after(1.0))
        assert isinstance(error, UnavailableError)
        assert error.code == "timeout"

    with listener:
        assert soonest(ask, 2.0) < 2.0


@pytest.mark.parametrize("name", CALLS)
def test_a_refusing_port_is_unavailable(s3_server: s3.Server, name: str) -> None:
    clock = Held()
    store = open_store("s3://lab/p", nobody(s3_server).env(), policy=THREE_TIMES)
    error = fails(CALLS[name], store, Deadline.after(600, clock))
    assert isinstance(error, UnavailableError)
    assert error.code == "unavailable"
    assert "cannot connect" in str(error)
    assert len(clock.slept) == 2


@pytest.mark.parametrize("name", CALLS)
def test_a_busy_server_is_asked_again(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.Answer(503), times=2)
    CALLS[name](open_store(url, proxy.server.env()), soon)
    assert [one.status for one in proxy.seen[:2]] == [503, 503]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("name", CALLS)
def test_a_server_that_stays_busy_is_unavailable(url: str, proxy: Proxy, name: str, status: int) -> None:
    proxy.add(faults.Answer(status), times=None)
    store = open_store(url, proxy.server.env(), policy=THREE_TIMES)
    error = fails(CALLS[name], store, Deadline.after(600, Held()))
    assert isinstance(error, UnavailableError)
    assert str(status) in str(error)
    assert len(proxy.seen) == 3


def test_a_server_that_is_busy_until_the_time_is_over_is_named(url: str, proxy: Proxy) -> None:
    """On the machine's clock, and with no rest between the tries: the deadline passes in the middle of one."""
    proxy.add(faults.Answer(503), times=None)
    restless = Policy(attempts=1_000_000, first_wait=0.0)
    with by(5.0) as deadline:
        error = fails(READS["get"], open_store(url, proxy.server.env(), policy=restless), deadline)
        assert deadline.passed()
    assert error.code == "unavailable"
    assert "503" in str(error)


@pytest.fixture
def regions_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers at once is heard, however slow the machine is."""
    monkeypatch.setattr(objects, "_REGION_SECONDS", 60.0)


@pytest.mark.parametrize("name", CALLS)
def test_a_broken_connection_is_tried_again(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.Refuse(), times=2)
    CALLS[name](open_store(url, proxy.server.env()), soon)


@pytest.mark.usefixtures("regions_are_waited_for")
@pytest.mark.parametrize("name", CALLS)
def test_a_bucket_elsewhere_is_named_with_its_region(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.OtherRegion("eu-central-1"), times=None)
    error = fails(CALLS[name], open_store(url, proxy.server.env()), soon)
    assert isinstance(error, AccessDeniedError)
    assert error.code == "wrong-region"
    assert "eu-central-1" in str(error)
    assert error.hint == "set AWS_REGION=eu-central-1"


@pytest.mark.usefixtures("regions_are_waited_for")
@pytest.mark.parametrize("name", CALLS)
def test_a_signature_for_the_wrong_region_is_named_too(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    """The other form of S3's answer: 400 AuthorizationHeaderMalformed, without a body to a HEAD."""
    headers = (("x-amz-bucket-region", "ap-south-1"),)
    proxy.add(faults.Answer(400, headers, "AuthorizationHeaderMalformed"), times=None)
    error = fails(CALLS[name], open_store(url, proxy.server.env()), soon)
    assert (error.code, error.hint) == ("wrong-region", "set AWS_REGION=ap-south-1")


@pytest.mark.parametrize("name", READS)
def test_a_missing_bucket_is_not_a_missing_object(s3_server: s3.Server, soon: Deadline, name: str) -> None:
    """Reads only: this server makes a bucket that is written to by somebody who may make buckets."""
    store = open_store(f"s3://no-{secrets.token_hex(8)}/p", s3_server.env())
    error = fails(READS[name], store, soon)
    assert isinstance(error, AccessDeniedError)
    assert error.code == "no-bucket"


@pytest.mark.parametrize("name", WRITES)
def test_a_missing_bucket_is_named_by_writes(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.Answer(404, code="NoSuchBucket"), times=None)
    error = fails(WRITES[name], open_store(url, proxy.server.env()), soon)
    assert error.code == "no-bucket"


@pytest.mark.parametrize("name", CALLS)
def test_wrong_credentials_are_denied(url: str, s3_server: s3.Server, soon: Deadline, name: str) -> None:
    error = fails(CALLS[name], open_store(url, s3_server.with_keys(s3.WRONG).env()), soon)
    assert isinstance(error, AccessDeniedError)
    assert error.code == "access-denied"
    assert s3.WRONG.secret not in str(error)


@pytest.mark.parametrize("name", CALLS)
def test_a_reader_reads_and_does_not_write(url: str, s3_server: s3.Server, soon: Deadline, name: str) -> None:
    store = open_store(url, s3_server.with_keys(s3.READER).env())
    if name in READS:
        CALLS[name](store, soon)
    else:
        assert isinstance(fails(CALLS[name], store, soon), AccessDeniedError)


@pytest.mark.parametrize("status", [409, 412])
@pytest.mark.parametrize("name", ["put_new", "put_if"])
def test_a_condition_that_fails_is_a_conflict(url: str, proxy: Proxy, soon: Deadline, name: str, status: int) -> None:
    store = open_store(url, proxy.server.env())
    store.put_new("v1/probed", b"", soon)
    proxy.add(faults.Answer(status), method="PUT")
    assert isinstance(fails(WRITES[name], store, soon), ConflictError)


@pytest.mark.parametrize("name", ["put", "delete"])
def test_a_conflict_without_a_condition_is_tried_again(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.Answer(409, code="OperationAborted"), times=2)
    WRITES[name](open_store(url, proxy.server.env()), soon)


def test_put_if_of_what_is_gone_is_a_conflict_on_aws(url: str, proxy: Proxy, soon: Deadline) -> None:
    store = open_store(url, proxy.server.env())
    store.put_new("v1/probed", b"", soon)
    proxy.add(faults.Answer(404, code="NoSuchKey"), method="PUT")
    assert isinstance(fails(WRITES["put_if"], store, soon), ConflictError)


@pytest.mark.parametrize("name", ["put_new", "put_if"])
def test_a_lost_answer_becomes_a_conflict_that_reading_resolves(
    url: str, proxy: Proxy, soon: Deadline, name: str
) -> None:
    store = open_store(url, proxy.server.env())
    store.put_new("v1/probed", b"", soon)
    proxy.add(faults.LoseAnswer(), method="PUT")
    path = "v1/new" if name == "put_new" else "v1/m"
    assert isinstance(fails(WRITES[name], store, soon), ConflictError)
    assert store.get(path, soon).data == b"2"


@pytest.mark.parametrize("name", ["put", "delete"])
def test_a_lost_answer_of_what_may_be_repeated_is_no_error(url: str, proxy: Proxy, soon: Deadline, name: str) -> None:
    proxy.add(faults.LoseAnswer())
    WRITES[name](open_store(url, proxy.server.env()), soon)


@pytest.mark.parametrize(
    "fault", [faults.Truncate(0), faults.Truncate(3000), faults.ShortLength(0), faults.ShortLength(3000)]
)
@pytest.mark.parametrize("size", [10_000, 9 << 20])
def test_a_short_body_is_never_taken_for_the_object(
    url: str, s3_server: s3.Server, proxy: Proxy, soon: Deadline, fault: faults.Fault, size: int
) -> None:
    data = secrets.token_bytes(size)
    open_store(url, s3_server.env()).put("v1/blob", data, soon)
    once = open_store(url, proxy.server.env(), policy=ONCE)
    for call in (
        lambda: once.get("v1/blob", soon, max_bytes=size),
        lambda: b"".join(once.stream("v1/blob", soon)),
    ):
        proxy.clear()
        proxy.add(fault, method="GET", times=None)
        with pytest.raises((UnavailableError, IntegrityError)):
            call()
    proxy.clear()
    proxy.add(fault, method="GET", times=2)
    again = open_store(url, proxy.server.env())
    assert b"".join(again.stream("v1/blob", soon)) == data


@pytest.mark.parametrize("name", ["get", "stream", "list"])
def test_a_slow_body_costs_the_deadline(
    s3_server: s3.Server, url: str, proxy: Proxy, soon: Deadline, name: str
) -> None:
    open_store(url, s3_server.env()).put("v1/m", bytes(100_000), soon)
    proxy.add(faults.Slow(50), times=None)
    with by(1.0) as deadline:
        error = fails(CALLS[name], open_store(url, proxy.server.env()), deadline)
    assert isinstance(error, UnavailableError)
    assert error.code == "timeout"


def test_a_hanging_upload_costs_the_deadline(url: str, proxy: Proxy, tmp_path: Path) -> None:
    source = tmp_path / "blob"
    source.write_bytes(bytes(30 << 20))
    proxy.add(faults.Hang(), times=None)
    with by(1.0) as deadline:
        error = fails(
            lambda store, limit: store.put("v1/blob", source, limit), open_store(url, proxy.server.env()), deadline
        )
    assert error.code == "timeout"


def test_one_silent_connection_does_not_cost_the_whole_deadline(url: str, proxy: Proxy, soon: Deadline) -> None:
    """Without an end of its own the first try would take all of it, and nothing would be read."""
    proxy.add(faults.Hang(), method="GET")
    store = open_store(url, proxy.server.env(), policy=Policy(attempt_seconds=0.5))
    assert store.get("v1/m", soon).data == b"1"


@pytest.mark.parametrize("which", ["If-None-Match", "If-Match"])
def test_a_server_without_conditional_writes_is_read_only(
    url: str, s3_server: s3.Server, soon: Deadline, which: str
) -> None:
    """A server that takes the header and ignores it: the proxy in between takes it away."""
    with Stripping(s3_server, which) as proxy:
        store = open_store(url, proxy.server.env())
        for name in ("put_new", "put_if"):
            error = fails(WRITES[name], store, soon)
            assert isinstance(error, AccessDeniedError)
            assert error.code == "read-only-store"
        asked = len(proxy.seen)
        fails(WRITES["put_new"], store, soon)
        assert len(proxy.seen) == asked
        store.put("v1/blob", b"1", soon)
    assert {meta.path for meta in open_store(url, s3_server.env()).list("", soon)} == {"v1/m", "v1/blob"}


def test_a_server_that_knows_no_conditions_is_read_only(url: str, proxy: Proxy, soon: Deadline) -> None:
    proxy.add(faults.Answer(501, code="NotImplemented"), method="PUT", times=None)
    assert fails(WRITES["put_new"], open_store(url, proxy.server.env()), soon).code == "read-only-store"


def test_conditions_are_tried_once(url: str, proxy: Proxy, soon: Deadline) -> None:
    store = open_store(url, proxy.server.env())
    threads = [threading.Thread(target=store.put_new, args=(f"v1/n{number}", b"", soon)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    probes = {one.path for one in proxy.seen if ".probe" in one.path}
    assert len(probes) == 1


class Stripping(Proxy):
    """A proxy that carries requests with one header out as if they had none (signed anew, since the header was signed)."""

    def __init__(self, upstream: s3.Server, header: str) -> None:
        super().__init__(upstream)
        self._header = header.lower()

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> faults._Reply:
        if self._header not in {name.lower() for name, _ in headers}:
            return super().forward(method, target, headers, body)
        status, answer = self._upstream.request(method, target, body)
        etag = hashlib.md5(body, usedforsecurity=False).hexdigest()
        return faults._Reply(status, [("ETag", f'"{etag}"')], answer)


def test_garbage_for_an_answer_is_unavailable(s3_server: s3.Server) -> None:
    """What is no HTTP, no XML, or lacks the headers that obstore insists on."""
    good = b"HTTP/1.1 200 OK\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n"
    for answer in (
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        good + b"Content-Length: 5\r\n\r\nshort",
        good + b'ETag: "a"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n',
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes nonsense\r\nContent-Length: 5\r\n\r\nshort",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    ):
        with answering(answer) as port:
            store = open_store("s3://lab/p", s3_server.at(port).env(), policy=ONCE)
            for name, call in CALLS.items():
                with by(2.0) as deadline, contextlib.suppress(GlowplugError):
                    call(store, deadline)
                    assert name in {"put", "delete", "list", "head"}, (answer, name)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """The port of a server that answers everything with this. Its thread ends with it: a call that is interrupted in a thread
    left behind would go on with whatever has the descriptor's number by then."""
    listener, port = silent_port()
    thread = threading.Thread(target=answer_all, args=(listener, answer), daemon=True)
    thread.start()
    try:
        yield port
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def answer_all(listener: socket.socket, answer: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(10)
                connection.recv(1 << 16)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)


_OVERRUN = """
import os, sys
from glowplug.core.clock import Deadline
from glowplug.core.errors import UnavailableError
from glowplug.store import objects, schemes
from glowplug.store.schemes import open_store
objects.PATIENCE = (600.0,)
schemes._SILENCE_SECONDS = 600.0
store = open_store("s3://lab/p", os.environ)
for call in (lambda d: store.get("a", d), lambda d: list(store.stream("a", d)), lambda d: store.put("a", b"", d)):
    try:
        call(Deadline.after(0.3))
    except UnavailableError as error:
        print(error.code)
"""


def test_what_is_left_behind_does_not_keep_the_process(s3_server: s3.Server) -> None:
    """The calls that were given up go on for ten minutes: the end of the process does not wait for them."""
    listener, port = silent_port()
    search = os.pathsep.join(path for path in sys.path if path)
    with listener:
        done = subprocess.run(
            [sys.executable, "-c", _OVERRUN],
            env={"PYTHONPATH": search, **s3_server.at(port).env()},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["timeout"] * 3, "")


def test_an_absent_object_behind_faults_is_still_not_found(url: str, proxy: Proxy, soon: Deadline) -> None:
    proxy.add(faults.Answer(503), times=1)
    with pytest.raises(NotFoundError):
        open_store(url, proxy.server.env()).get("v1/absent", soon)
