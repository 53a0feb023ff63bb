"""Carries TCP connections from one address to another: `python -I relay.py ADDRESS PORT TO PORT`.

Servers of the laboratory listen on 127.0.0.1, where no pod reaches them. This makes one reachable on the machine's end of the wire
under its own port; bytes pass unchanged, so that signed requests stay valid.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_CHUNK_BYTES = 1 << 18


async def relay(address: str, port: int, to: str, to_port: int) -> None:
    """Carry connections until cancelled."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(to, to_port)
        except OSError:
            writer.transport.abort()  # as if nobody listened
            return
        await asyncio.gather(_copy(reader, back), _copy(there, writer))
        for one in (back, writer):
            one.close()

    server = await asyncio.start_server(carry, address, port)
    print("carrying", flush=True)
    async with server:
        await server.serve_forever()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
    with contextlib.suppress(OSError, RuntimeError):
        target.write_eof()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
