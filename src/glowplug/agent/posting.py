"""Events on their way to the API server, on a thread of their own: who decides something never waits for Kubernetes.

An event is a courtesy. So the queue is bounded, one pod cannot fill it, an event that the server does not take is dropped, and one
that the server cannot take now is tried again for a few minutes, with the others waiting behind it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.clock import SYSTEM
from glowplug.core.errors import GlowplugError, UnavailableError
from glowplug.kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from glowplug.core.clock import Clock, Deadline
    from glowplug.kube.contract import Api

QUEUE: Final = 500
PER_OBJECT: Final = 60
"""Events about one pod or node within `_WINDOW_SECONDS`; what it does more often nobody reads."""
_WINDOW_SECONDS: Final = 3600.0
_OBJECTS: Final = 2000
_KNOWN: Final = 5000
_KEEP_SECONDS: Final = 300.0
_PAUSES: Final = (0.5, 30.0)
_LONGEST_AFTER: Final = 120.0


@dataclass(frozen=True)
class _Waiting:
    event: dict[str, Any]
    since: float


class Posting:
    """The queue and its thread. `counted(outcome)` is told `posted`, `known` or `dropped`; `failed` each error."""

    def __init__(
        self,
        api: Api,
        counted: Callable[[str], None],
        failed: Callable[[BaseException], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self._api = api
        self._counted = counted
        self._failed = failed
        self._clock = clock
        self._queue: deque[_Waiting] = deque()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._objects: OrderedDict[str, deque[float]] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Any]) -> None:
        """Queue an event, unless one of its name went before. Raises nothing and waits for nothing."""
        with self._changed:
            name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
            if name in self._known:
                return
            if len(self._queue) >= QUEUE or not self._admits(event["involvedObject"]["uid"]):
                self._counted("dropped")
                return
            self._known[name] = None
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
            self._queue.append(_Waiting(event, self._clock.monotonic()))
            self._changed.notify_all()

    def is_alive(self) -> bool:
        """Whether its thread still works."""
        return self._thread.is_alive()

    def close(self, deadline: Deadline) -> None:
        """Post what waits, until the deadline. What the server does not take at once then is dropped."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(deadline.remaining())

    def _admits(self, uid: str) -> bool:
        now = self._clock.monotonic()
        times = self._objects.setdefault(uid, deque())
        self._objects.move_to_end(uid)
        while len(self._objects) > _OBJECTS:
            self._objects.popitem(last=False)
        while times and times[0] < now - _WINDOW_SECONDS:
            times.popleft()
        if len(times) >= PER_OBJECT:
            return False
        times.append(now)
        return True

    def _run(self) -> None:
        backoff = Backoff(*_PAUSES)
        while True:
            with self._changed:
                while not self._queue and not self._closing.is_set():
                    self._changed.wait()
                if not self._queue:
                    return
                waiting = self._queue[0]
            asked = self._post(waiting)
            if asked is None:
                backoff.reset()
                with self._changed:
                    self._queue.popleft()
            else:
                self._closing.wait(min(max(backoff.next(), asked), _LONGEST_AFTER))

    def _post(self, waiting: _Waiting) -> float | None:
        """None where the event is dealt with, else the seconds after which the server wants to be asked again."""
        try:
            new = self._api.put_event(waiting.event)
        except UnavailableError as error:
            self._tell(error)
            late = self._clock.monotonic() - waiting.since > _KEEP_SECONDS
            if not late and not self._closing.is_set():
                return error.retry_after or 0.0
            self._counted("dropped")
        except Exception as error:  # noqa: BLE001 - an event is never worth a thread
            self._tell(error)
            self._counted("dropped")
        else:
            self._counted("posted" if new else "known")
        return None

    def _tell(self, error: BaseException) -> None:
        with contextlib.suppress(GlowplugError):
            self._failed(error)
