"""Answers of object stores, as obstore words them, and what they become."""

from __future__ import annotations

import pytest

from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError, UnavailableError
from glowplug.store import faults


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
