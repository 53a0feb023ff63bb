"""An instance metadata service that has the S3 server's keys for a role, or has none yet, as right after a node's boot."""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType
from typing import Self

from lab import s3

_ROLE = "node-role"
_FOLDER = "/latest/meta-data/iam/security-credentials/"


class Service:
    """A context manager; `ready` says whether the role is there yet, `asked` how often a client was told that it is not."""

    def __init__(self, keys: s3.Keys) -> None:
        self.ready = True
        self.asked = 0
        self._keys = keys
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def server(self) -> s3.Server:
        """Where it listens, in the form that `Cluster.expose` takes."""
        return s3.Server(self._server.server_port)

    def env(self, reached: s3.Server) -> dict[str, str]:
        """The variables by which a client finds it, and no keys beside it."""
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{reached.host}:{reached.port}"}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str) -> tuple[int, str]:
        if not self.ready:
            self.asked += 1
            return 404, "not yet"
        if path == _FOLDER:
            return 200, _ROLE
        return 200, json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": self._keys.access,
                "SecretAccessKey": self._keys.secret,
                "Token": "",
                "Expiration": "2100-01-01T00:00:00Z",
            }
        )

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self._send(200, "token")

            def do_GET(self) -> None:
                self._send(*service._answer(self.path))

            def _send(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        return Handler
