"""/healthz, /readyz and /metrics, for kubelet and for Prometheus.

Alive means that no thread has died and every loop has shown itself within the time that it may take for one thing; ready, that
what pods look for is in place. Neither asks for the API server or the store: an agent that kubelet restarts since S3 is away has
helped nobody.

Anybody who reaches the port may ask, and kubelet ends an agent that does not answer it. So a request as a whole has some seconds
and some kilobytes, however slowly it comes, and where all threads are taken the connection that is there longest makes way.
"""

from __future__ import annotations

import contextlib
import http
import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_AT_ONCE: Final = 16
_SECONDS: Final = 5.0
_HEAD_BYTES: Final = 8192
_YOUNG_SECONDS: Final = 0.25
"""Enough for an honest request; a connection does not make way before."""
_TEXT: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


class Pulse:
    """When a loop last showed that it goes on. `seconds`: how long one thing may take it."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._last = monotonic()

    def tick(self) -> None:
        """It goes on."""
        self._last = self._monotonic()

    def beats(self) -> bool:
        """Whether it went on lately enough."""
        return self._monotonic() - self._last <= self._seconds


class Health:
    """The server. `unready()` says why it is not ready, "" when it is; `metrics()` is what Prometheus reads."""

    def __init__(
        self,
        host: str,
        port: int,
        pulses: Mapping[str, Pulse],
        unready: Callable[[], str],
        metrics: Callable[[], bytes],
        fallen: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Listens at once, for IPv6 as well where no host is named. Raises UnavailableError where the port is taken.

        `fallen()` are the names of threads that died.
        """

        def sick() -> str:
            return ", ".join([*fallen(), *(name for name, one in pulses.items() if not one.beats())])

        answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _said(sick()),
            "/readyz": lambda: _said(unready()),
            "/metrics": lambda: (200, _METRICS, metrics()),
        }

        class Handler(_Handler):
            pages = answers

        try:
            self._server = _Server((host, port), Handler)
        except OSError as error:
            raise UnavailableError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens: the one that was asked for, or the one that 0 became."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


def _said(trouble: str) -> tuple[int, str, bytes]:
    return (503, _TEXT, f"{trouble}\n".encode()) if trouble else (200, _TEXT, b"ok\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[socketserver.BaseRequestHandler]) -> None:
        self._dual = not address[0] and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._dual or ":" in address[0] else socket.AF_INET
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self._dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for it where one is free, or becomes free; else the connection ends."""
        now = time.monotonic()
        with self._lock:
            oldest = next(iter(self._open), None) if len(self._open) >= _AT_ONCE else None
            taken = oldest is not None and now - self._open[oldest] < _YOUNG_SECONDS
            if oldest is not None and not taken:
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # who reads from it wakes up
            if not taken:
                self._open[request] = now
        if taken:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up in the middle is no news."""


class _Handler(socketserver.BaseRequestHandler):
    pages: Mapping[str, Callable[[], tuple[int, str, bytes]]]

    def handle(self) -> None:
        """One request, one answer; of the request nothing but its first line says anything."""
        head = self._head()
        if head is None:
            return
        method, path = [*head.split(b"\r\n", 1)[0].decode("latin-1").split(" "), "", ""][:2]
        page = self.pages.get(path.partition("?")[0]) if method == "GET" else None
        status, kind, body = page() if page else (404, _TEXT, b"GET /healthz, /readyz or /metrics\n")
        lines = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
        )
        self.request.settimeout(_SECONDS)  # for all of it
        self.request.sendall("\r\n".join((*lines, "", "")).encode() + body)

    def _head(self) -> bytes | None:
        """All that is said before the answer; None where it is not said in time, or too much."""
        deadline, head = time.monotonic() + _SECONDS, b""
        while b"\r\n\r\n" not in head:
            left = deadline - time.monotonic()
            if left <= 0 or len(head) > _HEAD_BYTES:
                return None
            self.request.settimeout(left)
            got = self.request.recv(_HEAD_BYTES)
            if not got:
                return None
            head += got
        return head
