"""The start document while it grows: facts are added as they become known, and the report file is always a whole document."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING, Any

from glowplug.core import atomic
from glowplug.core.documents import codec
from glowplug.core.documents.start import Start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Record:
    """One start. Used by the main thread and the observer's."""

    def __init__(self, start: Start, report: Path | None, say: Callable[[str], None]) -> None:
        self._start = start
        self._report = report
        self._say = say
        self._lock = threading.Lock()
        self._complained = False

    @property
    def start(self) -> Start:
        """The document as it is now."""
        with self._lock:
            return self._start

    def add(self, **facts: Any) -> None:
        """Replace fields of the document."""
        with self._lock:
            self._start = dataclasses.replace(self._start, **facts)

    def write(self) -> None:
        """Replace the report file. A report that cannot be written is said once and harms nothing."""
        if self._report is None:
            return
        with self._lock:
            data = json.dumps(codec.to_json(self._start), indent=2, ensure_ascii=False) + "\n"
            try:
                atomic.write_bytes(self._report, data.encode("utf-8", "replace"), durable=False)
            except OSError as error:
                if not self._complained:
                    self._complained = True
                    self._say(f"the report {self._report} cannot be written: {error.strerror}")
