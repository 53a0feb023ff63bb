"""Work that may hang, waited for no longer than a deadline.

A store's calls, AWS's and a file system's can all hang beyond any timeout that they offer: client timeouts are fixed when a
client is made, name resolution knows none, an NFS mount blocks inside the kernel. So each call runs in a thread of its
own and the caller waits on the *thread*. One that overruns is left behind; it is a daemon, so it cannot keep the
process from ending, and what it does ends by the client's own timeouts. A thread costs 0.1 ms, a request 1 to 100 ms.
(asyncio would be able to cancel, for 50 ms of imports at every start.)

concurrent.futures is no help here: it joins its threads at exit.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from glowplug.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from glowplug.core.clock import Deadline

T = TypeVar("T")

_POLL_SECONDS: Final = 0.5  # how soon a producer notices that nobody reads any more


class Running(Generic[T]):
    """Work under way in a thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._done = threading.Event()
        self._values: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="glowplug-bounded", daemon=True).start()

    def _run(self) -> None:
        try:
            self._values.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error
        finally:
            self._done.set()

    def result(self, deadline: Deadline, doing: str) -> T:
        """What the work returned or raised. Raises UnavailableError (`timeout`) at the deadline."""
        if not self._done.wait(_patience(deadline)):
            raise out_of_time(doing)
        if self._error is not None:
            raise self._error
        return self._values[0]


def call(work: Callable[[], T], deadline: Deadline, doing: str) -> T:
    """Run `work` and wait for it until the deadline. Raises what it raises, UnavailableError (`timeout`) at the deadline."""
    deadline.check(doing)
    return Running(work).result(deadline, doing)


def iterate(produce: Callable[[], Iterator[T]], deadline: Deadline, doing: str, *, ahead: int = 4) -> Iterator[T]:
    """The items of `produce()`, made in another thread up to `ahead` items before they are asked for. Raises as `call`."""
    deadline.check(doing)
    feed = _Feed(produce, ahead)
    try:
        while True:
            try:
                items, error = feed.waiting.get(timeout=_patience(deadline))
            except queue.Empty:
                raise out_of_time(doing) from None
            if error is not None:
                raise error
            if not items:
                return
            yield from items
            deadline.check(doing)
    finally:
        feed.unread.set()


class _Feed(Generic[T]):
    """Fills `waiting` with one item at a time, then with an error or with nothing, until `unread` is set."""

    def __init__(self, produce: Callable[[], Iterator[T]], ahead: int) -> None:
        self.waiting: queue.Queue[tuple[list[T], BaseException | None]] = queue.Queue(ahead)
        self.unread = threading.Event()
        self._produce = produce
        threading.Thread(target=self._run, name="glowplug-bounded", daemon=True).start()

    def _run(self) -> None:
        try:
            for item in self._produce():
                if not self._offer([item], None):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._offer([], error)
        else:
            self._offer([], None)

    def _offer(self, items: list[T], error: BaseException | None) -> bool:
        while not self.unread.is_set():
            with contextlib.suppress(queue.Full):
                self.waiting.put((items, error), timeout=_POLL_SECONDS)
                return True
        return False


def out_of_time(doing: str) -> UnavailableError:
    """The error of a deadline that passed."""
    return UnavailableError(f"out of time while {doing}", code="timeout")


def _patience(deadline: Deadline) -> float:
    return min(deadline.remaining(), threading.TIMEOUT_MAX)
