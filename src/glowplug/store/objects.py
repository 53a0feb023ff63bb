"""S3, GCS, Azure and memory behind the contract, by obstore.

What obstore does not promise, and how it is had here:

- *Deadlines.* obstore retries for 180 s and a client's timeouts are fixed when it is made. Here it never retries (that
  is `retrying`'s work), every call is waited for in `bounded`, and clients are made per class of patience, so that
  what overruns its deadline ends soon after it too. A client costs 5 ms and keeps its connections.
- *Conditional writes.* Some servers take the headers and ignore them, which would lose updates silently. So before the
  first conditional write each of the two conditions is tried on an object of a random name in `.probe/` beside the
  target (below `v1/<domain>/`, since that is all an IAM policy allows a publisher), which is removed again. What was
  found is kept.
- *Which error.* See `faults`. Two answers need a question of their own: a redirect does not say where the bucket is,
  and a HEAD that finds nothing does not say whether the bucket is there.
- *Whole objects.* HTTP notices a body that is shorter than its Content-Length, but not a Content-Length that is itself too
  small. So everything is asked for as a range: the answer then says the object's whole size as well, and what came is
  held against it. Beyond the first 8 MiB ranges come in parallel, tied to one ETag. (An empty object has no range: 416,
  then a plain GET.) What is damaged on the way only a digest notices, which callers have for every blob and manifest.

A process that forked cannot use obstore any more, not even by a new store (its threads exist in the parent only): every
call then ends at its deadline. Whoever needs a store after a fork starts a program.

S3 is tested against a real server. **GCS and Azure use the same code and are untried.** On GCS the version is the
generation, since its conditional writes know no ETag.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from obstore.exceptions import BaseError

from glowplug.core import bounded
from glowplug.core.errors import (
    AccessDeniedError,
    BadInputError,
    ConflictError,
    GlowplugError,
    IntegrityError,
    InternalError,
    NotFoundError,
    UnavailableError,
)
from glowplug.store import endpoints, faults, paths
from glowplug.store.contract import Meta, Object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from obstore import GetResult, ObjectMeta, PutMode
    from obstore.store import ObjectStore as Client

    from glowplug.core.clock import Deadline

T = TypeVar("T")

PATIENCE: Final = (2.0, 5.0, 15.0, 60.0, 600.0, 86_400.0)
"""Seconds that a client waits for a request, whole body included; a call uses the first that is not below its own time."""

_RANGE_BYTES: Final = 8 << 20
_RANGES_AT_ONCE: Final = 4
_RANGE_PIECE_BYTES: Final = 1 << 20
_SINGLE_PUT_BYTES: Final = 8 << 20
_PART_BYTES: Final = 8 << 20
_LIST_PAGE: Final = 1000
_REGION_SECONDS: Final = 2.0
# Errors of obstore that are not BaseError; a wrong path cannot get here (paths.check), so ValueError means a wrong setting.
_FAULTS: Final = (BaseError, FileNotFoundError, ValueError, OSError)


@dataclass(frozen=True)
class Remote:
    """A place that obstore reaches.

    `connect(seconds)` makes a client whose requests end by `seconds`. `base` is how its request URLs begin, "" where
    that is unknown: a failed request elsewhere was for credentials. `find_region(seconds)` asks where the bucket is, ""
    where nobody says. `credentials_fault()` is the error of the last attempt to get credentials, if glowplug itself
    gets them.
    """

    url: str
    connect: Callable[[float], Client]
    base: str = ""
    region: str = ""
    versioned_by: Literal["e_tag", "version"] = "e_tag"
    anonymous: bool = False
    find_region: Callable[[float], str] | None = None
    credentials_fault: Callable[[], GlowplugError | None] | None = None


class ObjectStore:
    """See the module's text."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._lock = threading.Lock()
        self._clients: dict[float, Client] = {}
        self._conditional: bool | None = None
        self._probing = threading.Lock()
        self._bucket_seen = False
        self._process = os.getpid()

    @property
    def url(self) -> str:
        """The address of the store."""
        return self._remote.url

    def get(self, path: str, deadline: Deadline, *, max_bytes: int = 1 << 20) -> Object:
        """One GET."""
        paths.check(path)

        def work(client: Client) -> Object:
            result = _beginning(client, path, max_bytes + 1)
            meta = self._meta(result.meta, path)
            if meta.size > max_bytes:
                raise IntegrityError(
                    f"{path} has {meta.size} bytes, more than the {max_bytes} allowed", code="archive-limit"
                )
            data = result.bytes().to_bytes()
            _check_length(len(data), meta.size, path)
            return Object(data, meta)

        return self._call(work, deadline, f"reading {self.url}/{path}")

    def get_range(self, path: str, start: int, length: int, deadline: Deadline) -> bytes:
        """One GET. obstore holds the answer's Content-Range against what was asked for, but takes any length of body."""
        paths.check(path)
        paths.check_range(start, length)

        def work(client: Client) -> bytes:
            try:
                result = client.get(path, options={"range": (start, start + length)})
            except _FAULTS as error:
                if faults.read(error).out_of_range:
                    return b""
                raise
            first, end = result.range
            return _exactly(end - first, result, path)

        return self._call(work, deadline, f"reading {self.url}/{path}")

    def stream(self, path: str, deadline: Deadline, *, chunk_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Ranges of 8 MiB, up to four at once."""
        paths.check(path)
        doing = f"reading {self.url}/{path}"

        def produce() -> Iterator[bytes]:
            try:
                client = self._client(deadline)
                first = _beginning(client, path, _RANGE_BYTES)
                rest = self._ranges(client, path, first.meta, deadline, doing)
                yield from _whole(first, path, chunk_bytes)
                for data in rest:
                    yield from _pieces(data, chunk_bytes)
            except GlowplugError:
                raise
            except _FAULTS as error:
                raise self._explain(error, doing, deadline) from error
            except BaseException as error:
                raise _ended(error, doing) from error

        return bounded.iterate(produce, deadline, doing)

    def _ranges(
        self, client: Client, path: str, meta: ObjectMeta, deadline: Deadline, doing: str
    ) -> Iterator[memoryview]:
        """What lies beyond the first range, in order. The first few are asked for before this returns."""
        size, e_tag = meta["size"], meta["e_tag"]

        def fetch(start: int) -> bounded.Running[memoryview]:
            def work() -> memoryview:
                end = min(start + _RANGE_BYTES, size)
                data = client.get(path, options={"range": (start, end), "if_match": e_tag}).bytes()
                _check_length(len(data), end - start, path)
                return memoryview(data)

            return bounded.Running(work)

        starts = iter(range(_RANGE_BYTES, size, _RANGE_BYTES))
        under_way = deque(fetch(start) for start in itertools.islice(starts, _RANGES_AT_ONCE))

        def results() -> Iterator[memoryview]:
            while under_way:
                data = under_way.popleft().result(deadline, doing)
                under_way.extend(fetch(start) for start in itertools.islice(starts, 1))
                yield data

        return results()

    def head(self, path: str, deadline: Deadline) -> Meta | None:
        """One HEAD; a first "not there" is followed by a GET, the only way to learn that the bucket is missing."""
        paths.check(path)
        doing = f"looking at {self.url}/{path}"
        try:
            return self._call(lambda client: self._meta(client.head(path), path), deadline, doing)
        except NotFoundError:
            if self._bucket_seen:
                return None
        try:
            return self._call(lambda client: self._meta(client.get(path).meta, path), deadline, doing)
        except NotFoundError:
            self._bucket_seen = True
            return None

    def list(self, prefix: str, deadline: Deadline) -> Iterator[Meta]:
        """Pages of 1,000."""
        bare = paths.check_prefix(prefix)
        doing = f"listing {self.url}/{bare}"

        def produce() -> Iterator[Meta]:
            try:
                for page in self._client(deadline).list(bare or None, chunk_size=_LIST_PAGE):
                    yield from (self._meta(meta, meta["path"]) for meta in page)
            except GlowplugError:
                raise
            except _FAULTS as error:
                raise self._explain(error, doing, deadline) from error
            except BaseException as error:
                raise _ended(error, doing) from error
            self._bucket_seen = True

        return bounded.iterate(produce, deadline, doing, ahead=_LIST_PAGE)

    def put(self, path: str, source: bytes | Path, deadline: Deadline) -> None:
        """One PUT, or a multipart upload beyond 8 MiB, which is given up at the deadline (obstore then aborts it)."""
        paths.check(path)
        doing = f"writing {self.url}/{path}"
        pieces = _source(source, deadline, doing)
        first = next(pieces, b"")

        def work(client: Client) -> None:
            if len(first) < _SINGLE_PUT_BYTES:
                client.put(path, first, use_multipart=False)
            else:
                client.put(path, _chain(first, pieces), use_multipart=True, chunk_size=_PART_BYTES, max_concurrency=4)

        self._call(work, deadline, doing)

    def put_new(self, path: str, data: bytes, deadline: Deadline) -> str:
        """PUT with If-None-Match: *."""
        return self._put_conditionally(path, data, "create", deadline)

    def put_if(self, path: str, data: bytes, version: str, deadline: Deadline) -> str:
        """PUT with If-Match. AWS answers 404 where the object is gone, others 412: both are conflicts."""
        try:
            return self._put_conditionally(path, data, self._condition(version), deadline)
        except NotFoundError as error:
            raise ConflictError(f"{path} is gone") from error

    def delete(self, path: str, deadline: Deadline) -> None:
        """One DELETE."""
        paths.check(path)
        try:
            self._call(lambda client: client.delete(path), deadline, f"removing {self.url}/{path}")
        except NotFoundError:
            return

    def _put_conditionally(self, path: str, data: bytes, mode: PutMode, deadline: Deadline) -> str:
        paths.check(path)
        doing = f"writing {self.url}/{path}"
        if not self._honours_conditions(path, deadline):
            raise AccessDeniedError(f"{doing}: the server ignores If-None-Match or If-Match", code="read-only-store")
        return self._call(lambda client: self._put(client, path, data, mode), deadline, doing, conditional=True)

    def _put(self, client: Client, path: str, data: bytes, mode: PutMode) -> str:
        answer = client.put(path, data, mode=mode, use_multipart=False)
        return answer[self._remote.versioned_by] or ""

    def _condition(self, version: str) -> PutMode:
        return {"version": version} if self._remote.versioned_by == "version" else {"e_tag": version}

    def _honours_conditions(self, path: str, deadline: Deadline) -> bool:
        """Try both conditions once; several threads that come first wait for the one that tries."""
        if self._conditional is not None:
            return self._conditional
        if not self._probing.acquire(timeout=min(deadline.remaining(), threading.TIMEOUT_MAX)):
            raise bounded.out_of_time(f"trying the conditional writes of {self.url}")
        try:
            if self._conditional is None:
                self._conditional = self._probe(path, deadline)
            return self._conditional
        finally:
            self._probing.release()

    def _probe(self, path: str, deadline: Deadline) -> bool:
        parts = path.split("/")
        probe = "/".join([*parts[: min(2, len(parts) - 1)], ".probe", secrets.token_hex(16)])

        def work(client: Client) -> bool:
            try:
                version = self._put(client, probe, b"1", "create")
                try:
                    return bool(
                        _refused(lambda: self._put(client, probe, b"2", "create"))
                        and (stale := self._put(client, probe, b"3", self._condition(version)))
                        and stale != version
                        and _refused(lambda: self._put(client, probe, b"4", self._condition(version)))
                    )
                finally:
                    self._discard(client, probe)
            except _FAULTS as error:
                if faults.read(error).conditions_ignored:
                    return False
                raise

        return self._call(work, deadline, f"trying the conditional writes of {self.url}")

    def _discard(self, client: Client, probe: str) -> None:
        """Remove the probe. A publisher without the right to delete leaves one byte behind; that is no reason to fail."""
        try:
            client.delete(probe)
        except _FAULTS:
            return

    def _meta(self, meta: ObjectMeta, path: str) -> Meta:
        """`path` as the caller knows it: obstore before 0.12 gives a prefixed one outside of listings."""
        version = meta.get(self._remote.versioned_by) or meta.get("e_tag") or ""
        return Meta(path, meta["size"], meta["last_modified"].timestamp(), version)

    def _client(self, deadline: Deadline) -> Client:
        if os.getpid() != self._process:
            raise InternalError(f"{self.url} was opened before a fork: obstore's threads are not in this process")
        left = deadline.remaining()
        seconds = next((patience for patience in PATIENCE if patience >= left), PATIENCE[-1])
        with self._lock:
            client = self._clients.get(seconds)
            if client is None:
                client = self._clients[seconds] = self._connect(seconds)
            return client

    def _connect(self, seconds: float) -> Client:
        try:
            return self._remote.connect(seconds)
        except _FAULTS as error:  # a setting that obstore does not take; waiting does not change it
            raise faults.no_client(error, self.url) from error
        except BaseException as error:
            raise _ended(error, f"opening {self.url}") from error

    def _call(self, work: Callable[[Client], T], deadline: Deadline, doing: str, *, conditional: bool = False) -> T:
        def translated() -> T:
            try:
                answer = work(self._client(deadline))
            except GlowplugError:
                raise
            except _FAULTS as error:
                raise self._explain(error, doing, deadline, conditional=conditional) from error
            except BaseException as error:
                raise _ended(error, doing) from error
            self._bucket_seen = True
            return answer

        return bounded.call(translated, deadline, doing)

    def _explain(
        self, error: BaseException, doing: str, deadline: Deadline, *, conditional: bool = False
    ) -> GlowplugError:
        answer = faults.read(error)
        if "credential provider" in answer.text:
            known = self._remote.credentials_fault() if self._remote.credentials_fault else None
            return known or AccessDeniedError(f"{doing}: {answer.words}", code="no-credentials")
        base = self._remote.base
        if base and answer.request_url and not answer.request_url.startswith(base):
            return self._without_credentials(answer, doing)
        if answer.perhaps_elsewhere:
            elsewhere = self._elsewhere(answer, doing, deadline)
            if elsewhere:
                return elsewhere
        fault = faults.translate(answer, doing)
        if isinstance(fault, ConflictError) and not conditional:
            # 409: two operations met and S3 asks to try again; 412: an object was replaced between two of its ranges
            return UnavailableError(fault.message)
        if self._remote.anonymous and fault.code == "access-denied":
            return AccessDeniedError(fault.message, code="no-credentials")
        return fault

    def _without_credentials(self, answer: faults.Answer, doing: str) -> GlowplugError:
        host = answer.request_url.partition("://")[2].partition("/")[0]
        what = f"{doing}: no credentials from {host}: {answer.words}"
        fault = faults.translate(answer, doing)
        if isinstance(fault, UnavailableError) and answer.status:
            return UnavailableError(what)
        return AccessDeniedError(what, code="no-credentials")

    def _elsewhere(self, answer: faults.Answer, doing: str, deadline: Deadline) -> GlowplugError | None:
        """The error that names the bucket's region, None when the bucket is where it was looked for."""
        region = answer.region
        if not region and self._remote.find_region is not None:
            region = self._remote.find_region(min(_REGION_SECONDS, deadline.remaining()))
        if not endpoints.is_region(region):
            region = ""
        if region == self._remote.region:
            return None
        if region:
            return AccessDeniedError(
                f"{doing}: the bucket is in {region}, not in {self._remote.region}",
                code="wrong-region",
                hint=f"set AWS_REGION={region}",
            )
        if answer.status == 400 and not answer.code:
            return None
        return AccessDeniedError(f"{doing}: the bucket is not in {self._remote.region}", code="wrong-region")


def _ended(error: BaseException, doing: str) -> BaseException:
    """The error of a panic in obstore, which is no Exception and whose text may quote a setting; anything else as it is."""
    if type(error).__name__ != "PanicException":
        return error
    return UnavailableError(
        f"{doing}: the client ended over a setting or an answer", hint="check the variables of AWS and what answers"
    )


def _refused(write: Callable[[], object]) -> bool:
    try:
        write()
    except _FAULTS as error:
        answer = faults.read(error)
        if answer.conflict:
            return True
        raise
    return False


def _beginning(client: Client, path: str, size: int) -> GetResult:
    """The first `size` bytes; the result's meta has the size of the whole object."""
    try:
        return client.get(path, options={"range": (0, size)})
    except _FAULTS as error:
        if not faults.read(error).out_of_range:
            raise
    return client.get(path)


def _whole(result: GetResult, path: str, chunk_bytes: int) -> Iterator[bytes]:
    start, end = result.range
    seen = start
    for piece in result.stream(min_chunk_size=chunk_bytes):
        seen += len(piece)
        yield bytes(piece)
    _check_length(seen, min(result.meta["size"], max(end, _RANGE_BYTES)), path)


def _exactly(size: int, result: GetResult, path: str) -> bytes:
    """The body, which has to have `size` bytes; of a longer one no more than a piece is taken."""
    data = bytearray()
    for piece in result.stream(min_chunk_size=_RANGE_PIECE_BYTES):
        if len(data) + len(piece) > size:
            raise UnavailableError(f"{path}: more than the {size} bytes of the range came")
        data += piece
    _check_length(len(data), size, path)
    return bytes(data)


def _check_length(seen: int, size: int, path: str) -> None:
    if seen != size:
        raise UnavailableError(f"{path}: {seen} bytes came instead of {size}")


def _pieces(data: memoryview, chunk_bytes: int) -> Iterator[bytes]:
    for start in range(0, len(data), chunk_bytes):
        yield bytes(data[start : start + chunk_bytes])


def _source(source: bytes | Path, deadline: Deadline, doing: str) -> Iterator[bytes]:
    """Parts of an upload. Stops with the deadline: obstore asks for parts as long as it gets them, waited for or not."""
    if isinstance(source, bytes):
        for start in range(0, len(source), _PART_BYTES):
            deadline.check(doing)
            yield source[start : start + _PART_BYTES]
        return
    try:
        with source.open("rb") as handle:
            while piece := handle.read(_PART_BYTES):
                deadline.check(doing)
                yield piece
    except OSError as error:
        raise BadInputError(f"cannot read {source}: {error.strerror or error}") from error


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
