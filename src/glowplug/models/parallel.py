"""The same work for many items side by side, waited for no longer than a deadline and given up at the first error.

`concurrent.futures` joins its threads when the process ends; a read that hangs would then hang the process. These are daemons.
A worker takes the next item only when its last result was taken, so only a few results wait to be looked at.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from glowplug.core import bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from glowplug.core.clock import Deadline

T = TypeVar("T")
R = TypeVar("R")

_POLL_SECONDS: Final = 0.5  # how soon a worker notices that nobody waits any more


def each(work: Callable[[T], R], items: Sequence[T], count: int, deadline: Deadline, doing: str) -> Iterator[R]:
    """The results in the order in which they come, of up to `count` workers.

    Raises what `work` raises, UnavailableError (`timeout`) at the deadline.
    """
    crew = _Crew(work, items, max(1, count))
    try:
        for _ in items:
            try:
                found, error = crew.results.get(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX))
            except queue.Empty:
                raise bounded.out_of_time(doing) from None
            if error is not None:
                raise error
            yield from found
    finally:
        crew.given_up.set()


class _Crew(Generic[T, R]):
    """Fills `results` with one result, or an error, for each item, until `given_up` is set."""

    def __init__(self, work: Callable[[T], R], items: Sequence[T], count: int) -> None:
        self.results: queue.Queue[tuple[list[R], BaseException | None]] = queue.Queue(count)
        self.given_up = threading.Event()
        self._work = work
        self._todo = iter(items)
        self._taking = threading.Lock()
        for _ in range(min(count, len(items))):
            threading.Thread(target=self._run, name="glowplug-models", daemon=True).start()

    def _run(self) -> None:
        while not self.given_up.is_set():
            with self._taking:
                taken = list(itertools.islice(self._todo, 1))
            if not taken:
                return
            try:
                self._offer([self._work(taken[0])], None)
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                self._offer([], error)

    def _offer(self, found: list[R], error: BaseException | None) -> None:
        while not self.given_up.is_set():
            with contextlib.suppress(queue.Full):
                self.results.put((found, error), timeout=_POLL_SECONDS)
                return
