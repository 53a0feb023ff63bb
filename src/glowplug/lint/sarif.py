"""Findings as SARIF 2.1.0, for GitHub code scanning and other viewers.

Fixes in it are the difference that `--fix` would make for that finding alone. Places count code points, which the run says.
Paths are relative to the working directory where they lie below it, as viewers want them.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from glowplug import __version__
from glowplug.lint import documentation, fixing
from glowplug.lint.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.lint.findings import Finding
    from glowplug.lint.rule import Rule
    from glowplug.lint.run import Report
    from glowplug.manifests.source import Source

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_MOST_WORK: Final = 5_000_000
"""Characters parsed for all fixes together: each is tried on the whole of its file. Beyond, fixes are left out."""


def log(report: Report, rules: Sequence[Rule], directory: Path) -> dict[str, Any]:
    """The whole log. `rules` are those that were asked; `directory` is what paths are relative to."""
    places = {one.name: place for place, one in enumerate(rules)}
    budget = _Budget(_MOST_WORK)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "glowplug",
                "semanticVersion": __version__,
                "rules": [_rule(one) for one in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not report.failures, **_notifications(report)}],
        "results": [_result(one, places, directory, budget) for one in report.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def uri(name: str, directory: Path) -> str:
    """The reference of a file as viewers resolve it: relative to `directory` where it lies below."""
    path = Path(name)
    if path.is_absolute():
        if not path.is_relative_to(directory):
            return path.as_uri()
        path = path.relative_to(directory)
    # A colon in the first part would be taken for a scheme.
    return quote(os.fsencode(PurePosixPath(path)), safe="/-._~")


def _rule(rule: Rule) -> dict[str, Any]:
    read = documentation.read(rule)
    body = documentation.markdown(read)
    return {
        "id": rule.name,
        "shortDescription": {"text": read.summary},
        "fullDescription": {"text": read.sections["What it does"]},
        "help": {"text": body, "markdown": body},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.area]},
    }


def _notifications(report: Report) -> dict[str, Any]:
    if not report.failures:
        return {}
    told = [
        {"level": "error", "descriptor": {"id": "internal"}, "message": {"text": f"rule {each.rule} failed"}}
        for each in report.failures
    ]
    return {"toolExecutionNotifications": told}


def _result(one: Finding, places: dict[str, int], directory: Path, budget: _Budget) -> dict[str, Any]:
    message = one.message + (f" ({one.object})" if one.object else "")
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": uri(one.file, directory)},
            "region": _region(one.place.source, one.place.span.start, one.place.span.end),
        }
    }
    if one.object:
        location["logicalLocations"] = [{"fullyQualifiedName": one.object, "kind": "resource"}]
    result = {
        "ruleId": one.rule,
        "ruleIndex": places[one.rule],
        "level": _LEVELS[one.severity],
        "message": {"text": f"{message}: {one.hint}" if one.hint else message},
        "locations": [location],
        "partialFingerprints": {"glowplug/v1": _fingerprint(one)},
    }
    fixes = _fixes(one, directory) if one.fix and budget.takes(len(one.place.source.text)) else []
    return {**result, "fixes": fixes} if fixes else result


def _fingerprint(one: Finding) -> str:
    """The same for the same problem when lines move."""
    return hashlib.sha256("\0".join((one.rule, one.object, one.message)).encode("utf-8", "replace")).hexdigest()[:32]


def _fixes(one: Finding, directory: Path) -> list[dict[str, Any]]:
    changes = []
    for source, after in fixing.patched(one):
        replacements = [
            {"deletedRegion": _region(source, start, end), "insertedContent": {"text": new}}
            for start, end, new in replaced(source.text, after)
        ]
        if replacements:
            changes.append({"artifactLocation": {"uri": uri(source.name, directory)}, "replacements": replacements})
    if not changes or one.fix is None:
        return []
    title = one.fix.title if one.fix.safe else f"{one.fix.title} (unsafe: it may change what runs)"
    return [{"description": {"text": title}, "artifactChanges": changes}]


def replaced(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """What makes the second text of the first: parts of it, from the front, and what comes in their place."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    # Whole lines, so that what is compared are lines.
    head = before.rfind("\n", 0, head) + 1
    old = before[head : len(before) - tail].splitlines(keepends=True)
    new = after[head : len(after) - tail].splitlines(keepends=True)
    offsets = [head]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    for kind, first, last, from_, to in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        gone, come = "".join(old[first:last]), "".join(new[from_:to])
        same = _common(gone, come)
        behind = _common(gone[same:][::-1], come[same:][::-1])
        yield offsets[first] + same, offsets[last] - behind, come[same : len(come) - behind]


def _common(one: str, another: str) -> int:
    """How many characters both begin with."""
    short = min(len(one), len(another))
    low, high = 0, short
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == another[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _region(source: Source, start: int, end: int) -> dict[str, int]:
    line, column = source.position(start)
    end_line, end_column = source.position(end)
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


class _Budget:
    """Work that may still be done."""

    def __init__(self, left: int) -> None:
        self._left = left

    def takes(self, cost: int) -> bool:
        """Whether there is enough left; then it is less."""
        self._left -= cost
        return self._left >= 0
