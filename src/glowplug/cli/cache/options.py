"""Which store, which domains, how long: the options that all subcommands take, as one value.

`--domain` given by a caller (an option or GLOWPLUG_DOMAIN) stands above what a document says: the trust domain comes from the
caller's configuration.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from glowplug.cli.run import Duration
from glowplug.core.clock import Deadline
from glowplug.core.errors import GlowplugError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cache.format import Manifest
    from glowplug.cache.layout import Place
    from glowplug.cache.sign import Signer
    from glowplug.store.contract import Store
    from glowplug.store.counting import Counter

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True)
class Session:
    """What a call was told. `domain_given`: somebody chose the domain, it is not the default. `timeout` in seconds."""

    url: str | None
    domain: str
    domain_given: bool
    all_domains: bool
    timeout: float
    deadline: Deadline = field(default_factory=Deadline.never)

    def open(self, counter: Counter | None = None) -> Store:
        """The store of `--store`. Raises UsageError where none is named, and as `open_store`."""
        if not self.url:
            raise UsageError("no store is named", hint="give --store URL, or set GLOWPLUG_STORE")
        return open_url(self.url, counter)

    def domains(self, store: Store) -> tuple[str, ...]:
        """The domains to look at. Raises the store's errors."""
        if not self.all_domains:
            return (self.domain,)
        from glowplug.cache.listing import domains

        return domains(store, self.deadline)

    def locate(self, store: Store, digits: str) -> tuple[str, Place]:
        """Domain and place of the key that begins with `digits`. Raises as `lookup.resolve`."""
        from glowplug.cache import lookup

        found: list[tuple[str, Place]] = []
        for domain in self.domains(store):
            try:
                found.append((domain, lookup.resolve(store, domain, digits, self.deadline)))
            except NotFoundError as error:
                if error.code != "key-not-found":
                    raise
        if len(found) > 1:
            raise NotFoundError(f"{len(found)} keys begin with {digits}", code="key-ambiguous")
        if not found:
            if self.all_domains:
                # Malformed digits are told as such also where there is no domain to look in.
                lookup.resolve(store, self.domain, digits, self.deadline)
            where = "any domain" if self.all_domains else f"domain {self.domain!r}"
            hint = "" if self.all_domains else self._elsewhere(store, digits)
            raise NotFoundError(f"no key of {where} begins with {digits}", code="key-not-found", hint=hint)
        return found[0]

    def _elsewhere(self, store: Store, digits: str) -> str:
        """Which other domain has that key, "" where none has or nobody may look: digests are told without their domain."""
        from glowplug.cache import lookup
        from glowplug.cache.listing import domains

        with contextlib.suppress(GlowplugError):
            for other in domains(store, self.deadline):
                with contextlib.suppress(NotFoundError):
                    lookup.resolve(store, other, digits, self.deadline)
                    return f"domain {other!r} has one: --domain {shlex.quote(other)}"
        return ""


def store_options(timeout: str) -> Callable[[F], F]:
    """`--store`, `--domain`, `--all-domains`, `--timeout`; the command gets them as `session`."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(
            *arguments: Any, store: str | None, domain: str, all_domains: bool, timeout: float, **named: Any
        ) -> Any:
            session = _session(store, domain, timeout, all_domains=all_domains)
            return function(*arguments, session=session, **named)

        for option in reversed(
            (
                click.option("--store", metavar="URL", help="The store: s3://, gs://, az:// or file://."),
                click.option("--domain", default="default", show_default=True, help="Trust domain."),
                click.option("--all-domains", is_flag=True, help="Every trust domain of the store."),
                click.option(
                    "--timeout",
                    type=Duration(),
                    default=timeout,
                    show_default=True,
                    help="Give up on the store after this.",
                ),
            )
        ):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[return-value] # the wrapper stands in for the function it wraps

    return decorate


def _session(store: str | None, domain: str, timeout: float, *, all_domains: bool) -> Session:
    context = click.get_current_context()
    source = context.get_parameter_source("domain")
    if all_domains and source is ParameterSource.COMMANDLINE:
        raise UsageError("--domain and --all-domains exclude each other")
    if not domain:
        raise UsageError("the name of a domain is not empty")
    given = source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
    return Session(store, domain, given, all_domains, timeout, Deadline.after(timeout))


def open_url(url: str, counter: Counter | None = None) -> Store:
    """The store of an address, with this process's environment. Raises as `open_store`."""
    from glowplug.store.schemes import open_store

    return open_store(url, os.environ, counter=counter)


def key_file(name: str, help_text: str) -> Callable[[F], F]:
    """An option that names a PEM file."""
    return click.option(
        name, type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE", help=help_text
    )


def signer(path: Path | None) -> Signer | None:
    """What signs manifests. Raises BadInputError, GlowplugError (`missing-extra`), OSError."""
    if path is None:
        return None
    from glowplug.cache import sign

    return sign.signer(path.read_bytes())


def policy(path: Path | None) -> Callable[[Manifest], None] | None:
    """What refuses manifests that a key did not sign. Raises as `signer`."""
    if path is None:
        return None
    from glowplug.cache import sign

    return sign.verifier(path.read_bytes())
