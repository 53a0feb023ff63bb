"""Answers of object stores, as obstore words them, and what they become."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, BadInputError, GlowplugError, NotFoundError, UnavailableError
from glowplug.store import faults, objects
from tests.parts import requires


class GenericError(Exception):
    """Named as obstore's."""


def _fault(status: int, code: str = "") -> GlowplugError:
    body = f"<Error><Code>{code}</Code><Message>words</Message></Error>" if code else ""
    error = GenericError(
        f"Generic S3 error: Error performing GET https://h/b/k in 1ms - Server returned non-2xx status code: {status} X: {body}"
    )
    return faults.translate(faults.read(error), "reading k")


@pytest.mark.parametrize("code", ["", "InvalidRequest", "InvalidArgument", "MalformedXML", "NeverHeardOf"])
@pytest.mark.parametrize("status", [400, 402, 405, 411, 413, 414, 418, 421, 431, 451, 505, 507, 511, 599])
def test_what_is_not_known_is_unavailable(status: int, code: str) -> None:
    fault = _fault(status, code)
    assert isinstance(fault, UnavailableError)
    assert fault.code == "unavailable"
    assert str(status) in fault.message


@pytest.mark.parametrize("code", ["", "AccessDenied", "NeverHeardOf"])
@pytest.mark.parametrize("status", [401, 403])
def test_refusals_are_refusals(status: int, code: str) -> None:
    assert isinstance(_fault(status, code), AccessDeniedError)


@pytest.mark.parametrize(
    "code", ["ExpiredToken", "InvalidToken", "InvalidIdentityToken", "AccessDenied", "AuthFailure"]
)
def test_refusals_with_another_status(code: str) -> None:
    assert isinstance(_fault(400, code), AccessDeniedError)


def test_what_is_not_there() -> None:
    assert isinstance(_fault(404), NotFoundError)


def test_a_key_that_obstore_takes_for_no_path_is_named() -> None:
    text = 'Encountered object with invalid path: Error parsing Path "m//b": Path contained empty path segment'
    fault = faults.translate(faults.read(GenericError(text)), "listing s3://b")
    assert isinstance(fault, BadInputError)
    assert "m//b" in fault.message
    assert fault.hint


class PanicException(BaseException):
    """As pyo3 names it, which does not export it."""


@pytest.mark.parametrize("call", ["get", "head", "list", "stream", "put"])
def test_a_panic_of_the_client_is_a_line_without_its_text(call: str) -> None:
    class Client:
        def __getattr__(self, _: str) -> Any:
            def panic(*_: object, **__: object) -> None:
                raise PanicException("hunter2")

            return panic

    client: Any = Client()
    store: Any = objects.ObjectStore(objects.Remote(url="s3://b", connect=lambda _: client))
    arguments = {"list": ("a",), "put": ("a", b"")}.get(call, ("a",))
    with pytest.raises(UnavailableError) as caught:
        answer = getattr(store, call)(*arguments, Deadline.after(5))
        list(answer)
    assert "hunter2" not in caught.value.message + caught.value.hint


@requires("root")
def test_a_machine_without_certificates_is_told_so(tmp_path: Path) -> None:
    """A slim image has none, and the client wants some for plain HTTP too: no fault of the credentials."""
    (tmp_path / "empty").mkdir()
    code = """
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError
from glowplug.store.schemes import open_store
try:
    open_store("s3://cache", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b"}).get("k", Deadline.after(5))
except GlowplugError as error:
    print(error.code, error.hint)
"""
    hidden = f"mount --bind {tmp_path / 'empty'} /etc/ssl && exec {sys.executable} -c '{code}'"
    done = subprocess.run(["unshare", "-m", "sh", "-c", hidden], env={}, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("no-certificates install ca-certificates"), done
