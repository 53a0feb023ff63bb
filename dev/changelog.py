"""CHANGELOG.md from fragments: one file in `changelog.d/` for each change that a user notices.

Fragments never conflict when branches meet, which lines at the top of one file always do. A fragment is
`changelog.d/<issue or short name>.<kind>.md`: one or more whole sentences, in the words of its user, without a heading.

    python -m dev.changelog                     what the next release would say
    python -m dev.changelog release 0.2.0 2026-01-31   move it into CHANGELOG.md and remove the fragments
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS: Mapping[str, str] = {
    "security": "Security",
    "breaking": "Breaking",
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
    "removed": "Removed",
}
"""Kinds of fragments and their headings, in the order of a release's section."""

_NAME = re.compile(r"(?P<slug>[a-z0-9][a-z0-9-]*)\.(?P<kind>[a-z]+)\.md")
_NOT_FRAGMENTS = ("README.md",)
_MARK = "<!-- releases below -->\n"


def fragments(directory: Path) -> list[Path]:
    """The fragments, sorted by name."""
    return sorted(path for path in directory.iterdir() if path.name not in _NOT_FRAGMENTS)


def faults(path: Path) -> list[str]:
    """What is wrong with a fragment, in words; empty when nothing is."""
    match = _NAME.fullmatch(path.name)
    if not match:
        return [f"{path.name}: the name is not <issue or short name>.<kind>.md"]
    found = []
    if match["kind"] not in KINDS:
        found.append(f"{path.name}: kind {match['kind']!r} is none of {', '.join(KINDS)}")
    text = path.read_text().strip()
    if len(text.split()) < 4 or not text.endswith((".", "`", ")")):
        found.append(f"{path.name}: say in a whole sentence what changes for a user")
    if re.search(r"^#", text, re.MULTILINE):
        found.append(f"{path.name}: no headings in a fragment")
    return found


def section(title: str, paths: Sequence[Path]) -> str:
    """A release's section: kinds in the order of KINDS, fragments by name."""
    lines = [f"## {title}", ""]
    for kind, heading in KINDS.items():
        items = [path for path in paths if path.name.endswith(f".{kind}.md")]
        if items:
            lines += [f"### {heading}", "", *(_item(path) for path in items), ""]
    return "\n".join(lines)


def release(root: Path, version: str, date: str) -> None:
    """Put the fragments into CHANGELOG.md as a release and remove them. Raises ValueError for a faulty fragment."""
    paths = fragments(root / "changelog.d")
    wrong = [fault for path in paths for fault in faults(path)]
    if wrong or not paths:
        raise ValueError("\n".join(wrong) or "no fragments: nothing to release")
    changelog = root / "CHANGELOG.md"
    head, mark, rest = changelog.read_text().partition(_MARK)
    if not mark:
        raise ValueError(f"CHANGELOG.md lacks the line {_MARK.strip()}")
    changelog.write_text(f"{head}{mark}\n{section(f'{version} ({date})', paths)}{rest}")
    for path in paths:
        path.unlink()


def _item(path: Path) -> str:
    return "- " + path.read_text().strip().replace("\n", "\n  ").replace("\n  \n", "\n\n")


def main(arguments: Sequence[str]) -> int:
    """Show or release; 1 with what is wrong on stderr."""
    try:
        match arguments:
            case []:
                print(section("Next release", fragments(ROOT / "changelog.d")), end="")
            case ["release", version, date]:
                release(ROOT, version, date)
            case _:
                print((__doc__ or "").partition("\n\n")[2], file=sys.stderr)
                return 2
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
