"""A list that stays true: all objects, then each change, over connections that end, break, hang and expire.

- A server ends each watch after a time that we name; the next begins at the version that was told last, and nothing is lost.
- A version that the server no longer knows (410) means to list again.
- A connection that is dead without a word is seen by its silence: a server sends bookmarks about once a minute.
- While nothing answers, the pause between attempts doubles, with a share by chance, so that a fleet does not come back in step.
- A refusal counts once it is repeated: an API server that has just started refuses for a moment what it will allow.

The first list comes from the server's memory (`resourceVersion=0`): a thousand nodes whose server restarts would otherwise each
read all pods of the cluster from etcd. It may be some moments old; the watch from its version brings what it missed.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import AccessDeniedError, GlowplugError, UnavailableError
from glowplug.kube import answers, listing
from glowplug.kube.backoff import Backoff
from glowplug.kube.contract import Change, Seen
from glowplug.kube.questions import Question

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from glowplug.kube.contract import Object
    from glowplug.kube.link import Link, Stream

IDLE_SECONDS: Final = 100.0
_WATCH_SECONDS: Final = (240, 480)
_WAITS: Final = (0.5, 30.0)
_DENIALS: Final = 4
_AHEAD: Final = 20
"""Events that wait to be taken: each may have 1.5 MiB."""
_POLL_SECONDS: Final = 0.25
_SOUND_SECONDS: Final = 5.0
"""A connection that lived that long was one; one that ends sooner without a word counts as a failure."""


@dataclass(frozen=True)
class Watched:
    """What is watched, in words and as the API names it."""

    asked: str
    path: str
    query: Mapping[str, str]


def watch(
    link: Link,
    what: Watched,
    stop: threading.Event,
    *,
    page: int,
    idle_seconds: float = IDLE_SECONDS,
    backoff: Backoff | None = None,
) -> Iterator[Change]:
    """See `Api.watch_pods`. Raises AccessDeniedError where it is refused again and again."""
    state = _Watch(link, what, stop, page, idle_seconds, backoff or Backoff(*_WAITS, random.random))
    while not stop.is_set():
        try:
            yield from state.changes()
            pause = state.ended()
        except GlowplugError as error:
            pause = state.failed(error)
        stop.wait(pause)


@dataclass
class _Watch:
    """Where a watch stands: the version from which it goes on ("": list first), and what went wrong so far."""

    link: Link
    what: Watched
    stop: threading.Event
    page: int
    idle_seconds: float
    backoff: Backoff
    version: str = ""
    listed_from: str = "0"
    denials: int = 0
    began: float = 0.0
    heard: bool = False

    def changes(self) -> Iterator[Change]:
        """What is told until the connection ends. Raises GlowplugError."""
        self.heard, self.began = False, time.monotonic()
        if not self.version:
            yield from self._listed()
        for kind, item in self._events():
            self.version = _version(item) or self.version
            self.heard, self.denials = True, 0
            self.backoff.reset()
            if kind != "BOOKMARK":
                yield Change(Seen.GONE if kind == "DELETED" else Seen.HERE, item)

    def ended(self) -> float:
        """Seconds to wait after a connection that ended without a fault."""
        if self.heard or time.monotonic() - self.began >= _SOUND_SECONDS:
            self.backoff.reset()
            return 0.0
        return self.backoff.next(None)

    def failed(self, error: GlowplugError) -> float:
        """Seconds to wait after a fault. Raises it where it is a refusal that stays one."""
        if isinstance(error, AccessDeniedError):
            self.denials += 1
            if self.denials >= _DENIALS:
                raise error
        elif isinstance(error, answers.ExpiredError):
            self.version, self.listed_from = "", ""
        # Anything else is what stands before the server, or a server that comes up: it passes.
        return self.backoff.next(getattr(error, "retry_after", None))

    def _listed(self) -> Iterator[Change]:
        query = {**self.what.query, **({"resourceVersion": self.listed_from} if self.listed_from else {})}
        listed = None
        for items, version in listing.pages(self.link, f"list {self.what.asked}", self.what.path, query, self.page):
            if listed is None:
                yield Change(Seen.LISTING, {})
            yield from (Change(Seen.HERE, item) for item in items)
            listed = version
        self.version = listed or ""
        yield Change(Seen.SYNCED, {})

    def _events(self) -> Iterator[tuple[str, Object]]:
        """What one connection tells, until it ends or `stop` is set."""
        asked = f"watch {self.what.asked}"
        query = {
            **self.what.query,
            "watch": "true",
            "resourceVersion": self.version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),  # noqa: S311 - spreads the load
        }
        reader = _Reader(self.link, Question(asked, self.what.path, query), self.idle_seconds)
        try:
            for line in reader.lines(self.stop):
                kind, item = _event(line, asked)
                if kind == "ERROR":
                    raise answers.told(item, asked)
                yield kind, item
        finally:
            reader.end()


class _Reader:
    """Reads a stream in a thread of its own, so that whoever waits for its lines can be told to stop."""

    def __init__(self, link: Link, question: Question, idle_seconds: float) -> None:
        self._told: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._error: GlowplugError | None = None
        self._link, self._question, self._idle = link, question, idle_seconds
        self._ended = threading.Event()
        self._stream: Stream | None = None
        self._thread = threading.Thread(target=self._run, name="glowplug-watch", daemon=True)
        self._thread.start()

    def lines(self, stop: threading.Event) -> Iterator[bytes]:
        """What is read, until the stream ends or `stop` is set. Raises what reading raised."""
        while not stop.is_set():
            try:
                line = self._told.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue
            if line is not None:
                yield line
            elif self._error is not None:
                raise self._error
            else:
                return

    def end(self) -> None:
        """Nobody listens any more."""
        self._ended.set()
        if self._stream is not None:
            self._stream.cut()

    def _run(self) -> None:
        try:
            with self._link.stream(self._question, idle_seconds=self._idle) as stream:
                self._stream = stream
                if self._ended.is_set():  # before there was a stream that `end` could cut
                    return
                for line in stream.lines():
                    self._offer(line)
                    if self._ended.is_set():
                        return
        except UnavailableError as error:
            # Silence after it had begun is how a quiet or a dead connection looks: neither is a reason to wait.
            self._error = None if error.code == "timeout" and self._stream is not None else error
        except GlowplugError as error:
            self._error = error
        except Exception as error:  # noqa: BLE001 - a thread that dies silently would be a watch that hangs
            self._error = UnavailableError(f"{self._question.asked}: {answers.line(error) or type(error).__name__}")
        finally:
            self._offer(None)

    def _offer(self, line: bytes | None) -> None:
        while not self._ended.is_set():
            try:
                self._told.put(line, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return


def _event(line: bytes, asked: str) -> tuple[str, Mapping[str, Any]]:
    try:
        said = json.loads(line)
        kind, item = said["type"], said["object"]
    except (ValueError, KeyError, TypeError, RecursionError):
        kind, item = None, None
    if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR") or not isinstance(item, dict):
        raise UnavailableError(f"{asked}: the Kubernetes API tells what is no event")
    return kind, item


def _version(item: Object) -> str:
    metadata = item.get("metadata")
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""
