"""Before the engine of `run`: the generic preparation, with a store to restore from.

What is special here is the store: opening it, the signature policy, the guard that the model's own store gives, and the parts
that this machine has set aside. Everything else is `launch.prepare`, which pods use too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from glowplug.core.documents.start import RestoreOutcome, RestoreResult
from glowplug.core.errors import GlowplugError, UsageError
from glowplug.engines.adapter import Reach
from glowplug.launch import prepare as launching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.cache.quarantine import Quarantine
    from glowplug.core.clock import Deadline
    from glowplug.engines.adapter import Invocation, Launch
    from glowplug.launch.options import RunOptions
    from glowplug.store.contract import Store

_FOR_GOOD: Final = frozenset({"no-bucket", "wrong-region"})
"""Codes of what does not pass while an engine compiles. Credentials may come late, and new rights take a while to reach S3."""


@dataclass(frozen=True)
class Prepared(launching.Prepared):
    """With the store: None where nothing may be asked of one. `hopeless`: why a bake can never publish, "" where it may."""

    store: Store | None = None
    hopeless: str = ""

    def without_store(self) -> launching.Prepared:
        """What another process can be told: a store is opened by each for itself."""
        return launching.Prepared(
            **{name: value for name, value in vars(self).items() if name not in ("store", "hopeless")}
        )


def with_store(prepared: launching.Prepared, store: Store | None) -> Prepared:
    """A prepared start and the store that it restores from and publishes to; a start without a known engine uses none."""
    return Prepared(**vars(prepared), store=store if prepared.adapter is not None else None)


def prepare(
    options: RunOptions,
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    deadline: Deadline,
    quarantine: Quarantine,
    say: Callable[[str], None],
    stale_seconds: float = launching.STALE_SECONDS,
) -> Prepared:
    """Get ready to start `command`. Raises UsageError only for options that can never work (a store address that is none)."""
    store = open_store(options, environ, say)

    def restore(prepared: launching.Prepared) -> RestoreResult:
        assert store is not None  # noqa: S101 - only handed in with one
        return _restore(options, prepared, store, deadline, quarantine, say)

    def model_config(invocation: Invocation, launch: Launch) -> str | None:
        # Of no use where there is nothing to compare it with.
        if store is None:
            return None
        from glowplug.models import config

        return config.remote_sha256(launch.model, invocation.environ, deadline)

    prepared = launching.prepare(
        options,
        command,
        environ,
        say=say,
        restore=None if store is None else restore,
        model_config=model_config,
        stale_seconds=stale_seconds,
    )
    ready = with_store(prepared, store)
    if not (options.exit_when_ready and options.publish):
        return ready
    return dataclasses.replace(ready, hopeless=_never_published(ready, deadline))


def plain(command: Sequence[str], environ: Mapping[str, str], engine: str, reason: str) -> Prepared:
    """The command as it is: see `launch.prepare.plain`."""
    return with_store(launching.plain(command, environ, engine, reason), None)


def open_store(options: RunOptions, environ: Mapping[str, str], say: Callable[[str], None]) -> Store | None:
    """The store of the options; one that refuses everything where it cannot be used. Raises UsageError."""
    if options.store is None:
        return None
    from glowplug.store import schemes

    try:
        return schemes.open_store(options.store, environ)
    except UsageError as error:
        # The address itself can never work, and whoever wrote it is told. What a variable of the machine spoils is an outage.
        with contextlib.suppress(GlowplugError):
            schemes.open_store(options.store, {name: environ[name] for name in ("HOME",) if name in environ})
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


def _restore(
    options: RunOptions,
    prepared: launching.Prepared,
    store: Store,
    deadline: Deadline,
    quarantine: Quarantine,
    say: Callable[[str], None],
) -> RestoreResult:
    from glowplug.cache.restore import restore
    from glowplug.core.faults import reason_of

    adapter, fingerprint, root = prepared.adapter, prepared.fingerprint, prepared.root
    assert adapter is not None  # noqa: S101 - `launch.prepare` restores only where these are known
    assert fingerprint is not None  # noqa: S101
    assert fingerprint.key is not None  # noqa: S101
    assert root is not None  # noqa: S101
    try:
        verify = _policy(options)
    except (GlowplugError, OSError) as error:
        # Who asks for signatures gets nothing unsigned, but an engine.
        say(f"nothing is restored: --verify-key cannot be used: {error}")
        return RestoreResult(
            RestoreOutcome.FAILED, reason_of(error) if isinstance(error, GlowplugError) else "verify_key"
        )
    return restore(
        store,
        fingerprint.key,
        fingerprint.guards,
        root,
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


def _never_published(prepared: Prepared, deadline: Deadline) -> str:
    """Why this start's publish is certain to be refused, "" where it is not.

    It is asked what every publish asks first; so who may read the key but no blob, say, is not taken for hopeless.
    """
    from glowplug.cache import commit, layout
    from glowplug.core.faults import reason_of

    store, fingerprint = prepared.store, prepared.fingerprint
    if store is None or fingerprint is None or fingerprint.key is None or not _in_doubt(prepared.restore):
        return ""
    try:
        commit.read(store, layout.manifest_path(fingerprint.key), deadline)
    except GlowplugError as error:
        return reason_of(error) if error.code in _FOR_GOOD else ""
    return ""


def _in_doubt(restore: RestoreResult) -> bool:
    """Whether the restore leaves open that the store can be asked at all."""
    return restore.outcome is RestoreOutcome.FAILED or restore.reason == "no_restore"
