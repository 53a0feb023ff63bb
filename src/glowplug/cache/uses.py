"""When a key was used last, for garbage collection.

A marker's own time stamp is the answer, so it is never read, only listed. Those who may write rewrite it once a day at most: a
fleet that starts a thousand pods an hour costs the store one write a day and key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from glowplug.cache import layout
from glowplug.core.errors import GlowplugError

if TYPE_CHECKING:
    from glowplug.core.clock import Clock, Deadline
    from glowplug.core.documents.fingerprint import Key
    from glowplug.store.contract import Store

_DAY: Final = 86_400.0
_SECONDS: Final = 5.0


def touch(store: Store, key: Key, deadline: Deadline, clock: Clock) -> bool:
    """Note that a key is in use; whether the marker was written. A store that refuses is fine: then others note it."""
    path = layout.uses_path(key.domain, key.digest())
    try:
        known = store.head(path, deadline.at_most(_SECONDS))
        if known is not None and clock.now() - known.modified < _DAY:
            return False
        store.put(path, b"", deadline.at_most(_SECONDS))
    except GlowplugError:
        return False
    return True


def last_used(store: Store, domain: str, deadline: Deadline) -> dict[str, float]:
    """Key digest → seconds since the epoch of its marker."""
    return {meta.path.rpartition("/")[2]: meta.modified for meta in store.list(layout.uses_prefix(domain), deadline)}
