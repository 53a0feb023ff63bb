"""A sealed archive: a plain tar whose first member is the table of its files.

The table (canonical JSON: path, size, sha256, mode, mtime_ns) is the truth; the tar around it exists so that `tar x` can read
an archive where glowplug is not at hand. The table's own name holds its digest (`.glowplug/files-<sha256>.json`), and everything
else in the tar follows from the table: members in sorted order, owner 0/0
without names, whole-second mtimes, a pax header exactly where a name does not fit. So equal input gives equal bytes, and
the reader needs no tar parser at all: it computes the header that has to come next and compares. Links, devices, sparse
members, overriding headers, another order or name, numbers written differently: all are "not the expected 512 bytes".

That is why `tarfile` is not used for reading: it is a generous reader of every dialect, generous readers are what hostile
archives are made for, and it spends ten times as long on a header.

`unpack` is the one place in glowplug that meets hostile archives; outboxes, stores and copies all come through it.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from glowplug.core import canonical
from glowplug.core.errors import BadInputError, ConflictError, IntegrityError, UnavailableError
from glowplug.tree import paths
from glowplug.tree.model import DEFAULT_LIMITS, File, Limits
from glowplug.tree.removal import remove

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO, Callable, Protocol

    class Reader(Protocol):
        """What `unpack` reads from: never more than asked for, b"" at the end."""

        def read(self, size: int, /) -> bytes:
            """The next bytes."""
            ...

    class Writer(Protocol):
        """What `pack` writes to."""

        def write(self, data: bytes, /) -> object:
            """Take all of `data`."""
            ...


SCHEMA: Final = "glowplug.files/1"
REWRITE_BYTES: Final = 4 << 20
"""Only files up to this size are offered to `rewrite`: engine metadata is small, and its new bytes are held in memory."""

_TABLE_BEGINS: Final = b".glowplug/files-"
_BLOCK: Final = 512
_CHUNK: Final = 1 << 20
_END: Final = bytes(2 * _BLOCK)
_ZEROS: Final = bytes(_BLOCK)
_LARGEST: Final = 8**11 - 1
_FLOOR_BYTES: Final = 1 << 20
"""Below this an expansion ratio says nothing: the table and the padding of a few tiny files compress a hundredfold."""
_ROW: Final = ("path", "size", "sha256", "mode", "mtime_ns")
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class Packed:
    """What went into an archive. `files` are as the table has them; `archive_bytes` is the tar's own length."""

    files: tuple[File, ...]
    unpacked_bytes: int
    archive_bytes: int


def pack(
    root: str | os.PathLike[str],
    files: Sequence[File],
    out: Writer,
    *,
    rewrite: Callable[[str, bytes], bytes] | None = None,
    secrets: Mapping[str, bytes] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Packed:
    """Write the archive of `files` below `root` to `out`.

    `rewrite(path, data)` may replace the bytes of files up to REWRITE_BYTES (redaction); `secrets` (name → value) are searched
    for in every name and in every byte that is written. Raises ConflictError (`tree-changing`) where a file is no longer what
    the index says, BadInputError (`secret-found`) naming the variable, IntegrityError (`archive-limit`, `bad-archive`) for what
    no reader would accept. What was written to `out` until then is to be thrown away.
    """
    ordered = sorted(files, key=lambda item: item.path)
    with paths.Walker(root) as walker:
        replaced = _rewritten(walker, ordered, rewrite)
        rows = tuple(_row(item, replaced.get(item.path)) for item in ordered)
        table = _encode_table(rows)
        _check_table(rows, len(table), limits)
        for row in rows:
            # A name that holds a secret is no name to show.
            _Search(secrets or {}, "the name of a file").feed(row.path.encode("utf-8"))
        sink = _Sink(out)
        sink.write(_table_header(table))
        sink.write(table)
        sink.pad(len(table))
        for source, row in zip(ordered, rows):
            search = _Search(secrets or {}, row.path)
            sink.member(row)
            if row.path in replaced:
                data = replaced[row.path]
                search.feed(data)
                sink.write(data)
            else:
                _copy_file(walker, source, sink, search)
            sink.pad(row.size)
    sink.write(_END)
    return Packed(rows, sum(row.size for row in rows), sink.count)


def read_table(stream: Reader, limits: Limits = DEFAULT_LIMITS) -> tuple[File, ...]:
    """The table of the archive that begins here; nothing behind the table is read.

    Raises IntegrityError. What it says is only a claim until the whole archive was unpacked.
    """
    return _Source(stream).table(limits)


def unpack(stream: Reader, into: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> tuple[File, ...]:
    """Write the files of the archive below `into`, a directory that this call makes, and return the table.

    The stream is read to its end. Raises IntegrityError (`bad-archive`, `archive-limit`) at the first byte that breaks a rule
    of docs/format.md, UnavailableError (`no-space`) on a full disk, FileExistsError where `into` exists, OSError for other
    faults of the disk. After any exception `into` is gone; outside of it nothing is touched ever.
    """
    source = _Source(stream)
    Path(into).mkdir(paths.DIRECTORY_MODE)
    try:
        rows = source.table(limits)
        with paths.Walker(into) as walker:
            for row in rows:
                source.expect(_header(row), row.path)
                _write_file(walker, row, source)
                source.expect(_padding(row.size), row.path)
        source.expect(_END, "the end")
        source.finish()
    except OSError as error:
        remove(into)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnavailableError(f"no space left below {into}", code="no-space") from error
        raise
    except BaseException:
        remove(into)
        raise
    return rows


def encode_table(files: Sequence[File]) -> bytes:
    """The table as it stands in an archive, for files that lie unpacked. Raises IntegrityError for what no reader would accept."""
    data = _encode_table(sorted(files, key=lambda item: item.path))
    _parse_table(data, DEFAULT_LIMITS)
    return data


def parse_table(data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[File, ...]:
    """The files of a table. Raises IntegrityError (`bad-archive`, `archive-limit`) where it breaks a rule of docs/format.md."""
    if len(data) > limits.table_bytes:
        raise IntegrityError(f"archive: a table of {len(data)} bytes", code="archive-limit")
    return _parse_table(data, limits)


def discard(tree: str | os.PathLike[str]) -> None:
    """Remove an unpacked tree that nobody wants. Never raises."""
    remove(tree)


def check_ratio(unpacked_bytes: int, packed_bytes: int, limits: Limits) -> None:
    """Raise IntegrityError (`archive-limit`) where so few bytes may not become so many."""
    if unpacked_bytes > max(_FLOOR_BYTES, packed_bytes * limits.ratio):
        raise IntegrityError(
            f"{packed_bytes} bytes expand to more than {limits.ratio} times as many", code="archive-limit"
        )


def _bad(what: str) -> NoReturn:
    raise IntegrityError(f"archive: {what}", code="bad-archive")


# --- the form -------------------------------------------------------------------------------------------------------


def _table_header(table: bytes) -> bytes:
    """The first 512 bytes of an archive. The name holds the table's digest: it seals what no other header shows."""
    name = b"%s%s.json" % (_TABLE_BEGINS, hashlib.sha256(table).hexdigest().encode())
    return _ustar(name, b"", len(table), 0o644, 0, b"0")


def _header(row: File) -> bytes:
    """The header of a member: 512 bytes, or a pax header before them where ustar has no room for the name."""
    name = row.path.encode("utf-8")
    if len(name) <= 100:
        return _ustar(name, b"", row.size, row.mode, row.mtime_ns // 10**9, b"0")
    cut = name.rfind(b"/", 0, 156)
    if cut > 0 and len(name) - cut - 1 <= 100:
        return _ustar(name[cut + 1 :], name[:cut], row.size, row.mode, row.mtime_ns // 10**9, b"0")
    record = _pax_record(b"path", name)
    short = hashlib.sha256(name).hexdigest()[:32].encode()
    return (
        _ustar(b".glowplug/" + short, b"", len(record), 0o644, 0, b"x")
        + record
        + _padding(len(record))
        + _ustar(b".glowplug/" + short, b"", row.size, row.mode, row.mtime_ns // 10**9, b"0")
    )


def _pax_record(name: bytes, value: bytes) -> bytes:
    body = b" " + name + b"=" + value + b"\n"
    length = len(body)
    while len(str(length)) + len(body) != length:
        length = len(str(length)) + len(body)
    return str(length).encode() + body


def _ustar(name: bytes, prefix: bytes, size: int, mode: int, mtime: int, kind: bytes) -> bytes:
    head = b"%s%07o\0%07o\0%07o\0%011o\0%011o\0" % (name.ljust(100, b"\0"), mode, 0, 0, size, mtime)
    tail = b"%s%sustar\00000%s%07o\0%07o\0%s" % (kind, bytes(100), bytes(64), 0, 0, prefix.ljust(155, b"\0"))
    total = sum(head) + sum(tail) + 8 * 32
    return b"%s%06o\0 %s%s" % (head, total, tail, bytes(12))


def _padding(size: int) -> bytes:
    return _ZEROS[: -size % _BLOCK]


def _encode_table(rows: Sequence[File]) -> bytes:
    return canonical.encode({"schema": SCHEMA, "files": [{name: getattr(row, name) for name in _ROW} for row in rows]})


def _check_table(rows: Sequence[File], table_bytes: int, limits: Limits) -> None:
    """The rules for a table as a whole, the same for writer and reader."""
    if table_bytes > limits.table_bytes:
        raise IntegrityError(f"archive: a table of {table_bytes} bytes", code="archive-limit")
    if len(rows) > limits.files:
        raise IntegrityError(f"archive: {len(rows)} files, allowed are {limits.files}", code="archive-limit")
    total = sum(row.size for row in rows)
    if total > limits.unpacked_bytes:
        raise IntegrityError(
            f"archive: {total} bytes unpacked, allowed are {limits.unpacked_bytes}", code="archive-limit"
        )
    last = ""
    for row in rows:
        fault = paths.fault(row.path, limits.path_bytes)
        if fault:
            _bad(f"the path {row.path[:200]!r} {fault}")
        if row.path <= last:
            _bad(f"{row.path!r} comes twice or is out of order")
        last = row.path
    folders = _folders(rows)
    for row in rows:
        if row.path in folders:
            _bad(f"{row.path!r} is a file and a directory")


def _folders(rows: Sequence[File]) -> set[str]:
    folders: set[str] = set()
    for row in rows:
        folder = row.path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


# --- writing --------------------------------------------------------------------------------------------------------


class _Sink:
    def __init__(self, out: Writer) -> None:
        self._out = out
        self.count = 0

    def write(self, data: bytes) -> None:
        self._out.write(data)
        self.count += len(data)

    def member(self, row: File) -> None:
        self.write(_header(row))

    def pad(self, size: int) -> None:
        self.write(_padding(size))


class _Search:
    """Looks for secrets in a file that comes in pieces, over the seams too."""

    def __init__(self, secrets: Mapping[str, bytes], path: str) -> None:
        self._secrets = {name: value for name, value in secrets.items() if value}
        self._keep = max((len(value) for value in self._secrets.values()), default=1) - 1
        self._path = path
        self._tail = b""

    def feed(self, data: bytes) -> None:
        if not self._secrets:
            return
        text = self._tail + data
        for name, value in self._secrets.items():
            if value in text:
                raise BadInputError(f"the value of {name} occurs in {self._path}", code="secret-found")
        self._tail = text[len(text) - self._keep :] if self._keep else b""


def _row(item: File, data: bytes | None) -> File:
    size, digest = (item.size, item.sha256) if data is None else (len(data), hashlib.sha256(data).hexdigest())
    mtime_ns = max(0, item.mtime_ns)
    return File(item.path, size, digest, paths.travelling_mode(item.mode), mtime_ns)


def _changed(path: str) -> NoReturn:
    raise ConflictError(f"{path} is no longer what it was when it was indexed", code="tree-changing")


def _open(walker: paths.Walker, path: str) -> BinaryIO:
    try:
        parent, name = walker.parent(path)
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        _changed(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        _changed(path)
    return os.fdopen(descriptor, "rb", buffering=0)


def _rewritten(
    walker: paths.Walker, files: Sequence[File], rewrite: Callable[[str, bytes], bytes] | None
) -> dict[str, bytes]:
    if rewrite is None:
        return {}
    replaced: dict[str, bytes] = {}
    for item in files:
        if item.size > REWRITE_BYTES:
            continue
        with _open(walker, item.path) as handle:
            data = _read_up_to(handle, item.size + 1)
        if len(data) != item.size or hashlib.sha256(data).hexdigest() != item.sha256:
            _changed(item.path)
        new = rewrite(item.path, data)
        if new != data:
            replaced[item.path] = new
    return replaced


def _read_up_to(handle: BinaryIO, size: int) -> bytes:
    pieces = []
    while size > 0:
        piece = handle.read(size)
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _copy_file(walker: paths.Walker, item: File, sink: _Sink, search: _Search) -> None:
    digest = hashlib.sha256()
    left = item.size
    with _open(walker, item.path) as handle:
        while left:
            piece = handle.read(min(_CHUNK, left))
            if not piece:
                _changed(item.path)
            digest.update(piece)
            search.feed(piece)
            sink.write(piece)
            left -= len(piece)
        status = os.fstat(handle.fileno())
    if status.st_size != item.size or digest.hexdigest() != item.sha256 or status.st_mtime_ns != item.mtime_ns:
        _changed(item.path)


# --- reading --------------------------------------------------------------------------------------------------------


class _Source:
    """The stream with exact reads; what is not as expected ends it."""

    def __init__(self, stream: Reader) -> None:
        self._stream = stream

    def exactly(self, size: int, where: str) -> bytes:
        data = self._stream.read(size)
        if len(data) == size:
            return data
        pieces = [data]
        left = size - len(data)
        while left:
            piece = self._stream.read(left) if pieces[-1] else b""
            if not piece:
                _bad(f"it ends in the middle of {where}")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def some(self, size: int, where: str) -> bytes:
        data = self._stream.read(min(size, _CHUNK))
        if not data:
            _bad(f"it ends in the middle of {where}")
        return data

    def expect(self, wanted: bytes, where: str) -> None:
        if wanted and self.exactly(len(wanted), where) != wanted:
            _bad(f"not the bytes that the table asks for at {where}")

    def finish(self) -> None:
        if self._stream.read(1):
            _bad("something follows the end")

    def table(self, limits: Limits) -> tuple[File, ...]:
        head = self.exactly(_BLOCK, "the table's header")
        try:
            size = int(head[124:135], 8)
        except ValueError:
            _bad("it does not begin with a table")
        if size > limits.table_bytes:
            raise IntegrityError(f"archive: a table of {size} bytes", code="archive-limit")
        if size < 0 or not head.startswith(_TABLE_BEGINS):
            _bad("it does not begin with a table")
        data = self.exactly(size, "the table")
        if head != _table_header(data):
            _bad("the table is not what its digest says")
        self.expect(_padding(size), "the table")
        return _parse_table(data, limits)


def _parse_table(data: bytes, limits: Limits) -> tuple[File, ...]:
    try:
        value = json.loads(data.decode("utf-8"), parse_int=_short_integer)
        again = canonical.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise IntegrityError(f"archive: the table is not canonical JSON ({error})", code="bad-archive") from None
    if again != data:
        _bad("the table is not in canonical form")
    if not isinstance(value, dict) or value.get("schema") != SCHEMA or not isinstance(value.get("files"), list):
        _bad("the table is of another kind")
    if len(value["files"]) > limits.files:
        raise IntegrityError(f"archive: {len(value['files'])} files, allowed are {limits.files}", code="archive-limit")
    rows = tuple(_parse_row(item) for item in value["files"])
    _check_table(rows, len(data), limits)
    return rows


def _short_integer(text: str) -> int:
    """Converting a number of a million digits takes minutes, and Python before 3.9.14 does it."""
    if len(text) > 24:
        raise ValueError("a number is too long")
    return int(text)


def _parse_row(item: Any) -> File:
    if not isinstance(item, dict):
        _bad("a row of the table is not an object")
    path, digest = item.get("path"), item.get("sha256")
    size, mode, mtime_ns = (_number(item, name) for name in ("size", "mode", "mtime_ns"))
    if not isinstance(path, str) or not isinstance(digest, str):
        _bad("a row of the table lacks its path or digest")
    if len(digest) != 64 or not _HEX.issuperset(digest):
        _bad(f"the digest of {path[:200]!r} is not one")
    if mode > 0o777 or mode != paths.travelling_mode(mode):
        _bad(f"the mode of {path[:200]!r} is {mode:o}")
    if size > _LARGEST or mtime_ns // 10**9 > _LARGEST:
        _bad(f"a number of {path[:200]!r} is too large")
    return File(path, size, digest, mode, mtime_ns)


def _number(item: Mapping[str, Any], name: str) -> int:
    value = item.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _bad(f"a row of the table has a wrong {name}")
    return value


def _write_file(walker: paths.Walker, row: File, source: _Source) -> None:
    parent, name = walker.parent(row.path, make=True)
    descriptor = os.open(
        name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, row.mode | 0o200, dir_fd=parent
    )
    try:
        digest = hashlib.sha256()
        left = row.size
        while left:
            data = source.some(left, row.path)
            digest.update(data)
            left -= len(data)
            _write_all(descriptor, data)
        if digest.hexdigest() != row.sha256:
            _bad(f"{row.path!r} is not what its digest says")
        os.fchmod(descriptor, row.mode)
        os.utime(descriptor, ns=(row.mtime_ns, row.mtime_ns))
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])
