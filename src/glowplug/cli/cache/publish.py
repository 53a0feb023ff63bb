"""`glowplug cache publish`: what an engine left in a directory, by the rules of `run`.

The engine's adapter says what may travel, what is an entry, what is whole and what is redacted. A key tells enough of a start for
that; where a layout spans several machines, ranks are missing here and the entry counts as incomplete.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glowplug.cli.cache import handed_in
from glowplug.cli.cache.options import Session, key_file, signer, store_options
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, note, output_option
from glowplug.core.documents.start import PublishOutcome, PublishResult
from glowplug.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.cache.sign import Signer
    from glowplug.core.documents.fingerprint import Key
    from glowplug.engines.adapter import Adapter, Launch
    from glowplug.observe.new import Tree
    from glowplug.store.contract import Store


@click.command(
    "publish",
    epilog=epilog(
        "Prints the object `publish` of a start document. Exit status: 0 published, or the store has all of it; 1 there "
        "is nothing that may be published; 3 the store refuses or does not answer.",
        "glowplug cache publish --cache-root /compile-cache --fingerprint start.json --store s3://bucket/cache",
    ),
)
@click.option("--cache-root", required=True, metavar="D", help="The directory that the engine wrote to.")
@handed_in.fingerprint_option(required=True)
@key_file("--sign-key", "Sign what is published.")
@store_options("30m")
@output_option
def command(cache_root: str, fingerprint: str, sign_key: Path | None, session: Session, output: Output) -> None:
    """Publish the whole entries found in D, each with its support.

    Only what may travel is published; subtrees that no engine of this kind is known to write are skipped and named on stderr.
    """
    from glowplug.cli.cache import progress, results

    key, guards = handed_in.read(fingerprint, session)
    root = Path(cache_root).absolute()
    if not root.is_dir():
        raise BadInputError(f"{cache_root}: no such directory")
    if str(root) != key.cache_root.rstrip("/"):
        note(f"warning: the artifacts hold paths below {key.cache_root}, and are read from {root}")
    sign = signer(sign_key)
    with progress.progress("publishing") as counter:
        store = session.open(counter)
        found = _look(root, key)
        result = found if isinstance(found, PublishResult) else _publish(found, key, guards, store, session, sign)
    results.end_publish(output, result)


@dataclass(frozen=True)
class _Found:
    root: Path
    adapter: Adapter
    tree: Tree


def _look(root: Path, key: Key) -> _Found | PublishResult:
    from glowplug.engines import registry
    from glowplug.engines.adapter import Reach
    from glowplug.observe.new import look
    from glowplug.tree.index import scan

    adapter = registry.by_name(key.engine)
    if adapter is None:
        note(f"no adapter knows the caches of {key.engine!r}")
        return PublishResult(PublishOutcome.SKIPPED, "engine_not_supported")
    for line in _left_out(root, adapter):
        note(line)
    index = scan(root, select=lambda path: adapter.reach(path) is not Reach.NEVER)
    for path in index.skipped:
        note(f"skipped: {path} is no regular file, or cannot be read")
    tree = look(index, adapter, _launch(key))
    for entry in tree.entries:
        if entry.incomplete:
            note(f"skipped: entry {entry.name} is incomplete: {entry.incomplete}")
    if not tree.entries:
        return PublishResult(PublishOutcome.SKIPPED, "no_entries")
    if all(entry.incomplete for entry in tree.entries):
        return PublishResult(PublishOutcome.SKIPPED, f"incomplete: {tree.entries[0].incomplete}")
    return _Found(root, adapter, tree)


def _launch(key: Key) -> Launch:
    """A start as far as its key tells; every rank counts as one of this machine's."""
    from glowplug.engines.adapter import Launch

    context = key.args.get("prefill_context_parallel_size", "1")
    ranks = (
        key.layout.tp * key.layout.pp * key.layout.dp * (int(context) if context.isascii() and context.isdigit() else 1)
    )
    return Launch(key.engine, key.model, key.layout, key.args, key.env, local_ranks=ranks)


def _publish(
    found: _Found, key: Key, guards: Mapping[str, str], store: Store, session: Session, sign: Signer | None
) -> PublishResult:
    from glowplug.cache import parts, publish
    from glowplug.cache.bundle import Cleaning
    from glowplug.core import redact

    before = (found.root / ".glowplug").exists()
    try:
        return publish.publish(
            store,
            key,
            guards,
            parts.of_entries(found.tree.entries, found.tree, found.root),
            deadline=session.deadline,
            cleaning=Cleaning(found.adapter.redact, redact.secret_values(os.environ)),
            sign=sign,
            doubt=True,
        )
    finally:
        if not before:
            with contextlib.suppress(OSError):
                (found.root / ".glowplug").rmdir()


def _left_out(root: Path, adapter: Adapter) -> Iterator[str]:
    """A line for each subtree of which nothing is published: the highest directory that has nothing else in it."""
    from glowplug.engines.adapter import Reach

    travels: set[str] = set()
    stays: dict[str, tuple[int, Reach]] = {}
    for path in _names(root):
        reach = adapter.reach(path)
        pieces = path.split("/")
        for depth in range(1, min(len(pieces), 3)):
            place = "/".join(pieces[:depth]) + "/"
            if reach is Reach.PORTABLE:
                travels.add(place)
        if reach is not Reach.PORTABLE:
            stays[path] = (1, reach)
    totals: dict[tuple[str, Reach], int] = {}
    for path, (count, reach) in stays.items():
        place = _highest(path, travels)
        totals[place, reach] = totals.get((place, reach), 0) + count
    for (place, reach), count in sorted(totals.items(), key=lambda item: item[0][0]):
        why = "stays on its machine" if reach is Reach.NODE_LOCAL else f"not a cache of {adapter.name}'s"
        yield f"skipped: {place} ({count} {'file' if count == 1 else 'files'}; {why})"


def _highest(path: str, travels: set[str]) -> str:
    pieces = path.split("/")
    for depth in range(1, min(len(pieces), 3)):
        place = "/".join(pieces[:depth]) + "/"
        if place not in travels:
            return place
    return path


def _names(root: Path) -> Iterator[str]:
    """Relative paths of all files, by name alone."""
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        if relative == ".":
            folders[:] = [name for name in folders if name != ".glowplug"]
        for name in files:
            yield name if relative == "." else f"{relative}/{name}"
