"""An HTTP proxy in front of the S3 server that fails on purpose, one fault at a time.

What a store does wrong is decided here and not by patching glowplug's client, so a test sees what a user sees: real
sockets, real timeouts, real client retries. A test adds a `Fault` for the next N requests that match; all others go
through untouched. Requests keep their Host header's value as the client sent it, so signatures stay valid: the S3
server checks the header that was signed, not the address that was dialled.

    with s3.serve(["cache"]) as server, Proxy(server) as proxy:
        proxy.add(Answer(503), method="PUT", path="/cache/*", times=2)
        store = open_store("s3://cache", proxy.server.env())
"""

from __future__ import annotations

import http.client
import http.server
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from lab.s3 import Server

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "te", "upgrade", "trailer"}
_SLICE_SECONDS = 0.05


@dataclass(frozen=True)
class Answer:
    """The proxy answers by itself; the server never sees the request. S3's XML with the usual code for the status."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    code: str = ""


@dataclass(frozen=True)
class OtherRegion:
    """301 as S3 gives it for a bucket that lies elsewhere, naming the region."""

    region: str = "eu-central-1"


@dataclass(frozen=True)
class Refuse:
    """The connection is closed as soon as the request was read, and nothing was carried out."""


@dataclass(frozen=True)
class Hang:
    """No answer at all until the client gives up, `seconds` are over or the proxy ends."""

    seconds: float = 600.0


@dataclass(frozen=True)
class LoseAnswer:
    """The request is carried out, then the connection is closed without a word: a write that succeeded unseen."""


@dataclass(frozen=True)
class Slow:
    """The answer's body comes at this speed."""

    bytes_per_second: int


@dataclass(frozen=True)
class Truncate:
    """The answer announces its whole length and ends after `keep` bytes of body."""

    keep: int


@dataclass(frozen=True)
class ShortLength:
    """The answer announces and holds only `keep` bytes: a lie that HTTP itself cannot show."""

    keep: int


@dataclass(frozen=True)
class FlipBit:
    """One bit of the answer's body is wrong: bit 0 of the byte at `offset` (negative: from the end)."""

    offset: int


Fault = Answer | OtherRegion | Refuse | Hang | LoseAnswer | Slow | Truncate | ShortLength | FlipBit

_CODES = {
    400: "InvalidRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
}


@dataclass(frozen=True)
class Seen:
    """One request as the proxy saw it; `status` is the upstream's, or the proxy's own, or 0 where none was sent."""

    method: str
    path: str
    query: str
    status: int
    fault: Fault | None


@dataclass
class _Rule:
    fault: Fault
    method: str
    path: str
    left: int | None
    met: threading.Event = field(default_factory=threading.Event)

    def matches(self, method: str, path: str) -> bool:
        return fnmatchcase(method, self.method) and fnmatchcase(path, self.path)


class Proxy:
    """A context manager; `server` is the S3 server as reached through it."""

    def __init__(self, upstream: Server) -> None:
        self._upstream = upstream
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._seen: list[Seen] = []
        self._ended = threading.Event()
        self._listener = _Listener(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(_SLICE_SECONDS,), daemon=True)

    @property
    def server(self) -> Server:
        """The upstream with the proxy's port."""
        return self._upstream.at(self._listener.server_address[1])

    @property
    def seen(self) -> list[Seen]:
        """All requests that were answered until now, in that order; a client that has its answer finds its request here."""
        with self._lock:
            return list(self._seen)

    def add(self, fault: Fault, *, method: str = "*", path: str = "*", times: int | None = 1) -> threading.Event:
        """Let the next `times` (None: all) requests fail whose method and path (no query) match these glob patterns.

        Rules are tried in the order in which they were added; each request meets at most one. What is returned is set as soon
        as a request has met this one: a test that needs somebody to be in the middle of it need not guess when.
        """
        rule = _Rule(fault, method, path, times)
        with self._lock:
            self._rules.append(rule)
        return rule.met

    def clear(self) -> None:
        """Forget all rules; what was seen stays."""
        with self._lock:
            self._rules.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets, used up once more."""
        with self._lock:
            for rule in self._rules:
                if rule.matches(method, path) and rule.left != 0:
                    if rule.left is not None:
                        rule.left -= 1
                    rule.met.set()
                    return rule.fault
        return None

    def note(self, seen: Seen) -> None:
        """Remember a request."""
        with self._lock:
            self._seen.append(seen)

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> _Reply:
        """Carry the request out. Raises OSError or http.client.HTTPException when the upstream does not answer."""
        connection = http.client.HTTPConnection(self._upstream.host, self._upstream.port, timeout=300)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP and name.lower() != "content-length":
                    connection.putheader(name, value)
            if body or method in ("PUT", "POST"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            return _Reply(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def wait(self, seconds: float, gone: Callable[[], bool]) -> None:
        """Sleep until the time is over, the client is gone or the proxy ends."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not gone() and not self._ended.wait(_SLICE_SECONDS):
            pass


def nobody(server: Server) -> Server:
    """The same server on a port where nobody listens: connections are refused."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return server.at(int(one.getsockname()[1]))


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up in the middle are what this proxy is for; they are no news."""


def _handler_of(proxy: Proxy) -> type[http.server.BaseHTTPRequestHandler]:
    """A handler class that knows its proxy, as http.server wants it."""

    class Handler(_Handler):
        owner = proxy

    return Handler


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: Proxy
    _note: Callable[[int], None]

    def _serve(self) -> None:
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        body = self._body()
        fault = self.owner.take(self.command, path)
        self._note = lambda status: self.owner.note(Seen(self.command, path, query, status, fault))
        self._react(fault, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - http.server's names

    def _react(self, fault: Fault | None, body: bytes) -> None:
        match fault:
            case Answer(status, headers, code):
                self._note(status)
                self._send(_error(status, code or _CODES.get(status, "InternalError"), headers))
            case OtherRegion(region):
                self._note(301)
                self._send(_error(301, "PermanentRedirect", (("x-amz-bucket-region", region),)))
            case Refuse():
                self._note(0)
                self._hang_up()
            case Hang(seconds):
                self.owner.wait(seconds, self._client_is_gone)
                self._note(0)
                self._hang_up()
            case _:
                self._pass_on(fault, body)

    def _pass_on(self, fault: Fault | None, body: bytes) -> None:
        try:
            reply = self.owner.forward(self.command, self.path, self.headers.items(), body)
        except (OSError, http.client.HTTPException):
            self._note(0)
            self._hang_up()
            return
        self._note(reply.status)
        match fault:
            case LoseAnswer():
                self._hang_up()
            case Slow(bytes_per_second):
                self._send(reply, bytes_per_second=bytes_per_second)
            case Truncate(keep):
                self._send(reply, keep=keep)
                self._hang_up()
            case ShortLength(keep):
                self._send(_Reply(reply.status, reply.headers, reply.body[:keep]))
            case FlipBit(offset):
                self._send(_Reply(reply.status, reply.headers, _flipped(reply.body, offset)))
            case _:
                self._send(reply)

    def _send(self, reply: _Reply, *, keep: int | None = None, bytes_per_second: int = 0) -> None:
        self.send_response_only(reply.status)
        length = str(len(reply.body))
        for name, value in reply.headers:
            if self.command == "HEAD" and name.lower() == "content-length":
                length = value
            elif name.lower() not in _HOP_BY_HOP and name.lower() != "content-length":
                self.send_header(name, value)
        if reply.status not in (204, 304):
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command == "HEAD":
            return
        body = reply.body[:keep]
        if not bytes_per_second:
            self.wfile.write(body)
            return
        step = max(1, int(bytes_per_second * _SLICE_SECONDS))
        for offset in range(0, len(body), step):
            piece = body[offset : offset + step]
            self.wfile.write(piece)
            self.wfile.flush()
            self.owner.wait(len(piece) / bytes_per_second, self._client_is_gone)

    def _body(self) -> bytes:
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._chunks()
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(body)

    def _client_is_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _hang_up(self) -> None:
        """Close the connection where it is; what was sent before still arrives."""
        self.close_connection = True
        with suppress(OSError):
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Nothing on stderr: `seen` says what happened."""


def _error(status: int, code: str, headers: tuple[tuple[str, str], ...]) -> _Reply:
    region = dict(headers).get("x-amz-bucket-region", "")
    detail = f"<Region>{region}</Region>" if region else ""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>injected</Message>{detail}</Error>'.encode()
    return _Reply(status, [("Content-Type", "application/xml"), *headers], body)


def _flipped(body: bytes, offset: int) -> bytes:
    if not body:
        return body
    changed = bytearray(body)
    changed[max(-len(body), min(offset, len(body) - 1))] ^= 1
    return bytes(changed)
