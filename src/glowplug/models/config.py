"""`config.json` of a model that lies in an object store: its digest is a guard of the fingerprint.

Two models under one address (a bucket that was filled anew) have one key, but not one set of artifacts. The guard tells them
apart where it can be had. It is never worth a start: whatever goes wrong, or takes longer than a moment, gives no guard.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import GlowplugError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glowplug.core.clock import Deadline

SECONDS: Final = 3.0
LARGEST: Final = 8 << 20
_SCHEMES: Final = ("s3://", "gs://", "az://")
_NAME: Final = "config.json"


def remote_sha256(model: str, environ: Mapping[str, str], deadline: Deadline) -> str | None:
    """Digest of the `config.json` below the address `model`, None where it is no such address or cannot be read.

    `environ` is the engine's (it holds the endpoint and the credentials that the engine would use). Takes three seconds of the
    deadline at most. Raises nothing foreseeable.
    """
    if not model.startswith(_SCHEMES):
        return None
    from glowplug.core import bounded

    moment = deadline.at_most(SECONDS)
    try:
        # Finding credentials may ask other programs and servers too, so all of it runs under the deadline.
        data = bounded.call(lambda: _read(model, environ, moment), moment, f"reading {_NAME} of the model")
    except (GlowplugError, OSError, ValueError):
        return None
    return hashlib.sha256(data).hexdigest()


def _read(model: str, environ: Mapping[str, str], deadline: Deadline) -> bytes:
    from glowplug.store.schemes import open_store

    return open_store(model, environ).get(_NAME, deadline, max_bytes=LARGEST).data
