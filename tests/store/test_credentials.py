"""Which credentials are taken, in which order, and what is said when there are none."""

from __future__ import annotations

import datetime as dt
import http.server
import importlib.util
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError
from glowplug.store import credentials
from glowplug.store.schemes import open_store
from lab import s3
from tests.parts import requires

STATIC = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
IRSA = {"AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/reader"}


class Imds(http.server.BaseHTTPRequestHandler):
    """An instance metadata service (version 2) with one role, whose keys the class attribute has."""

    keys: Mapping[str, str] = {}

    def do_PUT(self) -> None:
        self._answer(200, "token")

    def do_GET(self) -> None:
        folder = "/latest/meta-data/iam/security-credentials/"
        if self.headers.get("X-aws-ec2-metadata-token") != "token":
            self._answer(401, "")
        elif self.path == folder:
            self._answer(200, "node-role")
        elif self.path == folder + "node-role":
            self._answer(200, json.dumps(self.keys))
        else:
            self._answer(404, "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def imds(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(credentials, "_IMDS_SECONDS", 60.0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Imds)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def without_keys(server: s3.Server) -> dict[str, str]:
    return {
        name: value
        for name, value in server.env().items()
        if name not in {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"}
    }


def test_static_keys_come_first(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    environ = {
        **STATIC,
        **IRSA,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_PROFILE": "p",
        "AWS_SESSION_TOKEN": "s",
    }
    found = credentials.find(environ)
    assert found.settings == {"access_key_id": "key", "secret_access_key": "secret", "session_token": "s"}
    assert found.provider is None


def test_web_identity_and_container_are_left_to_obstore(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    found = credentials.find({**IRSA, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)})
    assert found.settings == {"web_identity_token_file": str(token), "role_arn": IRSA["AWS_ROLE_ARN"]}
    address = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
    }
    assert credentials.find(address).settings == {
        "container_credentials_full_uri": address["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        "container_authorization_token_file": str(token),
    }
    relative = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}
    assert credentials.find(relative).settings == {"container_credentials_relative_uri": "/v2/x"}


class Container(http.server.BaseHTTPRequestHandler):
    """A container's credentials service that wants a token."""

    answer: tuple[int, str] = (200, "")
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.path} {self.headers.get('Authorization')}")
        status, text = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def container() -> Iterator[str]:
    Container.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Container)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/creds?a=b"
    server.shutdown()
    server.server_close()


KEYS = {"AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t", "Expiration": "2100-01-01T00:00:00Z"}


def test_a_container_without_a_tokens_file_is_asked_and_not_the_instance(container: str) -> None:
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": container,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "word",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    Container.answer = (200, json.dumps(KEYS))
    provider = credentials.find(environ).provider
    assert provider is not None
    assert provider()["access_key_id"] == "k"
    assert Container.asked == ["/creds?a=b word"]


@pytest.mark.parametrize(
    "answer",
    [
        (403, ""),
        (200, "<html>"),
        (200, "{}"),
        (200, "[]"),
        (200, json.dumps({**KEYS, "Expiration": "soon"})),
        (200, json.dumps({**KEYS, "SecretAccessKey": "hunter2\n"})),
    ],
)
def test_a_container_that_gives_no_credentials(container: str, answer: tuple[int, str]) -> None:
    Container.answer = answer
    provider = credentials.find({"AWS_CONTAINER_CREDENTIALS_FULL_URI": container}).provider
    assert provider is not None
    with pytest.raises(AccessDeniedError) as caught:
        provider()
    assert caught.value.code == "no-credentials"
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    "environ",
    [
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://[::1"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "ftp://localhost"},
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://u:hunter2@localhost"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "v2"},
        {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2\n"},
    ],
)
def test_a_containers_address_that_is_none(environ: dict[str, str]) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        credentials.find(environ)
    assert caught.value.code == "no-credentials"
    assert "hunter2" not in caught.value.message


def test_keys_are_asked_of_no_other_host_without_tls() -> None:
    provider = credentials.find({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/creds"}).provider
    assert provider is not None
    with pytest.raises(AccessDeniedError, match="not by https"):
        provider()


@pytest.mark.parametrize("kind", ["pipe", "directory", "binary"])
def test_a_token_that_is_no_file(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "token"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.write_bytes(b"\xff\x00")
    with pytest.raises(AccessDeniedError, match="AWS_WEB_IDENTITY_TOKEN_FILE cannot be read"):
        credentials.find({**IRSA, "AWS_WEB_IDENTITY_TOKEN_FILE": str(place)})


def test_a_pipe_instead_of_a_configuration_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    environ = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": str(tmp_path / "pipe"), "HOME": str(tmp_path)}
    with pytest.raises(AccessDeniedError) as caught:
        credentials.find(environ)
    assert caught.value.code == "no-credentials"


def test_what_a_credential_process_complains_of_is_one_short_line_without_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho 'hunter2 at https://u:hunter2@host' >&2\nyes | head -c 9999 >&2\nexit 1\n")
    program.chmod(0o755)
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = {program}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    provider = credentials.find({"AWS_PROFILE": "p"}).provider
    assert provider is not None
    with pytest.raises(AccessDeniedError) as caught:
        provider()
    assert "hunter2" not in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        credentials.find({**IRSA, "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "absent")})
    assert caught.value.code == "no-credentials"
    assert "absent" in str(caught.value)


def test_nothing_at_all_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(AccessDeniedError) as caught:
        open_store("s3://bucket", {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)})
    assert caught.value.code == "no-credentials"
    assert "AWS_PROFILE" in caught.value.hint


@requires("s3")
def test_a_silent_metadata_service_is_given_up(s3_server: s3.Server, tmp_path: Path) -> None:
    """192.0.2.0/24 is nobody's: packets there are lost, or refused at once. Either way it is said in time."""
    environ = {
        "HOME": str(tmp_path),
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://192.0.2.1",
        **without_keys(s3_server),
    }
    with pytest.raises(GlowplugError) as caught:
        open_store("s3://lab", environ).get("a", Deadline.after(20))
    assert caught.value.code == "no-credentials", "before the deadline, whose code is another"


@requires("s3")
def test_the_instance_role(s3_server: s3.Server, soon: Deadline, imds: str, tmp_path: Path) -> None:
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    Imds.keys = {
        "AccessKeyId": s3_server.keys.access,
        "SecretAccessKey": s3_server.keys.secret,
        "Token": "",
        "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    found = credentials.from_instance(imds)
    assert found["access_key_id"] == s3_server.keys.access
    assert found["expires_at"] is not None
    assert abs((found["expires_at"] - ends).total_seconds()) < 2
    environ = {"HOME": str(tmp_path), "AWS_EC2_METADATA_SERVICE_ENDPOINT": imds, **without_keys(s3_server)}
    store = open_store("s3://lab/role", environ)
    store.put("a", b"1", soon)
    assert store.get("a", soon).data == b"1"


def test_an_instance_without_a_role(imds: str) -> None:
    Imds.keys = {"Code": "Failed"}
    with pytest.raises(AccessDeniedError) as caught:
        credentials.from_instance(imds)
    assert caught.value.code == "no-credentials"


@requires("s3")
@pytest.mark.parametrize("named", [True, False], ids=["AWS_PROFILE", "default"])
def test_a_profile(
    s3_server: s3.Server, soon: Deadline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    name = "lab" if named else "default"
    shared = tmp_path / "credentials"
    shared.write_text(
        f"[{name}]\naws_access_key_id = {s3_server.keys.access}\naws_secret_access_key = {s3_server.keys.secret}\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[{'profile lab' if named else 'default'}]\nregion = us-east-1\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(shared), "AWS_CONFIG_FILE": str(config)}
    for variable, value in files.items():
        monkeypatch.setenv(variable, value)  # boto3 reads the process's own environment
    environ = {**without_keys(s3_server), **files, **({"AWS_PROFILE": "lab"} if named else {})}
    store = open_store("s3://lab/profile", environ)
    store.put("a", b"1", soon)
    assert store.get("a", soon).data == b"1"


def test_an_unknown_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    with pytest.raises(AccessDeniedError) as caught:
        open_store("s3://bucket", {"AWS_PROFILE": "nobody"})
    assert caught.value.code == "no-credentials"
    assert "nobody" in str(caught.value)


def test_an_sso_session_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile lab]\nsso_session = s\nsso_account_id = 123456789012\nsso_role_name = reader\nregion = us-east-1\n"
        "[sso-session s]\nsso_start_url = https://example.invalid/start\nsso_region = us-east-1\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    store = open_store("s3://bucket", {"AWS_PROFILE": "lab", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    with pytest.raises(AccessDeniedError) as caught:
        store.get("a", Deadline.after(60))
    assert caught.value.code == "no-credentials"
    assert caught.value.hint == "aws sso login --profile lab"


def test_a_profile_without_boto3_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "boto3" else real(name))
    with pytest.raises(GlowplugError) as caught:
        open_store("s3://bucket", {"AWS_PROFILE": "lab"})
    assert caught.value.code == "missing-extra"
    assert "extra `aws`" in caught.value.hint


@requires("s3")
def test_requests_without_signature(s3_server: s3.Server, soon: Deadline) -> None:
    environ = {**without_keys(s3_server), "AWS_SKIP_SIGNATURE": "true"}
    with pytest.raises(AccessDeniedError) as caught:
        open_store("s3://lab/p", environ).get("a", soon)
    assert caught.value.code == "no-credentials"
