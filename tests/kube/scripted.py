"""An API server whose answers a test writes, for those that a real one cannot be made to give."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass
class Asked:
    """One request, and the way to answer it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    handler: BaseHTTPRequestHandler = field(repr=False)

    def answer(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.handler.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        with contextlib.suppress(OSError):
            self.handler.wfile.write(data)

    def begin(self) -> None:
        """The head of an answer without end; it ends with the connection."""
        self.handler.send_response(200)
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()

    def tell(self, kind: str, item: object) -> None:
        with contextlib.suppress(OSError):
            self.handler.wfile.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            self.handler.wfile.flush()


@dataclass
class Scripted:
    """A server under way: where it is, and what it was asked."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def kubeconfig(self, directory: Path, **user: Any) -> str:
        path = directory / "config"
        path.write_text(
            json.dumps(
                {
                    "current-context": "c",
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": user}],
                }
            )
        )
        return str(path)


@contextlib.contextmanager
def serving(answer: Callable[[Scripted, Asked], None]) -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            body = self.headers.get("Content-Length")
            if body:
                self.rfile.read(int(body))
            path, _, query = self.path.partition("?")
            one = Asked(self.command, path, dict(urllib.parse.parse_qsl(query)), dict(self.headers), self)
            scripted.asked.append(one)
            answer(scripted, one)

        do_POST = do_PATCH = do_GET  # noqa: N815

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *args: object) -> None: ...

    server = Server(("127.0.0.1", 0), Handler)
    scripted = Scripted(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        scripted.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def listed(*names: str, version: str = "5", more: str = "") -> dict[str, Any]:
    """A list of pods."""
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return {"kind": "PodList", "metadata": metadata, "items": [pod(name) for name in names]}


def pod(name: str, version: str = "5") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": version}}


def status(code: int, message: str, reason: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
