"""The part of a kubelet that an API server asks for a container's log, for pods that run nowhere."""

from __future__ import annotations

import contextlib
import ssl
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from glowplug.core.clock import iso
from glowplug.starts.moments import MomentReader
from lab import kube

LOGS = Path(__file__).parent / "logs"
_NOW = 1_796_169_600.0


@dataclass
class Kubelet:
    """A node of this name, and what its containers wrote: {(pod, previous): lines with their moments}."""

    node: str
    port: int
    logs: dict[tuple[str, bool], str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    """Pods whose kubelet hangs up, as one of a node that is not ready."""


def log_from(name: str, begins: float) -> str:
    """A recorded log as kubelet keeps it: each line with its moment, the first at `begins` (seconds since the epoch)."""
    reader = MomentReader(_NOW)
    lines = []
    first = last = None
    for text in (LOGS / name).read_text().splitlines():
        moment = reader.read(text).moment
        last = moment if moment is not None else last
        first = last if first is None else first
        lines.append(f"{iso(begins + (last or 0.0) - (first or 0.0))} {text}\n")
    return "".join(lines)


@contextlib.contextmanager
def serving(server: kube.Server, node: str, labels: Mapping[str, str] | None = None) -> Iterator[Kubelet]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            asked = dict(urllib.parse.parse_qsl(query))
            _, _, _, pod, _ = path.split("/")
            if pod in kubelet.away:
                return
            text = kubelet.logs.get((pod, asked.get("previous") == "true"))
            assert asked["timestamps"] == "true"
            data = f"no log of {pod}".encode() if text is None else text.encode()[: int(asked["limitBytes"])]
            self.send_response(400 if text is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.files.server, server.files.server_key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    kubelet = Kubelet(node, listening.server_address[1])
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": dict(labels or {})}}
    server.admin.create(document)
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    endpoint = {"kubeletEndpoint": {"Port": kubelet.port}}
    server.admin.patch(
        document, {"status": {"addresses": addresses, "daemonEndpoints": endpoint}}, subresource="status"
    )
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield kubelet
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
