"""Everything before the engine: recognise, fingerprint, choose the cache root, restore, place, index. One deadline for all.

Nothing here may keep an engine from starting. What goes wrong is a reason in the document, and the start goes on with what is
known by then: without a fingerprint nothing is restored, without a root that can be written the engine gets a private one.
Where artifacts come from is a function that the caller hands in: this module knows of no store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Final, Optional

from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, UsageError
from glowplug.engines import command as commands
from glowplug.engines import registry
from glowplug.engines.adapter import Invocation, Launch, Placement, Reach
from glowplug.fingerprint import build
from glowplug.host import writable
from glowplug.launch.words import explained
from glowplug.observe.new import Tree, look
from glowplug.observe.outside import Outside
from glowplug.tree import receipts
from glowplug.tree.index import scan
from glowplug.tree.model import EMPTY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.core.documents.fingerprint import Fingerprint
    from glowplug.engines.adapter import Adapter
    from glowplug.launch.options import RunOptions
    from glowplug.tree.model import File

_EMPTY_TREE = Tree(EMPTY, (), ())
STALE_SECONDS: Final = 60.0
"""Another engine may be writing in the same root just now; what it renames into place is never this old."""


@dataclass(frozen=True)
class Prepared:
    """What the start of the engine and its observer need.

    `environ` is the engine's. `adapter`, `launch`, `fingerprint` are None where they could not be had; `unknown` then says why.
    `root` is None where nothing of the tree is looked at.
    """

    environ: Mapping[str, str]
    engine: str
    invocation: Invocation
    adapter: Optional[Adapter] = None
    launch: Optional[Launch] = None
    fingerprint: Optional[Fingerprint] = None
    placement: Placement = dataclasses.field(default_factory=lambda: Placement({}))
    root: Optional[Path] = None
    private: str = ""
    restore: RestoreResult = dataclasses.field(default_factory=lambda: RestoreResult(RestoreOutcome.NONE, "no_store"))
    before: Tree = _EMPTY_TREE
    outside: Optional[Outside] = None
    unknown: str = ""

    def discard(self) -> None:
        """Remove a private cache root."""
        if self.private and self.root is not None:
            import shutil

            shutil.rmtree(self.root, ignore_errors=True)


Restore = Callable[[Prepared], RestoreResult]
"""Brings a key's artifacts into the tree of a start whose adapter, fingerprint with key, and root are known."""
ModelConfig = Callable[[Invocation, Launch], Optional[str]]
"""The guard that only somebody with access to the model's own store can give; None where it cannot be had."""


def no_model_config(_invocation: Invocation, _launch: Launch) -> Optional[str]:
    """For those who cannot look into the model's store: the guard is not compared then."""
    return None


def plain(command: Sequence[str], environ: Mapping[str, str], engine: str, reason: str) -> Prepared:
    """The command as it is, with nothing of ours: when preparing it failed or took too long."""
    return Prepared(
        environ,
        engine,
        Invocation(tuple(command), environ),
        unknown=reason,
        restore=RestoreResult(RestoreOutcome.FAILED, reason),
    )


def prepare(
    options: RunOptions,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    say: Callable[[str], None],
    restore: Optional[Restore],
    model_config: ModelConfig = no_model_config,
    stale_seconds: float = STALE_SECONDS,
) -> Prepared:
    """Get ready to start `command`; with `restore` None there is nowhere to restore from.

    Temporary files in the cache root that are older than `stale_seconds` are taken for those of dead processes.
    """
    invocation = commands.see_through(command, environ)
    try:
        found = registry.recognise(invocation, None, options.engine)
    except UsageError as error:
        say(f"{error.message}; the command is started as it is")
        found = registry.Recognition(options.engine, None, None, "command_unreadable")
    if found.adapter is None or found.launch is None:
        reason = found.reason or "engine_unknown"
        say(f"started as it is: {explained(reason)}")
        return Prepared(
            environ, found.engine, invocation, unknown=reason, restore=RestoreResult(RestoreOutcome.SKIPPED, reason)
        )
    prepared = _with_engine(options, environ, invocation, found.adapter, found.launch, model_config, say)
    if prepared.root is None:
        return prepared
    if not prepared.private:
        prepared = dataclasses.replace(prepared, restore=_restored(options, prepared, restore))
    return _indexed(prepared, stale_seconds, say)


def _with_engine(
    options: RunOptions,
    environ: Mapping[str, str],
    invocation: Invocation,
    adapter: Adapter,
    launch: Launch,
    model_config: ModelConfig,
    say: Callable[[str], None],
) -> Prepared:
    """Fingerprint, cache root and variables; `root` None where there is no directory for the caches at all."""
    try:
        root = writable.choose(options.cache_root)
    except OSError as error:
        say(f"no directory for the caches can be made ({error.strerror}); the command is started as it is")
        reason = "cache_root_unwritable"
        return Prepared(
            environ,
            adapter.name,
            invocation,
            unknown=reason,
            restore=RestoreResult(RestoreOutcome.SKIPPED, reason),
        )
    fingerprint = build.fingerprint(
        invocation,
        launch,
        adapter,
        domain=options.domain,
        cache_root=root.path,
        environ=invocation.environ,
        model_config_sha256=model_config(invocation, launch),
    )
    placement, engine_environ = _placed(adapter, launch, environ, invocation, root, options.cache_root, fingerprint)
    for advice in (*launch.advice, *placement.costs):
        say(advice)
    prepared = Prepared(
        environ=engine_environ,
        engine=adapter.name,
        invocation=invocation,
        adapter=adapter,
        launch=launch,
        fingerprint=fingerprint,
        placement=placement,
        root=Path(root.path),
        private=root.why if root.private else "",
    )
    if root.private:
        say(f"{root.why}; the engine gets a private cache, nothing is restored or published")
        prepared = dataclasses.replace(prepared, restore=RestoreResult(RestoreOutcome.SKIPPED, "cache_root_unwritable"))
    return prepared


def _placed(
    adapter: Adapter,
    launch: Launch,
    environ: Mapping[str, str],
    invocation: Invocation,
    root: writable.CacheRoot,
    wanted: Optional[str],
    fingerprint: Fingerprint,
) -> tuple[Placement, dict[str, str]]:
    """The cache variables, none that the environment or the command line itself (`env A=b …`) sets.

    A private root also replaces the user's own variables that point below the root that cannot be written.
    """
    base, seen = dict(environ), dict(invocation.environ)
    if root.private:
        for name, value in environ.items():
            moved = _moved(value, (wanted,) if wanted else _default_roots(), root.path)
            if moved is not None:
                base[name] = moved
                if seen.get(name) == value:  # else the command line sets it, and has the last word
                    seen[name] = moved
    version = str(fingerprint.fields["engine_version"].value) if "engine_version" in fingerprint.fields else ""
    gpu = "gpu" in fingerprint.fields and not str(fingerprint.fields["gpu"].value).startswith("cpu:")
    placement = adapter.place(root.path, launch, seen, engine_version=version, gpu=gpu)
    return placement, {**base, **placement.variables}


def _default_roots() -> tuple[str, ...]:
    return writable.DEFAULT, f"{writable.FALLBACK_PARENT}/glowplug-{os.getuid()}/compile-cache"


def _moved(value: str, lost: Sequence[str], root: str) -> Optional[str]:
    """A path below one of the lost roots, as it is below the private one; None for any other value."""
    for place in (item.rstrip("/") for item in lost):
        if value == place or value.startswith(place + "/"):
            return root + value[len(place) :]
    return None


def _restored(options: RunOptions, prepared: Prepared, restore: Optional[Restore]) -> RestoreResult:
    if restore is None:
        return RestoreResult(RestoreOutcome.NONE, "no_store")
    if not options.restore:
        return RestoreResult(RestoreOutcome.SKIPPED, "no_restore")
    if prepared.launch is not None and prepared.launch.disabled:
        return RestoreResult(RestoreOutcome.SKIPPED, "compile_disabled")
    if prepared.fingerprint is None or prepared.fingerprint.key is None:
        names = ",".join(prepared.fingerprint.unknown) if prepared.fingerprint else ""
        return RestoreResult(RestoreOutcome.SKIPPED, f"unknown:{names}")
    return restore(prepared)


def _just_restored(prepared: Prepared, root: Path) -> dict[str, File]:
    """What this very start has put in place, each file compared with its digest: reading all of it again says nothing new."""
    if prepared.restore.outcome is not RestoreOutcome.RESTORED:
        return {}
    return {file.path: file for part in prepared.restore.parts for file in receipts.read(root, part) or ()}


def _indexed(prepared: Prepared, stale_seconds: float, say: Callable[[str], None]) -> Prepared:
    """With the tree as the engine will find it; files of an interrupted earlier start are removed first."""
    assert prepared.adapter is not None  # noqa: S101 - only called with one
    assert prepared.launch is not None  # noqa: S101
    assert prepared.root is not None  # noqa: S101
    adapter, root = prepared.adapter, prepared.root
    try:
        index = scan(
            root, select=lambda path: adapter.reach(path) is not Reach.NEVER, known=_just_restored(prepared, root)
        )
    except (GlowplugError, OSError) as error:
        say(f"the cache root cannot be read: {error}")
        return dataclasses.replace(prepared, root=None, unknown="cache_root_unreadable")
    stale = (time.time() - stale_seconds) * 1e9
    leftovers = [
        path
        for path, file in index.files.items()
        if adapter.is_temporary(path) and not path.endswith(".lock") and file.mtime_ns < stale
    ]
    for path in leftovers:
        with contextlib.suppress(OSError):
            (root / path).unlink()
    if leftovers:
        index = dataclasses.replace(
            index, files={path: file for path, file in index.files.items() if path not in set(leftovers)}
        )
    return dataclasses.replace(
        prepared, before=look(index, adapter, prepared.launch), outside=Outside(prepared.placement.escapes)
    )
