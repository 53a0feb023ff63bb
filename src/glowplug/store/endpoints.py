"""The variables that say where S3 is and whose keys are used, checked in one place before any client sees them.

Clients differ on what is almost an address: one reads `user:password@`, a query or a line break into it, another goes to AWS
itself, a third ends the process. So what is no plain `http(s)://host[:port][/path]` is refused here, by the variable's name.
Values are never repeated: a password may be in them. Empty counts as not set, as everywhere; blank is refused, since clients do
not agree on it.

Standard library only and light to import: plans and manifests carry these values to other machines.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import urllib.parse
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import AccessDeniedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""The variables of S3's address; the first that is set decides."""

REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
"""The variables of the region; the first that is set decides."""

_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN")
_SERVICE: Final = "AWS_ENDPOINT_URL"
_REGION: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?", re.ASCII)
_LONGEST: Final = 2048  # characters of an address
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
_LONGEST_NAME: Final = 253
_NUMBER: Final = re.compile(r"\d+|0[xX][0-9A-Fa-f]*", re.ASCII)
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~+=:-]*)*", re.ASCII)
_LARGEST_BUNDLE: Final = 1 << 23
_PROCESS: Final = "from custom-process"
_MOST_PORT: Final = 65535


def endpoint(environ: Mapping[str, str]) -> str | None:
    """S3's address of AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL, without slashes at its end; None where none is set.

    Raises UsageError (`bad-store-url`), which names the variable and does not repeat its value.
    """
    for variable in ENDPOINTS:
        if environ.get(variable):
            return check_endpoint(environ[variable], variable)
    return None


def region(environ: Mapping[str, str]) -> str | None:
    """The region of AWS_REGION, else AWS_DEFAULT_REGION; None where none is set. Raises UsageError (`no-region`)."""
    for variable in REGIONS:
        if environ.get(variable):
            return check_region(environ[variable], variable)
    return None


def check_endpoint(value: str, name: str) -> str:
    """`value` without slashes at its end, when it is a server's address. `name`: the variable or option. Raises as `endpoint`."""
    why = _no_server(value)
    if why:
        raise UsageError(
            f"{name} is not the address of a server: {why}", code="bad-store-url", hint="write it as https://host:port"
        )
    return value.rstrip("/")


def check_region(value: str, name: str) -> str:
    """`value`, when it has the form of a region. `name`: the variable, option or profile. Raises as `region`."""
    if not is_region(value):
        ends = value.strip() != value and is_region(value.strip())
        why = _spoiled(value) if ends else "a region has small letters, digits and hyphens"
        raise UsageError(f"{name} is not a region: {why}", code="no-region", hint="write it as us-east-1")
    return value


def certificates(environ: Mapping[str, str]) -> str:
    """The text of AWS_CA_BUNDLE, "" where it is not set. Raises UsageError where it holds no certificates."""
    place = environ.get("AWS_CA_BUNDLE")
    if not place:
        return ""
    hint = "name a file of PEM certificates, or unset AWS_CA_BUNDLE"
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, encoding="utf-8") as handle:
            text = handle.read(_LARGEST_BUNDLE) if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"AWS_CA_BUNDLE cannot be read: {place}: {why}", hint=hint) from error
    if "-----BEGIN CERTIFICATE-----" not in text:
        raise UsageError(f"AWS_CA_BUNDLE holds no certificates: {place}", hint=hint)
    return text


def is_region(text: str) -> bool:
    """Whether a name that a server told has the form of a region: only then it is put into a command."""
    return _REGION.fullmatch(text) is not None


def check_services(environ: Mapping[str, str]) -> None:
    """Every address of a service of AWS's, for clients that read these variables themselves. Raises as `endpoint`."""
    for name, value in environ.items():
        if value and (name == _SERVICE or name.startswith(f"{_SERVICE}_")):
            check_endpoint(value, name)


def of_service(environ: Mapping[str, str], service: str) -> tuple[str, str] | None:
    """The variable that says where a service of AWS's is asked, and that address; None where no variable does.

    By boto3's rules, which reads them itself: the service's own goes before AWS_ENDPOINT_URL, which is meant for all of them.
    """
    if environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
        return None
    names = (f"{_SERVICE}_{service.upper()}", _SERVICE)
    return next(((name, environ[name]) for name in names if environ.get(name)), None)


def check_keys(environ: Mapping[str, str]) -> None:
    """What cannot be a header of HTTP cannot be a key. Raises AccessDeniedError (`no-credentials`), without the value."""
    for name in _KEYS:
        value = environ.get(name, "")
        if value and not (value.isascii() and value.isprintable() and value.strip() == value):
            raise AccessDeniedError(
                f"{name} is no key: {_spoiled(value)}",
                code="no-credentials",
                hint=f"set {name} anew, without spaces and line breaks around it",
            )


def said(error: object) -> str:
    """What boto3 says, without what a program that is to print credentials has printed: they may be in it."""
    text = str(error)
    begin, found, _ = text.partition(_PROCESS)
    return f"{begin}{found} (run the profile's credential_process to see why)" if found else text


def _no_server(value: str) -> str:
    """Why this is no address of a server, "" for one."""
    if not value.strip():
        return "it is blank"
    if len(value) > _LONGEST:
        return f"it has more than {_LONGEST} characters"
    if not value.isascii() or not value.isprintable() or " " in value:
        return _spoiled(value)
    try:
        parts = urllib.parse.urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "its host or its port is none"
    if parts.scheme not in {"http", "https"}:
        return "it does not begin with http:// or https://"
    if "@" in parts.netloc:
        return "credentials do not belong into an address"
    if "?" in value or "#" in value:
        return "it has a query or a fragment"
    if port == 0 or (port is None and parts.netloc.endswith(":")):
        return f"its port is none of 1 to {_MOST_PORT}"
    if not _is_host(host, bracketed="[" in parts.netloc):
        return "its host is none"
    return "" if _PATH.fullmatch(parts.path) and not {".", ".."} & set(parts.path.split("/")) else "its path is odd"


def _is_host(host: str, *, bracketed: bool) -> bool:
    try:
        if bracketed:
            return "%" not in host and bool(ipaddress.IPv6Address(host))
        labels = host.removesuffix(".").split(".")
        if _NUMBER.fullmatch(labels[-1]):
            return bool(ipaddress.IPv4Address(host))
        for label in labels:
            if label.lower().startswith("xn--"):
                label.encode().decode("idna")
    except ValueError:
        return False
    return len(host) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, labels))


def _spoiled(value: str) -> str:
    """What is wrong with the characters of a value that is not shown."""
    if value.rstrip("\r\n") != value:
        return "it has a line break at its end"
    if not value.strip():
        return "it is blank"
    if value.strip() != value:
        return "it has a space at its beginning or end"
    return "it holds a space, a control character or a letter beyond ASCII"
