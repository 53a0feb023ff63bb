"""Where S3 is and whose keys are used, by variables: what is taken, and that nothing else reaches a client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from glowplug.core.errors import AccessDeniedError, GlowplugError, UsageError
from glowplug.store import endpoints
from glowplug.store.schemes import open_store

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
PASSWORD = "hunter2hunter2"


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("https://minio.example/", "https://minio.example"),
        ("https://minio.example./s3/a-b//", "https://minio.example./s3/a-b"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("http://s3_proxy", "http://s3_proxy"),
        ("HTTP://xn--bcher-kva.example:65535", "HTTP://xn--bcher-kva.example:65535"),
    ],
)
def test_addresses_of_servers(value: str, taken: str) -> None:
    assert endpoints.endpoint({"AWS_ENDPOINT_URL": value}) == taken


NO_SERVERS = [
    " ",
    "\n",
    "minio:9000",
    "ftp://host",
    "http://",
    "http:///path",
    f"http://user:{PASSWORD}@host",
    f"http://{PASSWORD}@host",
    "http://@host",
    f"http://host?token={PASSWORD}",
    "http://host?",
    f"http://host#{PASSWORD}",
    "http://host\n",
    " http://host",
    "http://ho st",
    "http://host/a b",
    "http://ho\tst",
    "http://host\\@other",
    "http://[::1",
    "http://[host]",
    "http://[::1%25lo]",
    "http://host:0",
    "http://host:",
    "http://host:65536",
    "http://host:-1",
    "http://host:http",
    "http://1.2.3.400",
    "http://1.2.3",
    "http://0x7f.0x1",
    "http://xn--a",
    "http://a..b",
    "http://..",
    "http://-host",
    "http://b\u00fccher.example",
    "http://host/%zz",
    "http://host/../x",
    "http://" + "a" * 300,
    "http://host/" + "x" * 70_000,
]


@pytest.mark.parametrize("variable", endpoints.ENDPOINTS)
@pytest.mark.parametrize("value", NO_SERVERS)
def test_what_is_no_server_is_refused_by_the_variables_name(value: str, variable: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_store("s3://bucket", {**KEYS, variable: value})
    assert refused.value.code == "bad-store-url"
    assert refused.value.message.startswith(f"{variable} is not the address of a server: ")
    assert PASSWORD not in refused.value.message + refused.value.hint
    assert len(refused.value.message) < 120


def test_the_address_of_s3_goes_first_and_empty_is_not_set() -> None:
    both = {"AWS_ENDPOINT_URL_S3": "http://one", "AWS_ENDPOINT_URL": "http://two"}
    assert endpoints.endpoint(both) == "http://one"
    assert endpoints.endpoint({**both, "AWS_ENDPOINT_URL_S3": ""}) == "http://two"
    assert endpoints.endpoint({}) is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("us-east-1\n", "line break at its end"),
        (" us-east-1", "space at its beginning or end"),
        (" ", "small letters"),
        ("us east", "small letters"),
        ("US-EAST-1", "small letters"),
        ("-us", "small letters"),
        ("us-$(id)", "small letters"),
        ("x" * 65, "small letters"),
    ],
)
@pytest.mark.parametrize("variable", endpoints.REGIONS)
def test_what_is_no_region_is_refused_by_the_variables_name(value: str, why: str, variable: str) -> None:
    with pytest.raises(UsageError, match=f"{variable} is not a region: .*{why}") as refused:
        open_store("s3://bucket", {**KEYS, variable: value})
    assert refused.value.code == "no-region"


def test_regions() -> None:
    assert endpoints.region({"AWS_REGION": "us-gov-west-1", "AWS_DEFAULT_REGION": "x"}) == "us-gov-west-1"
    assert endpoints.region({"AWS_REGION": "", "AWS_DEFAULT_REGION": "auto"}) == "auto"
    assert endpoints.region({}) is None


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("value", [f"{PASSWORD}\n", f"{PASSWORD}\r\nX: y", f" {PASSWORD}", f"{PASSWORD}\u00e9", "\x00"])
def test_keys_that_no_header_can_carry_are_refused_unseen(name: str, value: str) -> None:
    with pytest.raises(AccessDeniedError, match=f"^{name} is no key: it ") as refused:
        open_store("s3://bucket", {**KEYS, name: value})
    assert refused.value.code == "no-credentials"
    assert PASSWORD not in refused.value.message + refused.value.hint


def test_every_services_address_is_checked_for_clients_that_read_them_themselves() -> None:
    endpoints.check_services({"AWS_ENDPOINT_URL_EC2": "http://host", "AWS_ENDPOINT_URL_STS": "", "OTHER": "x"})
    with pytest.raises(GlowplugError, match="AWS_ENDPOINT_URL_EC2"):
        endpoints.check_services({"AWS_ENDPOINT_URL_EC2": f"http://u:{PASSWORD}@host"})


@pytest.mark.parametrize("kind", ["absent", "directory", "pipe", "binary", "text"])
def test_certificates_that_are_none_are_told_with_what_to_do(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "bundle"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind != "absent":
        place.write_bytes(b"\xff\x00" if kind == "binary" else b"words")
    with pytest.raises(UsageError, match="AWS_CA_BUNDLE") as caught:
        open_store("s3://bucket", {**KEYS, "AWS_CA_BUNDLE": str(place)})
    assert "PEM" in caught.value.hint
