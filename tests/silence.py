"""A server that accepts, hears, and says nothing until it is told what to say."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

FORBIDDEN = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"


class Silent:
    """A context manager. `asked` is set once somebody has asked something: who waits for an answer is in the middle of it."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listening.getsockname()[1])
        self.asked = threading.Event()
        self._said = threading.Event()
        self._answer = b""
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def say(self, answer: bytes) -> None:
        """Answer with this whatever was asked, and what will be."""
        self._answer = answer
        self._said.set()

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._said.set()
        # A thread in accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listening.accept()
                threading.Thread(target=self._hear, args=(one,), daemon=True).start()

    def _hear(self, one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            while one.recv(1 << 16):
                self.asked.set()
                self._said.wait()
                one.sendall(self._answer)
                if not self._answer:
                    return
