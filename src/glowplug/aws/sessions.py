"""boto3, made to end: every question is asked under the caller's deadline, every refusal becomes an error of `core/errors.py`.

boto3 finds credentials and endpoints by its own chain (profiles, SSO, IRSA, Pod Identity, `AWS_ENDPOINT_URL_EC2`), with one
exception: it does not know `AWS_REGION`, which is the only region variable that EKS promises, so the region is found here. Its
timeouts are per read and know nothing of name resolution or of a login helper that hangs; hence each question is asked in a thread
of its own and waited for until the deadline. What overruns is left behind: a daemon, which ends by boto3's own timeouts.

Nothing here writes. `aws/network.py` holds the list of all actions, which is also the IAM policy in the documentation.
"""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from glowplug.core import bounded, redact
from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError, UnavailableError, UsageError
from glowplug.core.printable import one_line
from glowplug.store import endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from glowplug.core.clock import Deadline

T = TypeVar("T")

POLICY: Final = "docs/howto/check-the-network.md"

_ALL_SERVICES: Final = "AWS_ENDPOINT_URL"
_UNSET: Final = (
    "unset AWS_ENDPOINT_URL for this command; AWS_ENDPOINT_URL_S3 names another server for stores alone, "
    "AWS_ENDPOINT_URL_EC2 and AWS_ENDPOINT_URL_EKS one for these questions"
)
_MARKUP: Final = re.compile(r"(?:b?['\"])?<[?!/A-Za-z]")

_CONNECT_SECONDS: Final = 3
_READ_SECONDS: Final = 10
_ATTEMPTS: Final = 4
_PAGE: Final = 200
_SHOWN: Final = 300
_LOOKED_AT: Final = 1 << 16

_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "UnauthorizedOperation",
        "UnauthorizedException",
        "Client.UnauthorizedOperation",
    }
)
_WRONG_KEYS: Final = frozenset(
    {
        "AuthFailure",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"})
_THROTTLED: Final = frozenset(
    {
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_CONFIG: Final = (
    "ConfigNotFound",
    "ConfigParseError",
    "InfiniteLoopConfigError",
    "InvalidConfigError",
    "InvalidSTSRegionalEndpointsConfigError",
)
_ABSENT: Final = frozenset({"ResourceNotFoundException"})


class Session:
    """One region's control planes, asked by whoever boto3 finds. Safe for one thread."""

    def __init__(self, session: Any, region: str, deadline: Deadline, environ: Mapping[str, str]) -> None:
        self._session = session
        self._environ = environ
        self._deadline = deadline
        self._clients: dict[str, Any] = {}
        self._status = 0
        self.region = region

    def ask(self, service: str, action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """One answer. `action` is boto3's method, `describe_cluster`. Raises as `pages`."""

        def work() -> Mapping[str, Any]:
            answer: Mapping[str, Any] = getattr(self._client(service), action)(**arguments)
            _check_answer(answer, service)
            return answer

        return self._bounded(service, action, work)

    def pages(self, service: str, action: str, key: str, arguments: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The items of `key` over all pages of an answer.

        Raises AccessDeniedError (`access-denied`, `no-credentials`), NotFoundError, UnavailableError (`timeout`, `throttled`).
        """

        def work() -> list[Mapping[str, Any]]:
            paginator = self._client(service).get_paginator(action)
            found: list[Mapping[str, Any]] = []
            for page in paginator.paginate(**arguments, PaginationConfig={"PageSize": _PAGE}):
                _check_answer(page, service)
                found += [item for item in page.get(key) or () if isinstance(item, dict)]
                self._deadline.check(f"asking AWS ({permission(service, action)})")
            return found

        return self._bounded(service, action, work)

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            from botocore.config import Config

            self._clients[service] = self._session.client(
                service,
                region_name=self.region,
                config=Config(
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_READ_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    user_agent_extra="glowplug",
                ),
            )
            self._clients[service].meta.events.register("before-parse", self._note_status)
        return self._clients[service]

    def _note_status(self, response_dict: Mapping[str, Any], **_: object) -> None:
        """boto3 says nothing of the status of what it cannot parse."""
        self._status = int(response_dict.get("status_code") or 0)

    def _bounded(self, service: str, action: str, work: Callable[[], T]) -> T:
        try:
            return bounded.call(work, self._deadline, f"asking AWS ({permission(service, action)})")
        except Exception as error:
            fault = translate(error, service, action)
            if _is(error, "ResponseParserError") and self._status:
                fault = type(fault)(f"{fault.message} (status {self._status})", code=fault.code, hint=fault.hint)
            raise self.located(fault, service) from error

    def located(self, fault: GlowplugError, service: str) -> GlowplugError:
        """The same fault; where a variable has sent the question elsewhere than to AWS it says so, since that explains most."""
        found = endpoints.of_service(self._environ, service)
        if found is None:
            return fault
        name, address = found
        if name != _ALL_SERVICES:
            return type(fault)(f"{fault.message} ({name} leads to {address})", code=fault.code, hint=fault.hint)
        words = fault.message.removeprefix("AWS ")
        words = f"it {words}" if words != fault.message else words
        return type(fault)(
            f"{name} is set, so this went to {address}, not to AWS: {words}", code=fault.code, hint=_UNSET
        )


def connect(environ: Mapping[str, str], deadline: Deadline, region: str = "") -> Session:
    """A session in `region`, else that of AWS_REGION, AWS_DEFAULT_REGION or the profile. Nothing is asked of AWS yet.

    Raises GlowplugError (`missing-extra`), UsageError (`no-region`, `bad-store-url`), AccessDeniedError
    (`no-credentials`: no such profile, files that cannot be read).
    """
    if importlib.util.find_spec("boto3") is None:
        raise GlowplugError(
            "asking AWS for subnets and route tables needs boto3, which is not installed",
            code="missing-extra",
            hint="install glowplug with the extra `aws`",
        )
    import boto3.session  # 200 ms that only this command pays
    import botocore.exceptions

    endpoints.check_services(environ)
    endpoints.check_keys(environ)
    endpoints.certificates(environ)
    wanted = endpoints.check_region(region, "--region") if region else endpoints.region(environ)

    def work() -> tuple[Any, str]:
        session = boto3.session.Session(region_name=wanted)
        return session, str(wanted or session.region_name or "")

    try:
        session, found = bounded.call(work, deadline, "reading the configuration of AWS")
    except botocore.exceptions.BotoCoreError as error:
        raise translate(error, "", "") from error
    except (OSError, ValueError) as error:
        raise AccessDeniedError(
            f"AWS's configuration cannot be read: {_line(error)}", code="no-credentials", hint=_NO_CONFIG
        ) from error
    if not found:
        raise UsageError("no AWS region is known", code="no-region")
    return Session(session, endpoints.check_region(found, "the region of the profile"), deadline, environ)


def permission(service: str, action: str) -> str:
    """The IAM action of boto3's method: `ec2:DescribeVpcEndpoints`."""
    return f"{service}:{''.join(part.capitalize() for part in action.split('_'))}"


def translate(error: BaseException, service: str, action: str) -> GlowplugError:
    """The error that says what somebody can do about an exception of boto3's; whatever is not known is unavailable."""
    from botocore import exceptions as aws

    asked = f" ({permission(service, action)})" if service else ""
    if isinstance(error, GlowplugError):
        return error
    if isinstance(error, aws.ClientError):
        return _refusal(error, service, action)
    words = _line(error)
    if isinstance(error, aws.NoRegionError):
        return UsageError("no AWS region is known", code="no-region")
    if _is(error, *_CONFIG):
        return AccessDeniedError(f"AWS's configuration cannot be read: {words}", code="no-credentials", hint=_NO_CONFIG)
    if isinstance(error, OSError):
        return _no_file(error, asked)
    if _is(error, "SSOError", "SSOTokenLoadError", "TokenRetrievalError", "UnauthorizedSSOTokenError", "LoginError"):
        return AccessDeniedError(f"no credentials for AWS: {words}", code="no-credentials", hint=_SIGN_IN)
    if isinstance(
        error,
        (
            aws.ProfileNotFound,
            aws.NoCredentialsError,
            aws.PartialCredentialsError,
            aws.CredentialRetrievalError,
            aws.RefreshWithMFAUnsupportedError,
        ),
    ):
        return AccessDeniedError(f"no credentials for AWS: {words}", code="no-credentials", hint=_NO_KEYS)
    if isinstance(error, (aws.ConnectTimeoutError, aws.ReadTimeoutError)):
        return UnavailableError(f"AWS does not answer in time{asked}: {words}", code="timeout")
    if isinstance(error, aws.HTTPClientError):
        return UnavailableError(f"AWS cannot be reached{asked}: {words}")
    return UnavailableError(f"AWS gives no usable answer{asked}: {words}")


def _no_file(error: OSError, asked: str) -> GlowplugError:
    """A file that a variable or a profile names, such as a token. Without a name it is the network."""
    if not error.filename:
        return UnavailableError(f"AWS cannot be reached{asked}: {_line(error)}")
    words = _line(f"{error.filename}: {error.strerror}")
    hint = "it is named by AWS_WEB_IDENTITY_TOKEN_FILE or the profile"
    return AccessDeniedError(f"a file for AWS cannot be read: {words}", code="no-credentials", hint=hint)


_NO_KEYS: Final = (
    "set AWS_PROFILE or AWS_ACCESS_KEY_ID, or run it where a role is (an instance, a pod with a service account)"
)
_NO_CONFIG: Final = "look at ~/.aws/config and ~/.aws/credentials, or what AWS_CONFIG_FILE names"
_SIGN_IN: Final = "sign in again: aws sso login"


def _refusal(error: Any, service: str, action: str) -> GlowplugError:
    said: Mapping[str, Any] = error.response.get("Error") or {}
    code, message = str(said.get("Code") or ""), str(said.get("Message") or "")
    status = (error.response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    asked = permission(service, action)
    words = _line(f"{code}: {message}" if message else code)
    if code in _DENIED:
        hint = f"allow {asked} for this identity; all that is needed is the read-only policy in {POLICY}"
        return AccessDeniedError(f"AWS refuses {asked}: {words}", hint=hint)
    if code in _EXPIRED:
        return AccessDeniedError(f"AWS refuses {asked}: {words}", hint="the credentials have expired; get new ones")
    if code in _WRONG_KEYS:
        return AccessDeniedError(
            f"AWS refuses {asked}: {words}", hint="the credentials are wrong or of another account"
        )
    if code in _ABSENT:
        return NotFoundError(words)
    if code in _THROTTLED:
        return UnavailableError(f"AWS asks for patience with {asked}: {words}", code="throttled")
    if status in (401, 403):
        return AccessDeniedError(f"AWS refuses {asked}: {words}")
    told = f"status {status}: " if status and code != str(status) else "status " if status else ""
    return UnavailableError(f"AWS gives no usable answer ({asked}): {told}{words}")


def _check_answer(answer: Mapping[str, Any], service: str) -> None:
    """EC2 numbers every answer; boto3 reads any other XML, such as a captive portal's page, as an empty list.

    Raises UnavailableError.
    """
    if service == "ec2" and not (answer.get("ResponseMetadata") or {}).get("RequestId"):
        raise UnavailableError("what answers for AWS is not EC2", hint="check the network path and proxies")


def _is(error: BaseException, *names: str) -> bool:
    """Whether it is of one of these kinds, which some releases of botocore lack."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _line(value: object) -> str:
    """One line of others' words, which may quote a proxy's address or a login program: without passwords, and without pages."""
    words = one_line(" ".join(endpoints.said(value)[:_LOOKED_AT].split()))
    page = _MARKUP.search(words)
    if page is not None:
        words = words[: page.start()].rstrip(" :") or "a page of markup"
    return redact.value("", words)[:_SHOWN]
