"""`glowplug cache restore`: the artifacts of a key into a directory, all or nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glowplug.cli.cache import handed_in
from glowplug.cli.cache.options import Session, key_file, policy, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, IntegrityError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.cache.lookup import Found, Missing
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store


@click.command(
    "restore",
    epilog=epilog(
        "Prints the object `restore` of a start document. Exit status: 0 restored, or all of it was there; 1 the store has "
        "nothing for this key, or lacks a blob (then nothing is written); 3 the store does not answer; 4 a manifest or blob "
        "is not what its digest says.",
        "glowplug cache restore 3f9a1c22 --to /compile-cache --store s3://bucket/cache",
        "glowplug cache restore --fingerprint fingerprint.json --to /compile-cache --store s3://bucket/cache",
    ),
)
@click.argument("key", metavar="[KEY]", required=False)
@handed_in.fingerprint_option(required=False)
@click.option("--to", required=True, metavar="D", help="The cache root to put them into.")
@click.option("--replace", is_flag=True, help="Lay the store's files over others of the same path.")
@key_file("--verify-key", "Restore only what this key signed.")
@store_options("30m")
@output_option
def command(
    key: str | None,
    fingerprint: str | None,
    to: str,
    replace: bool,
    verify_key: Path | None,
    session: Session,
    output: Output,
) -> None:
    """Put the artifacts of a key into a directory: the key named by KEY, or the one of a fingerprint."""
    if (key is None) == (fingerprint is None):
        raise UsageError("name the key by KEY or by --fingerprint, one of them")
    if not to:
        raise UsageError("--to names no directory")
    from glowplug.cache.lookup import Missing
    from glowplug.cli.cache import progress, results

    wanted = handed_in.read(fingerprint, session) if fingerprint is not None else None
    verify = policy(verify_key)
    target = Path(to).absolute()
    with progress.progress("restoring") as counter:
        store = session.open(counter)
        with _told(output, store.url):
            found, guards = (
                _by_fingerprint(session, store, *wanted) if wanted else _by_digits(session, store, key or "")
            )
        if isinstance(found, Missing):
            _end_missing(output, found, store.url)
            return
        root = found.manifest.key.cache_root
        if str(target) != root.rstrip("/"):
            note(
                f"warning: the artifacts hold paths below {root}; an engine that looks for them in {target} may miss them"
            )
        from glowplug.cache.restore import restore_exact

        with _told(output, store.url), _nothing_left(target):
            _blobs_there(session, store, found)
            result = restore_exact(
                store, found, guards, target, deadline=session.deadline, verify=verify, replace=replace
            )
    results.print_restore(output, result)


def _by_fingerprint(
    session: Session, store: Store, key: Key, guards: Mapping[str, str]
) -> tuple[Found | Missing, Mapping[str, str]]:
    from glowplug.cache import lookup

    return lookup.look_up(store, key, session.deadline, guards=guards), guards


def _by_digits(session: Session, store: Store, digits: str) -> tuple[Found | Missing, Mapping[str, str]]:
    """As `look_up`: the switch of the store and a block count for people too."""
    import glowplug
    from glowplug.cache import control, lookup
    from glowplug.cache.lookup import Missing

    domain, place = session.locate(store, digits)
    found = lookup.open_key(store, domain, place.key_digest, session.deadline)
    allowed = control.read(store, session.deadline)
    if not allowed.restore:
        return Missing("restore_off"), {}
    if not allowed.admits(glowplug.__version__):
        return Missing("min_version"), {}
    if found.manifest.blocked is not None:
        return Missing("key_blocked", found.manifest.key), {}
    return (found if found.offers else Missing("no_parts", found.manifest.key)), {}


def _end_missing(output: Output, missing: Missing, url: str) -> None:
    from glowplug.cli.cache import results

    if missing.reason == "integrity":
        results.print_restore(output, RestoreResult(RestoreOutcome.FAILED, missing.reason, url))
        raise IntegrityError("the key's manifest is damaged", code="bad-manifest")
    skipped = missing.reason in ("restore_off", "min_version")
    outcome = RestoreOutcome.SKIPPED if skipped else RestoreOutcome.NONE
    results.print_restore(output, RestoreResult(outcome, missing.reason, url))
    click.get_current_context().exit(1)


def _blobs_there(session: Session, store: Store, found: Found) -> None:
    """Asked before anything is written. Raises NotFoundError (`blob-missing`)."""
    from glowplug.cache import layout

    for offer in found.offers:
        for part in offer.parts:
            if store.head(layout.blob_path(found.manifest.key.domain, part.sha256), session.deadline) is None:
                raise NotFoundError(f"the store lacks the blob of {part.name!r}", code="blob-missing")


@contextlib.contextmanager
def _told(output: Output, url: str) -> Iterator[None]:
    """A fault is an object on stdout too, before it becomes an error's lines and status."""
    from glowplug.cli.cache import results
    from glowplug.core.faults import reason_of

    try:
        yield
    except (GlowplugError, OSError) as error:
        if isinstance(error, BrokenPipeError) or getattr(error, "exit_status", 0) == UsageError.exit_status:
            raise
        outcome = RestoreOutcome.NONE if isinstance(error, NotFoundError) else RestoreOutcome.FAILED
        results.print_restore(output, RestoreResult(outcome, reason_of(error), url))
        raise


@contextlib.contextmanager
def _nothing_left(target: Path) -> Iterator[None]:
    """After a fault, directories that were made for nothing go again."""
    made = [folder for folder in (target / ".glowplug", target, *target.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
