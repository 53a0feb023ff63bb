"""One line of JSON for each decision, on stderr: what a log store of the cluster keeps when events and metrics are gone.

Every line has `at`, `what` and `node`. A line is written whole, in one go; words of pods are quoted as in events, and a value
that is empty is left out.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from glowplug.agent.events import quoted
from glowplug.core.clock import SYSTEM, iso
from glowplug.core.printable import json_text

if TYPE_CHECKING:
    from typing import TextIO

    from glowplug.agent.pods import Pod
    from glowplug.core.clock import Clock


class Decisions:
    """Writes the lines. May be used from several threads; a stream that is gone costs the line, nothing else."""

    def __init__(self, node: str, stream: TextIO, clock: Clock = SYSTEM) -> None:
        self._node = node
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()

    def write(self, what: str, *, pod: Pod | None = None, **facts: Any) -> None:
        """One line. Raises nothing."""
        line: dict[str, Any] = {"at": iso(self._clock.now()), "what": what, "node": self._node}
        if pod is not None:
            line.update(namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        line.update({name: _plain(value) for name, value in facts.items() if value not in ("", None, (), [])})
        text = json_text(json.dumps(line, ensure_ascii=False)) + "\n"
        with self._lock:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                return


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
