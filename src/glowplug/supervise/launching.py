"""`run --exec` where the whole package is there: the launcher of `launch.main`, with a store in S3 and the like behind it.

Preparation and watcher are forked before anything of a store is imported; each opens the store for itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from glowplug.launch import main as launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from glowplug.cache.quarantine import Quarantine
    from glowplug.core.clock import Deadline
    from glowplug.launch import means
    from glowplug.launch import prepare as launching
    from glowplug.launch.observer import Owner
    from glowplug.launch.options import RunOptions


def main(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become the command; see `launch.main`."""
    launcher.main(argv, environ, choose)


def start(options: RunOptions, command: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """The same with options that somebody else has read."""
    launcher.start(lambda _environ: options, command, environ, choose)


def choose(options: RunOptions) -> means.Means:
    """A node store goes before a store; with neither the start is only observed."""
    from glowplug.launch import means

    if options.store is None or options.node_store is not None:
        return means.kernel(options)
    return direct(options)


def direct(options: RunOptions) -> means.Means:
    """With a store to restore from and publish to."""
    from glowplug.launch import means
    from glowplug.launch.prepare import STALE_SECONDS
    from glowplug.launch.telling import tell_verdict

    def prepare(
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        deadline: Deadline,
        say: Callable[[str], None],
        stale_seconds: float = STALE_SECONDS,
    ) -> launching.Prepared:
        from glowplug.supervise.prepare import prepare as with_store

        quarantine = _quarantine(options, environ)
        return with_store(
            options, command, environ, deadline=deadline, quarantine=quarantine, say=say, stale_seconds=stale_seconds
        ).without_store()

    def owner(prepared: launching.Prepared, say: Callable[[str], None]) -> Owner:
        from glowplug.supervise.owner import StoreOwner
        from glowplug.supervise.prepare import open_store, with_store

        # The engine's environment is the launcher's with cache variables added: the same credentials, the same endpoint.
        store = open_store(options, prepared.environ, say)
        quarantine = _quarantine(options, prepared.environ)
        return StoreOwner(with_store(prepared, store), options, quarantine, say, source="exec", tell=tell_verdict)

    return means.Means(prepare, owner)


def _quarantine(options: RunOptions, environ: Mapping[str, str]) -> Quarantine:
    """In the cache root: of all that a pod has, that alone outlives a restart of its container."""
    from glowplug.cache.quarantine import Quarantine
    from glowplug.supervise.state import state_directory
    from glowplug.tree import paths

    if options.cache_root is None:
        return Quarantine(state_directory(environ))
    return Quarantine(Path(options.cache_root) / paths.OWN / "state")
