"""A unified diff on stdout, as `patch -p0` takes it.

difflib alone takes time with the cube of the length where a file repeats itself, as a thousand Deployments do. Ours are edits
of a few lines each, so the two texts are walked side by side, and difflib compares only what lies between a difference and the
next place where both go on alike.
"""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING, Final, Literal

import click

from glowplug.cli.output import colour
from glowplug.core.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Opcode = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]

_CONTEXT: Final = 3
_RESUMED: Final = 4
"""So many equal lines in a row are the text going on, not one that happens to be repeated."""
_FARTHEST: Final = 400
_COLOURS: Final = (("---", "bold"), ("+++", "bold"), ("@@", "cyan"), ("-", "red"), ("+", "green"))


def show(name: str, before: str, after: str) -> None:
    """Print the difference of two texts. To a file or a program it goes byte for byte, line ends too; to a terminal readable."""
    lines = unified(name, before, after)
    if sys.stdout is not None and sys.stdout.isatty():
        for line in lines:
            click.echo(_styled(printable(line.rstrip("\r\n"))), color=colour())
        return
    click.echo("".join(lines).encode("utf-8", "surrogatepass"), nl=False)


def unified(name: str, before: str, after: str) -> Iterator[str]:
    """The lines of the diff with their ends. A last line without one is marked as diff and patch do it."""
    old, new = _lines(before), _lines(after)
    for number, group in enumerate(_Known(_changes(old, new)).get_grouped_opcodes(_CONTEXT)):
        if number == 0:
            yield from (f"--- {_quoted(name)}\n", f"+++ {_quoted(name)}\n")
        begin, end = group[0], group[-1]
        yield f"@@ -{_range(begin[1], end[2])} +{_range(begin[3], end[4])} @@\n"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from map(_ended, (f" {line}" for line in old[i:i_end]))
                continue
            yield from map(_ended, (f"-{line}" for line in old[i:i_end]))
            yield from map(_ended, (f"+{line}" for line in new[j:j_end]))


def _quoted(name: str) -> str:
    """A file's name as patch reads it: in quotes, with octal escapes, where it could end a line or is no text."""
    if printable(name) == name and not any(character in name for character in '\n\t"\\'):
        return name
    bytes_ = os.fsencode(name)
    return '"' + "".join(chr(one) if _is_plain(one) else f"\\{one:03o}" for one in bytes_) + '"'


def _is_plain(byte: int) -> bool:
    return 32 <= byte < 127 and byte not in b'"\\'


class _Known(difflib.SequenceMatcher[str]):
    """difflib's cutting into hunks, of differences that are known already."""

    def __init__(self, changes: list[_Opcode]) -> None:
        super().__init__(None, (), ())
        self._changes = changes

    def get_opcodes(self) -> list[_Opcode]:
        """What was found elsewhere."""
        return self._changes


def _changes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    """difflib's opcodes: what is equal, what differs."""
    found: list[_Opcode] = []
    i = j = 0
    while i < len(old) or j < len(new):
        same = _alike(old, new, i, j)
        if same:
            found.append(("equal", i, i + same, j, j + same))
            i, j = i + same, j + same
            continue
        i_end, j_end = _meeting(old, new, i, j)
        part = difflib.SequenceMatcher(None, old[i:i_end], new[j:j_end], autojunk=False)
        found += [(tag, i + a, i + b, j + c, j + d) for tag, a, b, c, d in part.get_opcodes()]
        i, j = i_end, j_end
    return _joined(found)


def _alike(old: Sequence[str], new: Sequence[str], i: int, j: int) -> int:
    """How many lines from here on are equal."""
    most = min(len(old) - i, len(new) - j)
    count = 0
    while count < most and old[i + count] == new[j + count]:
        count += 1
    return count


def _meeting(old: Sequence[str], new: Sequence[str], i: int, j: int) -> tuple[int, int]:
    """The next places from which some lines are equal, the nearest first; the ends where there are none not far away."""
    for distance in range(1, _FARTHEST):
        for over in range(distance + 1):
            a, b = i + over, j + distance - over
            if a <= len(old) and b <= len(new) and old[a : a + _RESUMED] == new[b : b + _RESUMED]:
                return a, b
    return len(old), len(new)


def _joined(found: Sequence[_Opcode]) -> list[_Opcode]:
    """Neighbours that are both equal are one: hunks are cut by how long an equal stretch is."""
    joined: list[_Opcode] = []
    for one in found:
        if joined and one[0] == "equal" == joined[-1][0]:
            last = joined.pop()
            joined.append(("equal", last[1], one[2], last[3], one[4]))
        else:
            joined.append(one)
    return joined


def _range(begin: int, end: int) -> str:
    """Where a hunk lies, as unified diffs count: from 1, and an empty one after the line before it."""
    count = end - begin
    return str(begin + 1) if count == 1 else f"{begin + 1 if count else begin},{count}"


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines as diff and patch know them: they end with LF only."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _styled(line: str) -> str:
    for begin, name in _COLOURS:
        if line.startswith(begin):
            return click.style(line, bold=True) if name == "bold" else click.style(line, fg=name)
    return line
