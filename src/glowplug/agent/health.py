"""/healthz, /readyz and /metrics, for kubelet and for Prometheus.

Alive means that every loop has shown itself within the time that it may take for one thing; ready, that what pods look for is in
place. Neither asks for the API server or the store: an agent that kubelet restarts since S3 is away has helped nobody. Few
requests at a time, each with little patience: who connects and says nothing takes no more than a thread for some seconds.
"""

from __future__ import annotations

import http.server
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from glowplug.core.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AT_ONCE: Final = 8
_SECONDS: Final = 5.0
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
    ) -> None:
        """Listens at once, for IPv6 as well where no host is named. Raises UnavailableError where the port is taken."""
        answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _said(", ".join(name for name, one in pulses.items() if not one.beats())),
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


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        both = not address[0] and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if both or ":" in address[0] else socket.AF_INET
        self._dual = both
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(self.server_address)  # HTTPServer's own would ask name servers for our name
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "agent", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for it where one is free; else the connection ends."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Who hangs up in the middle is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _SECONDS
    server_version = "glowplug"
    sys_version = ""
    pages: Mapping[str, Callable[[], tuple[int, str, bytes]]]

    def do_GET(self) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        status, kind, body = page() if page else (404, _TEXT, b"/healthz, /readyz or /metrics\n")
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """A probe every two seconds is no news."""
