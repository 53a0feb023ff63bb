"""YAML as a tree of nodes with their places, made of libyaml's events.

PyYAML's own composers keep two marks, a tag and a path for each node; five times the time of reading goes into making and
collecting them. A `Node` is a few slots, so a thousand Deployments take little longer than libyaml needs to read them. And
it keeps what those composers drop and an edit needs: where an alias stands, and what is anchored. An anchor may be given
twice, as YAML allows and kubectl reads.

Whatever a text holds, the tree is safe to walk: its depth, counted through aliases, is limited, no alias leads into itself,
and aliases cannot multiply a small text into a huge one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from glowplug.core.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from glowplug.manifests.source import Source

DEEPEST: Final = 100
"""Collections within collections; a CustomResourceDefinition has about forty."""

MOST_FROM_ALIASES: Final = 400_000
"""Values that aliases may add to those written; kubectl's parser begins to refuse at the same number."""

SCALAR: Final = 0
SEQUENCE: Final = 1
MAPPING: Final = 2

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What YAML 1.1 does not let stand in a text. Looked for here, since readers tell its place in bytes.
_REFUSED: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEMPLATE_HINT: Final = "lint what `helm template` prints, not the chart's templates"


class Node:
    """One value as written. `children` are the elements of a sequence, or key, value, key, value … of a mapping. `start` is
    where its anchor or tag begins, if it has one; `end` is libyaml's, which for block collections and block scalars lies
    behind blank lines and comments. `target` is set for an alias: the node it means, never an alias itself."""

    __slots__ = ("anchor", "cache", "children", "end", "flow", "kind", "start", "style", "tag", "target", "text")

    def __init__(self, kind: int, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.text = ""
        self.style = ""
        self.tag: str | None = None
        self.anchor: str | None = None
        self.target: Node | None = None
        self.flow = False
        self.children: list[Node] = _NONE
        self.cache: Any = None
        """What `values.py` has found out about it."""

    @property
    def meant(self) -> Node:
        """The node itself, or what an alias stands for."""
        return self.target or self


class Document:
    """One document. From `start` (its directives or `---`, or its first token) to `end` (after `...`, or where the next token
    begins). `aliases` counts those in it."""

    __slots__ = ("aliases", "end", "root", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.root: Node = Node(SCALAR, start, start)
        self.aliases = 0


_NONE: Final[list[Node]] = []
_KEPT: Final = "_documents"


def compose(source: Source) -> list[Document]:
    """All documents, empty ones too; made once for a source, however often it is linted, edited and linted again. Raises
    BadInputError (`bad-yaml`) with line and column."""
    kept: list[Document] | None = source.__dict__.get(_KEPT)
    if kept is None:
        kept = source.__dict__[_KEPT] = _composed(source)
    return kept


def _composed(source: Source) -> list[Document]:
    refused = _REFUSED.search(source.text.lstrip("\ufeff"))
    shift = len(source.text) - len(source.text.lstrip("\ufeff"))
    if refused:
        raise bad(source, shift + refused.start(), f"the character U+{ord(refused.group()):04X} is not allowed in YAML")
    parser = _LOADER(source.text[shift:] if shift else source.text)
    try:
        documents = list(_documents(source, parser, shift))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "no YAML"
        raise bad(source, shift + (mark.index if mark else 0), said) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # The Python parser's words for an escape beyond Unicode.
        raise bad(source, shift, f"no YAML: {error}") from None
    finally:
        parser.dispose()
    return documents


def bad(source: Source, offset: int, said: str) -> BadInputError:
    """What is wrong, where."""
    line, column = source.position(min(offset, len(source.text)))
    hint = _TEMPLATE_HINT if "{{" in source.text else ""
    return BadInputError(f"{source.name}, line {line}, column {column}: {said}", code="bad-yaml", hint=hint)


def _documents(source: Source, parser: Any, shift: int) -> Iterator[Document]:  # noqa: C901
    # One loop over all kinds of events: a call for each would cost a fifth of the time.
    next_event = parser.get_event
    document = Document(shift)
    top: list[Node] = []
    into = top
    inside: list[Node] = []
    anchors: dict[str, Node] = {}
    while True:
        event = next_event()
        kind = type(event)
        if kind is yaml.ScalarEvent:
            node = Node(SCALAR, shift + event.start_mark.index, shift + event.end_mark.index)
            node.text = event.value
            style = event.style
            if style:
                node.style = style
            elif event.tag is None and not event.implicit[0]:
                node.tag = "!"
            if event.tag is not None:
                node.tag = event.tag
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            node = Node(MAPPING if kind is yaml.MappingStartEvent else SEQUENCE, shift + event.start_mark.index, -1)
            node.tag = event.tag
            node.flow = event.flow_style
            node.children = []
            if inside and inside[-1].kind == MAPPING and not len(into) & 1:
                raise bad(source, node.start, "a key has to be a scalar, not a collection")
            if len(inside) == DEEPEST:
                raise bad(source, node.start, f"values lie deeper than {DEEPEST} levels")
            inside.append(node)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            inside.pop().end = shift + event.end_mark.index
            into = inside[-1].children if inside else top
            continue
        elif kind is yaml.AliasEvent:
            node = Node(SCALAR, shift + event.start_mark.index, shift + event.end_mark.index)
            node.target = _target(source, anchors, node, event.anchor)
            node.kind = node.target.kind
            document.aliases += 1
            if node.kind != SCALAR and inside and inside[-1].kind == MAPPING and not len(into) & 1:
                raise bad(source, node.start, "a key has to be a scalar, not a collection")
            into.append(node)
            continue
        elif kind is yaml.DocumentStartEvent:
            document = Document(shift + event.start_mark.index)
            top, anchors = [], {}
            into = top
            continue
        elif kind is yaml.DocumentEndEvent:
            document.end = shift + event.end_mark.index
            document.root = top[0]
            if document.aliases:
                _limit(source, document)
            yield document
            continue
        elif kind is yaml.StreamEndEvent:
            return
        else:
            continue
        if event.anchor is not None:
            node.anchor = event.anchor
            anchors[event.anchor] = node
        into.append(node)
        if node.kind != SCALAR:
            into = node.children


def _target(source: Source, anchors: dict[str, Node], alias: Node, name: str) -> Node:
    found = anchors.get(name)
    if found is None:
        raise bad(source, alias.start, f"the alias *{name} has no anchor before it")
    if found.end < 0:
        raise bad(source, alias.start, f"the alias *{name} stands inside what it means")
    return found


def _limit(source: Source, document: Document) -> None:
    """Refuses what aliases make too deep or too large. An anchor's node comes before its aliases, so one pass suffices."""
    measured: dict[Node, tuple[int, int]] = {}

    def measure(node: Node) -> tuple[int, int]:
        height, values = 0, 1
        for child in node.children:
            below, more = measured[child.target] if child.target else measure(child)
            height = max(height, below)
            values += more
        measured[node] = (height + 1 if node.kind != SCALAR else 0, values)
        if height >= DEEPEST:
            raise bad(source, node.start, f"with its aliases, this lies deeper than {DEEPEST} levels")
        if values - written > MOST_FROM_ALIASES:
            raise bad(source, node.start, f"aliases multiply this into more than {MOST_FROM_ALIASES} values")
        return measured[node]

    written = _count(document.root)
    measure(document.root)


def _count(node: Node) -> int:
    return 1 + sum(_count(child) for child in node.children)
