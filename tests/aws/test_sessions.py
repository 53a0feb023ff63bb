"""aws/sessions.py: every refusal becomes an error that says what to do, and every question ends by the deadline."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glowplug.aws import network, sessions
from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError, UnavailableError, UsageError
from glowplug.store import endpoints
from lab import aws
from tests.clocks import SLACK

pytestmark = pytest.mark.slow

SUBNETS = "ec2:DescribeSubnets"


def _ask() -> object:
    session = sessions.connect(os.environ, Deadline.after(20))
    return network.subnets_by_id(session, ["subnet-00000000000000000"])


REFUSALS = [
    ("UnauthorizedOperation", 403, AccessDeniedError, "access-denied", "allow ec2:DescribeSubnets"),
    ("AccessDenied", 403, AccessDeniedError, "access-denied", "docs/howto/check-the-network.md"),
    ("AuthFailure", 401, AccessDeniedError, "access-denied", "the credentials are wrong"),
    ("InvalidClientTokenId", 403, AccessDeniedError, "access-denied", "the credentials are wrong"),
    ("SignatureDoesNotMatch", 403, AccessDeniedError, "access-denied", "the credentials are wrong"),
    ("RequestExpired", 400, AccessDeniedError, "access-denied", "the credentials have expired"),
    ("ExpiredToken", 400, AccessDeniedError, "access-denied", "the credentials have expired"),
    ("RequestLimitExceeded", 503, UnavailableError, "throttled", "in a minute"),
    ("Throttling", 400, UnavailableError, "throttled", "in a minute"),
    ("InternalError", 500, UnavailableError, "unavailable", "network path"),
    ("SomethingNew", 403, AccessDeniedError, "access-denied", ""),
    ("SomethingNew", 400, UnavailableError, "unavailable", ""),
]


@pytest.mark.parametrize(("code", "status", "kind", "error", "hint"), REFUSALS, ids=lambda value: str(value)[:24])
def test_refusal(front: aws.Front, code: str, status: int, kind: type[GlowplugError], error: str, hint: str) -> None:
    front.add(aws.Refusal(code, "words of\nAWS \u202e", status), SUBNETS)
    with pytest.raises(kind) as caught:
        _ask()
    assert (caught.value.code, type(caught.value)) == (error, kind)
    assert hint in caught.value.hint
    assert code in caught.value.message
    assert SUBNETS in caught.value.message
    assert caught.value.message.isprintable()


def test_throttled_once_is_tried_again(front: aws.Front, forgotten: aws.Made) -> None:
    front.add(aws.Refusal("RequestLimitExceeded", "wait", 503), SUBNETS, times=2)
    session = sessions.connect(os.environ, Deadline.after(30))
    assert len(network.subnets_of_vpc(session, forgotten.vpc)) == 6


@pytest.mark.parametrize(
    "answer",
    [
        aws.Garbage(),
        aws.Garbage(b"", 200),
        aws.Garbage(b"\x00\xff\xfe", 200),
        aws.Garbage(b"<html>portal</html>", 302),
        aws.Garbage(b"<html>bad gateway</html>", 502),
        aws.Garbage(b"<DescribeSubnetsResponse><subnetSet><item>", 200),
    ],
    ids=["portal", "empty", "binary", "redirect", "gateway", "cut off"],
)
@pytest.mark.parametrize("service", ["ec2", "eks"])
def test_an_answer_that_is_none_is_not_taken_for_an_empty_one(
    front: aws.Front, answer: aws.Garbage, service: str
) -> None:
    front.add(answer, SUBNETS)
    front.add(answer, "eks:DescribeCluster")
    session = sessions.connect(os.environ, Deadline.after(30))
    with pytest.raises(UnavailableError):
        network.cluster(session, "any") if service == "eks" else network.subnets_of_vpc(session, "vpc-1")


@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_an_endpoint_that_hangs_is_left_at_the_deadline(front: aws.Front, seconds: float) -> None:
    front.add(aws.Hang(), SUBNETS)
    session = sessions.connect(os.environ, Deadline.after(seconds))
    begin = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        network.subnets_of_vpc(session, "vpc-1")
    assert caught.value.code == "timeout"
    assert time.monotonic() - begin < seconds + SLACK


def test_nobody_there(front: aws.Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:1")
    with pytest.raises(
        UnavailableError, match=r"ec2:DescribeSubnets.*AWS_ENDPOINT_URL_EC2 leads to http://127\.0\.0\.1:1"
    ):
        _ask()


_S3_SAYS = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchBucket</Code><Resource>/clusters/p</Resource></Error>'
)


@pytest.mark.parametrize("service", ["ec2", "eks"])
@pytest.mark.parametrize(
    "answer",
    [
        aws.Garbage(_S3_SAYS, 404),
        aws.Refusal("AccessDenied", "IAM write operations are disabled on this server"),
        aws.Hang(),
        aws.Garbage(_S3_SAYS, 200),
    ],
    ids=["no such bucket", "refused", "hangs", "any answer"],
)
def test_what_went_to_the_s3_server_says_so(
    front: aws.Front, monkeypatch: pytest.MonkeyPatch, service: str, answer: aws.Refusal | aws.Hang | aws.Garbage
) -> None:
    """AWS_ENDPOINT_URL is set for a store, and is for every service of AWS: no right and no network path is the cause."""
    monkeypatch.delenv(f"AWS_ENDPOINT_URL_{service.upper()}")
    address = os.environ["AWS_ENDPOINT_URL"]
    front.add(answer, SUBNETS)
    front.add(answer, "eks:DescribeCluster")
    session = sessions.connect(os.environ, Deadline.after(3 if isinstance(answer, aws.Hang) else 30))
    with pytest.raises(GlowplugError) as caught:
        network.cluster(session, "p") if service == "eks" else network.subnets_of_vpc(session, "vpc-1")
    assert caught.value.message.startswith(f"AWS_ENDPOINT_URL is set, so this went to {address}, not to AWS: ")
    assert "unset AWS_ENDPOINT_URL" in caught.value.hint
    assert "allow" not in caught.value.hint
    assert "<" not in caught.value.message


def test_whose_address_counts_is_boto3s_rule() -> None:
    both = {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_EC2": "http://ec2"}
    assert endpoints.of_service(both, "ec2") == ("AWS_ENDPOINT_URL_EC2", "http://ec2")
    assert endpoints.of_service(both, "eks") == ("AWS_ENDPOINT_URL", "http://all")
    assert endpoints.of_service({**both, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "eks") is None
    assert endpoints.of_service({"AWS_ENDPOINT_URL_S3": "http://s3"}, "eks") is None


def test_no_credentials(front: aws.Front, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessDeniedError) as caught:
        _ask()
    assert caught.value.code == "no-credentials"


def _profile(text: str) -> Callable[[pytest.MonkeyPatch, Path], None]:
    def prepare(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
        (home / "config").write_text(text)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(home / "config"))
        monkeypatch.setenv("AWS_PROFILE", "mine")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    return prepare


@pytest.mark.parametrize(
    "prepare",
    [
        _profile("[profile other]\nregion = us-west-2\n"),
        _profile("[profile mine]\ncredential_process = /bin/false\n"),
        _profile(
            "[profile mine]\nsso_session = s\nsso_account_id = 1\nsso_role_name = r\n"
            "[sso-session s]\nsso_region = us-west-2\nsso_start_url = https://a.invalid/start\n"
        ),
    ],
    ids=["no such profile", "a helper that fails", "sso not signed in"],
)
def test_a_profile_without_credentials(
    front: aws.Front,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    prepare: Callable[[pytest.MonkeyPatch, Path], None],
) -> None:
    prepare(monkeypatch, tmp_path)
    with pytest.raises(AccessDeniedError) as caught:
        _ask()
    assert caught.value.code == "no-credentials"
    assert caught.value.hint


def test_a_profile_gives_region_and_keys(
    front: aws.Front, forgotten: aws.Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _profile(f"[profile mine]\nregion = {aws.REGION}\naws_access_key_id = a\naws_secret_access_key = b\n")(
        monkeypatch, tmp_path
    )
    monkeypatch.delenv("AWS_REGION")
    session = sessions.connect(os.environ, Deadline.after(20))
    assert session.region == aws.REGION
    assert network.cluster(session, "forgotten").vpc == forgotten.vpc


def test_no_region(front: aws.Front, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(UsageError) as caught:
        _ask()
    assert caught.value.code == "no-region"


@pytest.mark.parametrize("region", ["us west", "../x", "http://a", "us-west-2."])
def test_what_is_no_region(front: aws.Front, region: str) -> None:
    with pytest.raises(UsageError) as caught:
        sessions.connect(os.environ, Deadline.after(5), region)
    assert caught.value.code == "no-region"


def test_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GlowplugError) as caught:
        sessions.connect({"AWS_REGION": "us-west-2"}, Deadline.after(5))
    assert caught.value.code == "missing-extra"
    assert "aws" in caught.value.hint


def test_a_cluster_that_is_not_there(front: aws.Front) -> None:
    with pytest.raises(NotFoundError, match="no EKS cluster 'nowhere' in us-west-2"):
        network.cluster(sessions.connect(os.environ, Deadline.after(20)), "nowhere")


@pytest.mark.parametrize("text", ["[default\nregion", "no section = 1\n", "\xff\xfe"])
def test_a_configuration_that_is_none(
    front: aws.Front, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "config").write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(AccessDeniedError) as caught:
        _ask()
    assert caught.value.code == "no-credentials"
    assert "config" in caught.value.hint


def test_a_token_that_is_not_there_is_named(front: aws.Front, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/x")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(AccessDeniedError, match="absent: No such file") as caught:
        _ask()
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in caught.value.hint


@pytest.mark.parametrize("status", [418, 404])
def test_the_status_of_an_answer_that_is_no_answer_is_named(front: aws.Front, status: int) -> None:
    front.add(aws.Garbage(b"tea", status), SUBNETS)
    with pytest.raises(UnavailableError, match=f"status {status}"):
        _ask()


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_STS"])
def test_an_address_that_is_none_is_refused_unseen(
    front: aws.Front, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://u:hunter2@127.0.0.1:1")
    with pytest.raises(UsageError, match=name) as caught:
        _ask()
    assert "hunter2" not in caught.value.message
