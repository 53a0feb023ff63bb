"""Everything before the engine: recognise, fingerprint, choose the cache root, restore, place, index. One deadline for all.

Nothing here may keep an engine from starting. What goes wrong is a reason in the document, and the start goes on with what is
known by then: without a fingerprint nothing is restored, without a root that can be written the engine gets a private one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, UsageError
from glowplug.engines import command as commands
from glowplug.engines import registry
from glowplug.engines.adapter import Invocation, Launch, Placement, Reach
from glowplug.fingerprint import build
from glowplug.host import writable
from glowplug.observe.new import Tree, look
from glowplug.observe.outside import Outside
from glowplug.supervise.words import explained
from glowplug.tree.index import scan
from glowplug.tree.model import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.cache.quarantine import Quarantine
    from glowplug.core.clock import Deadline
    from glowplug.core.documents.fingerprint import Fingerprint
    from glowplug.engines.adapter import Adapter
    from glowplug.store.contract import Store
    from glowplug.supervise.options import RunOptions

_EMPTY_TREE = Tree(EMPTY, (), ())
_STALE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Prepared:
    """What the start of the engine and its observer need.

    `environ` is the engine's. `adapter`, `launch`, `fingerprint` are None where they could not be had; `unknown` then says why.
    `root` is None where nothing of the tree is looked at. `store` is None where nothing may be asked of one.
    """

    environ: Mapping[str, str]
    engine: str
    invocation: Invocation
    adapter: Adapter | None = None
    launch: Launch | None = None
    fingerprint: Fingerprint | None = None
    placement: Placement = dataclasses.field(default_factory=lambda: Placement({}))
    root: Path | None = None
    private: str = ""
    store: Store | None = None
    restore: RestoreResult = dataclasses.field(default_factory=lambda: RestoreResult(RestoreOutcome.NONE, "no_store"))
    before: Tree = _EMPTY_TREE
    outside: Outside | None = None
    unknown: str = ""

    def discard(self) -> None:
        """Remove a private cache root."""
        if self.private and self.root is not None:
            shutil.rmtree(self.root, ignore_errors=True)


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
    deadline: Deadline,
    quarantine: Quarantine,
    say: Callable[[str], None],
) -> Prepared:
    """Get ready to start `command`. Raises UsageError only for options that can never work (a store address that is none)."""
    store = _open(options, environ, say)
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
    return _with_engine(options, environ, invocation, found.adapter, found.launch, store, deadline, quarantine, say)


def _open(options: RunOptions, environ: Mapping[str, str], say: Callable[[str], None]) -> Store | None:
    if options.store is None:
        return None
    from glowplug.store.schemes import open_store

    try:
        return open_store(options.store, environ)
    except UsageError as error:
        # The address itself can never work, and whoever wrote it is told. What a variable of the machine spoils is an outage.
        with contextlib.suppress(GlowplugError):
            open_store(options.store, {name: environ[name] for name in ("HOME",) if name in environ})
            return _refusing(options.store, error, say)
        raise
    except GlowplugError as error:
        return _refusing(options.store, error, say)


def _refusing(url: str, error: GlowplugError, say: Callable[[str], None]) -> Store:
    say(f"the store cannot be used: {error.message}")
    return _Refusing(url, error)  # type: ignore[return-value]


class _Refusing:
    """A store that could not be opened: whatever is asked of it fails with the same error, which becomes the reason."""

    def __init__(self, url: str, error: GlowplugError) -> None:
        self.url = url
        self._error = error

    def __getattr__(self, name: str) -> Callable[..., object]:
        def refuse(*_arguments: object, **_named: object) -> object:
            raise self._error

        return refuse


def _with_engine(
    options: RunOptions,
    environ: Mapping[str, str],
    invocation: Invocation,
    adapter: Adapter,
    launch: Launch,
    store: Store | None,
    deadline: Deadline,
    quarantine: Quarantine,
    say: Callable[[str], None],
) -> Prepared:
    wanted_root = options.cache_root
    try:
        root = writable.choose(wanted_root)
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
    key_root = root.path
    fingerprint = build.fingerprint(
        invocation,
        launch,
        adapter,
        domain=options.domain,
        cache_root=key_root,
        environ=invocation.environ,
        model_config_sha256=_model_config(options, invocation, launch, deadline),
    )
    placement, engine_environ = _placed(adapter, launch, environ, invocation, root, wanted_root, fingerprint)
    for advice in (*launch.advice, *placement.costs):
        say(advice)
    folder = Path(root.path)
    prepared = Prepared(
        environ=engine_environ,
        engine=adapter.name,
        invocation=invocation,
        adapter=adapter,
        launch=launch,
        fingerprint=fingerprint,
        placement=placement,
        root=folder,
        private=root.why if root.private else "",
        store=store,
    )
    if root.private:
        say(f"{root.why}; the engine gets a private cache, nothing is restored or published")
        prepared = dataclasses.replace(prepared, restore=RestoreResult(RestoreOutcome.SKIPPED, "cache_root_unwritable"))
    else:
        prepared = dataclasses.replace(prepared, restore=_restore(options, prepared, deadline, quarantine, say))
    return _indexed(prepared, say)


def _model_config(options: RunOptions, invocation: Invocation, launch: Launch, deadline: Deadline) -> str | None:
    """The guard that the model's own store can give; of no use where there is nothing to compare it with."""
    if options.store is None:
        return None
    from glowplug.models import config

    return config.remote_sha256(launch.model, invocation.environ, deadline)


def _placed(
    adapter: Adapter,
    launch: Launch,
    environ: Mapping[str, str],
    invocation: Invocation,
    root: writable.CacheRoot,
    wanted: str | None,
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


def _moved(value: str, lost: Sequence[str], root: str) -> str | None:
    """A path below one of the lost roots, as it is below the private one; None for any other value."""
    for place in (item.rstrip("/") for item in lost):
        if value == place or value.startswith(place + "/"):
            return root + value[len(place) :]
    return None


def _restore(
    options: RunOptions, prepared: Prepared, deadline: Deadline, quarantine: Quarantine, say: Callable[[str], None]
) -> RestoreResult:
    if prepared.store is None:
        return RestoreResult(RestoreOutcome.NONE, "no_store")
    if not options.restore:
        return RestoreResult(RestoreOutcome.SKIPPED, "no_restore")
    adapter = prepared.adapter
    assert adapter is not None  # noqa: S101 - only called with one
    assert prepared.launch is not None  # noqa: S101 - set together with the adapter
    assert prepared.fingerprint is not None  # noqa: S101
    assert prepared.root is not None  # noqa: S101
    if prepared.launch.disabled:
        return RestoreResult(RestoreOutcome.SKIPPED, "compile_disabled")
    key = prepared.fingerprint.key
    if key is None:
        names = ",".join(prepared.fingerprint.unknown)
        return RestoreResult(RestoreOutcome.SKIPPED, f"unknown:{names}")
    from glowplug.cache.faults import reason_of
    from glowplug.cache.restore import restore

    try:
        verify = _policy(options)
    except (GlowplugError, OSError) as error:
        # Who asks for signatures gets nothing unsigned, but an engine.
        say(f"nothing is restored: --verify-key cannot be used: {error}")
        return RestoreResult(
            RestoreOutcome.FAILED, reason_of(error) if isinstance(error, GlowplugError) else "verify_key"
        )
    return restore(
        prepared.store,
        key,
        prepared.fingerprint.guards,
        prepared.root,
        deadline=deadline,
        skip_parts=quarantine.left_out(),
        allowed=lambda path: adapter.reach(path) is Reach.PORTABLE,
        verify=verify,
    )


def _policy(options: RunOptions) -> Callable[..., None] | None:
    if options.verify_key is None:
        return None
    from glowplug.cache import sign

    return sign.verifier_in(options.verify_key)


def _indexed(prepared: Prepared, say: Callable[[str], None]) -> Prepared:
    """With the tree as the engine will find it; files of an interrupted earlier start are removed first."""
    assert prepared.adapter is not None  # noqa: S101 - only called with one
    assert prepared.launch is not None  # noqa: S101
    assert prepared.root is not None  # noqa: S101
    adapter, root = prepared.adapter, prepared.root
    try:
        index = scan(root, select=lambda path: adapter.reach(path) is not Reach.NEVER)
    except (GlowplugError, OSError) as error:
        say(f"the cache root cannot be read: {error}")
        return dataclasses.replace(prepared, root=None, unknown="cache_root_unreadable")
    # Another engine may be writing in the same root just now; what it renames into place is never this old.
    stale = (time.time() - _STALE_SECONDS) * 1e9
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
