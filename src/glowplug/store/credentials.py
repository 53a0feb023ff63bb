"""Where the credentials for S3 come from: the order of the AWS SDKs, told before the first request.

obstore reads static keys, web identity tokens (IRSA) and container credentials (EKS Pod Identity, ECS) by itself;
profiles and SSO it does not know, and instance credentials it awaits for longer than a start may last. So:

1. `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`: obstore;
2. `AWS_PROFILE`: boto3 (extra `aws`);
3. web identity or container variables: obstore (a container's full address without a token's file: here);
4. a config or credentials file with a default profile that names credentials: boto3;
5. the instance's role by IMDSv2: here, one second a request, nothing where `AWS_EC2_METADATA_DISABLED=true`;

and `AWS_SKIP_SIGNATURE=true` before all of them: requests are not signed.
"""

from __future__ import annotations

import configparser
import datetime as dt
import errno
import importlib.util
import ipaddress
import json
import os
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import AccessDeniedError, GlowplugError, UsageError
from glowplug.core.printable import one_line
from glowplug.store import endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

    from obstore.store import S3Credential

IMDS: Final = "http://169.254.169.254"
_IMDS_SECONDS: Final = 1.0
_LARGEST: Final = 1 << 20
_SHOWN: Final = 200
_RELATIVE: Final = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_FULL: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_TOKEN: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN"  # noqa: S105 - a variable's name
_TOKEN_FILE: Final = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"  # noqa: S105 - a variable's name
_CONTAINER_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
_SILENCE: Final = (OSError,)
_NONSENSE: Final = (ValueError, KeyError, TypeError)
_PROFILE_LIFE: Final = dt.timedelta(minutes=10)
"""boto3 renews what it has at least 10 minutes before the end; obstore asks again 5 minutes before what it was told."""

_PROFILE_KEYS: Final = frozenset(
    {"aws_access_key_id", "credential_process", "sso_session", "sso_start_url", "role_arn", "login_session"}
)


class Provider:
    """Credentials on demand. `fault` is the error of the last attempt, which obstore turns into mere text."""

    def __init__(self, fetch: Callable[[], S3Credential]) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._fault: GlowplugError | None = None

    def __call__(self) -> S3Credential:
        """Fetch. Raises the error that `fault` then returns."""
        with self._lock:
            try:
                credential = self._fetch()
            except GlowplugError as error:
                self._fault = error
                raise
            self._fault = None
            return credential

    def fault(self) -> GlowplugError | None:
        """The error of the last attempt, None when it succeeded."""
        return self._fault


@dataclass(frozen=True)
class Credentials:
    """Settings for obstore's S3Store, or a provider for it. `region` is a profile's, "" where it has none."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    provider: Provider | None = None
    region: str = ""
    anonymous: bool = False


def find(environ: Mapping[str, str]) -> Credentials:
    """Choose by the module's table; nothing is fetched yet.

    Raises GlowplugError (`missing-extra`) where boto3 is needed and not there, AccessDeniedError (`no-credentials`).
    """
    if environ.get("AWS_SKIP_SIGNATURE", "").lower() in {"1", "true"}:
        return Credentials({"skip_signature": True}, anonymous=True)
    endpoints.check_keys(environ)
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        token = environ.get("AWS_SESSION_TOKEN")
        return Credentials(
            {"access_key_id": key, "secret_access_key": secret, **({"session_token": token} if token else {})}
        )
    if environ.get("AWS_PROFILE"):
        return _from_profile(environ["AWS_PROFILE"])
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        return _from_web_identity(environ)
    if environ.get(_RELATIVE) or environ.get(_FULL):
        return _from_container(environ)
    if _default_profile(environ):
        return _from_profile(None)
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise AccessDeniedError(
            "no credentials for the store in the environment or in AWS's files", code="no-credentials"
        )
    endpoint = metadata_service(environ)
    return Credentials(provider=Provider(lambda: from_instance(endpoint)))


def metadata_service(environ: Mapping[str, str]) -> str:
    """The address of the instance metadata service. Raises UsageError (`bad-store-url`) where a variable says something else."""
    for name in ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_METADATA_ENDPOINT"):
        if environ.get(name):
            return endpoints.check_endpoint(environ[name], name)
    return IMDS


def _from_web_identity(environ: Mapping[str, str]) -> Credentials:
    token = Path(environ["AWS_WEB_IDENTITY_TOKEN_FILE"])
    try:
        _text_of(token)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise AccessDeniedError(
            f"AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {token}: {why}", code="no-credentials"
        ) from error
    settings = {"web_identity_token_file": str(token), "role_arn": environ["AWS_ROLE_ARN"]}
    if environ.get("AWS_ROLE_SESSION_NAME"):
        settings["role_session_name"] = environ["AWS_ROLE_SESSION_NAME"]
    return Credentials(settings)


def _from_container(environ: Mapping[str, str]) -> Credentials:
    """obstore takes a full address together with a token's file only; without one it would ask the instance's service instead."""
    relative, full = environ.get(_RELATIVE, ""), environ.get(_FULL, "")
    if relative and not (relative.startswith("/") and relative.isascii() and relative.isprintable()):
        raise AccessDeniedError(f"{_RELATIVE} is no path", code="no-credentials", hint="it begins with a slash")
    if full:
        try:
            endpoints.check_endpoint(full.partition("?")[0], _FULL)
        except UsageError as error:
            raise AccessDeniedError(error.message, code="no-credentials", hint=error.hint) from error
    if relative or environ.get(_TOKEN_FILE):
        names = {
            _RELATIVE: "container_credentials_relative_uri",
            _FULL: "container_credentials_full_uri",
            _TOKEN_FILE: "container_authorization_token_file",
        }
        return Credentials({setting: environ[name] for name, setting in names.items() if environ.get(name)})
    return Credentials(provider=Provider(lambda: from_container(full, environ.get(_TOKEN, ""))))


def _default_profile(environ: Mapping[str, str]) -> bool:
    """Whether one of AWS's two files has a default profile with credentials in it."""
    home = environ.get("HOME")
    for variable, name in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
        place = environ.get(variable) or (f"{home}/.aws/{name}" if home else "")
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(_text_of(Path(place).expanduser()) if place else "")
        except (OSError, ValueError, configparser.Error, RuntimeError):
            continue
        if parser.has_section("default") and _PROFILE_KEYS & set(parser.options("default")):
            return True
    return False


def _text_of(place: Path) -> str:
    """Of a file, never of a pipe, which may not answer. Raises OSError, ValueError."""
    descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return handle.read(_LARGEST)


def _from_profile(name: str | None) -> Credentials:
    shown = f"AWS_PROFILE={name}" if name else "AWS's default profile"
    if importlib.util.find_spec("boto3") is None:
        raise GlowplugError(
            f"{shown}: reading a profile needs boto3, which is not installed",
            code="missing-extra",
            hint="install glowplug with the extra `aws`",
        )
    import boto3.session  # 200 ms that only this branch pays
    import botocore.exceptions

    hint = f"aws sso login --profile {name}" if name else ""
    try:
        session = boto3.session.Session(profile_name=name)
        region = str(session.region_name or "")
    except (botocore.exceptions.BotoCoreError, OSError, ValueError) as error:
        raise AccessDeniedError(f"{shown}: {_words(error)}", code="no-credentials") from error

    def fetch() -> S3Credential:
        try:
            found = session.get_credentials()
            frozen = found.get_frozen_credentials() if found else None
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, OSError, ValueError) as error:
            raise AccessDeniedError(f"{shown}: {_words(error)}", code="no-credentials", hint=hint) from error
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            raise AccessDeniedError(f"{shown} has no credentials", code="no-credentials", hint=hint)
        credential: S3Credential = {
            "access_key_id": str(frozen.access_key),
            "secret_access_key": str(frozen.secret_key),
            "token": str(frozen.token) if frozen.token else None,
            "expires_at": dt.datetime.now(dt.UTC) + _PROFILE_LIFE,
        }
        try:
            return _usable(credential)
        except ValueError as error:
            raise AccessDeniedError(f"{shown} has keys that are none", code="no-credentials", hint=hint) from error

    return Credentials(
        provider=Provider(fetch), region=endpoints.check_region(region, f"the region of {shown}") if region else ""
    )


def _words(error: BaseException) -> str:
    """A program that is to give credentials may write them anywhere: one short line, without what looks like one."""
    from glowplug.core import redact

    return redact.value("", one_line(" ".join(endpoints.said(error).split())))[:_SHOWN]


def from_container(address: str, token: str) -> S3Credential:
    """Credentials of a container's own service (EKS Pod Identity, ECS). Raises AccessDeniedError (`no-credentials`)."""
    import urllib.parse

    place = urllib.parse.urlsplit(address)
    if place.scheme != "https" and not _is_container_host(place.hostname or ""):
        raise AccessDeniedError(
            f"{_FULL} names neither this machine nor a container's service, and not by https", code="no-credentials"
        )
    what = "the container's credentials service"
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    try:
        status, text = _ask(place, "GET", path, {"Authorization": token} if token else {})
        if status != 200:
            raise AccessDeniedError(f"{what} answers {status}", code="no-credentials")
        return _credential(text)
    except _SILENCE as error:
        raise AccessDeniedError(f"{what} does not answer: {error}", code="no-credentials") from error
    except _NONSENSE as error:
        raise AccessDeniedError(f"{what} gives no usable credentials", code="no-credentials") from error


def _is_container_host(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or host in _CONTAINER_HOSTS


def from_instance(endpoint: str) -> S3Credential:
    """The instance role's credentials by IMDSv2. Raises AccessDeniedError (`no-credentials`) within a few seconds."""
    import urllib.parse

    host = urllib.parse.urlsplit(endpoint)
    folder = "/latest/meta-data/iam/security-credentials/"

    def ask(method: str, path: str, headers: Mapping[str, str]) -> str:
        status, text = _ask(host, method, path, headers)
        if status != 200:
            raise AccessDeniedError(
                f"no credentials in the environment, and the instance metadata service answers {status}",
                code="no-credentials",
            )
        return text

    try:
        token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
        signed = {"X-aws-ec2-metadata-token": token}
        role = ask("GET", folder, signed).split("\n", 1)[0].strip()
        return _credential(ask("GET", folder + urllib.parse.quote(role), signed))
    except _SILENCE as error:
        raise AccessDeniedError(
            f"no credentials in the environment, and no instance metadata service: {error}", code="no-credentials"
        ) from error
    except _NONSENSE as error:
        raise AccessDeniedError(
            f"the instance metadata service gives no usable credentials ({type(error).__name__})",
            code="no-credentials",
        ) from error


def _ask(place: SplitResult, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Status and text of one answer. Raises OSError, also for what is no HTTP; ValueError for a header that none can be."""
    import http.client  # most starts have other credentials

    secure = place.scheme.lower() == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=_IMDS_SECONDS)
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        return response.status, response.read(_LARGEST).decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP: {type(error).__name__}") from error
    finally:
        connection.close()


def _credential(text: str) -> S3Credential:
    """Raises one of `_NONSENSE`."""
    found = json.loads(text)
    credential: S3Credential = {
        "access_key_id": str(found["AccessKeyId"]),
        "secret_access_key": str(found["SecretAccessKey"]),
        "token": str(found["Token"]) or None,
        "expires_at": dt.datetime.fromisoformat(str(found["Expiration"])),
    }
    return _usable(credential)


def _usable(credential: S3Credential) -> S3Credential:
    """Raises ValueError where a header cannot carry it, over which obstore would end the thread."""
    for value in (credential["access_key_id"], credential["secret_access_key"], credential["token"] or "-"):
        if not (value.isascii() and value.isprintable() and value.strip()):
            raise ValueError("a key that no header can carry")
    return credential
