"""F: the file in which somebody hands a fingerprint in, read as input that may be anything."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from glowplug.cli.output import note
from glowplug.cli.streams import standard_input
from glowplug.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cli.cache.options import Session
    from glowplug.core.documents.fingerprint import Key

F = TypeVar("F", bound="Callable[..., Any]")

LARGEST: Final = 16 << 20


def fingerprint_option(*, required: bool) -> Callable[[F], F]:
    """`--fingerprint F`; the command gets the path as `fingerprint`."""
    return click.option(
        "--fingerprint",
        metavar="F",
        required=required,
        help="A glowplug.fingerprint/1, a glowplug.start/1 or the key's fields in flat form; - is stdin.",
    )


def read(source: str, session: Session) -> tuple[Key, dict[str, str]]:
    """Key and guards of F, in the domain that the caller chose, if any. Raises BadInputError (`bad-fingerprint`)."""
    from glowplug.fingerprint import parse

    key, guards = parse.parse(_text(source))
    if session.domain_given and not session.all_domains and session.domain != key.domain:
        note(f"warning: the fingerprint is of domain {key.domain!r}, looked at in domain {session.domain!r}")
        key = dataclasses.replace(key, domain=session.domain)
    return key, guards


def _text(source: str) -> str:
    name = "stdin" if source == "-" else source
    try:
        if source == "-":
            data = standard_input().read(LARGEST + 1)
        else:
            with Path(source).open("rb") as handle:
                data = handle.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise BadInputError(f"{name}: {getattr(error, 'strerror', None) or error}", code="bad-fingerprint") from None
    if len(data) > LARGEST:
        raise BadInputError(f"{name}: larger than {LARGEST} bytes", code="bad-fingerprint")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError(f"{name}: not UTF-8", code="bad-fingerprint") from None
