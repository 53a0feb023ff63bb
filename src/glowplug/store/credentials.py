"""Where the credentials for S3 come from: the order of the AWS SDKs, told before the first request.

obstore reads static keys, web identity tokens (IRSA) and container credentials (EKS Pod Identity, ECS) by itself;
profiles and SSO it does not know, and instance credentials it awaits for longer than a start may last. So:

1. `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`: obstore;
2. `AWS_PROFILE`: boto3 (extra `aws`);
3. web identity or container variables: obstore;
4. a config or credentials file with a default profile that names credentials: boto3;
5. the instance's role by IMDSv2: here, one second a request, nothing where `AWS_EC2_METADATA_DISABLED=true`;

and `AWS_SKIP_SIGNATURE=true` before all of them: requests are not signed.
"""

from __future__ import annotations

import configparser
import datetime as dt
import importlib.util
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import AccessDeniedError, GlowplugError
from glowplug.store import endpoints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from obstore.store import S3Credential

IMDS: Final = "http://169.254.169.254"
_IMDS_SECONDS: Final = 1.0
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
    for variable in ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        if environ.get(variable):
            return _from_container(environ)
    if _default_profile(environ):
        return _from_profile(None)
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise AccessDeniedError(
            "no credentials for the store in the environment or in AWS's files", code="no-credentials"
        )
    endpoint = environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or environ.get("AWS_METADATA_ENDPOINT") or IMDS
    return Credentials(provider=Provider(lambda: from_instance(endpoint)))


def _from_web_identity(environ: Mapping[str, str]) -> Credentials:
    token = Path(environ["AWS_WEB_IDENTITY_TOKEN_FILE"])
    try:
        token.read_bytes()
    except OSError as error:
        raise AccessDeniedError(
            f"AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {token}: {error.strerror}", code="no-credentials"
        ) from error
    settings = {"web_identity_token_file": str(token), "role_arn": environ["AWS_ROLE_ARN"]}
    if environ.get("AWS_ROLE_SESSION_NAME"):
        settings["role_session_name"] = environ["AWS_ROLE_SESSION_NAME"]
    return Credentials(settings)


def _from_container(environ: Mapping[str, str]) -> Credentials:
    names = {
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "container_credentials_relative_uri",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "container_credentials_full_uri",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "container_authorization_token_file",
    }
    return Credentials({setting: environ[name] for name, setting in names.items() if environ.get(name)})


def _default_profile(environ: Mapping[str, str]) -> bool:
    """Whether one of AWS's two files has a default profile with credentials in it."""
    home = environ.get("HOME")
    for variable, name in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
        place = environ.get(variable) or (f"{home}/.aws/{name}" if home else "")
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read_string(Path(place).expanduser().read_text() if place else "")
        except (OSError, ValueError, configparser.Error, RuntimeError):
            continue
        if parser.has_section("default") and _PROFILE_KEYS & set(parser.options("default")):
            return True
    return False


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
    except botocore.exceptions.BotoCoreError as error:
        raise AccessDeniedError(f"{shown}: {error}", code="no-credentials") from error

    def fetch() -> S3Credential:
        try:
            found = session.get_credentials()
            frozen = found.get_frozen_credentials() if found else None
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, OSError) as error:
            raise AccessDeniedError(f"{shown}: {error}", code="no-credentials", hint=hint) from error
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            raise AccessDeniedError(f"{shown} has no credentials", code="no-credentials", hint=hint)
        return {
            "access_key_id": str(frozen.access_key),
            "secret_access_key": str(frozen.secret_key),
            "token": str(frozen.token) if frozen.token else None,
            "expires_at": dt.datetime.now(dt.UTC) + _PROFILE_LIFE,
        }

    region = str(session.region_name or "")
    return Credentials(
        provider=Provider(fetch), region=endpoints.check_region(region, f"the region of {shown}") if region else ""
    )


def from_instance(endpoint: str) -> S3Credential:
    """The instance role's credentials by IMDSv2. Raises AccessDeniedError (`no-credentials`) within a few seconds."""
    import http.client  # most starts have other credentials
    import urllib.parse

    host = urllib.parse.urlsplit(endpoint)
    folder = "/latest/meta-data/iam/security-credentials/"

    def ask(method: str, path: str, headers: Mapping[str, str]) -> str:
        connection = http.client.HTTPConnection(host.hostname or "", host.port or 80, timeout=_IMDS_SECONDS)
        try:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            text = response.read(1 << 16).decode("utf-8", "replace")
            if response.status != 200:
                raise AccessDeniedError(
                    f"no credentials in the environment, and the instance metadata service answers {response.status}",
                    code="no-credentials",
                )
            return text
        finally:
            connection.close()

    try:
        token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
        signed = {"X-aws-ec2-metadata-token": token}
        role = ask("GET", folder, signed).split("\n", 1)[0].strip()
        found = json.loads(ask("GET", folder + urllib.parse.quote(role), signed))
        return {
            "access_key_id": str(found["AccessKeyId"]),
            "secret_access_key": str(found["SecretAccessKey"]),
            "token": str(found["Token"]) or None,
            "expires_at": dt.datetime.fromisoformat(str(found["Expiration"])),
        }
    except (OSError, http.client.HTTPException) as error:
        raise AccessDeniedError(
            f"no credentials in the environment, and no instance metadata service: {error}", code="no-credentials"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise AccessDeniedError(
            f"the instance metadata service gives no usable credentials: {error!r}", code="no-credentials"
        ) from error
