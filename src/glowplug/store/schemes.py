"""From an address to a store: `s3://`, `gs://`, `az://`, `file://` or a path, `memory://`.

The one place that knows the schemes; a new back end is a row in `_SCHEMES` and a parameter of the conformance suite.
Nothing is asked of the network here, so a wrong address or a missing setting is told at once and a slow server later,
under a deadline.

S3 obeys `AWS_ENDPOINT_URL_S3`, else `AWS_ENDPOINT_URL` (http allowed, path style), and `AWS_REGION`, else
`AWS_DEFAULT_REGION`, else the profile's region (`store/endpoints.py`). `environ` decides, not the process's environment.
"""

from __future__ import annotations

import contextlib
import re
import urllib.parse
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import AccessDeniedError, UsageError
from glowplug.store.counting import Counter, Counting
from glowplug.store.retrying import PATIENT, Policy, Retrying

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from obstore.store import ClientConfig, RetryConfig

    from glowplug.store.contract import Store

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]", re.ASCII)
_PREFIX_PART: Final = re.compile(r"[A-Za-z0-9._=+@-]{1,255}", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ALIASES: Final = {
    "s3a": "s3",
    "s3n": "s3",
    "aws": "s3",
    "gcs": "gs",
    "google": "gs",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "wasb": "az",
    "mem": "memory",
    "local": "file",
}
_DEFAULT_REGION: Final = "us-east-1"
_CONNECT_SECONDS: Final = 5.0
_SILENCE_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Address:
    """A bucket (container, directory) and a prefix in it, "" for none."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def url(self) -> str:
        """As people write it, without a trailing slash."""
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def open_store(
    url: str, environ: Mapping[str, str], *, policy: Policy = PATIENT, counter: Counter | None = None
) -> Store:
    """The store at `url`, with retries; `counter` adds up what is asked of it.

    Raises UsageError (`bad-store-url`, `no-region`), GlowplugError (`missing-extra`), AccessDeniedError (`no-credentials`).
    """
    bare = _bare_store(url, environ)
    return Retrying(Counting(bare, counter) if counter else bare, policy)


def _bare_store(url: str, environ: Mapping[str, str]) -> Store:
    scheme, rest = _split(url, environ)
    if scheme == "file":
        from glowplug.store.directory import DirectoryStore  # each back end loads only what it needs

        return DirectoryStore(_directory(url, rest))
    from glowplug.store.objects import ObjectStore  # obstore, 30 ms

    return ObjectStore(_SCHEMES[scheme](_address(scheme, url, rest), environ))


def _split(url: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Scheme and the rest; a path is of scheme `file`."""
    found = _SCHEME.fullmatch(url)
    if found is None:
        return _split_path(url, environ)
    scheme, rest = found.group(1), found.group(2)
    known = {"file", *_SCHEMES}
    if scheme not in known:
        meant = scheme.lower() if scheme.lower() in known else _ALIASES.get(scheme.lower())
        if meant is None and scheme.lower() in {"http", "https"}:
            raise _bad(
                url,
                "a store is named by its bucket; the server's address goes into AWS_ENDPOINT_URL",
                "s3://bucket/prefix",
            )
        raise _bad(url, f"unknown scheme {scheme!r}", f"{meant}:{rest}" if meant else "")
    if not rest.startswith("//"):
        raise _bad(
            url,
            f"two slashes are missing after {scheme}:",
            f"{scheme}://{rest.lstrip('/')}" if scheme != "file" else f"file:///{rest.lstrip('/')}",
        )
    return scheme, rest[2:]


def _split_path(url: str, environ: Mapping[str, str]) -> tuple[str, str]:
    if url.startswith("~/") and environ.get("HOME"):
        url = f"{environ['HOME']}/{url[2:]}"
    if not url.startswith(("/", "./", "../")):
        raise _bad(url, "it has no scheme", f"s3://{url}" if url else "")
    if "\0" in url:
        raise _bad(url, "it holds a NUL byte")
    return "file", urllib.parse.quote(str(Path(url).absolute()))


def _directory(url: str, rest: str) -> Path:
    host, slash, path = rest.partition("/")
    if host not in {"", "localhost"} or not slash:
        raise _bad(url, "a directory's address has three slashes", f"file:///{rest}" if rest else "")
    decoded = urllib.parse.unquote(path)
    if "\0" in decoded or ".." in decoded.split("/") or not decoded.strip("/"):
        raise _bad(url, "it names no directory of its own")
    found = Path("/" + decoded.strip("/"))
    with contextlib.suppress(OSError):  # what cannot be looked at is told by the first call
        if found.exists() and not found.is_dir():
            raise _bad(url, "it is a file, not a directory")
    return found


def _address(scheme: str, url: str, rest: str) -> Address:
    if "@" in rest.split("/", 1)[0]:
        raise _bad(f"{scheme}://…", "credentials do not belong into an address")
    if "?" in rest or "#" in rest:
        raise _bad(url.split("?", 1)[0], "it has a query or a fragment")
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.rstrip("/")
    if scheme == "memory":
        if bucket:
            raise _bad(url, "a store in memory has no name", "memory://")
        return Address(scheme, "", "")
    if not bucket:
        raise _bad(url, "it names no bucket", f"{scheme}://{prefix}" if prefix else f"{scheme}://bucket/prefix")
    if not _BUCKET.fullmatch(bucket):
        raise _bad(url, f"{bucket!r} is not the name of a bucket (three letters or more, digits, . - _)")
    for part in prefix.split("/") if prefix else ():
        if not _PREFIX_PART.fullmatch(part) or part in {".", ".."}:
            raise _bad(url, f"{part!r} cannot be part of a prefix (letters, digits, . _ - = + @)")
    return Address(scheme, bucket, prefix)


def _bad(url: str, why: str, meant: str = "") -> UsageError:
    shown = url if len(url) <= 200 else url[:200] + "…"
    return UsageError(
        f"not the address of a store: {shown!r}: {why}",
        code="bad-store-url",
        hint=f"did you mean {meant} ?" if meant else "",
    )


def client_options(seconds: float, *, certificates: str = "", allow_http: bool = False) -> ClientConfig:
    """A client whose requests end by `seconds`, after `_SILENCE_SECONDS` without a byte, or without a connection sooner."""
    options: ClientConfig = {
        "timeout": timedelta(seconds=seconds),
        "connect_timeout": timedelta(seconds=min(seconds, _CONNECT_SECONDS)),
        "read_timeout": timedelta(seconds=min(seconds, _SILENCE_SECONDS)),
        "allow_http": allow_http,
    }
    if certificates:
        options["root_certificate"] = certificates
    return options


def _never_again() -> RetryConfig:
    return {"max_retries": 0, "retry_timeout": timedelta(0)}


def _s3(address: Address, environ: Mapping[str, str]) -> Any:
    from obstore.exceptions import UnknownConfigurationKeyError
    from obstore.store import S3Store

    from glowplug.store import credentials, endpoints, regions
    from glowplug.store.objects import Remote

    own, told = endpoints.endpoint(environ), endpoints.region(environ)
    found = credentials.find(environ)
    region = told or found.region or _DEFAULT_REGION
    endpoint = own or regions.endpoint(region)
    settings: dict[str, Any] = {
        **found.settings,
        "region": region,
        "endpoint": endpoint,
        "virtual_hosted_style_request": False,
    }
    # Settings that older obstores do not know. The first keeps the newer ones from reading AWS_ENDPOINT_URL_S3 themselves; without
    # the second a deletion is a POST, which some servers lack.
    newer = {"aws_endpoint_url_s3": endpoint, "disable_bulk_delete": True}
    certificates = endpoints.certificates(environ)

    def connect_with(config: dict[str, Any], seconds: float) -> S3Store:
        return S3Store(
            address.bucket,
            prefix=address.prefix or None,
            config=config,  # type: ignore[arg-type] # a plain dict with the keys of S3Config
            client_options=client_options(
                seconds, certificates=certificates, allow_http=endpoint.lower().startswith("http://")
            ),
            retry_config=_never_again(),
            credential_provider=found.provider,
        )

    def connect(seconds: float) -> S3Store:
        try:
            return connect_with(settings | newer, seconds)
        except UnknownConfigurationKeyError:
            return connect_with(settings, seconds)

    return Remote(
        url=address.url,
        connect=connect,
        base=f"{endpoint}/",
        region=region,
        anonymous=found.anonymous,
        find_region=lambda seconds: regions.of_bucket(endpoint, address.bucket, seconds),
        credentials_fault=found.provider.fault if found.provider else None,
    )


def _gs(address: Address, environ: Mapping[str, str]) -> Any:
    from obstore.store import GCSStore

    from glowplug.store.objects import Remote

    settings: dict[str, Any] = {}
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        settings["application_credentials"] = environ["GOOGLE_APPLICATION_CREDENTIALS"]

    def connect(seconds: float) -> GCSStore:
        return GCSStore(
            address.bucket,
            prefix=address.prefix or None,
            config=settings,  # type: ignore[arg-type] # a plain dict with the keys of GCSConfig
            client_options=client_options(seconds),
            retry_config=_never_again(),
        )

    return Remote(url=address.url, connect=connect, versioned_by="version")


def _az(address: Address, environ: Mapping[str, str]) -> Any:
    from obstore.store import AzureStore

    from glowplug.store.objects import Remote

    account = environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise AccessDeniedError(
            f"{address.url}: no storage account is named",
            code="no-credentials",
            hint="set AZURE_STORAGE_ACCOUNT_NAME and a credential (AZURE_STORAGE_ACCOUNT_KEY, a workload identity …)",
        )

    def connect(seconds: float) -> AzureStore:
        return AzureStore(
            address.bucket,
            prefix=address.prefix or None,
            config={"account_name": account},
            client_options=client_options(seconds),
            retry_config=_never_again(),
        )

    return Remote(url=address.url, connect=connect)


def _memory(address: Address, environ: Mapping[str, str]) -> Any:
    from obstore.store import MemoryStore

    from glowplug.store.objects import Remote

    only = MemoryStore()
    return Remote(url=address.url, connect=lambda _: only)


_SCHEMES: Final[Mapping[str, Callable[[Address, Mapping[str, str]], Any]]] = {
    "s3": _s3,
    "gs": _gs,
    "az": _az,
    "memory": _memory,
}
