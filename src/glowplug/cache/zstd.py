"""Zstandard from the standard library (3.14) or its backport, as streams that never hold more than a few MiB.

A blob is exactly one frame whose window is at most 8 MiB: a hostile frame cannot make a reader allocate more than that.
"""

from __future__ import annotations

import hashlib
import sys
from typing import TYPE_CHECKING, Final

from glowplug.core.errors import IntegrityError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LEVEL: Final = 3
_WINDOW_LOG: Final = 23
_OUTPUT: Final = 1 << 20


class Compressing:
    """A writer that compresses into `out` and knows the digest and length of what it wrote there."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._digest = hashlib.sha256()
        self._frame = zstd.ZstdCompressor(
            options={
                zstd.CompressionParameter.compression_level: LEVEL,
                zstd.CompressionParameter.checksum_flag: 0,  # SHA-256 covers it
            }
        )
        self.size = 0

    def write(self, data: bytes, /) -> int:
        """Take all of `data`."""
        self._emit(self._frame.compress(data))
        return len(data)

    def finish(self) -> str:
        """End the frame; the SHA-256 of everything written to `out`."""
        self._emit(self._frame.flush())
        return self._digest.hexdigest()

    def _emit(self, data: bytes) -> None:
        if data:
            self._out.write(data)
            self._digest.update(data)
            self.size += len(data)


class Expanding:
    """A reader of what one frame holds. Raises IntegrityError at damage, a second frame, a large window or too much output.

    `chunks` is the compressed stream, `most` the bytes that may come out of it.
    """

    def __init__(self, chunks: Iterator[bytes], most: int) -> None:
        self._chunks = chunks
        self._frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        self._ready = b""
        self._at = 0
        self._left = most

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, b"" at the end of the frame."""
        if self._at == len(self._ready):
            self._ready, self._at = self._more(), 0
        data = self._ready[self._at : self._at + size]
        self._at += len(data)
        return data

    def finish(self) -> None:
        """Make sure that frame and stream end here. Raises IntegrityError."""
        if self.read(1) or self._frame.unused_data or any(self._chunks):
            raise IntegrityError("a blob goes on behind its end", code="bad-archive")

    def _more(self) -> bytes:
        while not self._frame.eof:
            data = next(self._chunks, None) if self._frame.needs_input else b""
            if data is None:
                raise IntegrityError("a blob ends too early", code="bad-archive")
            try:
                output = self._frame.decompress(data, max_length=_OUTPUT)
            except zstd.ZstdError as error:
                raise IntegrityError(f"a blob cannot be decompressed ({error})", code="bad-archive") from None
            if output:
                self._left -= len(output)
                if self._left < 0:
                    raise IntegrityError("a blob expands to more than its manifest says", code="archive-limit")
                return output
        return b""
