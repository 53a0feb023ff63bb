"""Whether a store can be used: reached, listed, read, written with conditions, and not switched off.

By the store's own contract, so what passes here is what a start and a publisher will really do. Reading is tried on an object
that is not there: a store that lets it be read says so with "not there", one that does not refuses, and who has it is no store.
Writing leaves nothing behind: in a bucket one empty object below `v1/<domain>/.probe/`, removed again; in a directory a store of
its own inside the innermost directory of the domain that is there, removed with all that it made.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import shutil
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.cache import control, layout
from glowplug.check.results import Check
from glowplug.core import bounded
from glowplug.core.errors import AccessDeniedError, GlowplugError, NotFoundError
from glowplug.store import paths
from glowplug.store.directory import LOCKS, DirectoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glowplug.check.results import Status
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

_NO_USE: Final = {"no-credentials": "credentials", "wrong-region": "region"}
"""Refusals after which nothing else need be tried, and what they are about. All others but `access-denied`: the way there."""

_NO_S3: Final = "check AWS_ENDPOINT_URL_S3 and AWS_ENDPOINT_URL: host, port and path of a server that speaks S3"
_DIRECTORY: Final = "file://"
_NO_ACCESS: Final = "give this user the right to read and to write there, or try with --read-only"


def readable(store: Store, domain: str, deadline: Deadline) -> tuple[Check, ...]:
    """What a start needs: the way there, to list and to read its domain, the switch."""
    try:
        listed = _listed(store, domain, deadline)
    except GlowplugError as error:
        return (_unusable(store, error),)
    reached = Check("reach", "pass", f"{store.url} answers")
    return (reached, listed, _read(store, domain, deadline), *_control(store, deadline))


def absent(url: str, deadline: Deadline) -> tuple[Check, ...]:
    """Why a store in a directory cannot be looked at, () where it can or is no directory. Nothing is made."""
    if not url.startswith(_DIRECTORY):
        return ()
    root = _root(url)

    def work() -> bool:
        return root.is_dir() or not root.parent.is_dir()  # a parent that is missing is told by the store itself

    try:
        there = bounded.call(work, deadline, f"looking at {url}")
    except (GlowplugError, OSError) as error:
        return (Check("reach", "fail", f"{url} cannot be looked at: {error}", _NO_ACCESS),)
    if there:
        return ()
    said = f"{url} is not there yet: starts restore nothing, the first publisher makes it"
    return (Check("reach", "warn", said, f"mkdir {shlex.quote(str(root))}, or check the path", {"code": "not-found"}),)


def writable(store: Store, domain: str, deadline: Deadline) -> tuple[Check, ...]:
    """What a publisher needs: to write with conditions, and to remove what it wrote."""
    if not store.url.startswith(_DIRECTORY):
        return _written(store, domain, deadline)
    root = _root(store.url)
    try:
        base = bounded.call(lambda: _innermost(root, domain), deadline, f"looking at {store.url}")
    except GlowplugError as error:
        return (_failed("write", "fail", error),)
    except OSError as error:
        return (Check("write", "fail", f"{error.filename}: {error.strerror}", _NO_ACCESS),)
    trial = base / f"{paths.RESERVED}check-{secrets.token_hex(8)}"
    try:
        return _written(DirectoryStore(trial), domain, deadline)
    finally:
        with contextlib.suppress(GlowplugError):
            bounded.call(lambda: shutil.rmtree(trial, ignore_errors=True), deadline, f"removing {trial}")


def _innermost(root: Path, domain: str) -> Path:
    """The directory in which a publisher would make the next one. Raises OSError where it, or the one of the locks, is closed."""
    whole = root / layout.domain_prefix(domain)
    base = next((place for place in (whole, whole.parent, root) if place.is_dir()), root.parent)
    locks = next(place for place in (root / LOCKS, root, base) if place.is_dir() or place == base)
    for place in (base, locks):
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    return base


def _written(store: Store, domain: str, deadline: Deadline) -> tuple[Check, ...]:
    probe = _probe(domain)
    try:
        store.put_new(probe, b"", deadline)
    except GlowplugError as error:
        if error.code == "read-only-store":
            return (_failed("conditional-writes", "fail", error),)
        if isinstance(error, AccessDeniedError):
            said = f"these credentials do not write to domain {domain!r}: starts restore, nothing is published"
            return (
                Check(
                    "write", "warn", said, "--read-only, where that is meant; else see docs/security.md", _code(error)
                ),
            )
        return (_failed("write", "fail", error),)
    written = Check("write", "pass", f"domain {domain!r} can be written")
    conditions = Check(
        "conditional-writes", "pass", "of two writers one wins (If-None-Match and If-Match are honoured)"
    )
    try:
        store.delete(probe, deadline)
    except GlowplugError as error:
        hint = "publishing works; `glowplug cache gc` and `rm` need s3:DeleteObject"
        return (
            written,
            conditions,
            Check("delete", "warn", f"nothing can be removed: {error.message}", hint, _code(error)),
        )
    return (written, conditions, Check("delete", "pass", "what is written can be removed"))


def unopened(error: GlowplugError) -> tuple[Check, ...]:
    """Where not even a client can be made: no credentials, or nobody who gives them in time."""
    return (_failed(_NO_USE.get(error.code, "reach"), "fail", error),)


def place(url: str, region_of: Callable[[str], str], told: str) -> Iterator[Check]:
    """Whether the bucket of an `s3://` address is in the region that clients are told. `region_of` asks S3."""
    if not url.startswith("s3://"):
        return
    bucket = url.removeprefix("s3://").partition("/")[0]
    found = region_of(bucket)
    evidence = {"bucket": bucket, "region": found or None, "told": told or None}
    if not found:
        yield Check("region", "unknown", f"nobody says in which region s3://{bucket} is", "", evidence)
    elif not told:
        said = f"s3://{bucket} is in {found}; AWS_REGION is not set"
        yield Check("region", "warn", said, f"set AWS_REGION={found}", evidence)
    elif found != told:
        said = f"s3://{bucket} is in {found}, and clients are told {told}"
        yield Check("region", "fail", said, f"set AWS_REGION={found}", evidence)
    else:
        yield Check("region", "pass", f"s3://{bucket} is in {found}, as clients are told", "", evidence)


def _listed(store: Store, domain: str, deadline: Deadline) -> Check:
    """Raises GlowplugError where the store is of no use at all."""
    try:
        found = next(iter(store.list(layout.keys_prefix(domain), deadline)), None)
    except AccessDeniedError as error:
        if error.code != "access-denied":
            raise
        return _failed("list", "fail", error)
    said = f"domain {domain!r} can be listed" + ("" if found else ", and holds no key yet")
    return Check("list", "pass", said, "", {"empty": found is None})


def _read(store: Store, domain: str, deadline: Deadline) -> Check:
    try:
        store.get(_probe(domain), deadline)
    except NotFoundError:
        return Check("read", "pass", f"domain {domain!r} can be read")
    except GlowplugError as error:
        return _failed("read", "fail", error)
    said = "an object of a name that nobody gave is there: what answers is no store"
    return Check("read", "fail", said, "check the network path, proxies and AWS_ENDPOINT_URL")


def _control(store: Store, deadline: Deadline) -> Iterator[Check]:
    try:
        now, damage = control.inspect(store, deadline)
    except AccessDeniedError as error:
        said = "the store's switch cannot be read, which counts as on"
        yield Check("control", "pass", said, f"allow reading {layout.CONTROL}", _code(error))
        return
    except GlowplugError as error:
        yield _failed("control", "unknown", error)
        return
    evidence = {"restore": now.restore, "publish": now.publish, "min_version": now.min_version or None}
    off = [name for name, value in (("restoring", now.restore), ("publishing", now.publish)) if not value]
    if damage:
        yield Check("control", "warn", damage, "glowplug cache control --restore on --publish on", evidence)
    elif off:
        said = f"{' and '.join(off)} is switched off for everyone"
        yield Check("control", "warn", said, "`glowplug cache control` shows and changes it", evidence)
    else:
        yield Check("control", "pass", "restoring and publishing are on", "", evidence)


def _unusable(store: Store, error: GlowplugError) -> Check:
    if isinstance(error, NotFoundError):
        # S3 says of a bucket that it is not there; a listing itself is always there.
        error = NotFoundError(f"{error.message}: what answers is no S3", code=error.code, hint=_NO_S3)
    return _failed(_NO_USE.get(error.code, "reach"), "fail", error, store.url)


def _failed(name: str, status: Status, error: GlowplugError, url: str = "") -> Check:
    said = error.message if url in error.message else f"{url}: {error.message}"
    return Check(name, status, said, error.hint, _code(error))


def _code(error: GlowplugError) -> dict[str, str]:
    return {"code": error.code}


def _root(url: str) -> Path:
    return Path(urllib.parse.unquote(url.removeprefix(_DIRECTORY)))


def _probe(domain: str) -> str:
    return f"{layout.domain_prefix(domain)}/.probe/{secrets.token_hex(16)}"
