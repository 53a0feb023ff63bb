"""The proxy that breaks the store on purpose does exactly what each fault says, once per request."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from lab import faults, s3
from tests.parts import requires

pytestmark = requires("s3")
CONTENT = bytes(range(256)) * 40


@pytest.fixture(scope="module")
def upstream() -> Iterator[s3.Server]:
    with s3.serve(["cache"]) as running:
        running.request("PUT", "/cache/object", CONTENT)
        yield running


@pytest.fixture
def proxy(upstream: s3.Server) -> Iterator[faults.Proxy]:
    with faults.Proxy(upstream) as running:
        yield running


def test_without_a_rule_everything_passes_signed_as_it_is(proxy: faults.Proxy) -> None:
    assert proxy.server.request("PUT", "/cache/new", b"x")[0] == 200
    assert proxy.server.request("GET", "/cache/new") == (200, b"x")
    assert proxy.server.with_keys(s3.WRONG).request("GET", "/cache/new")[0] == 403
    assert [(seen.method, seen.path, seen.status) for seen in proxy.seen] == [
        ("PUT", "/cache/new", 200),
        ("GET", "/cache/new", 200),
        ("GET", "/cache/new", 403),
    ]


@pytest.mark.parametrize(
    ("status", "code"), [(409, b"ConditionalRequestConflict"), (412, b"PreconditionFailed"), (503, b"SlowDown")]
)
def test_it_answers_for_as_many_requests_as_asked(proxy: faults.Proxy, status: int, code: bytes) -> None:
    proxy.add(faults.Answer(status), method="GET", path="/cache/*", times=2)
    answers = [proxy.server.request("GET", "/cache/object") for _ in range(3)]
    assert [answer[0] for answer in answers] == [status, status, 200]
    assert code in answers[0][1]


def test_a_rule_meets_only_its_method_and_path(proxy: faults.Proxy) -> None:
    proxy.add(faults.Answer(503), method="PUT", path="/cache/blobs/*", times=None)
    assert proxy.server.request("GET", "/cache/object")[0] == 200
    assert proxy.server.request("PUT", "/cache/other", b"x")[0] == 200
    assert proxy.server.request("PUT", "/cache/blobs/a", b"x")[0] == 503
    proxy.clear()
    assert proxy.server.request("PUT", "/cache/blobs/a", b"x")[0] == 200


def test_who_added_a_rule_hears_that_it_was_met_in_the_middle_of_it(proxy: faults.Proxy) -> None:
    met = proxy.add(faults.Hang(), method="GET")
    assert proxy.server.request("PUT", "/cache/object", CONTENT)[0] == 200
    assert not met.is_set()
    threading.Thread(target=_ask, args=(proxy.server,), daemon=True).start()
    assert met.wait(60)
    assert [one.method for one in proxy.seen] == ["PUT"], "the other one still hangs"


def _ask(server: s3.Server) -> None:
    with contextlib.suppress(OSError):
        server.request("GET", "/cache/object")


def test_another_region_is_named(proxy: faults.Proxy) -> None:
    proxy.add(faults.OtherRegion("eu-west-3"))
    status, body = proxy.server.request("GET", "/cache/object")
    assert (status, b"PermanentRedirect" in body, b"eu-west-3" in body) == (301, True, True)


def test_refused_means_not_carried_out_and_lost_means_carried_out(proxy: faults.Proxy, upstream: s3.Server) -> None:
    for fault, name, expected in ((faults.Refuse(), "refused", 404), (faults.LoseAnswer(), "lost", 200)):
        proxy.add(fault)
        with pytest.raises(OSError, match=r".+"):
            proxy.server.request("PUT", f"/cache/{name}", b"x")
        assert upstream.request("GET", f"/cache/{name}")[0] == expected


def test_a_hanging_request_ends_with_the_proxy(upstream: s3.Server) -> None:
    began = time.monotonic()
    with faults.Proxy(upstream) as proxy:
        proxy.add(faults.Hang(0.3))
        with pytest.raises(OSError, match=r".+"):
            proxy.server.request("GET", "/cache/object")
    assert 0.3 <= time.monotonic() - began < 10


def test_bodies_are_slow_cut_short_or_flipped(proxy: faults.Proxy) -> None:
    proxy.add(faults.Slow(len(CONTENT) * 2))
    began = time.monotonic()
    assert proxy.server.request("GET", "/cache/object")[1] == CONTENT
    assert time.monotonic() - began >= 0.4

    proxy.add(faults.Truncate(100))
    with pytest.raises(OSError, match="IncompleteRead"):
        proxy.server.request("GET", "/cache/object")

    proxy.add(faults.ShortLength(100))
    assert proxy.server.request("GET", "/cache/object")[1] == CONTENT[:100]

    proxy.add(faults.FlipBit(-1))
    flipped = proxy.server.request("GET", "/cache/object")[1]
    assert (flipped[:-1], flipped[-1]) == (CONTENT[:-1], CONTENT[-1] ^ 1)


def test_nobody_listens_where_nobody_should(upstream: s3.Server) -> None:
    with pytest.raises(ConnectionRefusedError):
        faults.nobody(upstream).request("GET", "/cache/object")
