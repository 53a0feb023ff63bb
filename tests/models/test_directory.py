"""A model in a directory: what is read of it, and what lies in directories but in no bucket (links, pipes, holes)."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glowplug.core.clock import Deadline
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    GlowplugError,
    UnavailableError,
    UsageError,
)
from glowplug.models import folder
from glowplug.models.contents import Model, Traffic
from glowplug.models.read import of_size, read
from lab import model as lab_model
from tests.clocks import SLACK
from tests.models import folders
from tests.models.folders import shard, shard_name


def model_in(directory: Path, seconds: float = 60.0) -> Model:
    return read(str(directory), {}, Deadline.after(seconds))


def rules(model: Model) -> list[str]:
    return [finding.rule for finding in model.findings]


def sparse(path: Path, tensors: folders.Tensors) -> int:
    """A shard whose data is a hole. Returns its size."""
    head = folders.head(folders.described(tensors))
    size = len(head) + folders.data_bytes(tensors)
    with path.open("wb") as handle:
        handle.write(head)
        handle.truncate(size)
    return size


def test_a_size_is_a_model_of_which_nothing_else_is_known() -> None:
    assert read("67GB", {}, Deadline.after(1)) == of_size(67 * 10**9, "67GB") == Model("67GB", 67 * 10**9)
    for wrong in (0, -1, 10**16):
        with pytest.raises(UsageError):
            of_size(wrong, "x")


def test_a_small_llama(tmp_path: Path) -> None:
    nbytes = lab_model.make(tmp_path, shards=3)
    found = model_in(tmp_path)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert found.source == str(tmp_path)
    assert found.weights_bytes == found.indexed_bytes == sum(file.stat().st_size for file in files)
    assert found.shards == 3
    assert found.largest_shard_bytes == max(file.stat().st_size for file in files)
    assert found.tensors == len(list(lab_model.TINY.tensors()))
    assert found.largest_tensor_bytes == 512 * 256 * 2
    assert found.parameters == nbytes // 2
    assert found.dtype == "BF16"
    assert found.shape is not None
    assert (found.shape.layers, found.shape.heads, found.shape.kv_heads) == (4, 8, 8)
    assert found.findings == ()


def test_what_reading_cost(tmp_path: Path) -> None:
    """One listing, configuration, index, three headers; bytes of the headers, not of weights."""
    lab_model.make(tmp_path, shards=3)
    cost = model_in(tmp_path).traffic
    assert cost.requests == 6
    assert 0 < cost.bytes < 100_000
    assert 0 < cost.seconds < 30


def test_140_gb_are_read_in_a_moment(tmp_path: Path) -> None:
    """Holes instead of data: sizes are real, blocks are not."""
    total, weight_map = 0, {}
    for number in range(1, 101):
        name = shard_name(number, 100)
        tensors = {f"model.layers.{number}.experts.{k}.weight": ("BF16", (7000, 10_000)) for k in range(10)}
        total += sparse(tmp_path / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    folders.write({"config.json": b"{}", "tokenizer.json": b"{}"}, tmp_path)
    (tmp_path / "model.safetensors.index.json").write_bytes(folders.index(weight_map, 140 * 10**9))
    tracemalloc.start()
    found = model_in(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.weights_bytes == found.indexed_bytes == total
    assert total > 140 * 10**9
    assert (found.shards, found.tensors, found.parameters) == (100, 1000, 70 * 10**9)
    assert found.largest_tensor_bytes == 140_000_000
    assert found.findings == ()
    assert found.traffic.requests <= 103
    assert found.traffic.bytes < 2 << 20
    assert found.traffic.seconds < 5
    assert peak < 32 << 20


def test_both_layouts_count_as_a_streamer_counts(tmp_path: Path) -> None:
    """Whoever goes by names loads twice; parameters are those of one copy."""
    files = folders.model(2)
    extra = shard({"layers.0.attention.wq.weight": ("BF16", (1000, 64))})
    found = model_in(folders.write(files | {"consolidated.safetensors": extra}, tmp_path))
    once = sum(len(data) for name, data in files.items() if name.endswith(".safetensors"))
    assert found.weights_bytes == once + len(extra)
    assert found.indexed_bytes == once
    assert (found.shards, found.tensors, found.parameters) == (3, 5, 6144)
    assert found.largest_tensor_bytes == 128_000


@pytest.mark.parametrize(
    ("tensors", "parameters", "dtype"),
    [
        ({"a": ("BF16", (10, 10))}, 100, "BF16"),
        ({"a": ("F8_E4M3", (100, 10)), "a_scale_inv": ("F32", (1, 10))}, 1010, "F8_E4M3"),
        ({"a": ("I8", (100, 10)), "scale": ("F32", (10,))}, 1010, "I8"),
        ({"a.qweight": ("I32", (100, 10)), "a.scales": ("F16", (10,))}, None, "I32"),
        ({"a.weight": ("U8", (100, 10)), "norm": ("BF16", (10,))}, None, "U8"),
        ({"a_blocks": ("U8", (100, 16)), "a_scales": ("F8_E8M0", (100,))}, None, "U8"),
        ({"a": ("F4", (100, 16)), "a_scales": ("F8_E8M0", (100,))}, 1600, "F4"),
        ({"a": ("BF16", (1000, 10)), "position_ids": ("I64", (10,))}, 10_000, "BF16"),
        ({"a": ("BF16", (10, 10)), "mask": ("BOOL", (2, 2))}, 100, "BF16"),
    ],
)
def test_parameters_are_counted_where_headers_tell(
    tmp_path: Path, tensors: folders.Tensors, parameters: int | None, dtype: str
) -> None:
    found = model_in(folders.write({"model.safetensors": shard(tensors)}, tmp_path))
    assert (found.parameters, found.dtype) == (parameters, dtype)


def test_of_a_broken_shard_only_the_size_counts(tmp_path: Path) -> None:
    files = folders.model(2)
    files[shard_name(2, 2)] = folders.head(b"[]") + bytes(500)
    found = model_in(folders.write(files, tmp_path))
    assert found.weights_bytes == sum(len(data) for name, data in files.items() if name.endswith(".safetensors"))
    assert (found.shards, found.tensors, found.parameters, found.dtype) == (2, 2, None, "BF16")
    files[shard_name(1, 2)] = b""
    found = model_in(folders.write(files, tmp_path))
    assert (found.tensors, found.largest_tensor_bytes, found.parameters, found.dtype) == (None, None, None, None)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    folders.write(folders.model(5), tmp_path)
    here = threading.get_ident()
    read(
        str(tmp_path),
        {},
        Deadline.after(30),
        progress=lambda *done: told.append(done) if threading.get_ident() == here else None,
    )
    assert told == [(number, 5) for number in range(1, 6)]


@pytest.mark.parametrize("parallel", [1, 2, 100])
def test_any_number_at_once(tmp_path: Path, parallel: int) -> None:
    folders.write(folders.model(7), tmp_path)
    found = read(str(tmp_path), {}, Deadline.after(30), parallel=parallel)
    assert (found.shards, found.tensors) == (7, 14)


# Links, pipes and other things.


def test_a_cache_of_links_is_read(tmp_path: Path) -> None:
    """The Hugging Face cache: `snapshots/<revision>/name` → `../../blobs/<digest>`."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "abc"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for number, (name, data) in enumerate(folders.model(2).items()):
        (blobs / str(number)).write_bytes(data)
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    assert model_in(snapshot).findings == ()
    assert model_in(snapshot).shards == 2
    (tmp_path / "current").symlink_to(snapshot)
    assert model_in(tmp_path / "current").shards == 2


@pytest.mark.parametrize("what", ["pipe", "directory", "broken link", "loop", "socket", "device"])
def test_what_is_called_a_shard_and_is_none(tmp_path: Path, what: str) -> None:
    folders.write(folders.model(2), tmp_path)
    place = tmp_path / "x.safetensors"
    match what:
        case "pipe":
            os.mkfifo(place)
        case "directory":
            place.mkdir()
        case "broken link":
            place.symlink_to("nowhere")
        case "loop":
            place.symlink_to("x.safetensors")
        case "device":
            place.symlink_to("/dev/zero")
        case _:
            import socket

            with socket.socket(socket.AF_UNIX) as one:
                one.bind(os.path.relpath(place))
    found = model_in(tmp_path, seconds=10)
    assert rules(found) == ["shard-not-a-file"]
    assert "x.safetensors" in found.findings[0].message
    assert found.shards == 2


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "tokenizer.json"])
def test_a_pipe_for_a_small_file_does_not_hang(tmp_path: Path, name: str) -> None:
    folders.write(folders.model(2), tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    assert model_in(tmp_path, seconds=10).shards == 2


def test_only_pipes_is_no_model(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(BadInputError) as caught:
        model_in(tmp_path)
    assert caught.value.code == "no-safetensors"
    assert "no file" in str(caught.value)


def test_a_loop_of_directories_ends(tmp_path: Path) -> None:
    folders.write(folders.model(1), tmp_path)
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "up").symlink_to("..")
    assert model_in(tmp_path).findings == ()


def test_hidden_files_are_no_weights(tmp_path: Path) -> None:
    """A glob passes them over (macOS leaves `._model.safetensors` behind)."""
    folders.write(folders.model(1) | {"._model.safetensors": b"x"}, tmp_path)
    assert (model_in(tmp_path).shards, rules(model_in(tmp_path))) == (1, [])


@pytest.mark.parametrize(
    "name", ["a b.safetensors", "ü.safetensors", "a'b.safetensors", "-rf.safetensors", "a\nb.safetensors"]
)
def test_names_of_any_kind(tmp_path: Path, name: str) -> None:
    found = model_in(folders.write({name: shard({"a": ("BF16", (4,))})}, tmp_path))
    assert found.tensors == 1
    assert all(finding.message.isprintable() for finding in found.findings)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.safetensors")).write_bytes(shard({"a": ("BF16", (4,))}))
    found = model_in(tmp_path)
    assert found.tensors == 1
    "".join(finding.message + finding.hint for finding in found.findings).encode()


def as_nobody(work: object) -> GlowplugError:
    """What `work` raises for somebody without rights."""
    user = os.geteuid()
    try:
        if user == 0:
            os.seteuid(65534)
        with pytest.raises(GlowplugError) as caught:
            work()  # type: ignore[operator]
    finally:
        os.seteuid(user)
    return caught.value


def test_a_file_that_may_not_be_read_is_named() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:  # pytest's own directories are closed to others
        directory = folders.write(folders.model(2), Path(place))
        directory.chmod(0o755)
        (directory / shard_name(2, 2)).chmod(0)
        error = as_nobody(lambda: model_in(directory))
        assert isinstance(error, AccessDeniedError)
        assert shard_name(2, 2) in str(error)
        assert error.hint
        directory.chmod(0o311)
        error = as_nobody(lambda: model_in(directory))
        assert isinstance(error, AccessDeniedError)
        directory.chmod(0o755)


def test_a_directory_below_that_may_not_be_read_is_nothing_to_an_engine() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        directory = folders.write(folders.model(1) | {"closed/x.bin": b"1"}, Path(place))
        directory.chmod(0o755)
        (directory / "closed").chmod(0)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            assert model_in(directory).findings == ()
        finally:
            os.seteuid(user)
            (directory / "closed").chmod(0o755)


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        model_in(tmp_path / "none")
    with pytest.raises(BadInputError):
        model_in(tmp_path)


def test_more_than_a_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_ENTRIES", 20)
    folders.write({f"logs/{number}": b"" for number in range(30)} | folders.model(1), tmp_path)
    with pytest.raises(BadInputError) as caught:
        model_in(tmp_path)
    assert "20" in str(caught.value)
    assert caught.value.hint


def test_a_passed_deadline(tmp_path: Path) -> None:
    folders.write(folders.model(2), tmp_path)
    with pytest.raises(UnavailableError) as caught:
        model_in(tmp_path, seconds=0)
    assert caught.value.code == "timeout"


def test_a_read_that_hangs_costs_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a dead network file system does: the call blocks in the kernel and cannot be told to stop."""
    folders.write(folders.model(3), tmp_path)
    released = threading.Event()
    pread = os.pread

    def hang(descriptor: int, length: int, start: int) -> bytes:
        released.wait(60)
        return pread(descriptor, length, start)

    monkeypatch.setattr(os, "pread", hang)
    began = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        model_in(tmp_path, seconds=0.5)
    released.set()
    assert caught.value.code == "timeout"
    assert time.monotonic() - began < 0.5 + SLACK


def test_a_shard_that_shrinks_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.write(folders.model(2), tmp_path)
    list_entries = folder.LocalDirectory.list

    def shrink(self: folder.LocalDirectory, deadline: Deadline) -> list[folder.Entry]:
        found = list_entries(self, deadline)
        (tmp_path / shard_name(1, 2)).write_bytes(b"")
        (tmp_path / shard_name(2, 2)).unlink()
        return found

    monkeypatch.setattr(folder.LocalDirectory, "list", shrink)
    assert rules(model_in(tmp_path)) == ["shard-truncated", "shard-header"]


# Any contents.

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_bytes = st.binary(max_size=60) | st.binary(max_size=60).map(folders.head)
_names = st.sampled_from(
    [
        "config.json",
        "model.safetensors.index.json",
        "model.safetensors",
        "model-00001-of-00002.safetensors",
        "consolidated.safetensors",
        "adapter_model.safetensors",
        "original/x.pth",
        "x.gguf",
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(_names, _bytes | _json.map(lambda value: str(value).encode()), max_size=6))
def test_any_folder_is_a_model_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, files: folders.Files
) -> None:
    directory = folders.write(files, tmp_path_factory.mktemp("m"))
    try:
        found = model_in(directory)
    except GlowplugError as error:
        assert error.code == "no-safetensors"
        return
    assert found.weights_bytes == sum(len(data) for name, data in files.items() if name.endswith(".safetensors"))
    assert all(finding.message.isprintable() for finding in found.findings)


def test_long_headers_are_read_one_at_a_time(tmp_path: Path) -> None:
    """Ten shards with headers of 12 MB each: memory of one, not of ten."""
    padded = folders.head(folders.described({"a": ("U8", (4,))}), pad=12_000_000) + bytes(4)
    for number in range(10):
        (tmp_path / f"{number}.safetensors").write_bytes(padded.replace(b'"a"', b'"%d"' % number))
    tracemalloc.start()
    found = model_in(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tensors == 10
    assert found.traffic.requests == 21
    assert peak < 40 << 20


def test_headers_of_a_gigabyte_in_all_are_not_read(tmp_path: Path) -> None:
    for number in range(10):
        with (tmp_path / f"{number}.safetensors").open("wb") as handle:
            handle.write((99_000_000).to_bytes(8, "little") + b"{}")
            handle.truncate(99_000_008)
    tracemalloc.start()
    found = model_in(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.tensors is None
    assert "shard-header" in rules(found)
    assert found.traffic.bytes < 300 << 20
    assert peak < 256 << 20


_LIGHT = """
import sys
from glowplug.core.clock import Deadline
from glowplug.models.read import read
read(sys.argv[1], {}, Deadline.after(10))
heavy = ("obstore", "json", "glowplug.models.from_folder", "glowplug.store.objects", "concurrent.futures", "asyncio")
print(*sorted(name for name in heavy if name in sys.modules))
"""


def test_a_size_loads_next_to_nothing(tmp_path: Path) -> None:
    folders.write(folders.model(1), tmp_path)
    for word, loaded in (("67GB", ""), (str(tmp_path), "glowplug.models.from_folder json")):
        done = subprocess.run(
            [sys.executable, "-c", _LIGHT, word],
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == loaded


def test_traffic_of_a_size_is_none() -> None:
    assert read("67GB", {}, Deadline.after(1)).traffic == Traffic()


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors.index.json"])
def test_what_is_removed_after_the_listing_was_never_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    whole, without = folders.model(2), {name: data for name, data in folders.model(2).items() if name != gone}
    kept = folders.write(without, tmp_path / "kept")
    losing = folders.write(whole, tmp_path / "losing")
    usual = folder.LocalDirectory.list

    def losing_list(self: folder.LocalDirectory, deadline: Deadline) -> list[folder.Entry]:
        found = usual(self, deadline)
        (losing / gone).unlink(missing_ok=True)
        return found

    expected = model_in(kept)
    monkeypatch.setattr(folder.LocalDirectory, "list", losing_list)
    found = model_in(losing)
    assert rules(found) == rules(expected)
    assert found.shape == expected.shape


def test_an_index_beyond_all_others_is_a_finding_and_not_read(tmp_path: Path) -> None:
    files = {**folders.model(1), "model.safetensors.index.json": b" " * ((16 << 20) + 1)}
    found = model_in(folders.write(files, tmp_path))
    assert any("more than the 16777216 that are read" in finding.message for finding in found.findings)


class Closed:
    """An entry of a directory that may be listed and not entered."""

    name = "model.safetensors"

    def stat(self) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")


def test_a_directory_that_may_be_listed_and_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def scandir(_: object) -> Iterator[list[Closed]]:
        yield [Closed()]

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(AccessDeniedError, match=r"model\.safetensors: Permission denied") as caught:
        model_in(tmp_path)
    assert "enter its directory" in caught.value.hint
