"""The S3 server of the laboratory: real enough to be believed, and gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import s3
from tests.parts import requires
from tests.supervise.machine import AS_AT_LOGIN

pytestmark = requires("s3")


@pytest.fixture(scope="module")
def server() -> Iterator[s3.Server]:
    with s3.serve(["cache"]) as running:
        yield running


def test_what_was_put_is_got_and_listed(server: s3.Server) -> None:
    assert server.request("PUT", "/cache/a/b", b"content")[0] == 200
    assert server.request("GET", "/cache/a/b") == (200, b"content")
    assert b"<Key>a/b</Key>" in server.request("GET", "/cache", query="list-type=2&prefix=a%2F")[1]


def test_wrong_keys_are_refused(server: s3.Server) -> None:
    status, body = server.with_keys(s3.WRONG).request("GET", "/cache")
    assert status == 403
    assert b"SignatureDoesNotMatch" in body


def test_a_reader_may_read_and_not_write(server: s3.Server) -> None:
    server.request("PUT", "/cache/readable", b"x")
    reader = server.with_keys(s3.READER)
    assert reader.request("GET", "/cache/readable") == (200, b"x")
    assert reader.request("PUT", "/cache/readable", b"y")[0] == 403


def test_a_guest_may_do_what_the_policy_says_and_no_more(server: s3.Server) -> None:
    guest = server.with_keys(s3.GUEST)
    server.make_bucket("guarded")
    server.request("PUT", "/guarded/open/x", b"1")
    server.request("PUT", "/guarded/shut/x", b"1")
    assert guest.request("GET", "/guarded/open/x")[0] == 403
    everybody = {"Effect": "Allow", "Principal": "*"}
    listing = {"StringLike": {"s3:prefix": "open/*"}}
    server.set_policy(
        "guarded",
        [
            {**everybody, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::guarded/open/*"},
            {**everybody, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::guarded", "Condition": listing},
        ],
    )
    assert guest.request("GET", "/guarded/open/x") == (200, b"1")
    assert guest.request("GET", "/guarded", query="list-type=2&prefix=open%2F")[0] == 200
    refused = [
        guest.request("GET", "/guarded/shut/x"),
        guest.request("PUT", "/guarded/open/x", b"2"),
        guest.request("DELETE", "/guarded/open/x"),
        guest.request("GET", "/guarded", query="list-type=2&prefix=shut%2F"),
        guest.request("GET", "/guarded", query="list-type=2"),
    ]
    assert [status for status, _ in refused] == [403] * 5


def test_it_listens_on_the_loopback_address_only(server: s3.Server) -> None:
    listening = _listening_addresses(_pids_of_weed(server))
    assert listening
    assert {address for address in listening if not address.startswith("0100007F:")} == set()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_without_leftovers_when_its_starter_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    before = {path for path in Path("/tmp").iterdir() if path.name.startswith("seaweedfs-")}
    code = "import sys, time\nfrom lab import s3\nfrom pathlib import Path\n"
    code += (
        "with s3.serve(directory=Path(sys.argv[1])) as server:\n  print(server.port, flush=True)\n  time.sleep(600)\n"
    )
    command = [*AS_AT_LOGIN, sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=-3) as starter:
        assert starter.stdout is not None
        server = s3.Server(int(starter.stdout.readline()))
        pids = _pids_of_weed(server)
        starter.send_signal(how)
        try:
            starter.wait(60)
        finally:
            starter.kill()
    assert pids
    _eventually(lambda: not any(_runs(pid) for pid in pids))
    _eventually(lambda: not list(tmp_path.iterdir()))
    after = {path for path in Path("/tmp").iterdir() if path.name.startswith("seaweedfs-")}
    assert not [path for path in after - before if _is_of(path, server)]


def _is_of(path: Path, server: s3.Server) -> bool:
    """Sockets of servers that other tests run at the same time are not this one's leftovers."""
    return str(server.port) in path.name


def _eventually(holds: object, seconds: float = 60) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def _pids_of_weed(server: s3.Server) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if f"-s3.port={server.port}\0".encode() in command and b"weed" in command.split(b"\0")[0]:
                found.append(int(entry.name))
    return found


def _listening_addresses(pids: list[int]) -> list[str]:
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                sockets.add(str(descriptor.readlink()))
            except OSError:
                continue
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                addresses.append(fields[1])
    return addresses
