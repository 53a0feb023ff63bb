"""render/surroundings.py: what of the caller's environment pods can use."""

from __future__ import annotations

from typing import Any

import pytest

from glowplug.core.errors import UsageError
from glowplug.render import kinds, surroundings
from tests.render.planned import AUTO, GUIDE, options


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9000",
        "http://127.1.2.3",
        "https://localhost:8333/",
        "http://LOCALHOST.",
        "http://s3.localhost:9000",
        "http://[::1]:9000",
        "http://[::ffff:127.0.0.1]:9000",
        "http://0.0.0.0:9000",
        "http://[::]",
        "http://169.254.169.254",
        "http://[fe80::1]:9000",
    ],
)
def test_an_address_of_this_machine_is_none_of_a_pod(url: str) -> None:
    found = surroundings.read({"AWS_ENDPOINT_URL": url}, None)
    assert (found.endpoint, found.unreachable, found.sources) == (None, url.rstrip("/"), ())


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.5:9000",
        "https://s3.example/",
        "http://minio.storage.svc:9000",
        "http://[fd00::1]",
        "http://notlocalhost",
    ],
)
def test_any_other_address_may_be_one(url: str) -> None:
    found = surroundings.read({"AWS_ENDPOINT_URL": url}, None)
    assert (found.endpoint, found.unreachable) == (url.rstrip("/"), None)


def test_the_more_special_variable_and_the_option_go_first() -> None:
    environ = {
        "AWS_ENDPOINT_URL": "http://a",
        "AWS_ENDPOINT_URL_S3": "http://b",
        "AWS_REGION": "us-east-2",
        "AWS_DEFAULT_REGION": "us-west-2",
    }
    found = surroundings.read(environ, None)
    assert (found.endpoint, found.region) == ("http://b", "us-east-2")
    assert dict(found.sources) == {"AWS_ENDPOINT_URL_S3": "http://b", "AWS_REGION": "us-east-2"}
    assert surroundings.read(environ, "eu-central-1").region == "eu-central-1"
    assert "AWS_REGION" not in dict(surroundings.read(environ, "eu-central-1").sources)


def test_only_what_stands_in_the_text_is_told() -> None:
    environ = {"AWS_ENDPOINT_URL": "http://a:1/", "AWS_REGION": "us-east-2", "AWS_SKIP_SIGNATURE": "true"}
    found = surroundings.read(environ, None)
    assert found.used_in("value: http://a:1\n") == {"AWS_ENDPOINT_URL": "http://a:1/"}
    assert set(found.used_in("us-east-2 --no-sign-request")) == {"AWS_REGION", "AWS_SKIP_SIGNATURE"}
    assert found.used_in("nothing") == {}


@pytest.mark.parametrize(
    ("plan", "given", "word"),
    [
        (AUTO, {"unreachable": "http://127.0.0.1:9000"}, "http://127.0.0.1:9000"),
        (GUIDE, {"unreachable": "http://127.0.0.1:9000"}, "http://127.0.0.1:9000"),
        (GUIDE, {"endpoint": "http://10.0.0.1"}, "profile guide knows no server"),
    ],
)
def test_an_address_that_is_left_out_is_a_warning(plan: Any, given: dict[str, Any], word: str) -> None:
    made = kinds.render("deployment", options(plan, **given))
    assert any(word in warning for warning in made.warnings)
    assert kinds.render("deployment", options(plan, model="/models/m", **given)).warnings == made.warnings[1:]


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"AWS_ENDPOINT_URL": "http://user:secret@10.0.0.5:9000"}, "AWS_ENDPOINT_URL"),
        ({"AWS_ENDPOINT_URL_S3": "nonsense"}, "AWS_ENDPOINT_URL_S3"),
        ({"AWS_REGION": "Frankfurt"}, "AWS_REGION"),
        ({"AWS_DEFAULT_REGION": "frankfurt"}, "AWS_DEFAULT_REGION"),
    ],
)
def test_what_is_none_is_refused_by_the_name_of_its_variable(environ: dict[str, str], name: str) -> None:
    with pytest.raises(UsageError) as caught:
        surroundings.read(environ, None)
    assert caught.value.message.startswith(name)
    assert "secret" not in caught.value.message
