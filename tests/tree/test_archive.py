"""An archive is the tree it was made of, and nothing else is an archive."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glowplug.core.errors import BadInputError, ConflictError, IntegrityError
from glowplug.tree import archive, paths
from glowplug.tree.index import scan
from glowplug.tree.model import File, Index, Limits
from tests.tree import trees


def packed(root: Path, index: Index | None = None) -> bytes:
    out = io.BytesIO()
    archive.pack(root, list((index or scan(root)).files.values()), out)
    return out.getvalue()


def travelled(item: File) -> File:
    return dataclasses.replace(item, mode=paths.travelling_mode(item.mode))


@settings(max_examples=80, deadline=None)
@given(tree=trees.TREES)
def test_pack_and_unpack_are_the_identity(tree: dict[str, tuple[bytes, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        trees.write(before, tree)
        index = scan(before)
        data = packed(before, index)
        after = Path(folder) / "after"
        table = archive.unpack(io.BytesIO(data), after)
        assert table == tuple(travelled(item) for item in index.files.values())
        assert tuple(scan(after).files.values()) == table
        assert packed(after) == data


def test_equal_input_gives_equal_bytes_in_any_order(tmp_path: Path) -> None:
    trees.simple(tmp_path, b="2", a="1", c__d="3")
    files = list(scan(tmp_path).files.values())
    one, other = io.BytesIO(), io.BytesIO()
    archive.pack(tmp_path, files, one)
    archive.pack(tmp_path, files[::-1], other)
    assert one.getvalue() == other.getvalue()


def test_a_reader_that_trickles_changes_nothing(tmp_path: Path) -> None:
    trees.simple(tmp_path / "a", x="x" * 5000, y__z="")

    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size if size is not None and size >= 0 else 7))

    data = packed(tmp_path / "a")
    assert archive.unpack(Trickle(data), tmp_path / "b") == tuple(map(travelled, scan(tmp_path / "a").files.values()))


def test_tar_reads_what_we_write(tmp_path: Path) -> None:
    long = "/".join(["d" * 100] * 9)
    trees.write(tmp_path / "a", {"x": (b"x", 0o644, 7 * 10**9), long: (b"long", 0o644, 0), "語": (b"", 0o755, 1)})
    (tmp_path / "b").mkdir()
    done = subprocess.run(
        ["tar", "-x", "--warning=no-timestamp"], cwd=tmp_path / "b", input=packed(tmp_path / "a"), capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "b" / long).read_bytes() == b"long"
    assert (tmp_path / "b" / "x").stat().st_mtime_ns == 7 * 10**9
    assert {path: item.sha256 for path, item in scan(tmp_path / "b").files.items()} == {
        path: item.sha256 for path, item in scan(tmp_path / "a").files.items()
    }


def test_modes_become_usable_by_any_uid_of_group_0(tmp_path: Path) -> None:
    modes = {"plain": 0o600, "program": 0o700, "open": 0o666, "read": 0o444, "setuid": 0o4755}
    trees.write(tmp_path / "a", {name: (b"", mode, 0) for name, mode in modes.items()} | {"d/f": (b"", 0o600, 0)})
    archive.unpack(io.BytesIO(packed(tmp_path / "a")), tmp_path / "b")
    found = {path: f"{item.mode:o}" for path, item in scan(tmp_path / "b").files.items()}
    assert found == {
        "plain": "660", "program": "770", "open": "664", "read": "444", "setuid": "775", "d/f": "660",
    }  # fmt: skip
    assert (tmp_path / "b" / "d").stat().st_mode & 0o777 == 0o775


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda place: place.write_bytes(b"longer than before"),
    "shrunk": lambda place: place.write_bytes(b""),
    "same size": lambda place: place.write_bytes(b"DATA"),
    "touched": lambda place: os.utime(place, ns=(1, 1)),
    "gone": lambda place: place.unlink(),
    "a link": lambda place: (place.unlink(), place.symlink_to("/etc/hostname")),
    "a directory": lambda place: (place.unlink(), place.mkdir()),
    "a fifo": lambda place: (place.unlink(), os.mkfifo(place)),
}


class TestATreeThatChanges:
    """`pack` writes what the index says, or nothing that anybody keeps."""

    @pytest.mark.parametrize("change", CHANGES)
    def test_is_refused(self, tmp_path: Path, change: str) -> None:
        trees.simple(tmp_path, d__f="data", other="o")
        index = scan(tmp_path)
        CHANGES[change](tmp_path / "d" / "f")
        with pytest.raises(ConflictError) as caught:
            packed(tmp_path, index)
        assert caught.value.code == "tree-changing"

    def test_a_folder_that_became_a_link_is_not_followed(self, tmp_path: Path) -> None:
        trees.simple(tmp_path / "elsewhere", f="data")
        trees.simple(tmp_path / "root", d__f="data")
        index = scan(tmp_path / "root")
        (tmp_path / "root" / "d" / "f").unlink()
        (tmp_path / "root" / "d").rmdir()
        (tmp_path / "root" / "d").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ConflictError):
            packed(tmp_path / "root", index)


class TestWhatMustNotLeave:
    def test_rewritten_files_have_their_new_bytes_and_digest(self, tmp_path: Path) -> None:
        trees.simple(tmp_path / "a", meta_dot_json='{"key": "hunter22"}', other="hunter")
        out = io.BytesIO()
        archive.pack(
            tmp_path / "a",
            list(scan(tmp_path / "a").files.values()),
            out,
            rewrite=lambda path, data: data.replace(b"hunter22", b"sha256:0") if path.endswith(".json") else data,
            secrets={"VLLM_API_KEY": b"hunter22"},
        )
        archive.unpack(io.BytesIO(out.getvalue()), tmp_path / "b")
        assert (tmp_path / "b" / "meta.json").read_text() == '{"key": "sha256:0"}'

    @pytest.mark.parametrize("at", [0, 1, (1 << 20) - 4, (1 << 20) - 1, 1 << 20, 2_000_000])
    def test_a_secret_is_found_at_every_place_also_over_the_seam_of_two_reads(self, tmp_path: Path, at: int) -> None:
        (tmp_path / "big").write_bytes(b"x" * at + b"hunter22" + b"y" * 100)
        with pytest.raises(BadInputError) as caught:
            archive.pack(
                tmp_path, list(scan(tmp_path).files.values()), io.BytesIO(), secrets={"VLLM_API_KEY": b"hunter22"}
            )
        assert caught.value.code == "secret-found"
        assert "VLLM_API_KEY" in caught.value.message
        assert "hunter22" not in caught.value.message

    @pytest.mark.parametrize("path", ["hunter22", "d/xhunter22.so", "hunter22/file"])
    def test_a_secret_is_found_in_a_name(self, tmp_path: Path, path: str) -> None:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
        out = io.BytesIO()
        with pytest.raises(BadInputError) as caught:
            archive.pack(tmp_path, list(scan(tmp_path).files.values()), out, secrets={"VLLM_API_KEY": b"hunter22"})
        assert caught.value.code == "secret-found"
        assert "VLLM_API_KEY" in caught.value.message
        assert "hunter22" not in caught.value.message
        assert out.getvalue() == b""


# --- hostile archives: name → bytes, made by code -------------------------------------------------------------------

_DATA = b"payload"
_DIGEST = hashlib.sha256(_DATA).hexdigest()


def _row(path: str = "a/f", **changes: object) -> dict[str, object]:
    return {"path": path, "size": len(_DATA), "sha256": _DIGEST, "mode": 0o664, "mtime_ns": 10**9, **changes}


def _table(data: bytes) -> bytes:
    return archive._table_header(data) + data + bytes(-len(data) % 512)


def _table_of_size(size: int) -> bytes:
    return archive._ustar(b".glowplug/files-" + b"0" * 64 + b".json", b"", size, 0o644, 0, b"0") + bytes(512)


def _json(rows: list[dict[str, object]], **extra: object) -> bytes:
    from glowplug.core import canonical

    return canonical.encode({"schema": archive.SCHEMA, "files": rows, **extra})


def _member(path: str = "a/f", data: bytes = _DATA, *, kind: bytes = b"0", link: bytes = b"", **fields: int) -> bytes:
    head = bytearray(archive._ustar(path.encode()[:100], b"", fields.get("size", len(data)), 0o664, 1, kind))
    if link:
        head[157 : 157 + len(link)] = link
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data + bytes(-len(data) % 512)


_END = bytes(1024)


def _archive(rows: list[dict[str, object]], *members: bytes, end: bytes = _END) -> bytes:
    return _table(_json(rows)) + b"".join(members) + end


def _pax(record: bytes) -> bytes:
    return archive._ustar(b"pax", b"", len(record), 0o644, 0, b"x") + record + bytes(-len(record) % 512)


def _good() -> bytes:
    return _archive([_row()], _member())


def _hostile() -> dict[str, bytes]:
    good = _good()
    cases = {
        "empty": b"",
        "zeros only": bytes(2048),
        "no table": _member() + _END,
        "gzip": b"\x1f\x8b" + bytes(600),
        "table is not JSON": _table(b"{") + _END,
        "table is not an object": _table(b"[]") + _END,
        "table of another kind": _table(b'{"files":[],"schema":"x"}') + _END,
        "table with spaces": _table(_json([]).replace(b":", b": ")) + _END,
        "table with a name twice": _table(b'{"files":[],"files":[],"schema":"glowplug.files/1"}') + _END,
        "table with a float": _table(b'{"files":[],"schema":"glowplug.files/1","x":1.5}') + _END,
        "table with NaN": _table(b'{"files":[],"schema":"glowplug.files/1","x":NaN}') + _END,
        "table with a lone surrogate": _table(b'{"files":[],"schema":"glowplug.files/1","x":"\\ud800"}') + _END,
        "table that is not UTF-8": _table(b'{"files":[],"schema":"glowplug.files/1","x":"\xff"}') + _END,
        "table of brackets": _table(b"[" * 200_000) + _END,
        "table with a number of a million digits": _table(b'{"files":[' + b"9" * 10**6 + b"]}") + _END,
        "table larger than the limit": _table_of_size(8**11 - 1),
        "table of a negative size": _table_of_size(-1),
        "table under another digest": _table(_json([])).replace(
            hashlib.sha256(_json([])).hexdigest().encode(), b"0" * 64
        )
        + _END,
        "nanoseconds changed": good.replace(b'"mtime_ns":1000000000', b'"mtime_ns":1000000001'),
        "row is no object": _archive([[]], end=_END),  # type: ignore[list-item]
        "two rows of one path": _archive([_row(), _row()], _member(), _member()),
        "rows out of order": _archive([_row("b"), _row("a")], _member("b"), _member("a")),
        "file and directory": _archive([_row("a"), _row("a/f")], _member("a"), _member()),
        "file and directory, apart": _archive(
            [_row("a"), _row("a-b"), _row("a/f")], _member("a"), _member("a-b"), _member()
        ),
        "member that the table lacks": _archive([], _member()),
        "row without member": _archive([_row()]),
        "members swapped": _archive([_row("a"), _row("b")], _member("b"), _member("a")),
        "other bytes": _archive([_row()], _member(data=b"PAYLOAD")),
        "longer than said": _archive([_row()], _member(data=_DATA + b"!", size=7)),
        "size in header differs": _archive([_row()], _member(size=8)),
        "size in base 256": _archive([_row()], _patched(_member(), 124, b"\x80" + bytes(10) + b"\x07")),
        "wrong checksum": _archive([_row()], _patched(_member(), 148, b"000000\0 ", sum_again=False)),
        "owner named": _archive([_row()], _patched(_member(), 265, b"root")),
        "setuid in the header": _archive([_row()], _patched(_member(), 100, b"0004755")),
        "pax overrides the path": _archive([_row()], _pax(b"19 path=../../evil\n"), _member()),
        "pax overrides the size": _archive([_row()], _pax(b"12 size=999\n"), _member()),
        "pax of a gigabyte": _archive([_row()], archive._ustar(b"pax", b"", 1 << 30, 0o644, 0, b"x")),
        "global pax header": _archive([_row()], archive._ustar(b"pax", b"", 0, 0o644, 0, b"g"), _member()),
        "GNU long name": _archive([_row()], archive._ustar(b"././@LongLink", b"", 8, 0o644, 0, b"L"), bytes(512)),
        "GNU sparse": _archive([_row()], _member(kind=b"S")),
        "padding that is not zero": good.replace(_DATA + b"\0", _DATA + b"!"),
        "one zero block": good[:-512],
        "no end": good[:-1024],
        "something behind the end": good + b"\0",
        "another archive behind the end": good + good,
        "padded as tar does": good + bytes(8192),
    }
    for name, kind in {"hard link": b"1", "symlink": b"2", "character device": b"3", "block device": b"4",
                       "directory": b"5", "fifo": b"6", "contiguous": b"7"}.items():  # fmt: skip
        cases[name] = _archive([_row()], _member(kind=kind, link=b"/etc/passwd" if kind in b"12" else b""))
    for name, path in {
        "absolute": "/etc/passwd", "dot dot": "../evil", "dot dot within": "a/../../evil", "dot dot at the end": "a/..",
        "dot": "./a", "empty part": "a//b", "slash at the end": "a/", "no path": "", "NUL": "a\0b", "line break": "a\nb",
        "escape": "a\x1b[31m", "delete": "a\x7f", "C1 control": "a\x9b", "our own folder": ".glowplug/parts/x",
        "our own table": ".glowplug/files.json", "our own temporary": "a/.glowplug-tmp-1", "long": "a/" * 600 + "b",
        "long part": "a" * 256, "deep": "a/" * 64 + "b",
    }.items():  # fmt: skip
        cases[f"path: {name}"] = _archive([_row(path)], _member(path))
    for name, change in {
        "size below zero": {"size": -1}, "size of truth": {"size": True}, "size as text": {"size": "7"},
        "size beyond octal": {"size": 8**11}, "digest in capitals": {"sha256": _DIGEST.upper()},
        "digest too short": {"sha256": _DIGEST[:-1]}, "digest is a number": {"sha256": 7}, "other digest": {"sha256": "0" * 64},
        "setuid": {"mode": 0o4775}, "writable by others": {"mode": 0o666}, "unreadable": {"mode": 0},
        "mtime below zero": {"mtime_ns": -1}, "mtime beyond octal": {"mtime_ns": 8**11 * 10**9}, "mtime as text": {"mtime_ns": ""},
        "path is a number": {"path": 7}, "size is null": {"size": None},
    }.items():  # fmt: skip
        cases[f"row: {name}"] = _archive([_row(**change)], _member())  # type: ignore[arg-type]
    for field in ("path", "size", "sha256", "mode", "mtime_ns"):
        row = _row()
        del row[field]
        cases[f"row without {field}"] = _archive([row], _member())
    return cases


def _patched(member: bytes, at: int, data: bytes, *, sum_again: bool = True) -> bytes:
    head = bytearray(member[:512])
    head[at : at + len(data)] = data
    if sum_again:
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + member[512:]


HOSTILE = _hostile()


def snapshot(root: Path) -> list[str]:
    return sorted(str(place.relative_to(root)) for place in root.rglob("*"))


def test_the_archive_that_the_hostile_ones_are_made_from_is_good(tmp_path: Path) -> None:
    (only,) = archive.unpack(io.BytesIO(_good()), tmp_path / "x")
    assert (only.path, (tmp_path / "x" / "a" / "f").read_bytes()) == ("a/f", _DATA)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused_and_leave_nothing(tmp_path: Path, name: str) -> None:
    around = tmp_path / "around"
    around.mkdir()
    with pytest.raises(IntegrityError) as caught:
        archive.unpack(io.BytesIO(HOSTILE[name]), around / "into")
    assert caught.value.code in {"bad-archive", "archive-limit"}
    assert snapshot(tmp_path) == ["around"]


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(_good()) - 1),
    flip=st.integers(1, 255),
    end=st.one_of(st.none(), st.integers(0, len(_good()) - 1)),
)
def test_no_flip_and_no_cut_goes_unnoticed(at: int, flip: int, end: int | None) -> None:
    data = bytearray(_good())
    if end is None:
        data[at] ^= flip
    else:
        del data[end:]
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(IntegrityError):
            archive.unpack(io.BytesIO(bytes(data)), Path(folder) / "into")
        assert snapshot(Path(folder)) == []


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=4096))
def test_noise_raises_nothing_but_our_errors(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises(IntegrityError):
        archive.unpack(io.BytesIO(data), Path(folder) / "into")


@settings(max_examples=200, deadline=None)
@given(table=st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(["files", "schema", "path", "size"]), inner)),
))  # fmt: skip
def test_any_json_as_a_table_raises_nothing_but_our_errors(table: object) -> None:
    import json

    data = json.dumps(table).encode()
    with tempfile.TemporaryDirectory() as folder, pytest.raises(IntegrityError):
        archive.unpack(io.BytesIO(_table(data) + _END), Path(folder) / "into")


@pytest.mark.parametrize(
    "limits",
    [Limits(files=1), Limits(unpacked_bytes=13), Limits(path_bytes=2), Limits(table_bytes=100)],
    ids=["files", "bytes", "path", "table"],
)
def test_limits_hold_for_reader_and_writer(tmp_path: Path, limits: Limits) -> None:
    trees.simple(tmp_path / "a", one="payload", two="payload")
    data = packed(tmp_path / "a")
    archive.unpack(io.BytesIO(data), tmp_path / "whole")
    with pytest.raises(IntegrityError):
        archive.unpack(io.BytesIO(data), tmp_path / "b", limits)
    assert not (tmp_path / "b").exists()
    with pytest.raises(IntegrityError):
        archive.pack(tmp_path / "a", list(scan(tmp_path / "a").files.values()), io.BytesIO(), limits=limits)


def test_unpack_never_writes_into_a_directory_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        archive.unpack(io.BytesIO(_good()), tmp_path / "there")
    assert snapshot(tmp_path) == ["there"]
