"""Keys as people and scripts read them: the rows of `glowplug.cache/1`, and aligned text."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from glowplug.core import units
from glowplug.core.clock import iso
from glowplug.core.documents import codec
from glowplug.core.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glowplug.cache.format import Manifest, Part
    from glowplug.cache.listing import Row
    from glowplug.core.documents.fingerprint import Key

SCHEMA: Final = "glowplug.cache/1"
DIGITS: Final = 12


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """`glowplug.cache/1` of those rows that can be read; the others stand beside."""
    return {
        "schema": SCHEMA,
        "keys": [row_json(row.manifest, row.last_used) for row in rows if row.manifest is not None],
        "unreadable": [
            {"path": row.place.path, "key_digest": row.place.key_digest, "code": row.fault}
            for row in rows
            if row.manifest is None
        ],
    }


def row_json(manifest: Manifest, last_used: float | None) -> dict[str, Any]:
    """One key. `bytes` are those of its parts in the store."""
    return {
        "key_digest": manifest.key_digest,
        "domain": manifest.key.domain,
        "key": codec.to_json(manifest.key),
        "parts": [part_json(part) for part in manifest.parts],
        "bytes": sum(part.size for part in manifest.parts),
        "blocked": None if manifest.blocked is None else {"reason": manifest.blocked},
        "rejections": [
            {"start_id": item.start_id, "entry": item.entry, "reason": item.reason} for item in manifest.rejections
        ],
        "signed": bool(manifest.signature),
        "last_used": None if last_used is None else iso(last_used),
    }


def part_json(part: Part) -> dict[str, Any]:
    """A part as in the manifest."""
    value: dict[str, Any] = codec.to_json(part)
    extra = value.pop("extra")
    return {**extra, **value}


def moment(seconds: float) -> str:
    """To the minute, in UTC, as it sorts."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M")


def engine(key: Key) -> str:
    """Name and version."""
    return f"{key.engine} {key.engine_version}"


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> str:
    """Columns that line up, two spaces between; those named in `right` to the right."""
    if not rows:
        return ""
    shown = [[_one_line(cell) for cell in row] for row in rows]
    widths = [max(len(head[place]), *(len(row[place]) for row in shown)) for place in range(len(head))]
    sides = [str.rjust if name in right else str.ljust for name in head]
    return "\n".join(
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in (list(head), *shown)
    )


def pairs(rows: Sequence[tuple[str, str]], indent: str = "") -> str:
    """A name and a value a line."""
    shown = [(_one_line(name), _one_line(value)) for name, value in rows]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{indent}{name.ljust(width)}  {value}".rstrip() for name, value in shown)


def size(count: int) -> str:
    """Bytes for people."""
    return units.format_size(count)


def number(count: int, noun: str) -> str:
    """`1 key`, `2 keys`; `1 entry`, `2 entries`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("ry") else f"{count} {noun}s"


def _one_line(text: str) -> str:
    """What came from a store must not move a terminal's cursor."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in one_line(text)
    )
