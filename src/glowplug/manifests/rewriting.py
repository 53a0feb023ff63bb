"""One change of one document, as edits of its text.

A `Page` is a document as it stands; each method gives the edits for one operation, or says why it has none. It writes what a
person would write there: block style within block style with the file's own indentation, flow within flow, JSON within JSON,
the quotes that were there. Whether the text then says what was meant is not decided here but by reading it again
(`edit.py`): so whatever this module does not know about YAML costs a refusal, never a wrong file.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.printable import json_text
from glowplug.manifests import literals, scalars, writing
from glowplug.manifests.nodes import MAPPING, SCALAR, SEQUENCE, Node, compose
from glowplug.manifests.resolving import resolve
from glowplug.manifests.source import Source, Span
from glowplug.manifests.values import data_of, end_of, entries_of, name_of, start_of

if TYPE_CHECKING:
    from glowplug.manifests.intent import Path

# Text and data part only where an alias shares what is changed.
_SHARED: Final = "others use what would change"
_STEP: Final = 2
_BLOCK_HEADER: Final = re.compile(r"[|>][-+0-9]*")
_SAFE_IN_FLOW: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_REST_IS_COMMENT: Final = re.compile(r"[ \t]+#[^\r\n]*|[ \t]*(?=[\r\n]|$)")
_ESCAPED: Final = re.compile("[^ -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*(?:\r\n?|\n))*")
_BLANKS: Final = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n))*[ \t]*")


class CannotEditError(Exception):
    """The text cannot be changed so without touching what else depends on it; the message says why (an anchor that others use)."""


@dataclass(frozen=True)
class Edit:
    """These characters give way to others."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Spot:
    """Where a value stands: `raw` is what is written there (an alias, say), `holder` the collection around it (None for a root) and
    `index` its place among the holder's children. `flow` says that the holder is written in flow style."""

    raw: Node
    holder: Node | None
    index: int
    flow: bool


class Page:
    """One document of a text, and what would change it."""

    def __init__(self, text: str) -> None:
        self.text = text
        (document,) = compose(Source("", text))
        self.document = document
        self.root = document.root
        ends = list(_LINE_END.finditer(text))
        self.eol = ends[0].group() if ends else "\n"
        self._starts = [0, *(end.end() for end in ends)]

    def put(self, path: Path, key: str, value: Any, after: str) -> list[Edit] | None:
        """A key of the mapping at `path` gets a value. None, here and below, where the way leads through an alias or a merge: then
        the text that it means is not this one's to change."""
        spot = self._find(path)
        if spot is None or spot.raw.target:
            return None
        node = spot.raw
        if node.kind == SCALAR or not node.children:
            return self._fill(spot, {key: value})
        index = _index(node, key)
        if index is not None:
            return self._replace(_Spot(node.children[index + 1], node, index + 1, node.flow), value)
        before = _index(node, after) if after else None
        last = len(node.children) - 2 if before is None else before
        if node.flow:
            return self._add_to_flow(node, last + 1, [self._flow_pair(node, key, value)])
        indent = " " * self._column(node.children[0].start)
        return self._add_lines(node.children[last + 1], writing.block({key: value}, indent, self._lists()))

    def insert(self, path: Path, index: int, values: Sequence[Any]) -> list[Edit] | None:
        """The sequence at `path` gets elements before the one at `index`."""
        spot = self._find(path)
        if spot is None or spot.raw.target:
            return None
        node = spot.raw
        if node.kind == SCALAR or not node.children:
            return self._fill(spot, list(values))
        if node.flow:
            written = [self._flow_text(value, node, self._flow_indent(node)) for value in values]
            if index:
                return self._add_to_flow(node, index - 1, written)
            first = node.children[0]
            gap = self.text[start_of(self.text, node) + 1 : first.start]
            text = "".join(f"{one},{gap if gap.strip(' ') else ' '}" for one in written)
            return [Edit(first.start, first.start, text)]
        indent = " " * self._column(self._dash(node, 0))
        lines = writing.block(list(values), indent, self._lists())
        if index == len(node.children):
            return self._add_lines(node.children[-1], lines)
        dash = self._dash(node, index)
        if self._begins_line(dash):
            top = self._top(node, dash, index)
            return [Edit(top, top, "".join(line + self.eol for line in lines))]
        return [Edit(dash, dash, self.eol.join(lines)[len(indent) :] + self.eol + indent)]

    def replace(self, path: Path, value: Any) -> list[Edit] | None:
        """What stands at `path` gives way to a value."""
        spot = self._find(path)
        return self._replace(spot, value) if spot else None

    def splice(self, path: Path, start: int, end: int, to: str) -> list[Edit] | None:
        """A part of the scalar at `path` gives way to another text: there alone where that reads as meant, else in a scalar that is
        written anew."""
        spot = self._find(path)
        if spot is None:
            return None
        node = spot.raw.meant
        text = node.text if data_of(node) is not None else ""
        meant = text[:start] + to + text[end:]
        if not spot.raw.target:
            # Whole lines first where lines go or come: a part of one leaves its indentation behind.
            edit = self._relined(spot, text, meant) if "\n" in text[start:end] + to else None
            if edit:
                return [edit]
            edit = self._spliced(spot, text, start, end, to)
            if edit and self._reads(spot, edit, meant):
                return [edit]
            edit = self._relined(spot, text, meant)
            if edit:
                return [edit]
        return self._replace(spot, meant if isinstance(data_of(node), str) else resolve(meant))

    def remove(self, path: Path, step: str | int) -> list[Edit] | None:
        """A key or an element of the collection at `path` goes."""
        spot = self._find(path)
        if spot is None or spot.raw.target:
            return None
        node = spot.raw
        width = 2 if node.kind == MAPPING else 1
        index = step if isinstance(step, int) else _index(node, step)
        if index is None:
            raise CannotEditError(f"`{step}` comes from a merge (`<<`), not from here")
        if isinstance(step, str) and sum(name_of(key.meant) == step for key in node.children[::2]) > 1:
            raise CannotEditError(f"`{step}` stands there twice")
        if len(node.children) == width:
            return self._emptied(spot)
        if node.flow:
            return [self._removed_from_flow(node, index, width)]
        return [self._removed_lines(node, index, width)]

    def rename(self, path: Path, key: str, to: str) -> list[Edit] | None:
        """A key of the mapping at `path` gets another name."""
        spot = self._find(path)
        if spot is None or spot.raw.target:
            return None
        index = _index(spot.raw, key)
        if index is None:
            raise CannotEditError(f"`{key}` comes from a merge (`<<`), not from here")
        node = spot.raw.children[index]
        if node.target:
            raise CannotEditError(f"the key `{key}` is an alias")
        place = self._span(node)
        return [Edit(place.start, place.end, self._one_line(to, node.style, spot.raw))]

    def text_at(self, path: Path) -> str:
        """The text of the scalar at `path`, an alias's too."""
        node = self.root.meant
        for step in path:
            if isinstance(step, str):
                entry = entries_of(node).get(step) if node.kind == MAPPING else None
                found = entry.value if entry else None
            else:
                found = node.children[step].meant if step < len(node.children) else None
            if found is None:
                raise CannotEditError(_SHARED)
            node = found
        return "" if data_of(node) is None else node.text

    # Finding

    def _find(self, path: Path) -> _Spot | None:
        spot = _Spot(self.root, None, 0, flow=False)
        for step in path:
            node = spot.raw
            if node.target:
                return None
            if isinstance(step, str):
                index = _index(node, step)
                if index is None:
                    return None
                index += 1
            elif step < len(node.children):
                index = step
            else:
                raise CannotEditError(_SHARED)
            spot = _Spot(node.children[index], node, index, node.flow)
        return spot

    def _span(self, node: Node) -> Span:
        return Span(start_of(self.text, node), end_of(self.text, node))

    def _line(self, at: int) -> int:
        """Where the line begins; a byte order mark is before it."""
        begin = self._starts[bisect.bisect_right(self._starts, at) - 1]
        return begin + 1 if begin == 0 and self.text.startswith("\ufeff") else begin

    def _column(self, at: int) -> int:
        return at - self._line(at)

    def _line_end(self, at: int) -> int:
        found = _LINE_END.search(self.text, at)
        return found.start() if found else len(self.text)

    def _behind_line(self, at: int) -> int:
        """Behind the line end that stands at `at`, if one does."""
        return at + 2 if self.text.startswith("\r\n", at) else min(at + 1, len(self.text))

    def _begins_line(self, at: int) -> bool:
        return not self.text[self._line(at) : at].strip(" ")

    def _dash(self, sequence: Node, index: int) -> int:
        child = sequence.children[index]
        floor = self._end(sequence.children[index - 1]) if index else start_of(self.text, sequence)
        # Between two elements stand comments, too: the dash is the last one that is no part of them.
        at = floor
        while True:
            found = _BLANKS.match(self.text, at)
            at = found.end() if found else at
            if self.text.startswith("-", at) or at >= child.start:
                return at
            at = self._line_end(at)
            at = self._behind_line(at)

    def _top(self, collection: Node, at: int, index: int) -> int:
        """Where an entry that begins its line begins with the comment above it, which stands in the same column."""
        column = self._column(at)
        floor = self._end(collection.children[index - 1]) if index else max(collection.start - column, 0)
        top = self._line(at)
        if not index:
            floor = self._floor(collection)
        while top > floor:
            above = self._line(top - 2 if self.text[top - 2 : top] == "\r\n" else top - 1)
            line = self.text[above:top]
            if above < floor or not line.startswith(" " * column + "#"):
                break
            top = above
        return top

    def _floor(self, collection: Node) -> int:
        """Behind the line that a collection's first entry stands under: what is written there belongs to others."""
        number = bisect.bisect_right(self._starts, collection.start) - 1
        end = collection.start
        while number >= 0:
            line = self.text[self._starts[number] : end].strip(" \r\n")
            if line == "---":
                break
            if line and not line.startswith("#"):
                return end
            end = self._starts[number]
            number -= 1
        # Comments up to the top of a document speak of it, not of its first key.
        return collection.start

    def _end(self, node: Node) -> int:
        """Where a value ends; the blank lines that a block scalar keeps are its own."""
        if not node.target and node.style in ("|", ">") and "+" in _header(self.text, start_of(self.text, node)):
            return node.end
        if not node.target and node.kind != SCALAR and node.children and not self._is_bracketed(node):
            return self._end(node.children[-1])
        return end_of(self.text, node)

    def _is_bracketed(self, node: Node) -> bool:
        return node.flow and self.text[start_of(self.text, node)] in "[{"

    # Writing in block style

    def _add_lines(self, last: Node, lines: list[str]) -> list[Edit]:
        """Lines behind a value, below its line with what comment that has."""
        end = self._end(last)
        if end and self.text[end - 1] in "\r\n":
            return [Edit(end, end, "".join(line + self.eol for line in lines))]
        end = self._line_end(end)
        return [*self._chomped(last, end), Edit(end, end, "".join(self.eol + line for line in lines))]

    def _chomped(self, last: Node, end: int) -> list[Edit]:
        """A block scalar whose last line has no end in the file has none in its text: so it has to say when lines follow."""
        while last.children and not last.target:
            last = last.children[-1]
        if last.target or last.style not in ("|", ">") or end < len(self.text):
            return []
        start = start_of(self.text, last)
        header = _header(self.text, start)
        return [] if "-" in header else [Edit(start, start + len(header), header.replace("+", "") + "-")]

    def _replace(self, spot: _Spot, value: Any) -> list[Edit]:
        bare = writing.plain(value)
        old = spot.raw
        if spot.flow:
            place = self._value_place(old)
            text = self._flow_text(bare, spot.holder, self._flow_indent(spot.holder), old.style)
            return [Edit(place.start, place.end, self._apart(spot, place, text))]
        notes = self._notes(spot, value)
        if isinstance(bare, Mapping | Sequence) and not isinstance(bare, str) and bare:
            if self.root.flow and self._is_bracketed(self.root):
                place = self._value_place(old)
                return [Edit(place.start, place.end, self._flow_text(bare, self.root, ""))]
            return [*notes, *self._replace_by_lines(spot, value)]
        return [*notes, *self._replace_by_scalar(spot, bare)]

    def _replace_by_scalar(self, spot: _Spot, value: Any) -> list[Edit]:
        old = spot.raw
        indent = self._indent_below(spot)
        text = self.eol.join(self._scalar(value, old, " " * indent))
        place = self._value_place(old)
        header = None if old.target else _BLOCK_HEADER.match(self.text, place.start)
        if header and old.style in ("|", ">"):
            # What stands behind the indicator is a comment, and stays when the lines below go.
            first, line_end, rest = text.partition(self.eol)
            stop = min(self._line_end(header.end()), place.end)
            return [Edit(place.start, header.end(), first), Edit(stop, place.end, line_end + rest)]
        below = self._below_key(spot)
        if below is not None:
            first, line_end, rest = text.partition(self.eol)
            end = self._line_end(place.end) if line_end else place.end
            edits = [Edit(below, below, " " + first), Edit(self._line_end(below), place.end, "")]
            return [*edits, Edit(end, end, line_end + rest)]
        text = self._apart(spot, place, text)
        first, line_end, rest = text.partition(self.eol)
        end = self._line_end(place.end)
        if line_end and place.end < end and _REST_IS_COMMENT.match(self.text, place.end, end):
            return [Edit(place.start, place.end, first), Edit(end, end, line_end + rest)]
        return [Edit(place.start, place.end, text)]

    def _replace_by_lines(self, spot: _Spot, value: Any) -> list[Edit]:
        old, holder = spot.raw, spot.holder
        place = self._value_place(old)
        bare = writing.plain(value)
        inner = _bare(value)
        if holder is None:
            return [Edit(place.start, place.end, self.eol.join(writing.block(inner, "", self._lists())))]
        if holder.kind == SEQUENCE:
            dash = self._dash(holder, spot.index)
            column = self._column(dash)
            first, *more = writing.block([inner], " " * column, self._lists())
            edit = Edit(dash, place.end, first[column:])
            # A comment behind the old value stays in its line.
            end = self._line_end(place.end)
            at = end if _REST_IS_COMMENT.match(self.text, place.end, end) else place.end
            return [edit, Edit(at, at, "".join(self.eol + line for line in more))]
        key = holder.children[spot.index - 1]
        step = " " * _STEP if isinstance(bare, Mapping) else self._lists()
        lines = writing.block(inner, " " * self._column(key.start) + step, self._lists())
        text = "".join(self.eol + line for line in lines)
        below = self._below_key(spot)
        if below is not None:
            end = self._line_end(below)
            return [Edit(end, place.end, text)]
        start = place.start
        while self.text[start - 1] in " \t":
            start -= 1
        rest = self._line_end(place.end)
        if old.style in ("|", ">") or not _REST_IS_COMMENT.match(self.text, place.end, rest):
            return [Edit(start, place.end, text)]
        # A comment behind the old value stays behind the key.
        return [Edit(start, place.end, ""), Edit(rest, rest, text)]

    def _fill(self, spot: _Spot, value: Any) -> list[Edit]:
        """Something for what is empty or null."""
        node = spot.raw
        if self._is_flow_here(spot) and not node.target and node.kind != SCALAR:
            start = start_of(self.text, node) + 1
            text = self._flow_text(writing.plain(value), node, "")[1:-1]
            return [Edit(start, start, text)]
        return self._replace(spot, value)

    def _is_flow_here(self, spot: _Spot) -> bool:
        return spot.flow or spot.holder is None or self._is_bracketed(self.root)

    def _emptied(self, spot: _Spot) -> list[Edit]:
        empty: Any = {} if spot.raw.kind == MAPPING else []
        if spot.raw.flow and self._is_bracketed(spot.raw):
            return [Edit(start_of(self.text, spot.raw) + 1, spot.raw.end - 1, "")]
        return self._replace_by_scalar(spot, empty)

    def _notes(self, spot: _Spot, value: Any) -> list[Edit]:
        """The comment that a value brings, above its key, unless it stands there."""
        if not isinstance(value, writing.Noted) or spot.holder is None:
            return []
        start = spot.holder.children[spot.index - 1].start if spot.holder.kind == MAPPING else None
        at = self._dash(spot.holder, spot.index) if start is None else start
        first = self._line(at)
        column = len(self.text[first:at]) - len(self.text[first:at].lstrip(" "))
        lines = writing.block([writing.noted(0, value.why)], " " * column)[:-1]
        text = "".join(line + self.eol for line in lines)
        return [] if not text or self.text[:first].endswith(text) else [Edit(first, first, text)]

    def _below_key(self, spot: _Spot) -> int | None:
        """For a value on the lines below its key: behind the colon (or the dash), where a value on its line would stand."""
        old, holder = spot.raw, spot.holder
        if holder is None or old.target or old.kind == SCALAR or self._is_bracketed(old) or holder.kind == SEQUENCE:
            return None
        key = holder.children[spot.index - 1]
        if self._line(old.start) != self._line(key.start):
            at = self.text.index(":", self._end(key)) + 1
            return at if self._line(at) == self._line(key.start) else None
        # An anchor or a tag on the key's line, and the value below.
        start = start_of(self.text, old)
        end = self._line_end(old.start)
        return old.start + len(self.text[old.start : end].split("#")[0].rstrip()) if start > end else None

    def _removed_lines(self, node: Node, index: int, width: int) -> Edit:
        first = node.children[index]
        begin = self._dash(node, index) if width == 1 else first.start
        end = self._end(node.children[index + width - 1])
        stop = end if end and self.text[end - 1] in "\r\n" else self._behind_line(self._line_end(end))
        if not self._begins_line(begin):
            # The first entry stands behind a dash, where the next one goes.
            blank = _SPACE.match(self.text, stop)
            return Edit(begin, blank.end() if blank else stop, "")
        top = self._top(node, begin, index)
        last_line = stop >= len(self.text) and not self.text.endswith(("\n", "\r"))
        floor = self._end(node.children[index - 1]) if index else self._floor(node)
        if index and self.text[floor - 1] in "\r\n":
            # A block scalar that keeps the blank lines behind it must not come by those below.
            blank = _BLANK_LINES.match(self.text, stop)
            stop = blank.end() if blank else stop
        while last_line and top > floor and self.text[top - 1] in "\r\n":
            top -= 1
        return Edit(top, stop, "")

    # Writing in flow style

    def _add_to_flow(self, node: Node, last: int, texts: Sequence[str]) -> list[Edit]:
        """Behind the child at `last`."""
        end = self._end(node.children[last])
        first = node.children[0]
        gap = self.text[start_of(self.text, node) + 1 : first.start]
        if not gap.strip(" \t") and "\n" not in gap and "\r" not in gap:
            return [Edit(end, end, "".join(", " + text for text in texts))]
        rest = self._line_end(end)
        separator = self.eol + (self._flow_indent(node) or " " * self._column(first.start))
        text = ("," + separator).join(texts)
        if last == len(node.children) - 1 and _REST_IS_COMMENT.match(self.text, end, rest):
            comment = self.text[end:rest]
            return [Edit(end, rest, "," + comment + separator + text)]
        return [Edit(end, end, "," + separator + text)]

    def _removed_from_flow(self, node: Node, index: int, width: int) -> Edit:
        if index + width < len(node.children):
            return Edit(node.children[index].start, node.children[index + width].start, "")
        return Edit(self._end(node.children[index - 1]), self._end(node.children[-1]), "")

    def _flow_pair(self, node: Node, key: str, value: Any) -> str:
        name = self._one_line(key, node.children[0].style, node)
        return f"{name}: {self._flow_text(value, node, self._flow_indent(node))}"

    def _flow_indent(self, node: Node | None) -> str:
        """What stands before entries on lines of their own, tabs too, "" for those in one line."""
        if node is None or not node.children:
            return ""
        first = node.children[0].start
        margin = self.text[self._line(first) : first]
        return "" if margin.strip(" \t") else margin

    def _flow_text(self, value: Any, holder: Node | None, indent: str, style: str = "") -> str:
        value = writing.plain(value)
        if self._is_json(holder):
            step = self._json_step(holder, indent) if holder and indent else None
            written = json_text(json.dumps(value, ensure_ascii=False, indent=step))
            return written.replace("\n", self.eol + indent)
        if isinstance(value, Mapping):
            pairs = (f"{self._in_flow(key)}: {self._flow_text(item, holder, '')}" for key, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return "[" + ", ".join(self._flow_text(item, holder, "") for item in value) + "]"
        return self._in_flow(value, style)

    def _json_step(self, holder: Node, indent: str) -> str | None:
        """The indentation of JSON on several lines; None where the neighbours' own collections stand on one."""
        inner = [child for child in holder.children if child.children and not child.target]
        if inner and all(self._line(child.start) == self._line(child.end) for child in inner):
            return None
        margin = self._margin_of_bracket(holder)
        return (indent[len(margin) :] if indent.startswith(margin) else "") or None

    def _margin_of_bracket(self, node: Node) -> str:
        """What stands before the first character of the line that a bracket stands in."""
        line = self.text[self._line(node.start) : node.start]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _is_json(self, node: Node | None) -> bool:
        """Whether a flow collection is written as JSON: what is first in it is in double quotes, or all of the document is JSON."""
        sign = _json_sign(node) if node else None
        if sign is None and self._is_bracketed(self.root):
            return _json_sign(self.root) is not False
        return bool(sign)

    def _in_flow(self, value: Any, style: str = "") -> str:
        if isinstance(value, str):
            if style in ("'", '"') and _fits(value, style):
                return _quoted(value, style)
            plain = "\n" not in value and writing.scalar(value, "")[0] == value
            return value if plain and _SAFE_IN_FLOW.fullmatch(value) else _quoted(value, '"')
        return writing.scalar(value, "")[0]

    # Scalars

    def _one_line(self, text: str, style: str, holder: Node) -> str:
        if style == '"' or (style == "'" and _fits(text, style)):
            return _quoted(text, style)
        if holder.flow:
            return self._in_flow(text)
        return writing.block({text: 0}, "")[0].removesuffix(": 0")

    def _scalar(self, value: Any, old: Node, indent: str) -> list[str]:
        if isinstance(value, str) and not old.target and old.style in ("'", '"') and _fits(value, old.style):
            return [_quoted(value, old.style)]
        return writing.scalar(value, indent)

    def _value_place(self, node: Node) -> Span:
        """What is replaced: an anchor stays where others use it, a tag never does, since it says how to read the old value."""
        anchored = node.anchor is not None and self.document.aliases
        if node.target or not (node.anchor or node.tag):
            return self._span(node)
        return self._span(node) if anchored else Span(node.start, end_of(self.text, node))

    def _apart(self, spot: _Spot, place: Span, text: str) -> str:
        """Where nothing is written for null, a new value needs a space before it, and within braces perhaps a colon."""
        if place.start < place.end or spot.holder is None:
            return text
        if spot.holder.kind == MAPPING:
            key = self._end(spot.holder.children[spot.index - 1])
            if ":" not in self.text[key : place.start]:
                return ": " + text
        return text if self.text[place.start - 1] in " \t\r\n[" else " " + text

    def _indent_below(self, spot: _Spot) -> int:
        """The indentation of lines of a scalar there."""
        if spot.holder is None:
            return _STEP
        if spot.holder.kind == SEQUENCE:
            return self._column(self._dash(spot.holder, spot.index)) + _STEP
        return self._column(spot.holder.children[spot.index - 1].start) + _STEP

    def _lists(self) -> str:
        """What stands before the dashes of lists below keys in this document: some write nothing."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.target or node.flow:
                continue
            if node.kind == MAPPING:
                for key, value in zip(node.children[::2], node.children[1::2], strict=True):
                    if value.kind == SEQUENCE and not value.flow and not value.target:
                        return " " * (self._column(start_of(self.text, value)) - self._column(key.start))
            waiting += reversed(node.children)
        return " " * _STEP

    def _spliced(self, spot: _Spot, text: str, start: int, end: int, to: str) -> Edit | None:
        node = spot.raw
        span = self._span(node)
        if span.start == span.end:
            return None
        begin = scalars.simple(span, node.style, text)
        if begin is not None:
            place = Span(begin + start, begin + end)
        else:
            layout = scalars.layout(self.text, span, node.end, node.style, text)
            if layout is None:
                return None
            place = layout.part(start, end)
            if start == end and start > 0 and text[start - 1] != "\n":
                # Behind its left neighbour: what follows may begin a line.
                before = layout.part(start - 1, start)
                place = Span(before.end, before.end)
        if node.style == "'":
            to = to.replace("'", "''")
        elif node.style == '"':
            to = json_text(json.dumps(to, ensure_ascii=False))[1:-1]
        elif node.style == "|":
            indent = scalars.indentation(self.text, span, node.end, node.style, text)
            if indent is None:
                return None
            # The last line goes on with what stands behind the part; blank ones have no indentation.
            first, *rest = to.split("\n")
            behind = [*("\n" for _ in rest[1:]), text[end : end + 1]]
            below = (
                " " * indent + line if (line + after).strip("\n") else ""
                for line, after in zip(rest, behind, strict=False)
            )
            to = self.eol.join([first, *below])
        elif "\n" in to:
            return None
        return Edit(place.start, place.end, to)

    def _relined(self, spot: _Spot, text: str, meant: str) -> Edit | None:
        """A literal with other lines, None where it is none, or cannot have these."""
        node = spot.raw
        if node.style != "|" or spot.flow:
            return None
        span = self._span(node)
        parent = self._indent_below(spot) - _STEP
        indent = scalars.indentation(self.text, span, node.end, node.style, text)
        written = self.text[span.start : node.end]
        ways = literals.rewritten(written, text, meant, indent, parent, self.eol) if indent is not None else ()
        edits = (Edit(span.start, node.end, one) for one in ways)
        return next((edit for edit in edits if self._reads(spot, edit, meant)), None)

    def _reads(self, spot: _Spot, edit: Edit, meant: str) -> bool:
        """Whether a scalar reads as meant once it is changed. It is read alone, with its first line's beginning as it is."""
        node = spot.raw
        end = node.end
        begin = self._line(node.start)
        written = self.text[node.start : edit.start] + edit.text + self.text[edit.end : end]
        if self.text[end - 1] in "\r\n" and end < len(self.text) and not written.endswith(("\r", "\n")):
            return False  # what follows would come to stand in its last line
        before = " " * (node.start - begin)
        if spot.holder is not None and not spot.flow:
            at = self._indent_below(spot) - _STEP
            before = " " * at + ("- " if spot.holder.kind == SEQUENCE else "k: ")
        text = f"[{written}]" if spot.flow else before + written
        try:
            (document,) = compose(Source("", text))
        except Exception:  # noqa: BLE001
            return False
        root = document.root
        read = root.children[-1] if root.kind != SCALAR and len(root.children) in (1, 2) else root
        same_type = type(data_of(read)) is type(data_of(node)) or not isinstance(data_of(node), str)
        return read.kind == SCALAR and read.text == meant and same_type


def _index(mapping: Node, key: str) -> int | None:
    """Where a key stands among a mapping's children, the last one of its name."""
    if mapping.kind != MAPPING:
        return None
    found = entries_of(mapping).get(key)
    if found is None or found.key is None:
        return None
    return next(index for index in range(0, len(mapping.children), 2) if mapping.children[index] is found.key)


def _json_sign(node: Node) -> bool | None:
    """Whether the first key or text in a collection is written as JSON has it; None where numbers, or nothing, tell neither."""
    while node.children:
        node = node.children[0].meant
    return node.style == '"' if node.kind == SCALAR and isinstance(data_of(node), str) else None


def _bare(value: Any) -> Any:
    while isinstance(value, writing.Noted):
        value = value.value
    return value


def _header(text: str, at: int) -> str:
    found = _BLOCK_HEADER.match(text, at)
    return found.group() if found else ""


def _fits(text: str, style: str) -> bool:
    """Whether a text can stand in quotes of this style in one line."""
    return style == '"' or not _ESCAPED.search(text)


def _quoted(text: str, style: str) -> str:
    if style == "'":
        return "'" + text.replace("'", "''") + "'"
    # The writer demands that YAML can hold the text at all.
    writing.scalar(text, "")
    return json_text(json.dumps(text, ensure_ascii=False))
