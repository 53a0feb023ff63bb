"""A model in a bucket of a real S3 server: how little is asked, how many at once, and what is said when the server refuses."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from glowplug.core.clock import Deadline
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    GlowplugError,
    NotFoundError,
    UnavailableError,
)
from glowplug.models import folder
from glowplug.models.contents import Model
from glowplug.models.read import read
from glowplug.store.schemes import open_store
from lab import faults, s3
from lab.faults import Proxy, nobody
from tests.clocks import SLACK
from tests.models import folders
from tests.models.folders import Files, shard, shard_name
from tests.parts import requires

pytestmark = requires("s3")

SHARDS = 100


@pytest.fixture
def url(s3_server: s3.Server) -> str:
    """A place in the bucket that nothing lies in yet."""
    return f"s3://lab/{secrets.token_hex(8)}"


@pytest.fixture
def model(url: str, s3_server: s3.Server) -> str:
    """The address of a sound model of five shards."""
    folders.put(folders.model(5), open_store(url, s3_server.env()))
    return url


def model_at(url: str, server: s3.Server, seconds: float = 60.0) -> Model:
    return read(url, server.env(), Deadline.after(seconds))


def rules(model: Model) -> list[str]:
    return [finding.rule for finding in model.findings]


def fails(url: str, server: s3.Server, seconds: float = 60.0) -> GlowplugError:
    """The error, which comes by the deadline."""
    began = time.monotonic()
    with pytest.raises(GlowplugError) as caught:
        model_at(url, server, seconds)
    assert time.monotonic() - began < seconds + SLACK
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value


class Watching(Proxy):
    """A proxy that counts what it carries (before it answers), at once and in all, and takes `delay` seconds for each request.

    A listing's sizes become those that `sizes` has: a bucket of 140 GB without the bytes.
    """

    def __init__(self, upstream: s3.Server, delay: float = 0.0, sizes: dict[str, int] | None = None) -> None:
        super().__init__(upstream)
        self._delay = delay
        self._sizes = sizes or {}
        self._counting = threading.Lock()
        self._now = 0
        self.most = 0
        self.bytes = 0
        self.asked: Counter[str] = Counter()

    @property
    def requests(self) -> int:
        return self.asked.total()

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> faults._Reply:
        with self._counting:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked["LIST" if "list-type" in target else target.rpartition("/")[2]] += 1
        try:
            time.sleep(self._delay)
            reply = super().forward(method, target, headers, body)
        finally:
            with self._counting:
                self._now -= 1
        if "list-type" in target:
            return faults._Reply(reply.status, reply.headers, self._claimed(reply.body))
        with self._counting:
            self.bytes += len(reply.body)
        return reply

    def _claimed(self, listing: bytes) -> bytes:
        def claim(found: re.Match[str]) -> str:
            size = self._sizes.get(found[2].rpartition("/")[2])
            return found[0] if size is None else f"{found[1]}<Key>{found[2]}</Key>{found[3]}<Size>{size}</Size>"

        pattern = r"(<Contents>)<Key>([^<]*)</Key>((?:(?!</Contents>).)*?)<Size>\d+</Size>"
        return re.sub(pattern, claim, listing.decode(), flags=re.DOTALL).encode()


@pytest.fixture
def watching(s3_server: s3.Server) -> Iterator[Watching]:
    with Watching(s3_server) as one:
        yield one


@pytest.fixture(scope="module")
def large(s3_server: s3.Server) -> tuple[str, dict[str, int]]:
    """100 shards that claim 140 GB, and what each of them claims. Really there are 128 KiB of each: headers, and some data."""
    url = f"s3://lab/{secrets.token_hex(8)}"
    files: Files = {"config.json": b"{}", "tokenizer.json": b"{}"}
    sizes: dict[str, int] = {}
    weight_map: dict[str, str] = {}
    for number in range(1, SHARDS + 1):
        name = shard_name(number, SHARDS)
        tensors = {f"model.layers.{number}.mlp.experts.{k}.weight": ("BF16", (7000, 10_000)) for k in range(10)}
        head = folders.head(folders.described(tensors))
        files[name] = head.ljust(128 << 10, b"\0")
        sizes[name] = len(head) + folders.data_bytes(tensors)
        weight_map |= dict.fromkeys(tensors, name)
    files["model.safetensors.index.json"] = folders.index(weight_map, 140 * 10**9)
    folders.put(files, open_store(url, s3_server.env()))
    return url, sizes


def test_140_gb_by_their_headers(large: tuple[str, dict[str, int]], s3_server: s3.Server) -> None:
    url, sizes = large
    with Watching(s3_server, delay=0.02, sizes=sizes) as proxy:
        found = model_at(url, proxy.server)
        assert found.weights_bytes == found.indexed_bytes == sum(sizes.values()) > 140 * 10**9
        assert (found.shards, found.tensors, found.parameters) == (SHARDS, 1000, 70 * 10**9)
        assert (found.largest_tensor_bytes, found.largest_shard_bytes) == (140_000_000, max(sizes.values()))
        assert found.findings == ()
        assert proxy.asked == Counter(
            {"LIST": 1, "config.json": 1, "model.safetensors.index.json": 1} | dict.fromkeys(sizes, 1)
        )
        assert found.traffic.requests == proxy.requests == SHARDS + 3
        assert found.traffic.bytes == proxy.bytes < 2 << 20
        assert proxy.most > 8


def test_without_an_index_one_request_a_shard_is_enough_too(
    large: tuple[str, dict[str, int]], s3_server: s3.Server
) -> None:
    url, sizes = large
    with Watching(s3_server, sizes=sizes) as proxy:
        proxy.add(faults.FlipBit(0), path="*index.json", times=None)  # no JSON any more
        found = model_at(url, proxy.server)
    assert "index-unusable" in rules(found)
    assert found.weights_bytes == sum(sizes.values())
    assert max(proxy.asked[name] for name in sizes) == 1
    assert proxy.bytes < 8 << 20


def test_a_hundred_shards_take_a_moment(large: tuple[str, dict[str, int]], s3_server: s3.Server) -> None:
    url, _ = large
    model_at(url, s3_server)
    best = min(model_at(url, s3_server).traffic.seconds for _ in range(3))
    assert best < 2


def test_a_long_header_takes_two_requests(url: str, s3_server: s3.Server, watching: Watching) -> None:
    names = [f"model.layers.{k}.mlp.experts.{k}.down_proj.weight" for k in range(3000)]
    files = {
        shard_name(number, 4): shard({f"{number}.{name}": ("BF16", (2,)) for name in names}) for number in range(1, 5)
    }
    assert all(len(data) > 300_000 for data in files.values())
    folders.put(files | {"config.json": b"{}"}, open_store(url, s3_server.env()))
    found = model_at(url, watching.server)
    assert (found.shards, found.tensors) == (4, 12_000)
    assert {watching.asked[name] for name in files} == {2}
    assert found.traffic.requests == watching.requests
    assert found.traffic.bytes == watching.bytes


def test_an_index_that_lies_costs_one_request_more(url: str, s3_server: s3.Server, watching: Watching) -> None:
    tensors = {f"model.layers.{k}.mlp.experts.{k}.down_proj.weight": ("BF16", (2,)) for k in range(1000)}
    files = {"model.safetensors": shard(tensors), "config.json": b"{}", "tokenizer.json": b"{}"}
    files["model.safetensors.index.json"] = folders.index({next(iter(tensors)): "model.safetensors"}, 4000)
    folders.put(files, open_store(url, s3_server.env()))
    found = model_at(url, watching.server)
    assert found.tensors == 1000
    assert watching.asked["model.safetensors"] == 2


def test_a_listing_of_pages_counts_its_pages(model: str, s3_server: s3.Server, watching: Watching) -> None:
    store = open_store(model, s3_server.env())
    threads = [
        threading.Thread(target=folders.put, args=({f".git/o/{k}": b"" for k in range(part, 1300, 8)}, store))
        for part in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = model_at(model, watching.server)
    assert watching.asked["LIST"] == 2
    assert found.traffic.requests == watching.requests == 2 + 2 + 5
    assert "in 1300 files" in found.findings[0].message


def test_more_than_a_model_is_refused(model: str, s3_server: s3.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_ENTRIES", 6)
    error = fails(model, s3_server)
    assert isinstance(error, BadInputError)
    assert "6" in str(error)


# Addresses.


@pytest.mark.parametrize("spelling", ["{}", "{}/", "{}//"])
def test_a_trailing_slash_changes_nothing(model: str, s3_server: s3.Server, spelling: str) -> None:
    found = model_at(spelling.format(model), s3_server)
    assert (found.source, found.shards, found.findings) == (model, 5, ())


def test_capitals_are_read_and_told(model: str, s3_server: s3.Server) -> None:
    found = model_at(model.replace("s3:", "S3:"), s3_server)
    assert (found.source, found.shards) == (model, 5)
    assert [(finding.rule, finding.severity) for finding in found.findings] == [("scheme-case", "error")]


def test_a_whole_bucket_can_be_a_model(s3_server: s3.Server) -> None:
    bucket = f"m-{secrets.token_hex(8)}"
    s3_server.make_bucket(bucket)
    folders.put(folders.model(3), open_store(f"s3://{bucket}", s3_server.env()))
    for spelling in (f"s3://{bucket}", f"s3://{bucket}/"):
        found = model_at(spelling, s3_server)
        assert (found.source, found.shards, found.findings) == (f"s3://{bucket}", 3, ())


def test_a_neighbour_of_a_like_name_is_another_model(model: str, s3_server: s3.Server) -> None:
    folders.put(folders.model(2), open_store(f"{model}-instruct", s3_server.env()))
    assert model_at(model, s3_server).shards == 5


def test_what_lies_beside_is_told(model: str, s3_server: s3.Server) -> None:
    extra = {
        "original/consolidated.00.pth": bytes(1000),
        ".git/config": bytes(10),
        "onnx/model.onnx": bytes(100),
        "consolidated.safetensors": shard({"w": ("BF16", (4,))}),
    }
    folders.put(extra, open_store(model, s3_server.env()))
    found = model_at(model, s3_server)
    assert rules(found) == ["consolidated-twice", "ignorable-bytes", "ignorable-bytes", "ignorable-bytes"]
    assert [finding.hint for finding in found.findings] == [
        f"aws s3 rm {model}/consolidated.safetensors",
        *(f"aws s3 rm --recursive {model}/{name}/" for name in (".git", "onnx", "original")),
    ]
    assert found.weights_bytes == (found.indexed_bytes or 0) + len(extra["consolidated.safetensors"])


def test_names_that_a_store_does_not_read(model: str, s3_server: s3.Server) -> None:
    """The engine's listing takes them; only their sizes are known then."""
    path = model.removeprefix("s3:/")
    data = shard({"w": ("BF16", (4,))})
    assert s3_server.request("PUT", f"{path}/a b.safetensors", data)[0] == 200
    found = model_at(model, s3_server)
    assert rules(found) == ["shard-name", "shard-unindexed"]
    assert (found.shards, found.tensors) == (6, 10)
    assert found.weights_bytes == (found.indexed_bytes or 0) + len(data)


def test_markers_of_folders_are_nothing(model: str, s3_server: s3.Server) -> None:
    path = model.removeprefix("s3:/")
    for marker in ("", "sub/"):
        assert s3_server.request("PUT", f"{path}/{marker}")[0] == 200
    assert model_at(model, s3_server).findings == ()


# Refusals and outages.


def test_nothing_is_there(url: str, s3_server: s3.Server) -> None:
    error = fails(url, s3_server)
    assert isinstance(error, NotFoundError)
    assert url in str(error)


def test_no_weights_are_there(url: str, s3_server: s3.Server) -> None:
    folders.put({"pytorch_model.bin": b"x", "config.json": b"{}"}, open_store(url, s3_server.env()))
    error = fails(url, s3_server)
    assert (type(error), error.code) == (BadInputError, "no-safetensors")


def test_a_bucket_that_is_not_there(s3_server: s3.Server) -> None:
    error = fails(f"s3://no-{secrets.token_hex(8)}/m", s3_server)
    assert (type(error), error.code) == (AccessDeniedError, "no-bucket")


def test_wrong_keys(model: str, s3_server: s3.Server) -> None:
    error = fails(model, s3_server.with_keys(s3.WRONG))
    assert (type(error), error.code) == (AccessDeniedError, "access-denied")
    assert s3.WRONG.secret not in str(error)


def test_a_reader_is_enough(model: str, s3_server: s3.Server) -> None:
    assert model_at(model, s3_server.with_keys(s3.READER)).shards == 5


def test_no_credentials(model: str, s3_server: s3.Server) -> None:
    environ = {name: value for name, value in s3_server.env().items() if "KEY" not in name}
    with pytest.raises(AccessDeniedError) as caught:
        read(model, environ, Deadline.after(10))
    assert caught.value.code == "no-credentials"
    assert caught.value.hint


def test_another_region_is_named(model: str, proxy: Proxy) -> None:
    proxy.add(faults.OtherRegion("eu-central-1"), times=None)
    error = fails(model, proxy.server)
    assert (error.code, error.hint) == ("wrong-region", "set AWS_REGION=eu-central-1")
    assert "eu-central-1" in str(error)


def test_nobody_is_there(model: str, s3_server: s3.Server) -> None:
    error = fails(model, nobody(s3_server), seconds=8)
    assert (type(error), error.code) == (UnavailableError, "unavailable")


@pytest.mark.parametrize("path", ["*config.json", "*index.json", "*-00003-of-00005.safetensors"])
def test_one_object_that_may_not_be_read_is_named(model: str, proxy: Proxy, path: str) -> None:
    proxy.add(faults.Answer(403), path=path, times=None)
    error = fails(model, proxy.server)
    assert (type(error), error.code) == (AccessDeniedError, "access-denied")
    assert path.lstrip("*") in str(error)


def test_a_listing_that_is_not_allowed(model: str, proxy: Proxy) -> None:
    """GetObject without ListBucket."""
    proxy.add(faults.Answer(403), times=None)
    error = fails(model, proxy.server)
    assert (type(error), error.code) == (AccessDeniedError, "access-denied")
    assert "listing" in str(error)


@pytest.mark.parametrize(
    "fault", [faults.Answer(503), faults.Refuse(), faults.Truncate(3), faults.ShortLength(3)], ids=str
)
def test_a_burst_of_faults_is_waited_out(model: str, proxy: Proxy, fault: faults.Fault) -> None:
    proxy.add(fault, path="*.safetensors", times=8)
    proxy.add(fault, path="*.json", times=2)
    found = model_at(model, proxy.server)
    assert (found.shards, found.tensors, found.findings) == (5, 10, ())
    assert found.traffic.requests == 8 + 10


def test_a_listing_that_is_throttled_is_waited_out(model: str, proxy: Proxy) -> None:
    proxy.add(faults.Answer(503), times=3)
    assert model_at(model, proxy.server).shards == 5


def test_a_server_that_stays_busy(model: str, proxy: Proxy) -> None:
    proxy.add(faults.Answer(503), path="*.safetensors", times=None)
    error = fails(model, proxy.server, seconds=8)
    assert isinstance(error, UnavailableError)
    assert "503" in str(error)


@pytest.mark.parametrize("path", ["*", "*config.json", "*-00002-of-00005.safetensors"])
@pytest.mark.parametrize("fault", [faults.Hang(), faults.Slow(10)], ids=["hangs", "slow"])
def test_the_deadline_holds(model: str, proxy: Proxy, fault: faults.Fault, path: str) -> None:
    proxy.add(fault, path=path, times=None)
    error = fails(model, proxy.server, seconds=1.5)
    assert (type(error), error.code) == (UnavailableError, "timeout")


def test_a_refusal_does_not_wait_for_what_hangs(model: str, proxy: Proxy) -> None:
    proxy.add(faults.Answer(403), path="*-00003-of-00005.safetensors", times=None)
    proxy.add(faults.Hang(), path="*.safetensors", times=None)
    began = time.monotonic()
    assert fails(model, proxy.server, seconds=30).code == "access-denied"
    assert time.monotonic() - began < 20


def test_what_hangs_does_not_keep_the_process(model: str, proxy: Proxy) -> None:
    proxy.add(faults.Hang(), path="*.safetensors", times=None)
    program = (
        "import os, sys\n"
        "from glowplug.core.clock import Deadline\n"
        "from glowplug.core.errors import UnavailableError\n"
        "from glowplug.models.read import read\n"
        "try:\n"
        "    read(sys.argv[1], os.environ, Deadline.after(1))\n"
        "except UnavailableError as error:\n"
        "    print(error.code)\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, model],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **proxy.server.env()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "timeout", "")
    assert time.monotonic() - began < 1 + 3 * SLACK


def test_a_server_that_never_speaks(s3_server: s3.Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = fails("s3://lab/m", s3_server.at(listener.getsockname()[1]), seconds=1)
    assert error.code == "timeout"


class Rangeless(Proxy):
    """A proxy before a server that sends whole objects, whatever part was asked for."""

    def forward(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> faults._Reply:
        if "list-type" in target:
            return super().forward(method, target, headers, body)
        status, answer = self._upstream.request(method, target)
        return faults._Reply(status, [("ETag", '"a"'), ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")], answer)


def test_a_server_that_ignores_ranges_is_named_at_once(model: str, s3_server: s3.Server) -> None:
    with Rangeless(s3_server) as proxy:
        error = fails(model, proxy.server)
    assert (type(error), error.code) == (UnavailableError, "no-ranges")


@pytest.mark.parametrize("offset", [0, 4, 9, 20, -1])
def test_a_flipped_bit_is_never_a_traceback(model: str, proxy: Proxy, offset: int) -> None:
    proxy.add(faults.FlipBit(offset), path="*.safetensors", times=None)
    proxy.add(faults.FlipBit(offset), path="*.json", times=None)
    found = model_at(model, proxy.server)
    assert found.shards == 5
    assert found.findings
