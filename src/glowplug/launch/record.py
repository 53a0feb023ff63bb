"""The start document while it grows: facts are added as they become known, and the report file is always a whole document.

Whatever the document quotes (the engine's lines, its command, a shell's script), the values of this environment's own secrets are
replaced in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import stat
import threading
from typing import TYPE_CHECKING, Any, Optional

from glowplug.core import atomic, redact
from glowplug.core.documents import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from glowplug.core.documents.start import Start


class Record:
    """One start. Used by the main thread and the observer's, until `close`: then it is as it is.

    `also` gets each version that is written, without secrets; it raises nothing.
    """

    def __init__(
        self,
        start: Start,
        report: Optional[Path],
        say: Callable[[str], None],
        secrets: Optional[Mapping[str, bytes]] = None,
        also: Callable[[Start], None] = lambda _start: None,
    ) -> None:
        self._also = also
        self._start = start
        self._report = report
        self._say = say
        self._secrets = {value.decode("utf-8", "surrogateescape") for value in (secrets or {}).values()}
        self._lock = threading.Lock()
        self._complained = False
        self._closed = False

    @property
    def start(self) -> Start:
        """The document as it is now."""
        with self._lock:
            return self._start

    def add(self, **facts: Any) -> None:
        """Replace fields of the document."""
        with self._lock:
            if not self._closed:
                self._start = dataclasses.replace(self._start, **facts)

    def write(self) -> None:
        """Replace the report file. A report that cannot be written is said once and harms nothing."""
        with self._lock:
            if not self._closed:
                self._write()

    def close(self) -> None:
        """Write it a last time: what anybody adds later is no longer part of it."""
        with self._lock:
            self._closed = True
            self._write()

    def _write(self) -> None:
        document = _without(codec.to_json(self._start), sorted(self._secrets, key=len, reverse=True))
        self._also(codec.from_json(type(self._start), document))
        if self._report is None:
            return
        data = (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            _put(self._report, data)
        except (OSError, ValueError) as error:
            if not self._complained:
                self._complained = True
                self._say(f"the report {self._report} cannot be written: {getattr(error, 'strerror', None) or error}")


def _put(path: Path, data: bytes) -> None:
    """Replace a file (where `path` is a link, the file that it leads to); a device or a pipe is written to.

    A file that is there keeps its mode and, as far as we may, its owner.
    """
    if path.is_symlink() and path.lstat().st_uid not in (os.geteuid(), path.parent.stat().st_uid):
        # In a directory where everybody may write, somebody else's link must not choose what we replace.
        raise PermissionError(errno.EPERM, "it is a link that belongs to somebody else")
    target = path.resolve()
    try:
        status = target.stat()
    except FileNotFoundError:
        atomic.write_bytes(target, data, durable=False)
        return
    mode = status.st_mode
    if stat.S_ISREG(mode):
        atomic.write_bytes(target, data, durable=False, mode=stat.S_IMODE(mode))
        if status.st_uid != os.geteuid():
            with contextlib.suppress(OSError):
                os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
        return
    # Renaming a file over /dev/null or a named pipe would take it from everybody. Without a reader a pipe is an error, no wait.
    descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _without(value: Any, secrets: list[str]) -> Any:
    """A JSON value with these texts replaced wherever they occur in its strings."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, redact.hashed(secret))
        return value
    if isinstance(value, list):
        return [_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(name, secrets): _without(item, secrets) for name, item in value.items()}
    return value
