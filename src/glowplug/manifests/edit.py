"""Changes to YAML that leave every other byte alone: comments, quotes, order, line ends, separators.

An operation says what is meant, in terms of values; `apply` finds the smallest change of the text (`rewriting.py`), carries the
operations out on plain data, too (`intent.py`), and then checks its own work: the new text must parse to exactly those
documents. What cannot be written so is refused (`CannotEditError`), never attempted.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import BadInputError
from glowplug.manifests import intent
from glowplug.manifests.nodes import Document, compose
from glowplug.manifests.resolving import resolve
from glowplug.manifests.rewriting import CannotEditError, Edit, Page
from glowplug.manifests.source import Source
from glowplug.manifests.values import data_of
from glowplug.manifests.writing import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from glowplug.manifests.intent import Path
    from glowplug.manifests.values import Value

_LINE_ENDS: Final = ("\n", "\r")
_MARK: Final = re.compile(r"---(?=[ \t\r\n]|\Z)")
# Where fewer documents than one in so many change, only they are read again; else all at once, which the next reader is spared.
_MANY: Final = 4

__all__ = ["CannotEditError", "Insert", "Operation", "Put", "Remove", "Rename", "Replace", "Splice", "apply"]


@dataclass(frozen=True)
class Put:
    """A mapping's key gets a value: replaced in place where it is there (a scalar keeps its style of quotes where it can), else
    added after the key `after` (at the end where that is missing or ""). `value` is plain data and may carry notes
    (`manifests/writing.noted`), which become comments above. Written in the style of its surroundings: flow within flow.
    `mapping` may be null (`env:`), which then becomes one."""

    mapping: Value
    key: str
    value: Any
    after: str = ""


@dataclass(frozen=True)
class Insert:
    """A sequence gets an element, before the one at `index` (None: at the end). `sequence` may be null, which then becomes one."""

    sequence: Value
    value: Any
    index: int | None = None


@dataclass(frozen=True)
class Replace:
    """A value gives way to another."""

    value: Value
    to: Any


@dataclass(frozen=True)
class Splice:
    """Characters `start` to `end` of a scalar's text give way to others: one option of a shell script, one key of JSON."""

    value: Value
    start: int
    end: int
    to: str


@dataclass(frozen=True)
class Remove:
    """A key (with its value) or an element goes, with the comment that stands above it alone."""

    collection: Value
    key: str | int


@dataclass(frozen=True)
class Rename:
    """A key gets another name; its value stays."""

    mapping: Value
    key: str
    to: str


Operation = Put | Insert | Replace | Splice | Remove | Rename
_Together = list[Operation]
"""One operation, or several that put elements in at one place."""


def apply(source: Source, operations: Sequence[Operation]) -> str:
    """The changed text. All operations speak of the text as it is, whatever the others do to it, and are carried out in their
    order: elements that are put in at one index stand in the order of their operations.

    Raises CannotEditError.
    """
    return applied(source, operations).text


def applied(source: Source, operations: Sequence[Operation]) -> Source:
    """The same as a source under the same name, which has been read already.

    Raises CannotEditError.
    """
    if not operations:
        return source
    tasks: dict[int, list[Operation]] = {}
    for operation in operations:
        value = _subject(operation)
        if value.source.text != source.text:
            raise CannotEditError("the value is of another text")
        tasks.setdefault(value.document, []).append(operation)
    try:
        documents = compose(source)
        starts = [0, *(document.start for document in documents[1:]), len(source.text)]
        pieces = [source.text[start:end] for start, end in itertools.pairwise(starts)]
        pieces[-1] += _missing_end(source.text, documents[-1])
        edited: dict[int, Any] = {}
        for index, wanted in tasks.items():
            pieces[index], edited[index] = _edited(pieces[index], data_of(documents[index].root), wanted)
        text = "".join(pieces)
        if len(tasks) * _MANY < len(documents) and all(_stands_alone(pieces, index) for index in tasks):
            if all(_reads_as(pieces[index], data) for index, data in edited.items()):
                return Source(source.name, text)
            raise CannotEditError(_otherwise(documents))
        meant = [edited.get(index, data_of(document.root)) for index, document in enumerate(documents)]
        for candidate in _endings(source.text, text):
            found = Source(source.name, candidate)
            if intent.same([data_of(document.root) for document in compose(found)], meant):
                return found
    except BadInputError as error:
        raise CannotEditError(f"it cannot be written there: {error.message}") from error
    raise CannotEditError(_otherwise(documents))


def _otherwise(documents: Sequence[Document]) -> str:
    shared = any(document.aliases for document in documents)
    return "others use what would change" if shared else "something else would change with it"


def _stands_alone(pieces: Sequence[str], index: int) -> bool:
    """Whether a document reads the same without the others: it begins with a mark of its own, ends with its line, and so does
    what stands around it. No scalar and no bracket goes on behind such a mark."""
    own, behind = pieces[index], pieces[index + 1 : index + 2]
    begins = index == 0 or _MARK.match(own)
    return bool(begins and own.endswith(_LINE_ENDS) and all(_MARK.match(piece) for piece in behind))


def _reads_as(piece: str, data: Any) -> bool:
    read = compose(Source("", piece))
    return len(read) == 1 and intent.same(data_of(read[0].root), data)


def _endings(before: str, text: str) -> Iterator[str]:
    """A file without an end of its last line stays so, unless a text that ends with one comes to stand last."""
    if before.endswith(_LINE_ENDS):
        yield text
        return
    bare = text.rstrip("".join(_LINE_ENDS))
    yield bare
    yield text if text != bare else text + _line_end(text)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _missing_end(text: str, last: Document) -> str:
    """The end that the last line has not, so that others can be put below it; none where it would become part of a value."""
    if text.endswith(_LINE_ENDS):
        return ""
    end = _line_end(text)
    (*_, again) = compose(Source("", text + end))
    return end if intent.same(data_of(last.root), data_of(again.root)) else ""


def _subject(operation: Operation) -> Value:
    match operation:
        case Put(mapping=value) | Insert(sequence=value) | Replace(value=value):
            return value
        case Splice(value=value) | Remove(collection=value) | Rename(mapping=value):
            return value


def _edited(text: str, data: Any, operations: Sequence[Operation]) -> tuple[str, Any]:
    """One document after its operations: its text and its data. Those that touch nothing of one another are done in one go, so
    that the document is read again as often as one place is changed, not as often as there are operations."""
    moves = _Moves()
    waiting = _gathered(operations)
    while waiting:
        page = Page(text)
        turn = _Turn()
        later: list[_Together] = []
        for operation in waiting:
            if turn.takes(_way(_subject(operation[0]))):
                edits, data = moves.carried_out(operation, page, data)
                turn.edits += edits or []
            else:
                later.append(operation)
        text = _rewritten(text, turn.edits)
        if later and not text.endswith(_LINE_ENDS) and not _reads_as(text, data):
            # A text whose last line ends has come to stand last; what follows it now would be read without that end.
            text += _line_end(text)
        waiting = later
    return text, data


def _gathered(operations: Sequence[Operation]) -> list[_Together]:
    """What is put in at one place of one list is one operation: so a hundred variables cost what one does."""
    gathered: list[_Together] = []
    places: dict[tuple[Path, int | None], _Together] = {}
    for operation in operations:
        if isinstance(operation, Insert):
            together = places.setdefault((_way(operation.sequence), operation.index), [])
            together.append(operation)
            if len(together) == 1:
                gathered.append(together)
        else:
            gathered.append([operation])
    return gathered


def _way(value: Value) -> Path:
    """The way from the document to a value, in the text as it was."""
    steps: list[str | int] = []
    while value.parent is not None:
        if value.step is None:
            raise CannotEditError("a key is renamed, not changed as a value")
        steps.append(value.step)
        value = value.parent
    return tuple(reversed(steps))


def _rewritten(text: str, edits: Sequence[Edit]) -> str:
    out: list[str] = []
    at = 0
    # Edits at one place stay in their order; what is put in stands before what goes.
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start < at:
            raise CannotEditError("two changes overlap")
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


class _Turn:
    """What is changed together: no place of it lies within another."""

    def __init__(self) -> None:
        self.edits: list[Edit] = []
        self._taken: set[Path] = set()
        self._above: set[Path] = set()

    def takes(self, way: Path) -> bool:
        """Whether a place is free; from then on it is not. One that has to wait keeps its place, too: order counts there."""
        parts = [way[:length] for length in range(len(way) + 1)]
        free = way not in self._above and not any(part in self._taken for part in parts)
        self._taken.add(way)
        self._above.update(parts)
        return free


class _Moves:
    """Where things are after some operations: each still speaks of the text as it was."""

    def __init__(self) -> None:
        self._elements: dict[Path, list[int | None]] = {}
        self._names: dict[Path, dict[str, str | None]] = {}
        self._spliced: dict[Path, list[tuple[int, int, int]]] = {}
        self._gone: set[Path] = set()

    def carried_out(self, together: _Together, page: Page, data: Any) -> tuple[list[Edit] | None, Any]:
        """One operation, or several that are one, on the text, as edits, and on the data."""
        operation = together[0]
        subject = _subject(operation)
        was = _way(subject)
        path = self._now(was)
        match operation:
            case Put(_, key, value, after):
                _demand(subject.is_mapping or subject.data is None, "only a mapping has keys")
                self._gone.add((*was, key))
                key = self._name(was, key)
                edits = page.put(path, key, value, self._names.get(was, {}).get(after, after) or "")
                return edits, intent.changed(data, path, intent.put(key, plain(value)))
            case Insert(_, _, index):
                _demand(subject.is_sequence or subject.data is None, "only a list has elements")
                values = [one.value for one in together if isinstance(one, Insert)]
                at, *_ = [self._inserted(was, subject, index) for _ in values]
                edits = page.insert(path, at, values)
                for place, value in enumerate(values, at):
                    data = intent.changed(data, path, intent.inserted(place, plain(value)))
                return edits, data
            case Replace(_, to):
                edits = page.replace(path, to)
                self._gone.add(was)
                return edits, intent.changed(data, path, lambda _: plain(to))
            case Splice(value, start, end, to):
                _demand(not value.is_mapping and not value.is_sequence, "only a scalar has a text")
                _demand(0 <= start <= end <= len(value.text), "the text has no such part")
                start, end = self._shifted(was, start, end, len(to))
                edits = page.splice(path, start, end, to)
                text = page.text_at(path)
                meant = text[:start] + to + text[end:]
                return edits, intent.changed(data, path, lambda old: meant if isinstance(old, str) else resolve(meant))
            case Remove(_, key):
                step = self._removed(was, subject, key)
                edits = page.remove(path, step)
                return edits, intent.changed(data, path, intent.removed(step))
            case Rename(_, key, to):
                _demand(subject.is_mapping, "only a mapping has keys")
                name = self._name(was, key)
                there = intent.at(data, path)
                _demand(name in there, f"there is no key `{key}`")
                _demand(to == name or to not in there, f"there is a key `{to}` already")
                edits = page.rename(path, name, to)
                self._names.setdefault(was, {})[key] = to
                return edits, intent.changed(data, path, intent.renamed(name, to))

    def _now(self, was: Path) -> Path:
        _demand(not any(was[:length] in self._gone for length in range(len(was) + 1)), "another change replaces it")
        now: list[str | int] = []
        for length, step in enumerate(was):
            above = was[:length]
            if isinstance(step, str):
                now.append(self._name(above, step))
            elif above in self._elements:
                _demand(step in self._elements[above], "another change removes it")
                now.append(self._elements[above].index(step))
            else:
                now.append(step)
        return tuple(now)

    def _name(self, mapping: Path, key: str) -> str:
        name = self._names.get(mapping, {}).get(key, key)
        if name is None:
            raise CannotEditError("another change removes it")
        return name

    def _inserted(self, was: Path, sequence: Value, index: int | None) -> int:
        length = len(sequence.elements())
        elements = self._elements.setdefault(was, list(range(length)))
        at = length if index is None else index + length if index < 0 else index
        _demand(0 <= at <= length, f"the list has {length} elements")
        while at < length and at not in elements:
            at += 1
        now = elements.index(at) if at < length else len(elements)
        elements.insert(now, None)
        return now

    def _removed(self, was: Path, collection: Value, key: str | int) -> str | int:
        if isinstance(key, str):
            _demand(collection.is_mapping and collection.get(key) is not None, f"there is no key `{key}`")
            name = self._name(was, key)
            self._names.setdefault(was, {})[key] = None
            return name
        length = len(collection.elements())
        key = key + length if key < 0 else key
        _demand(0 <= key < length, f"the list has {length} elements")
        elements = self._elements.setdefault(was, list(range(length)))
        _demand(key in elements, "another change removes it")
        now = elements.index(key)
        del elements[now]
        return now

    def _shifted(self, was: Path, start: int, end: int, length: int) -> tuple[int, int]:
        shift = 0
        for begin, stop, size in self._spliced.setdefault(was, []):
            if stop <= start:
                shift += size - (stop - begin)
            else:
                _demand(end <= begin, "two changes of one text overlap")
        self._spliced[was].append((start, end, length))
        return start + shift, end + shift


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CannotEditError(otherwise)
