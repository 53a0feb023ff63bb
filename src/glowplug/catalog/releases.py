"""Releases of engines: which torch, triton, CUDA and streamer belong to which version. Data: data/releases.csv.

The table explains and gives defaults; it gates nothing. A version that is not in it, newer or a patch, is served like the
nearest older one (`release_or_older`). Images install the streamer without an upper bound, so that the version inside an image is
at least `streamer_minimum` and was probably `newest_streamer` when the image was built on the day of the release: probe it where
that matters.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import NotFoundError
from glowplug.core.tables import table

if TYPE_CHECKING:
    from glowplug.core.tables import Row

VersionKey = tuple[tuple[int, ...], int, int, int]

_VERSION: Final = re.compile(
    r"v?(?P<release>\d{1,9}(?:\.\d{1,9}){0,9})"
    r"(?:[._-]?(?P<pre>dev|alpha|a|beta|b|preview|pre|rc|c)[._-]?(?P<pre_number>\d{0,9}))?(?:[._-]?post[._-]?(?P<post>\d{0,9}))?"
)
_PRE: Final = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "preview": -1, "pre": -1, "rc": -1, "c": -1}
_UNKNOWN: Final = ((10**9,), 0, 0, 0)
_MINIMUM: Final = re.compile(r"runai[-_]model[-_]streamer(?:\[[\w,]+\])?>=([\w.]+)(?! \(extra diffusion\))(?:;|\Z)")


@dataclass(frozen=True)
class Release:
    """One release. `streamer` is the requirement as published, "" without one; `streamer_minimum` the lower bound in it that
    holds for serving language models; `newest_streamer` what was newest on the release day. `date` is YYYY-MM-DD, `cuda` that of
    the default torch wheel.
    """

    engine: str
    version: str
    torch: str
    triton: str
    streamer: str
    streamer_minimum: str | None
    newest_streamer: str | None
    date: str
    cuda: str
    notes: str


@functools.lru_cache(maxsize=1024)
def version_key(text: str) -> VersionKey:
    """A value that sorts like the version (PEP 440 as far as these packages use it: pre-releases, post releases, no local part).

    Text that is no version sorts after every version: what is not known counts as new.
    """
    match = _VERSION.fullmatch(text.strip().lower().partition("+")[0])
    if match is None:
        return _UNKNOWN
    numbers = [int(number) for number in match["release"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    post = 0 if match["post"] is None else int(match["post"] or 0) + 1
    if match["pre"]:
        return (tuple(numbers), _PRE[match["pre"]], int(match["pre_number"] or 0), post)
    return (tuple(numbers), 0, 0, post)


@functools.cache
def releases(engine: str) -> tuple[Release, ...]:
    """The releases of an engine, oldest first; () for an engine without a table."""
    rows = (_release(row) for row in table("glowplug.catalog", "releases") if row["engine"] == engine)
    return tuple(sorted(rows, key=lambda one: version_key(one.version)))


def _release(row: Row) -> Release:
    minimum = _MINIMUM.match(row["streamer"])
    return Release(
        engine=row["engine"],
        version=row["version"],
        torch=row["torch"],
        triton=row["triton"],
        streamer=row["streamer"],
        streamer_minimum=minimum.group(1) if minimum else None,
        newest_streamer=row["newest_streamer"] or None,
        date=row["date"],
        cuda=row["cuda"],
        notes=row["notes"],
    )


def newest(engine: str) -> Release:
    """The newest release of the table. Raises NotFoundError for an engine that has none."""
    known = releases(engine)
    if not known:
        raise NotFoundError(f"no release of {engine!r} is known", code="engine-unknown")
    return known[-1]


def release(engine: str, version: str) -> Release | None:
    """Exactly that release (a leading `v` and a local part such as `+cu129` aside), None where the table lacks it."""
    wanted = version_key(version)
    return next((one for one in releases(engine) if version_key(one.version) == wanted), None)


def release_or_older(engine: str, version: str) -> Release | None:
    """That release, or the newest of the table before it: what an unlisted version most likely carries. None for one that is
    older than the table.
    """
    wanted = version_key(version)
    return next((one for one in reversed(releases(engine)) if version_key(one.version) <= wanted), None)
