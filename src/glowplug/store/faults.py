"""obstore's exceptions → the contract's, by cause.

obstore folds most answers into GenericError and keeps status and body in the text only, so the text is read: the part
before its debug dump for status and S3's `<Code>`, the dump for the kind of a failed connection. What the text says is
tested against a real server and against recorded answers (tests/store/test_faults.py); where nothing is recognised the
error is UnavailableError with obstore's own words, never a traceback.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    IntegrityError,
    NotFoundError,
    UnavailableError,
)

_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]+)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")
_REGION: Final = re.compile(r"<Region>([a-z0-9-]+)</Region>")
_ENDPOINT_REGION: Final = re.compile(r"<Endpoint>[^<]*\bs3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.[^<]*</Endpoint>")
_URL: Final = re.compile(r"performing [A-Z]+ (\S+) in ")

_NO_CERTIFICATES: Final = "No CA certificates were loaded"
_SHOWN: Final = 300
"""Characters of a server's words that people are shown; all of them are looked at."""

_CONFLICTS: Final = frozenset({"AlreadyExistsError", "PreconditionError"})
_DENIED: Final = frozenset({"PermissionDeniedError", "UnauthenticatedError"})
_ELSEWHERE: Final = frozenset({"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed"})
_DAMAGED: Final = frozenset(
    {"BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody"}
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"})
_DENIED_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AllAccessDisabled",
        "AuthFailure",
        "IDPRejectedClaim",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "MissingAuthenticationToken",
        "PackedPolicyTooLarge",
        "UnrecognizedClientException",
    }
)
"""Refusals of credentials that S3 and STS also send with the status 400."""

_WRONG_KEYS: Final = frozenset({"SignatureDoesNotMatch", "InvalidAccessKeyId"})
_HINTS: Final = {
    **dict.fromkeys(_WRONG_KEYS, "the keys are wrong: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    **dict.fromkeys(_EXPIRED, "the credentials have expired; get new ones"),
}
_BUSY_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_BUSY_CODES: Final = frozenset(
    {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "OperationAborted"}
)


@dataclass(frozen=True)
class Answer:
    """What can be read from an exception of obstore. `status` is 0 and texts are empty where nothing is known."""

    kind: str
    status: int
    code: str
    message: str
    region: str
    request_url: str
    text: str
    failure: str

    @property
    def bare_redirect(self) -> bool:
        """S3 answered 301 without saying where to (obstore then drops the answer)."""
        return "redirect without LOCATION" in self.text

    @property
    def perhaps_elsewhere(self) -> bool:
        """Whether another region explains this answer: a redirect, or a refusal whose reason a HEAD cannot carry."""
        silent = self.status == 400 and not self.code
        return self.bare_redirect or self.status in {301, 307, 308} or self.code in _ELSEWHERE or silent

    @property
    def conditions_ignored(self) -> bool:
        """Whether the server says that it has no conditional writes."""
        return self.status == 501 or self.code == "NotImplemented" or self.kind == "NotSupportedError"

    @property
    def out_of_range(self) -> bool:
        """Whether the object is shorter than the beginning of the range that was asked for: empty."""
        return self.status == 416 or self.code == "InvalidRange" or "Wanted range starting at" in self.text

    @property
    def ranges_ignored(self) -> bool:
        """Whether a range was asked for and the answer was all of the object (200 instead of 206)."""
        return "non-partial response when range requested" in self.text

    @property
    def denied(self) -> bool:
        """Whether these credentials are refused."""
        return self.kind in _DENIED or self.status in {401, 403} or self.code in _DENIED_CODES or self.code in _HINTS

    @property
    def odd_key(self) -> bool:
        """Whether a listing holds a key that obstore takes for no path: `a//b`, `../a`, control characters."""
        return "Encountered object with invalid path" in self.text

    @property
    def conflict(self) -> bool:
        """Whether a condition did not hold (412; 409 on AWS when two writers meet)."""
        return self.kind in _CONFLICTS

    @property
    def words(self) -> str:
        """One line for people."""
        if self.status:
            parts = [f"{self.status} {self.code}".strip(), self.message[:_SHOWN]]
            return ": ".join(part for part in parts if part)
        return {"Timeout": "no answer in time", "Connect": "cannot connect"}.get(self.failure) or self.text[:_SHOWN]


def read(error: BaseException) -> Answer:
    """Take an exception of obstore apart."""
    text, _, dump = str(error).partition("Debug source")
    return Answer(
        kind=type(error).__name__,
        status=int(_first(_STATUS, text) or 0),
        code=_first(_CODE, text),
        message=_clean(_first(_MESSAGE, text)),
        region=_first(_REGION, text) or _first(_ENDPOINT_REGION, text),
        request_url=_first(_URL, text),
        text=_clean(text),
        failure=_first(re.compile(r"\bkind: (Timeout|Connect)\b"), dump),
    )


def translate(answer: Answer, doing: str) -> GlowplugError:
    """The contract's error for an answer that is no matter of regions or of the credentials' own source."""
    what = f"{doing}: {answer.words}"
    if answer.ranges_ignored:
        return UnavailableError(f"{doing}: the server does not know ranges", code="no-ranges")
    if answer.code == "NoSuchBucket":
        return AccessDeniedError(what, code="no-bucket")
    if answer.kind == "FileNotFoundError" or answer.code == "NoSuchKey" or answer.status == 404:
        return NotFoundError(what)
    if answer.odd_key:
        return BadInputError(
            f"{doing}: {answer.words}",
            hint="remove or rename that object: no listing that holds it can be read",
        )
    if answer.code in _DAMAGED:
        return IntegrityError(what)
    if answer.denied:
        return AccessDeniedError(what, hint=_HINTS.get(answer.code, ""))
    if answer.status in _BUSY_STATUS or answer.code in _BUSY_CODES:
        return UnavailableError(what)
    if answer.conflict:
        return ConflictError(what)
    # 401 and 403 apart, a refusal without a reason that is known may be a proxy's or a fault of the service.
    return UnavailableError(what, code="timeout" if answer.failure == "Timeout" else None)


def no_client(error: BaseException, url: str) -> GlowplugError:
    """Why obstore makes no client for this store: something that stays as it is, however long one waits."""
    if _NO_CERTIFICATES in str(error):
        return AccessDeniedError(f"{url}: no client can be made", code="no-certificates")
    return AccessDeniedError(f"{url}: {read(error).text}")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def _clean(text: str) -> str:
    """One line of printable text: a server's words are shown to people and must not move their terminal's cursor."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())
