"""YAML as values in their places: what `lint` points at and what an edit changes.

A `Value` is a node (`nodes.py`) seen lazily, so that a thousand Deployments cost what is looked at. Aliases lead to the one
node they mean, which is where the text stands; merge keys (`<<`) are followed as YAML 1.1 has it. Scalars are typed as kubectl
types them (`resolving.py`). Of a key that stands twice the last one counts, as kubectl reads without `--validate=strict`;
`duplicates` tells of the others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from glowplug.manifests import scalars
from glowplug.manifests.nodes import MAPPING, SCALAR, SEQUENCE, Node, compose
from glowplug.manifests.resolving import key_text, resolve
from glowplug.manifests.source import Place, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TAG: Final = "tag:yaml.org,2002:"
_SPACE: Final = "[ \\t\\n\\r\\x85\\u2028\\u2029]"
_PROPERTIES: Final = re.compile(
    rf"(?:(?:&[A-Za-z0-9_-]+|!<[^>]*>|![-A-Za-z0-9_;/?:@&=+$.!~*'()%]*)(?={_SPACE}|$|[,\]}}])(?:{_SPACE}|#[^\n\r\x85\u2028\u2029]*)*)+"
)
_UNSET: Final = object()


class _Entry:
    """A key of a mapping: its node (None when merged in) and that of its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: Node | None, value: Node) -> None:
        self.key = key
        self.value = value


class Value:
    """One value of a document. Equal only to itself; cheap to ask twice for the same child (children are kept).

    It knows the way it was reached, `parent` and `step` (None for a document and for a key), so that an edit can tell one use
    of an anchored value from another.
    """

    __slots__ = ("_children", "_elements", "document", "node", "parent", "source", "step")

    def __init__(
        self, source: Source, node: Node, parent: Value | None = None, step: str | int | None = None, document: int = 0
    ) -> None:
        self.source = source
        self.node = node.target or node
        self.parent = parent
        self.step = step
        self.document = document
        """The how manieth of all documents of the source, empty ones counted, from 0."""
        self._children: dict[str, Value] | None = None
        self._elements: tuple[Value, ...] | None = None

    def __repr__(self) -> str:
        line, column = self.source.position(self.node.start)
        return f"<Value {self.source.name}:{line}:{column}>"

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return self.node.kind == MAPPING

    @property
    def is_sequence(self) -> bool:
        """Whether it has elements."""
        return self.node.kind == SEQUENCE

    @property
    def is_text(self) -> bool:
        """Whether Kubernetes reads a string (`"8"` and `abc` are, `8`, `true`, `null` and `on` are not)."""
        return self.node.kind == SCALAR and isinstance(data_of(self.node), str)

    @property
    def span(self) -> Span:
        """The value as written, quotes and block indicators included, anchor and tag not; a block collection ends with its last
        value, before any comment or blank line that follows, and a block scalar with its last line, before its line end."""
        return Span(start_of(self.source.text, self.node), end_of(self.source.text, self.node))

    @property
    def place(self) -> Place:
        """`span` with its source."""
        return Place(self.source, self.span)

    @property
    def text(self) -> str:
        """A scalar as a string, whatever its type (`8` gives "8", null gives ""); "" for a collection."""
        node = self.node
        if node.kind != SCALAR or data_of(node) is None:
            return ""
        return node.text

    @property
    def data(self) -> Any:
        """Plain Python: dict, list, str, int, float, bool, None. Shared where the text has aliases; not to be changed."""
        return data_of(self.node)

    def get(self, *path: str | int) -> Value | None:
        """The value below these keys and indexes; None as soon as one is missing or of another shape."""
        value: Value = self
        for step in path:
            found = value.child(step) if isinstance(step, str) else value.element(step)
            if found is None:
                return None
            value = found
        return value

    def key(self, name: str) -> Value | None:
        """The key of that name itself, to point at; None where it is missing or merged in."""
        if self.node.kind != MAPPING:
            return None
        entry = entries_of(self.node).get(name)
        return self._key(entry.key) if entry and entry.key else None

    def items(self) -> Iterator[tuple[str, Value]]:
        """Keys (as strings) and values of a mapping, in order, merged ones last; nothing for another shape."""
        if self.node.kind != MAPPING:
            return
        for name in entries_of(self.node):
            child = self.child(name)
            if child is not None:
                yield name, child

    def elements(self) -> Sequence[Value]:
        """Elements of a sequence, () for another shape."""
        if self._elements is None:
            nodes = self.node.children if self.node.kind == SEQUENCE else ()
            self._elements = tuple(
                Value(self.source, node, self, index, self.document) for index, node in enumerate(nodes)
            )
        return self._elements

    def duplicates(self) -> Iterator[tuple[str, Value, Value]]:
        """Keys that stand twice, which kubectl refuses: the name, the first key and a later one."""
        if self.node.kind != MAPPING:
            return
        first: dict[str, Node] = {}
        for key in self.node.children[::2]:
            name = name_of(key.meant)
            known = first.setdefault(name, key)
            if known is not key and not is_merge(key):
                yield name, self._key(known), self._key(key)

    def part(self, start: int, end: int) -> Span:
        """Where characters `start` to `end` of `text` stand in the source, for every scalar style: escapes in double quotes,
        doubled single quotes, folded lines, block scalars. For an empty part the place before its right neighbour, at the end
        of a text the place after the last character."""
        span = self.span
        if self.node.kind != SCALAR:
            return span
        text = self.text
        if not 0 <= start <= end <= len(text):
            raise IndexError(f"no part {start}:{end} of a text of {len(text)} characters")
        node = self.node
        begin = scalars.simple(span, node.style, text)
        if begin is not None:
            return Span(begin + start, begin + end)
        if not text:
            # Null, or a block scalar without a line.
            return Span(span.end, span.end) if node.style else Span(span.start, span.start)
        if node.cache is None:
            node.cache = (scalars.layout(self.source.text, span, node.end, node.style, text),)
        (layout,) = node.cache
        return layout.part(start, end) if layout else span

    def _key(self, node: Node) -> Value:
        return Value(self.source, node, self, None, self.document)

    def child(self, name: str) -> Value | None:
        """The value of a key."""
        children = self._children
        if children is None:
            if self.node.kind != MAPPING:
                return None
            children = self._children = {}
        elif name in children:
            return children[name]
        entry = entries_of(self.node).get(name)
        if entry is None:
            return None
        child = children[name] = Value(self.source, entry.value, self, name, self.document)
        return child

    def element(self, index: int) -> Value | None:
        """The element at an index; negative ones count from the end."""
        elements = self.elements()
        return elements[index] if -len(elements) <= index < len(elements) else None


def load(source: Source) -> list[Value]:
    """The documents of a text that hold something; [] for an empty one.

    Raises BadInputError (`bad-yaml`) with line and column for what is no YAML or exceeds its limits, with a hint where the text
    looks like a chart's template.
    """
    return [
        Value(source, document.root, document=index)
        for index, document in enumerate(compose(source))
        if document.root.kind != SCALAR or data_of(document.root) is not None
    ]


def data_of(node: Node) -> Any:
    """The plain data of a node, made once."""
    if node.kind == SCALAR:
        return _scalar(node)
    known = node.cache
    if isinstance(known, _Known) and known.data is not _UNSET:
        return known.data
    if known is None:
        known = node.cache = _Known()
    known.data = (
        [data_of(child.target or child) for child in node.children]
        if node.kind == SEQUENCE
        else {name: data_of(entry.value) for name, entry in entries_of(node).items()}
    )
    return known.data


class _Known:
    """What was found out about a collection's node."""

    __slots__ = ("data", "entries")

    def __init__(self) -> None:
        self.data: Any = _UNSET
        self.entries: dict[str, _Entry] | None = None


def entries_of(node: Node) -> dict[str, _Entry]:
    """Keys of a mapping's node, made once: its own in order, then merged ones that it has not itself."""
    known = node.cache
    if known is None:
        known = node.cache = _Known()
    if known.entries is not None:
        return known.entries  # type: ignore[no-any-return]
    entries: dict[str, _Entry] = {}
    merged: list[Node] = []
    children = node.children
    for index in range(0, len(children), 2):
        key = children[index]
        value = children[index + 1]
        if key.text == "<<" and is_merge(key):
            merged += _merged(value.target or value)
            continue
        entries[name_of(key.target or key)] = _Entry(key, value.target or value)
    for other in merged:
        for name, entry in entries_of(other).items():
            if name not in entries:
                entries[name] = _Entry(None, entry.value)
    known.entries = entries
    return entries


def is_merge(key: Node) -> bool:
    """Whether a key is `<<`."""
    return key.text == "<<" and not key.target and ((not key.style and key.tag is None) or key.tag == _TAG + "merge")


def _merged(value: Node) -> list[Node]:
    nodes = [child.meant for child in value.children] if value.kind == SEQUENCE else [value]
    return [node for node in nodes if node.kind == MAPPING]


def name_of(key: Node) -> str:
    """A key's node as the string that JSON would have."""
    return key.text if key.style else key_text(_scalar(key), key.text)


def _scalar(node: Node) -> Any:
    tag = node.tag
    if tag is None:
        return node.text if node.style else resolve(node.text)
    if not tag.startswith(_TAG):
        return node.text
    value = resolve(node.text)
    kind = tag[len(_TAG) :]
    if kind == "float" and type(value) is int:
        return float(value)
    fits = {
        "int": type(value) is int,
        "float": isinstance(value, float),
        "bool": isinstance(value, bool),
        "null": value is None,
    }
    return value if fits.get(kind) else node.text


def start_of(text: str, node: Node) -> int:
    """Where a node's value begins, behind its anchor and tag."""
    if node.start >= len(text) or text[node.start] not in "&!" or node.target:
        return node.start
    if node.kind == MAPPING and node.children and node.children[0].start == node.start:
        # The anchor is that of the first key.
        return node.start
    # What the first key of a mapping has of its own begins where that key does.
    limit = node.children[0].start if node.kind == MAPPING and node.children else node.end
    found = _PROPERTIES.match(text, node.start, limit)
    if not found:
        return node.start
    # Of a value that is written by nothing, only the anchor itself remains before it.
    return found.end() if found.end() < node.end or limit < node.end else node.start + len(found.group().rstrip())


def end_of(text: str, node: Node) -> int:
    """Where a node's value ends."""
    if node.target:
        return node.end
    if node.kind == SCALAR:
        return scalars.block_end(text, node.start, node.end) if node.style in ("|", ">") else node.end
    if node.flow and text[node.end - 1] in "]}" and text[start_of(text, node)] in "[{":
        return node.end
    return end_of(text, node.children[-1]) if node.children else node.end
