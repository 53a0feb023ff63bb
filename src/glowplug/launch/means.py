"""What differs between pods with a node store, pods with a store, and those with neither: a function to prepare, an owner.

The order of things is the same for all of them (`launch.starting`); it is handed one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Protocol

from glowplug.launch.prepare import STALE_SECONDS, Prepared, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from glowplug.core.clock import Deadline
    from glowplug.launch.observer import Owner
    from glowplug.launch.options import RunOptions

    Say = Callable[[str], None]


class Preparing(Protocol):
    """`launch.prepare.prepare` with somewhere to restore from."""

    def __call__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        deadline: Deadline,
        say: Say,
        stale_seconds: float = STALE_SECONDS,
    ) -> Prepared:
        """What is known before the engine starts; it goes to the watcher by pickle."""
        ...


@dataclass(frozen=True)
class Means:
    """`prepare` runs in a process of its own; `owner` is called in the watcher, with what was prepared."""

    prepare: Preparing
    owner: Callable[[Prepared, Say], Owner]


Choose = Callable[["RunOptions"], Means]


def kernel(options: RunOptions) -> Means:
    """Without a third party's package: the node store. A store cannot be reached; such a start is observed, nothing more."""
    if options.node_store is not None:
        from glowplug.launch.node import node

        return node(options, options.node_store)

    def observed(
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        deadline: Deadline,
        say: Say,
        stale_seconds: float = STALE_SECONDS,
    ) -> Prepared:
        del deadline
        if options.store is not None:
            say("--store needs the whole package: nothing is restored (no_client)")
        return prepare(options, command, environ, say=say, restore=None, stale_seconds=stale_seconds)

    def owner(prepared: Prepared, say: Say) -> Owner:
        from glowplug.launch.unkept import UnkeptOwner

        return UnkeptOwner(prepared, say)

    return Means(observed, owner)
