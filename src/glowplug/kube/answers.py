"""What a Kubernetes API server's refusal means to a caller.

A server says what is wrong in a `Status`; what stands before it (load balancers, proxies) answers with anything, so neither
the type of the content nor its fields are relied on. Two answers need a closer look: a JSON patch whose `test` does not hold
comes back as 422 without a word, as one that is malformed does, and an admission policy may refuse an object with the same 403
by which a role's lack is said.
"""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.core import redact
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    NotFoundError,
    UnavailableError,
)
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN: Final = 500
_LOOKED_AT: Final = 1 << 16
_LONGEST_WAIT: Final = 3600.0
_LACKS: Final = re.compile(r'cannot (?P<verb>[a-z]+) resource "(?P<resource>[^"]{1,200})"')
_ADMISSION: Final = re.compile(r"denied (?:the )?request|admission webhook|violates PodSecurity")
_RIGHTS: Final = "give the role or user this right; docs/security.md lists what glowplug needs"


class ExpiredError(ConflictError):
    """The server no longer knows this version of a list: begin it again. Never leaves this package."""


class TooLargeError(UnavailableError):
    """An answer has more bytes than the asker takes. Asking again for the same brings the same."""


class UnappliedError(BadInputError):
    """A JSON patch could not be applied; the server does not say whether a `test` failed or a path is not there."""


def refusal(status: int, body: bytes, headers: Mapping[str, str], asked: str) -> GlowplugError:
    """The error for an answer that is none. `asked` is what was asked, in words: `get node n1`."""
    said = _status(body)
    words = line(said.get("message") or body.decode("utf-8", "replace"))
    told = f"{asked}: {words}" if words else f"{asked}: status {status}"
    reason = str(said.get("reason") or "")
    if status == 401:
        return AccessDeniedError(
            f"the Kubernetes API does not know who asks ({asked})", hint="the credentials are wrong or have expired"
        )
    if status == 403:
        return _forbidden(told, words)
    if status == 404:
        return NotFoundError(told)
    if status == 409:
        return ConflictError(told, code="conflict")
    if status == 410 or reason == "Expired":
        return ExpiredError(told)
    if status == 422 and not said.get("details"):
        return UnappliedError(told)
    if status == 429:
        return UnavailableError(
            f"the Kubernetes API asks for patience: {told}", code="throttled", retry_after=_patience(headers, said)
        )
    if 400 <= status < 500 and status != 408:
        return BadInputError(told)
    return UnavailableError(
        f"the Kubernetes API gives no usable answer ({status}): {told}", retry_after=_patience(headers, said)
    )


def told(status: Mapping[str, Any], asked: str) -> GlowplugError:
    """The error of a `Status` that came inside a watch."""
    code = status.get("code")
    known = code if isinstance(code, int) and not isinstance(code, bool) else 500
    return refusal(known, json.dumps(status).encode(), {}, asked)


def exists(error: GlowplugError) -> bool:
    """Whether a conflict is that the object is there already."""
    return isinstance(error, ConflictError) and "already exists" in error.message


def line(value: object) -> str:
    """One line of others' words without credentials in it."""
    return redact.value("", one_line(" ".join(str(value)[:_LOOKED_AT].split())))[:_SHOWN]


def _forbidden(told: str, words: str) -> GlowplugError:
    if _ADMISSION.search(words):
        return BadInputError(told)
    lacks = _LACKS.search(words)
    if lacks:
        hint = f"give the role the verb `{lacks['verb']}` on `{lacks['resource']}`; docs/security.md lists all rights"
        return AccessDeniedError(told, hint=hint)
    return AccessDeniedError(told, hint=_RIGHTS)


def _status(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _patience(headers: Mapping[str, str], said: Mapping[str, Any]) -> float | None:
    """Seconds that the server asks for: a header in seconds or as a moment, or the Status' own field."""
    header = headers.get("retry-after", "").strip()
    details = said.get("details")
    field = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    for given in (header, field):
        try:
            seconds = float(given) if given not in (None, "") else -1.0
        except (TypeError, ValueError):
            seconds = _until(str(given))
        if seconds >= 0:
            return min(seconds, _LONGEST_WAIT)
    return None


def _until(moment: str) -> float:
    try:
        when = email.utils.parsedate_to_datetime(moment)
    except ValueError:
        return -1.0
    when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    return max(0.0, (when - dt.datetime.now(dt.UTC)).total_seconds())
