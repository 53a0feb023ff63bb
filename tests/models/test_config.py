"""config.json of a streamed model: a guard where it can be had, nothing where not, and never a fault."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from glowplug.core.clock import Deadline
from glowplug.models import config
from glowplug.store.schemes import open_store
from tests.clocks import by, soonest
from tests.parts import requires
from tests.store.conftest import s3_server

__all__ = ["s3_server"]

DATA = b'{"model_type": "llama"}'
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "a" * 16, "AWS_SECRET_ACCESS_KEY": "b" * 16, "AWS_REGION": "us-east-1"}


@requires("s3")
@pytest.mark.parametrize("spelling", ["s3://lab/models/tiny", "s3://lab/models/tiny/"])
def test_the_digest_of_its_bytes(s3_server, monkeypatch: pytest.MonkeyPatch, spelling: str) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(config, "SECONDS", 60.0)
    environ = s3_server.env()
    store = open_store("s3://lab/models/tiny", environ)
    store.put("config.json", DATA, Deadline.after(120))
    assert config.remote_sha256(spelling, environ, Deadline.after(120)) == hashlib.sha256(DATA).hexdigest()


@requires("s3")
def test_what_is_not_there_or_too_large(s3_server) -> None:  # type: ignore[no-untyped-def]
    environ = s3_server.env()
    assert config.remote_sha256("s3://lab/models/none", environ, Deadline.after(120)) is None
    assert config.remote_sha256("s3://no-such-bucket-here/m", environ, Deadline.after(120)) is None
    open_store("s3://lab/models/large", environ).put("config.json", b" " * (config.LARGEST + 1), Deadline.after(120))
    assert config.remote_sha256("s3://lab/models/large", environ, Deadline.after(120)) is None


@pytest.mark.parametrize(
    "model",
    [
        "",
        "org/model",
        "/models/tiny",
        "https://host/model",
        "file:///models/tiny",
        "s3://",
        "s3://u:p@bucket/m",
        "s3://b",
        "s3://bucket/a b",
        "s3://bucket/\ud800",
        "s3://bucket/\0",
        "s3://bucket/../x",
        "az://container/m",
        "S3://bucket/m",
    ],
)
def test_what_is_no_address_is_no_fault(model: str) -> None:
    assert config.remote_sha256(model, {}, Deadline.after(60)) is None


@pytest.fixture
def silent() -> Iterator[Mapping[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}


@pytest.mark.parametrize(("own", "callers"), [(config.SECONDS, 600.0), (600.0, 0.5), (600.0, 0.0)])
def test_it_takes_no_longer_than_it_may(
    silent: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, own: float, callers: float
) -> None:
    """By its own limit or the caller's, whichever is less."""
    monkeypatch.setattr(config, "SECONDS", own)

    def ask() -> None:
        assert config.remote_sha256("s3://bucket/model", silent, Deadline.after(callers)) is None

    bound = min(own, callers) + 1.0
    assert soonest(ask, bound) < bound


def test_a_server_that_refuses() -> None:
    environ = {**CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with by(config.SECONDS):
        assert config.remote_sha256("s3://bucket/model", environ, Deadline.after(600)) is None


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    environ = {**CREDENTIALS, "AWS_CA_BUNDLE": str(tmp_path / "none"), "AWS_ENDPOINT_URL": "nonsense"}
    assert config.remote_sha256("s3://bucket/model", environ, Deadline.after(60)) is None
