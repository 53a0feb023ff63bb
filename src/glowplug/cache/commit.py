"""Changing a manifest while others change it: read, decide, write conditionally, and again.

The decision is a pure function from the manifest as it is to the manifest as it should be. A lost race (412, on AWS also 409)
and a lost answer look alike from here: read again; if what is there is what was meant, it is done, else decide anew on what is
there now. So a writer that is killed, or whose answer is lost, at any moment leaves one whole manifest.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from glowplug.cache import format as manifests
from glowplug.core.errors import ConflictError, IntegrityError, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.cache.format import Manifest
    from glowplug.core.clock import Deadline
    from glowplug.store.contract import Store

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_TRIES: Final = 100
_LOST_ANSWERS: Final = 3


class Signs(Protocol):
    """Who signs what is written (`sign.Signer`, `sign.SameHand`)."""

    def own(self, manifest: Manifest | None) -> Manifest | None:
        """What of the manifest that is there is to be kept under this signature."""
        ...

    def __call__(self, manifest: Manifest) -> str:
        """The signature, "" for none."""
        ...


@dataclass(frozen=True)
class Current:
    """A manifest and the version it has in the store; both empty where there is none. `damaged`: there is one, unreadable."""

    manifest: Manifest | None
    version: str = ""
    damaged: bool = False


def read(store: Store, path: str, deadline: Deadline) -> Current:
    """What lies at `path`. Raises NewerManifestError and the store's errors, but neither for absence nor for damage."""
    try:
        found = store.get(path, deadline, max_bytes=manifests.MANIFEST_BYTES)
    except NotFoundError:
        return Current(None)
    except IntegrityError:  # larger than any manifest, or a checksum of the back end's
        meta = store.head(path, deadline)
        return Current(None, meta.version if meta else "", damaged=meta is not None)
    try:
        return Current(manifests.decode(found.data, path=path), found.meta.version)
    except IntegrityError:
        return Current(None, found.meta.version, damaged=True)


def change(
    store: Store,
    path: str,
    decide: Callable[[Manifest | None], Manifest | None],
    deadline: Deadline,
    *,
    sign: Signs | None = None,
) -> Manifest | None:
    """Write what `decide` makes of the manifest at `path`; None where it decides to write nothing.

    With `sign`, `decide` sees only what that signature may stand for; the rest gives way to what is written.
    `decide` gets None where there is no manifest or a damaged one (which is then replaced), may be called several times, and may
    raise to end it all. `sign` makes the signature of what is written; without it a signature that no longer fits is dropped.
    Raises NewerManifestError, UnavailableError (`timeout`) and the store's errors.
    """
    pause = _FIRST_PAUSE
    meant: bytes | None = None
    lost = 0
    for _ in range(_TRIES):
        current = read(store, path, deadline)
        if meant is not None and current.manifest is not None and manifests.encode(current.manifest) == meant:
            return current.manifest
        wanted = decide(sign.own(current.manifest) if sign else current.manifest)
        if wanted is None or wanted == current.manifest:
            return None
        wanted = _signed(wanted, sign)
        meant = manifests.encode(wanted)
        try:
            if current.version:
                store.put_if(path, meant, current.version, deadline)
            else:
                store.put_new(path, meant, deadline)
        except ConflictError:
            deadline.check("writing a manifest that others write too")
        except UnavailableError:
            lost += 1  # an answer that did not come may hide a write that happened: reading settles it
            if lost > _LOST_ANSWERS or deadline.passed():
                raise
        else:
            return wanted
        deadline.clock.sleep(min(pause * random.uniform(0.5, 1.5), deadline.remaining()))  # noqa: S311 - jitter
        pause = min(2 * pause, _LONGEST_PAUSE)
    raise ConflictError(f"{path} could not be written in {_TRIES} tries")


def _signed(manifest: Manifest, sign: Signs | None) -> Manifest:
    return dataclasses.replace(manifest, signature=sign(manifest) if sign else "")
