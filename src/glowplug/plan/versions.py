"""Which engine and which streamer a plan is for, how sure that is, and what counts as a version at all.

A version that the catalogue does not have is served: it is planned as the nearest older one that it has, and the plan says so.
Text that is no version is refused, since it would become an image's tag.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.catalog.releases import newest, release, release_or_older, releases, version_key
from glowplug.core import redact
from glowplug.core.errors import UsageError
from glowplug.models.contents import Finding
from glowplug.plan import guide
from glowplug.plan.hosting import Streamer
from glowplug.plan.loaders import PUBLISHED, UNKNOWN, Loader
from glowplug.plan.outcome import Reason
from glowplug.plan.request import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from glowplug.catalog.releases import Release
    from glowplug.plan.request import Request

_VERSION: Final = re.compile(r"[vV]?(\d{1,9}(?:\.\d{1,9}){0,3}(?:rc\d{1,9})?(?:\.post\d{1,9})?)", re.ASCII)
_SHOWN: Final = 80
_LOOKED_AT: Final = 4096
_NEWEST: Final = 3
_CATALOGUE: Final = "glowplug's catalogue of releases"


@dataclass(frozen=True)
class Versions:
    """Engine and streamer (None where the engine has none), with what is to be said of them."""

    loader: Loader
    streamer: Streamer | None
    reasons: tuple[Reason, ...]
    findings: tuple[Finding, ...]


def engine_version(text: str, engine: str) -> str:
    """The version in a text, without a leading `v`. Raises UsageError for what is none."""
    return _version("--engine-version", text, engine, [one.version for one in releases(engine)])


def streamer_version(text: str) -> str:
    """The same for the streamer. Raises UsageError."""
    return _version("--streamer-version", text, "the streamer", _streamers())


def _version(option: str, text: str, what: str, known: Iterable[str]) -> str:
    found = _VERSION.fullmatch(text.strip())
    if found is not None:
        return found[1]
    last = sorted(set(known), key=version_key)[-_NEWEST:]
    named = f"the newest known of {what}: {', '.join(reversed(last))}" if last else "write it as 1.2.3"
    if text.strip().lower() == "latest":
        raise UsageError(
            f"{option}: `latest` is a tag that moves, and no version", hint=f"leave it out, or name one; {named}"
        )
    shown = redact.value("", text[:_LOOKED_AT])[:_SHOWN]
    raise UsageError(f"{option}: {shown!r} is no version such as 1.2.3, 1.2.3.post1 or 1.2.3rc1", hint=named)


def versions(request: Request) -> Versions:
    """What a request is planned for."""
    loader, known = _engine(request)
    streamer = _streamer(request, known)
    reasons = [*_engine_reasons(request, loader)]
    findings = [*_engine_findings(request, loader)]
    if loader.streams and streamer is not None:
        reasons += _streamer_reasons(loader, streamer)
        findings += _streamer_findings(streamer)
    return Versions(loader, streamer, tuple(reasons), tuple(findings))


def _engine(request: Request) -> tuple[Loader, Release | None]:
    """The loader, and the release whose streamer it has."""
    version = _plain(request.engine_version) or _usual(request)
    older = release_or_older(request.engine, version)
    # Older than the catalogue: the tables of behaviour reach further back than it does.
    loader = Loader(request.engine, version, older.version if older else version)
    return loader, older or next(iter(releases(request.engine)), None)


def _plain(version: str | None) -> str:
    return (version or "").strip().lstrip("vV")


def _usual(request: Request) -> str:
    if request.profile == "guide" and request.engine == "vllm":
        return guide.ENGINE_VERSION
    if releases(request.engine):
        return newest(request.engine).version
    return PUBLISHED.get(request.engine, UNKNOWN)


def _streamer(request: Request, known: Release | None) -> Streamer | None:
    if request.streamer_version is not None:
        return Streamer(_plain(request.streamer_version), inferred=False)
    return _shipped(known)


def shipped_streamer(engine: str, version: str) -> Streamer | None:
    """The streamer that the image of that version most likely has, None where no release of the engine is known."""
    older = release_or_older(engine, _plain(version))
    return _shipped(older or next(iter(releases(engine)), None))


def _shipped(known: Release | None) -> Streamer | None:
    return Streamer(known.newest_streamer) if known and known.newest_streamer else None


def _engine_reasons(request: Request, loader: Loader) -> Iterator[Reason]:
    if request.engine_version is not None:
        return
    if request.profile == "guide" and request.engine == "vllm":
        yield Reason("--engine-version", loader.version, "the guide's", guide.SOURCE)
    elif releases(request.engine):
        yield Reason("--engine-version", loader.version, "the newest known", _CATALOGUE)
    else:
        why = "no list of its releases is known here; this one's image is published"
        yield Reason("--engine-version", loader.version, why, f"the documentation of {request.engine}")


def _engine_findings(request: Request, loader: Loader) -> Iterator[Finding]:
    if request.engine_version is None or release(request.engine, request.engine_version) is not None:
        return
    known = releases(request.engine)
    if not known:
        planned = "nothing in this plan depends on it"
    elif loader.known == loader.version:
        planned = f"it is planned by what is known of versions before {known[0].version}, the oldest there"
    else:
        planned = f"it is planned as {loader.known}"
    yield Finding(
        "engine-version-unknown",
        "info",
        f"{loader.name} is not in the catalogue: {planned}",
        "check that its image exists",
    )


def _streamer_reasons(loader: Loader, streamer: Streamer) -> Iterator[Reason]:
    if not streamer.inferred:
        return
    why = f"the newest when {loader.name} was released"
    if release(loader.engine, loader.version) is None:
        nearest = release_or_older(loader.engine, loader.version) or releases(loader.engine)[0]
        why = f"{loader.name} is not in the catalogue; of {nearest.version}, the nearest there, it was the newest"
    yield Reason(
        "--streamer-version",
        streamer.version,
        f"inferred: {why}; images install it unpinned: ask the image",
        _CATALOGUE,
    )


def _streamer_findings(streamer: Streamer) -> Iterator[Finding]:
    if streamer.inferred:
        return
    known = sorted(_streamers(), key=version_key)
    key = version_key(streamer.version)
    if any(version_key(one) == key for one in known):
        return
    older = [one for one in known if version_key(one) < key]
    planned = f"as {older[-1]}" if older else f"by what is known of versions before {known[0]}, the oldest there"
    yield Finding(
        "streamer-version-unknown",
        "info",
        f"streamer {streamer.version} is not in the catalogue: it is planned {planned}",
    )


def _streamers() -> set[str]:
    """Every version of the streamer that some table names."""
    from glowplug.catalog.streamer import variables

    shipped = {
        text for name in ENGINES for one in releases(name) for text in (one.newest_streamer, one.streamer_minimum)
    }
    told = {text for one in variables() for text in (one.since, one.until)}
    return {text for text in shipped | told if text}
