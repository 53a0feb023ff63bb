"""From the word MODEL to a `Model`: a size as it is, a folder by its headers (`from_folder`). No weights are read.

Light to import, since most plans begin with a size: what reads folders is loaded when there is one, and obstore for an address
only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from glowplug.core.printable import one_line
from glowplug.models import address as addresses
from glowplug.models.address import Directory, is_size, parse_size
from glowplug.models.contents import Model, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from glowplug.core.clock import Deadline
    from glowplug.models.address import Objects
    from glowplug.models.contents import Finding
    from glowplug.models.folder import Folder

    Progress = Callable[[int, int], None]

__all__ = ["PARALLEL", "is_size", "of_size", "parse_size", "read"]

PARALLEL: Final = 32
"""Requests at once."""


def of_size(nbytes: int, source: str) -> Model:
    """A model of which only the bytes of its weights are known. Raises UsageError (`bad-size`) for none or too many."""
    return Model(source, addresses.check_size(nbytes))


def read(
    source: str,
    environ: Mapping[str, str],
    deadline: Deadline,
    *,
    parallel: int = PARALLEL,
    progress: Progress | None = None,
) -> Model:
    """The model that `source` means: a size, a directory, `s3://`, `gs://`, `az://`, `file://`.

    `environ` holds endpoint, region and credentials of the store. `progress(done, all)` is called in this thread after each shard.

    Raises UsageError (`bad-model`, `bad-size`, `bad-store-url`; `not-found` for a directory that is not there), NotFoundError
    where a bucket holds nothing there, BadInputError (`no-safetensors`; `bad-model` for one file; more objects than a model has),
    and AccessDeniedError and UnavailableError as the store does, by the deadline.
    """
    if is_size(source):
        return of_size(parse_size(source), source.strip())
    from glowplug.core import bounded
    from glowplug.models import findings, from_folder

    where = bounded.call(lambda: addresses.parse(source, environ), deadline, f"looking for {one_line(source)[:200]}")
    folder, place, notes = bounded.call(lambda: _open(where, environ), deadline, f"opening {where.source}")
    began = deadline.clock.monotonic()
    model = from_folder.model(where.source, place, folder, deadline, parallel, progress)
    seconds = deadline.clock.monotonic() - began
    traffic = Traffic(folder.cost.requests, folder.cost.bytes, seconds)
    return replace(model, findings=findings.in_order([*notes, *model.findings]), traffic=traffic)


def _open(where: Directory | Objects, environ: Mapping[str, str]) -> tuple[Folder, str, tuple[Finding, ...]]:
    """The folder, how a command names it, and what is to be said of its address."""
    from glowplug.models.folder import LocalDirectory, Prefix

    if isinstance(where, Directory):
        return LocalDirectory(where.path), str(where.path), ()
    from glowplug.store.counting import Counter
    from glowplug.store.schemes import open_store

    counter = Counter()
    return Prefix(open_store(where.source, environ, counter=counter), counter), where.source, where.findings
