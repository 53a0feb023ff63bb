"""From an address and an environment to a store: what is accepted, what is refused, and with which words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, UsageError
from glowplug.store.counting import Counter, Counts
from glowplug.store.schemes import open_store
from lab import s3
from lab.faults import nobody
from tests.parts import requires

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3://my.bucket-1/hive=1/a+b@c", "s3://my.bucket-1/hive=1/a+b@c"),
        ("gs://bucket/p", "gs://bucket/p"),
        ("file:///srv/cache", "file:///srv/cache"),
        ("file:///srv/cache/", "file:///srv/cache"),
        ("file:///with%20space", "file:///with%20space"),
        ("file://localhost/srv/cache", "file:///srv/cache"),
        ("/srv/cache", "file:///srv/cache"),
        ("/srv/a b", "file:///srv/a%20b"),
        ("memory://", "memory://"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    assert open_store(url, KEYS).url == shown


def test_a_relative_path_is_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store("./cache", {}).url == (tmp_path / "cache").as_uri()


def test_the_home_is_the_callers() -> None:
    assert open_store("~/cache", {"HOME": "/users/me"}).url == "file:///users/me/cache"
    with pytest.raises(UsageError):
        open_store("~other/cache", {"HOME": "/users/me"})


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("S3://bucket/p", "did you mean s3://bucket/p ?"),
        ("File:///srv", "did you mean file:///srv ?"),
        ("s3a://bucket/p", "did you mean s3://bucket/p ?"),
        ("gcs://bucket", "did you mean gs://bucket ?"),
        ("azure://container", "did you mean az://container ?"),
        ("s3:/bucket/p", "did you mean s3://bucket/p ?"),
        ("s3:bucket/p", "did you mean s3://bucket/p ?"),
        ("bucket/p", "did you mean s3://bucket/p ?"),
        ("https://bucket.s3.amazonaws.com/p", "did you mean s3://bucket/prefix ?"),
        ("s3:///bucket/p", "did you mean s3://bucket/p ?"),
        ("s3://", "did you mean s3://bucket/prefix ?"),
        ("file://srv/cache", "did you mean file:///srv/cache ?"),
        ("file:/srv/cache", "did you mean file:///srv/cache ?"),
        ("memory://name", "did you mean memory:// ?"),
        ("ftp://bucket", ""),
        ("", ""),
        ("s3://ab", ""),
        ("s3://bu cket", ""),
        ("s3://bucket/../other", ""),
        ("s3://bucket//p", ""),
        ("s3://bucket/a b", ""),
        ("s3://bucket/p?versionId=1", ""),
        ("file:///", ""),
        ("file:///a/../b", ""),
        ("/a\0b", ""),
    ],
)
def test_what_is_no_address(url: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url, KEYS)
    assert caught.value.code == "bad-store-url"
    if hint:
        assert caught.value.hint == hint


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        open_store("s3://AKIAXXXX:verysecret@bucket/p", KEYS)
    assert "verysecret" not in str(caught.value) + caught.value.hint


@given(st.text(max_size=40) | st.from_regex(r"(s3|gs|az|file|memory|S3):/{0,3}[ -~]{0,30}", fullmatch=True))
def test_any_text_gives_a_store_or_one_of_our_errors(url: str) -> None:
    try:
        assert open_store(url, KEYS).url
    except GlowplugError as error:
        assert error.code in {"bad-store-url", "no-credentials"}


@requires("s3")
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_endpoint_variables(s3_server: s3.Server, soon: Deadline, name: str, slash: str) -> None:
    environ = {key: value for key, value in s3_server.env().items() if key != "AWS_ENDPOINT_URL"}
    environ[name] = s3_server.endpoint + slash
    open_store("s3://lab/endpoint", environ).put("a", b"1", soon)


@requires("s3")
def test_the_s3_endpoint_wins(s3_server: s3.Server, soon: Deadline) -> None:
    environ = {
        **s3_server.env(),
        "AWS_ENDPOINT_URL": nobody(s3_server).endpoint,
        "AWS_ENDPOINT_URL_S3": s3_server.endpoint,
    }
    open_store("s3://lab/endpoint", environ).put("a", b"1", soon)


@pytest.mark.parametrize("value", ["127.0.0.1:8333", "ftp://x", "http://", "http://user:pw@host"])
def test_an_endpoint_that_is_none(value: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store("s3://bucket", {**KEYS, "AWS_ENDPOINT_URL": value})
    assert "AWS_ENDPOINT_URL" in str(caught.value)
    assert "pw" not in str(caught.value)


def test_a_certificate_bundle_that_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="AWS_CA_BUNDLE"):
        open_store("s3://bucket", {**KEYS, "AWS_CA_BUNDLE": "/does/not/exist"})


def test_azure_needs_an_account() -> None:
    with pytest.raises(AccessDeniedError) as caught:
        open_store("az://container", {})
    assert "AZURE_STORAGE_ACCOUNT_NAME" in caught.value.hint


def test_requests_and_bytes_are_counted(soon: Deadline) -> None:
    counter = Counter()
    store = open_store("memory://", {}, counter=counter)
    store.put("a", b"12345", soon)
    store.get("a", soon)
    assert list(store.stream("a", soon)) == [b"12345"]
    store.head("a", soon)
    list(store.list("", soon))
    store.put_new("b", b"12", soon)
    store.delete("a", soon)
    assert counter.counts == Counts(calls=7, bytes_read=10, bytes_written=7)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import glowplug.store.contract", {"obstore", "boto3", "asyncio"}),
        ("from glowplug.store.schemes import open_store; open_store('/tmp/x', {})", {"obstore", "boto3", "asyncio"}),
        (
            f"from glowplug.store.schemes import open_store; open_store('s3://bucket', {KEYS!r})",
            {"boto3", "asyncio", "concurrent.futures", "ssl"},
        ),
    ],
)
def test_only_what_is_needed_is_imported(code: str, absent: set[str]) -> None:
    search = os.pathsep.join(path for path in sys.path if path)
    program = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": search}, capture_output=True, text=True, check=True
    )
    assert not absent & set(done.stdout.split())
