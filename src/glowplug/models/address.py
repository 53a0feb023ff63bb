"""What the word MODEL of a command line means: a size (`is_size`), else a directory or a place in an object store (`parse`).

Nothing is read here but whether a directory of that name is there, and not even that by `unread`, for calls that name the size
beside the model. Both hold an address to one rule, so that a plan, a manifest, a policy and the reading mean the same objects.
What the word cannot mean is told with what was probably meant, since the usual mistakes have names: a Hugging Face name, a web
address, one file of a folder, billions of parameters for bytes. Passwords and signatures in it are never repeated.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.core import units
from glowplug.core.errors import AccessDeniedError, BadInputError, GlowplugError, UsageError
from glowplug.core.printable import one_line
from glowplug.models.contents import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALLEST: Final = 10**6
"""Bytes below which a size is taken for a mistake: `7B` are seven bytes."""

LARGEST: Final = 10**15
"""Bytes above which a size is one too."""

_SIZE: Final = re.compile(r"\s*\d+(?:\.\d+)?\s*(?:[kmgtp]i?)?b?\s*", re.ASCII | re.IGNORECASE)
_ALMOST_SIZE: Final = re.compile(r"\s*[\d.,_]+\s*[A-Za-z]{0,4}\s*", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?(.*)", re.DOTALL)
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_OBJECTS: Final = ("s3", "gs", "az")
_ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("s3a", "s3n", "aws"), "s3"),
    **dict.fromkeys(("gcs", "google"), "gs"),
    **dict.fromkeys(("azure", "abfs", "abfss", "wasb", "wasbs"), "az"),
}
# S3's and Azure's names, but for their least length, which a server will tell; Google's may have underscores and be longer.
_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)
_BUCKET_OF_GOOGLE: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,220}[a-z0-9])?", re.ASCII)
_PART: Final = re.compile(r"[A-Za-z0-9._=+@-]{1,255}", re.ASCII)
_MOST_PREFIX: Final = 1000  # characters; S3's names have 1024 at most, and files have names too
# `//user:password@host` and `s3:/key:secret@…` are no URLs, and hold a password all the same.
_USER: Final = re.compile(r"\A((?:[A-Za-z][A-Za-z0-9+.-]*:)?/*)[^:@]*:.*@", re.DOTALL)
_LONGEST: Final = 4096  # characters; PATH_MAX
_SHOWN: Final = 200


@dataclass(frozen=True)
class Directory:
    """A directory of this machine."""

    source: str
    path: Path


@dataclass(frozen=True)
class Objects:
    """A prefix of a bucket. `source` is how it is shown and handed to an engine: no trailing slash, the scheme in small letters."""

    source: str
    findings: tuple[Finding, ...] = ()


class _NoDirectoryError(UsageError):
    """Nothing of that name is here: a slip of the call, and no answer about a model."""

    default_code = "not-found"


Address = Directory | Objects


def is_size(text: str) -> bool:
    """Whether MODEL is a size and nothing else, whatever directories there are (`./67GB` is one)."""
    return len(text) <= _SHOWN and _SIZE.fullmatch(text) is not None


def parse_size(text: str) -> int:
    """Bytes of weights. Raises UsageError (`bad-size`) for what no model has, too."""
    nbytes = units.parse_size(text) if is_size(text) else _no_size(text)
    if nbytes < SMALLEST:
        raise UsageError(
            f"{text.strip()} is {nbytes} bytes, and no model is that small", code="bad-size", hint=_bigger(text)
        )
    return check_size(nbytes)


def check_size(nbytes: int) -> int:
    """`nbytes`, when a model can have as many. Raises UsageError (`bad-size`)."""
    if not 1 <= nbytes <= LARGEST:
        raise UsageError(f"no model has {str(nbytes)[:30]} bytes", code="bad-size")
    return nbytes


def parse(text: str, environ: Mapping[str, str]) -> Address:
    """What MODEL means when it is no size. `environ` gives HOME for `~/`.

    Raises UsageError (`bad-model`, `bad-size` for what is almost one; `not-found` where a directory is not there), BadInputError
    where it is a file, AccessDeniedError where it cannot be looked at.
    """
    _demand_harmless(text)
    found = _SCHEME.fullmatch(text)
    if found is None:
        return _directory(text, environ)
    place = _of_scheme(text, *found.groups())
    return place if isinstance(place, Objects) else _existing(text, place)


def unread(text: str) -> str:
    """How MODEL is told an engine where it is not read: an address as `Objects.source`, the path of `file:///…`, else as it is.

    Raises UsageError (`bad-model`) for what `parse` would refuse wherever it ran.
    """
    _demand_harmless(text)
    found = _SCHEME.fullmatch(text)
    if found is None:
        return text
    place = _of_scheme(text, *found.groups())
    return place.source if isinstance(place, Objects) else str(place)


def shown(text: str) -> str:
    """MODEL for a line of ours: on one line, not too long, without passwords and signatures."""
    from glowplug.core import redact  # with json and hashlib, which a size does not need

    hidden = redact.value("MODEL", _USER.sub(r"\1…@", text[: 2 * _LONGEST]))
    hidden = one_line(hidden)
    return hidden if len(hidden) <= _SHOWN else hidden[:_SHOWN] + "…"


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """Bucket and prefix of `scheme://bucket/prefix`, "" for none. Raises UsageError (`bad-model`) for what readers disagree on."""
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.rstrip("/").partition("/")
    grammar = _BUCKET_OF_GOOGLE if scheme.lower() == "gs" else _BUCKET
    if not grammar.fullmatch(bucket) or ".." in bucket:
        why = (
            "its bucket's name is none (small letters, digits, hyphens and dots, at most 63)"
            if bucket
            else "it names no bucket"
        )
        raise _bad(url, why)
    if len(prefix) > _MOST_PREFIX:
        raise _bad(url, f"its prefix has more than {_MOST_PREFIX} characters")
    for part in prefix.split("/") if prefix else ():
        if not part:
            raise _bad(url, "it has two slashes, which name other objects for some readers", "write each slash once")
        if part in (".", ".."):
            raise _bad(
                url, f"{part!r} is part of it, which is a name in a bucket and a way in a path", "write it without"
            )
        if not _PART.fullmatch(part):
            raise _bad(url, "its prefix has characters beside letters, digits and . _ - = + @")
    return bucket, prefix


def _demand_harmless(text: str) -> None:
    if not text.strip() or len(text) > _LONGEST or not text.isprintable():
        raise _bad(text, "it is empty, too long or not printable")
    if text.startswith("//") and "@" in text:
        raise _bad("//…", "credentials do not belong into an address")
    if "=" in text:
        from glowplug.core import redact

        if redact.value("MODEL", text) != text:
            raise _bad(
                re.split(r"[?#;&]", text, maxsplit=1)[0], "it has a signature or a key in it, which a path has not"
            )


def _of_scheme(text: str, scheme: str, slashes: str | None, rest: str) -> Objects | Path:
    """A place in a bucket, or the path of `file:///…`."""
    plain = scheme.lower()
    if "@" in rest.lstrip("/").split("/", 1)[0]:
        raise _bad(f"{scheme}://…", "credentials do not belong into an address")
    if "?" in rest or "#" in rest:
        raise _bad(
            re.split(r"[?#]", text, maxsplit=1)[0], "it has a query or a fragment", "leave out what begins with ? or #"
        )
    if plain in ("http", "https"):
        raise _bad(
            text,
            "a model is named by its bucket; the server's address goes into AWS_ENDPOINT_URL",
            "write s3://bucket/prefix",
        )
    if plain in _ALIASES:
        raise _bad(text, f"no engine knows {scheme}:", _meant(_ALIASES[plain], rest))
    if plain in ("hf", "huggingface"):
        raise _hub(text)
    if plain not in (*_OBJECTS, "file"):
        raise _bad(text, f"unknown scheme {scheme!r}")
    if not slashes:
        raise _bad(
            text,
            f"two slashes are missing after {scheme}:",
            _meant(plain, rest.lstrip("/")),
        )
    if plain == "file":
        return _file_url(text, rest)
    source = f"{plain}://{rest.rstrip('/')}"
    bucket_and_prefix(source)
    if rest.endswith(".safetensors"):
        raise BadInputError(
            f"{one_line(source)} is one file; engines load folders",
            code="bad-model",
            hint=f"give the folder: {source.rpartition('/')[0]}",
        )
    return Objects(source, _case(scheme, source))


def _case(scheme: str, source: str) -> tuple[Finding, ...]:
    if scheme.islower():
        return ()
    message = (
        f"the address begins with {scheme}://: vLLM takes that, the streamer does not, "
        "which lists no weights and pulls no files then"
    )
    return (Finding("scheme-case", "error", message, f"write {source}"),)


def _file_url(text: str, rest: str) -> Path:
    import urllib.parse  # 5 ms, for an address that is rare

    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise _bad(
            text,
            "a directory's address has three slashes",
            _meant("file", f"/{rest}") if rest else "",
        )
    decoded = urllib.parse.unquote(path)
    if not decoded.isprintable():
        raise _bad(text, "it is not printable")
    return Path("/" + decoded.strip("/"))


def _directory(text: str, environ: Mapping[str, str]) -> Directory:
    expanded = f"{environ['HOME']}/{text[2:]}" if text.startswith("~/") and environ.get("HOME") else text
    try:
        return _existing(text, Path(expanded))
    except _NoDirectoryError:
        if text.startswith(("/", "./", "../", "~/")) or text in (".", ".."):
            raise
    if _ALMOST_SIZE.fullmatch(text):
        _no_size(text)
    if _HUB_NAME.fullmatch(text.rstrip("/")):
        raise _hub(text)
    raise _bad(text, "it is no size, no address, and no directory of that name is here")


def _existing(text: str, path: Path) -> Directory:
    told = shown(text)
    try:
        mode = path.stat().st_mode
    except PermissionError as error:
        raise AccessDeniedError(
            f"{told} cannot be looked at: {error.strerror}", hint="give this user the right to read the directory"
        ) from error
    except (OSError, ValueError) as error:
        raise _NoDirectoryError(
            f"there is no directory {told}", hint="check the path; of a bucket, write s3://bucket/prefix"
        ) from error
    if stat.S_ISDIR(mode):
        return Directory(text.rstrip("/") or "/", Path(os.path.abspath(path)))  # noqa: PTH100 - absolute() keeps ..
    if text.endswith(".safetensors"):
        raise BadInputError(
            f"{told} is one file; engines load folders", code="bad-model", hint="give the folder that it lies in"
        )
    raise BadInputError(f"{told} is no directory", code="bad-model")


def _hub(text: str) -> GlowplugError:
    return _bad(
        text,
        "no directory of that name is here, and names of the Hugging Face Hub are not looked up",
        "give the size with --size 67GB, or the address to which the model was copied (s3://bucket/prefix)",
    )


def _no_size(text: str) -> int:
    raise UsageError(f"not a size: {shown(text)!r}", code="bad-size")


def _meant(scheme: str, rest: str) -> str:
    return f"did you mean {shown(f'{scheme}://{rest}')} ?"


def _bigger(text: str) -> str:
    billions = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*b\s*", text, re.IGNORECASE)
    if billions is None:
        return ""
    return f"of {billions[1]} billion parameters with 16 bits each, write {float(billions[1]) * 2:g}GB"


def _bad(text: str, why: str, hint: str = "") -> UsageError:
    return UsageError(f"not a model: {shown(text)!r}: {why}", code="bad-model", hint=hint)
