"""Lists of objects, page by page, of which no more is in memory than is asked for.

A list may be far larger than an agent: whoever may create pods may create thousands of a megabyte each. So

- objects are taken out of an answer while it comes, and each is handed to the asker at once, who says what of it is kept;
- pages begin small and grow as long as their bytes are few;
- an answer that is too large all the same is asked for again as a smaller page. A list from the server's memory
  (`resourceVersion=0`) has no pages in many versions, so it is then asked for without that.
"""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UnavailableError
from glowplug.kube import answers
from glowplug.kube.questions import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from glowplug.kube.contract import Object
    from glowplug.kube.link import Link

    Keep = Callable[[Object], Object | None]

_FIRST_PAGE: Final = 32
_PAGE_BYTES: Final = 4 << 20
_STEP: Final = 1 << 16
_MOST_VALUE: Final = 16 << 20
"""Characters of one object: etcd takes 1.5 MiB."""
_BLANKS: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


def whole(item: Object) -> Object:
    """Keeps all of an object."""
    return item


def pages(
    link: Link, asked: str, path: str, query: Mapping[str, str], page: int, keep: Keep = whole
) -> Iterator[tuple[Sequence[Object], str]]:
    """Pages of a list, each with the version of the whole. Raises answers.ExpiredError where the next page is gone.

    `keep` is called for each object, in another thread, and must not raise; what it returns is told, nothing for None. Where a
    connection breaks it is called again.
    """
    limit, asking = min(page, _FIRST_PAGE), dict(query)
    while True:
        try:
            said, size = link.listed(Question(asked, path, {**asking, "limit": str(limit)}), keep)
        except answers.TooLargeError:
            if asking.pop("resourceVersion", None) is None and limit == 1:
                raise
            limit = max(1, limit // 4)
            continue
        items, metadata = said.get("items"), said.get("metadata")
        if not isinstance(items or [], list) or not isinstance(metadata, dict):
            raise UnavailableError(f"what answers is no Kubernetes API ({asked})")
        yield items or (), str(metadata.get("resourceVersion") or "")
        more = str(metadata.get("continue") or "")
        if not more:
            return
        # The token holds the version too, and a server refuses to be told both.
        asking = {**{name: value for name, value in query.items() if name != "resourceVersion"}, "continue": more}
        limit = _next(limit, page, size)


def _next(limit: int, most: int, size: int) -> int:
    if size > _PAGE_BYTES:
        return max(1, limit * _PAGE_BYTES // size)
    return min(most, limit * 4) if size < _PAGE_BYTES // 4 else limit


def take(pieces: Iterable[bytes], keep: Keep) -> dict[str, Any]:
    """The object that a text in pieces holds, its `items` as `keep` leaves them. Raises ValueError, RecursionError."""
    text = _Text(pieces)
    found: dict[str, Any] = {}
    text.expect("{")
    if not text.skip("}"):
        while True:
            name = text.value()
            text.expect(":")
            found[str(name)] = list(_items(text, keep)) if name == "items" and text.peek() == "[" else text.value()
            if text.skip("}"):
                break
            text.expect(",")
    if text.peek():
        raise ValueError("text behind the object")
    return found


def _items(text: _Text, keep: Keep) -> Iterator[Object]:
    text.expect("[")
    if text.skip("]"):
        return
    while True:
        item = text.value()
        kept = keep(item) if isinstance(item, dict) else None
        if kept is not None:
            yield kept
        if text.skip("]"):
            return
        text.expect(",")


class _Text:
    """JSON that comes in pieces. What is read is forgotten; what is not whole yet is tried again once it has doubled."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._decoded = codecs.getincrementaldecoder("utf-8")().decode
        self._text = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is no blank, "" at the end. Raises ValueError."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANKS:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._more()

    def skip(self, sign: str) -> bool:
        """Whether the next character is this one; then it is read."""
        if self.peek() != sign:
            return False
        self._at += 1
        return True

    def expect(self, sign: str) -> None:
        """Reads this character. Raises ValueError for another."""
        if not self.skip(sign):
            raise ValueError(f"no {sign!r} where one is expected")

    def value(self) -> Any:
        """The JSON value that comes next. Raises ValueError, RecursionError."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except ValueError:
                if self._ended:
                    raise
            else:
                if end < len(self._text) or self._ended:  # a number at the very end may go on
                    self._at = end
                    return value
            self._more()

    def _more(self) -> None:
        parts = [self._text[self._at :]]
        waiting, got = len(parts[0]), 0
        if waiting > _MOST_VALUE:
            raise ValueError("a value without end")
        for piece in self._pieces:
            parts.append(self._decoded(piece))
            got += len(parts[-1])
            if got >= max(waiting, _STEP):
                break
        else:
            parts.append(self._decoded(b"", final=True))
            self._ended = True
        self._text, self._at = "".join(parts), 0
