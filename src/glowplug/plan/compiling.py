"""Where an engine keeps what it compiles: the variables that put all of it below one cache root, and how compiling is switched on.

Which variables those are is the engine adapter's own statement (`engines/`), the same that `glowplug run` sets; only engines that
have no adapter yet have rows here (data/engine_caches.csv), beside the variables that torch itself reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.core.documents.fingerprint import Layout
from glowplug.core.tables import table
from glowplug.engines.adapter import Launch, Placement
from glowplug.engines.places import placed
from glowplug.engines.registry import by_name
from glowplug.models.contents import Finding
from glowplug.plan.outcome import Compile, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.plan.loaders import Loader
    from glowplug.plan.request import Request

_DEFAULT: Final = "default"
_OWN: Final = "own"
_STREAMERS: Final = "RUNAI_STREAMER_"


def switches(loader: Loader) -> tuple[str, ...]:
    """The arguments that switch torch.compile on, none where the engine compiles by itself or in its own way."""
    value = loader.behaviour("compile").value
    return () if value in (_DEFAULT, _OWN, "") else (value,)


def variables(request: Request, loader: Loader, ranks: int) -> dict[str, str]:
    """All cache variables, and what the adapter wants of the streamer (its log, which says bytes and seconds)."""
    launch = Launch(
        engine=loader.engine,
        model=request.model.source,
        layout=Layout(tp=ranks),
        args={},
        env={},
        other_args={"load_format": loader.behaviour("load_format").value},
    )
    return dict(place(launch, loader.version, request.cache_root, {}).variables)


def place(launch: Launch, version: str, cache_root: str, environ: Mapping[str, str]) -> Placement:
    """Where a start on a GPU is told to keep its caches, and which of the variables in `environ` stay as they are instead."""
    adapter = by_name(launch.engine)
    known = adapter or by_name("torch")
    if known is None:
        return Placement({})
    found = known.place(cache_root, launch, environ, engine_version=version, gpu=True)
    if adapter:
        return found
    own = placed(_without_adapter(launch.engine, cache_root), environ, cache_root)
    return Placement(
        {**own.variables, **found.variables}, {**own.kept, **found.kept}, (*own.costs, *found.costs), found.escapes
    )


def split(found: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The cache variables, and those of the streamer."""
    caches = {name: value for name, value in found.items() if not name.startswith(_STREAMERS)}
    return caches, {name: value for name, value in found.items() if name.startswith(_STREAMERS)}


def settings(request: Request, loader: Loader, caches: Mapping[str, str]) -> Compile:
    """The compile part of profile `auto`."""
    on = loader.behaviour("compile").value != _OWN
    return Compile(enabled=on, cache_root=request.cache_root, args=switches(loader), env=dict(caches))


def reasons(request: Request, loader: Loader, caches: Mapping[str, str]) -> tuple[Reason, ...]:
    """Why compiling is on, and why these variables."""
    compiled = loader.behaviour("compile")
    how = {
        _DEFAULT: "on by default, and worth its time once it is cached",
        _OWN: "the engine compiles in its own way; torch.compile is an option of its configuration file",
    }.get(compiled.value, f"{compiled.value} switches it on")
    placed = "the engine's own variables; XDG_CACHE_HOME would move every other cache too"
    return (
        Reason("compile", compiled.value != _OWN, how, compiled.source),
        Reason(", ".join(caches), request.cache_root, placed, f"glowplug's adapter of {loader.engine}"),
    )


def findings(loader: Loader) -> tuple[Finding, ...]:
    """What glowplug cannot do yet for this engine."""
    if by_name(loader.engine) is not None:
        return ()
    return (
        Finding(
            "engine-not-supported",
            "info",
            f"glowplug cannot restore or publish {loader.engine}'s compile cache yet; it stays on the volume that holds it",
        ),
    )


def _without_adapter(engine: str, root: str) -> dict[str, str]:
    rows = table("glowplug.plan", "engine_caches")
    return {row["variable"]: f"{root}/{row['below']}" for row in rows if row["engine"] == engine}
