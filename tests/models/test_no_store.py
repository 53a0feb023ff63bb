"""What answers for a bucket and is no object store: a portal to sign in at answers every question with a page."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import NotFoundError, UnavailableError
from glowplug.models.read import read

PAGE = b"<html><body>Sign in</body></html>"
EMPTY = (
    b'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<IsTruncated>false</IsTruncated></ListBucketResult>"
)


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with `PAGE`; a listing as an empty bucket does and an object with 404 where `is_store`."""

    is_store = False

    def do_GET(self) -> None:
        listing = "list-type" in self.path
        status, body = (200, PAGE) if not self.is_store else (200, EMPTY) if listing else (404, b"")
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    server.shutdown()
    server.server_close()


def test_a_page_is_no_empty_bucket(environ: dict[str, str]) -> None:
    with pytest.raises(UnavailableError, match="what answers is no object store"):
        read("s3://bucket/model", environ, Deadline.after(20))


def test_an_empty_bucket_is_one(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "is_store", True)
    with pytest.raises(NotFoundError, match="s3://bucket/model holds nothing"):
        read("s3://bucket/model", environ, Deadline.after(20))
