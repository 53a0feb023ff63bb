"""A store that fails in any way: the engine starts within --restore-timeout and two seconds, and the document says why."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.faults import (
    Answer,
    Fault,
    FlipBit,
    Hang,
    LoseAnswer,
    OtherRegion,
    Proxy,
    Refuse,
    ShortLength,
    Slow,
    Truncate,
    nobody,
)
from lab.s3 import READER, WRONG, Server
from tests.parts import requires
from tests.supervise.machine import Done, Machine

pytestmark = requires("s3")
TIMEOUT = 2.0
SLACK = 2.0
TRIES = 4

ALL, MANIFESTS, BLOBS = "*", "*/keys/*.json", "*/blobs/*"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, s3_server: Server) -> Iterator[Machine]:
    """A machine whose store holds its entry; published once, since a start that may not publish changes nothing."""
    machine = Machine(tmp_path_factory.mktemp("machine"), f"s3://lab/{secrets.token_hex(8)}", s3_server.env())
    assert machine.run("--bytes", "20000").publish[0] == "published"
    yield machine
    machine.close()


@pytest.fixture
def faulty(published: Machine, proxy: Proxy) -> Machine:
    """That machine, with its store behind the proxy."""
    published.store_env = proxy.server.env()
    return published


def restart(machine: Machine, *arguments: str, timeout: float = TIMEOUT) -> Done:
    """A start on another machine, and the promise that holds for every one.

    A machine that pauses breaks it too, so a start that is late is repeated, and judged by how long one takes without a restore.
    """
    allowed = TIMEOUT + SLACK
    for _ in range(TRIES):
        first_line, done = _start(machine, *arguments, options=["--restore-timeout", f"{timeout:g}s"])
        if first_line < allowed and done.document["restore"]["seconds"] <= allowed:
            return done
        allowed = TIMEOUT + SLACK + _start(machine, options=["--no-restore"])[0]
    raise AssertionError(f"{TRIES} late starts in a row: {first_line:.1f} s, {allowed:.1f} s are allowed: {done}")


def _start(machine: Machine, *arguments: str, options: list[str]) -> tuple[float, Done]:
    machine.move()
    started = machine.start(*arguments, options=[*options, "--no-publish"])
    first_line = started.wait_for("begun")
    done = started.end()
    assert done.status == 0
    return first_line, done


PATIENTLY = 60.0
"""A timeout for what the store answers at once: it must not be reached."""


def assert_cold(machine: Machine, done: Done) -> None:
    assert "miss g1" in done.out, done
    assert done.verdict == "miss"
    assert not list((machine.root / ".glowplug").glob("work-*/*")), "nothing half-done is left"


def _named(value: object) -> str:
    """The same name in every process: workers of one run must agree on it, and a set has no order."""
    return "|".join(sorted(value)) if isinstance(value, set) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "path", "reasons"),
    [
        (Refuse(), ALL, {"store_unavailable", "deadline"}),
        (Hang(), ALL, {"deadline"}),
        (Hang(), BLOBS, {"deadline"}),
        (Answer(503), ALL, {"store_unavailable", "deadline"}),
        (Answer(500), BLOBS, {"store_unavailable", "deadline"}),
        (Answer(403), ALL, {"access_denied"}),
        (Answer(403), BLOBS, {"access_denied"}),
        (Answer(404), BLOBS, {"blob_missing"}),
        (Answer(404, code="NoSuchBucket"), ALL, {"no_bucket"}),
        (OtherRegion(), ALL, {"wrong_region"}),
        (Slow(200), BLOBS, {"deadline"}),
        (Slow(20), MANIFESTS, {"deadline"}),
        (Truncate(100), BLOBS, {"integrity", "store_unavailable", "deadline"}),
        (Truncate(100), MANIFESTS, {"integrity", "store_unavailable", "deadline"}),
        (ShortLength(100), BLOBS, {"integrity", "store_unavailable", "deadline"}),
        (ShortLength(100), MANIFESTS, {"integrity", "store_unavailable", "deadline"}),
        (FlipBit(500), BLOBS, {"integrity"}),
        (FlipBit(300), MANIFESTS, {"integrity"}),
        (LoseAnswer(), ALL, {"store_unavailable", "deadline"}),
    ],
    ids=_named,
)
def test_a_fault_costs_the_restore_alone(
    faulty: Machine, proxy: Proxy, fault: Fault, path: str, reasons: set[str]
) -> None:
    proxy.add(fault, path=path, times=None)
    done = restart(faulty, timeout=TIMEOUT if "deadline" in reasons else PATIENTLY)
    assert_cold(faulty, done)
    assert done.restore[0] in ("failed", "none")
    assert done.restore[1] in reasons


@pytest.mark.slow
def test_one_fault_is_tried_again(faulty: Machine, proxy: Proxy) -> None:
    proxy.add(Answer(503), path=MANIFESTS)
    proxy.add(Refuse(), path=BLOBS)
    assert _start(faulty, options=["--restore-timeout", f"{PATIENTLY:g}s"])[1].restore == ("restored", "")


def environment(proxy: Proxy, which: str) -> dict[str, str]:
    server: Server = proxy.server
    if which == "nobody listens":
        return nobody(server).env()
    if which == "wrong keys":
        return server.with_keys(WRONG).env()
    if which == "https where http is spoken":
        return server.env() | {"AWS_ENDPOINT_URL": server.endpoint.replace("http:", "https:")}
    if which == "a name that resolves to nothing":
        return server.env() | {"AWS_ENDPOINT_URL": "http://no-such-host.invalid:80"}
    if which == "an address that nothing answers at":
        return server.env() | {"AWS_ENDPOINT_URL": "http://192.0.2.1:80"}
    if which == "no credentials":
        return {name: value for name, value in server.env().items() if "KEY" not in name}
    if which == "no credentials, and an instance's are asked for":
        hidden = ("KEY", "METADATA")
        return {name: value for name, value in server.env().items() if not any(word in name for word in hidden)}
    raise AssertionError(which)


@pytest.mark.slow
@pytest.mark.parametrize(
    "which",
    [
        "nobody listens",
        "wrong keys",
        "https where http is spoken",
        "a name that resolves to nothing",
        "an address that nothing answers at",
        "no credentials",
        "no credentials, and an instance's are asked for",
    ],
)
def test_an_environment_that_leads_nowhere_costs_the_restore_alone(faulty: Machine, proxy: Proxy, which: str) -> None:
    faulty.store_env = environment(proxy, which)
    done = restart(faulty)
    assert_cold(faulty, done)
    assert done.restore[0] in ("failed", "none", "skipped")
    assert done.restore[1]
    assert done.restore[1] in done.out, "said too"


@pytest.mark.slow
def test_a_bucket_that_is_not_there(remote: Machine) -> None:
    remote.store = "s3://no-such-bucket/x"
    done = restart(remote, timeout=PATIENTLY)
    assert_cold(remote, done)
    assert done.restore[1] in ("no_bucket", "no_keys", "key:unknown")


@pytest.mark.slow
def test_who_may_only_read_restores_and_publishes_nothing(remote: Machine, proxy: Proxy) -> None:
    remote.run()
    remote.store_env = proxy.server.with_keys(READER).env()
    assert restart(remote, timeout=PATIENTLY).restore == ("restored", "")
    other = remote.run("--graphs", "g1,g2")
    assert (other.status, other.verdict) == (0, "partial")
    assert other.publish[0] == "skipped"
    assert other.publish[1] in ("access_denied", "read_only_store")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "path", "reason"),
    [
        (Answer(404, code="NoSuchBucket"), ALL, "no_bucket"),
        (Answer(403), ALL, ""),
        (Answer(503), ALL, ""),
        (Answer(403), BLOBS, ""),
    ],
    ids=_named,
)
def test_a_bake_that_is_certain_to_be_refused_does_not_begin(
    faulty: Machine, proxy: Proxy, fault: Fault, path: str, reason: str
) -> None:
    """Certain: what every publish asks first is refused for good. An outage, and a refusal, may pass while the engine compiles."""
    proxy.add(fault, path=path, times=None)
    faulty.move()
    done = faulty.run(options=["--exit-when-ready", "--restore-timeout", f"{TIMEOUT:g}s"], timeout=PATIENTLY)
    assert "begun" not in done.out if reason else "miss g1" in done.out, done
    if reason:
        assert (done.status, done.publish) == (5, ("skipped", reason))
        assert f"not published: {reason}" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", ["manifest cut", "manifest junk", "manifest of another key", "blob gone", "blob cut"]
)
def test_a_damaged_store_is_a_miss_with_its_reason_and_is_mended(machine: Machine, damage: str) -> None:
    machine.run()
    store = machine.base / "store" / "v1" / "default"
    manifest = next(store.glob("keys/**/*.json"))
    blobs = sorted(store.glob("blobs/**/*.tar.zst"))
    spoil(manifest, blobs, damage)
    machine.move()
    done = machine.run()
    assert "miss g1" in done.out
    assert done.restore[1] == ("blob_missing" if damage == "blob gone" else "integrity"), done.restore
    if damage == "blob cut":
        return  # its name says that it is there: `cache verify` finds it
    assert done.publish[0] == "published", done.publish
    machine.move()
    assert machine.run().verdict == "hit"


def spoil(manifest: Path, blobs: list[Path], damage: str) -> None:
    if damage == "manifest cut":
        manifest.write_bytes(manifest.read_bytes()[:200])
    elif damage == "manifest junk":
        manifest.write_bytes(b"\xff\x00" * 100)
    elif damage == "manifest of another key":
        manifest.write_bytes(manifest.read_bytes().replace(b'"tp":1', b'"tp":2').replace(b'"tp": 1', b'"tp": 2'))
    else:
        for blob in blobs:
            blob.chmod(0o644)
            if damage == "blob gone":
                blob.unlink()
            else:
                blob.write_bytes(blob.read_bytes()[:-20])


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Refuse(), Answer(403)], ids=str)
def test_a_publish_that_fails_costs_nothing_but_itself(remote: Machine, proxy: Proxy, fault: Fault) -> None:
    proxy.add(fault, method="PUT", times=None)
    done = remote.run(timeout=120)
    assert (done.status, done.verdict) == (0, "miss")
    assert done.publish[0] in ("failed", "skipped")
    assert done.publish[1]
    proxy.clear()
    assert remote.run().publish[0] in ("published", "unchanged")
