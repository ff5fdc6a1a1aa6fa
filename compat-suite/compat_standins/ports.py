"""Published ports: what connects to a port of 127.0.0.1 reaches a container's own address.

Servers keep their usual port on an address of their own, as they do in Docker; a test that runs
outside knows them by a port of this machine. One thread carries the bytes of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

HOST = "127.0.0.1"
CHUNK = 1 << 16

T = TypeVar("T")


class Ports:
    """The published ports of a session."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._servers: dict[int, asyncio.Server] = {}
        self._connections: dict[int, set[asyncio.StreamWriter]] = {}
        self._carriers: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="standin-ports", daemon=True
        )
        self._thread.start()

    def publish(self, port: int, address: str, inner: int) -> None:
        """Carry what arrives at `port` to `inner` of the address."""
        self._run(self._publish(port, address, inner))

    def withdraw(self, port: int) -> None:
        """Nobody listens there any more; what is connected is cut off."""
        self._run(self._withdraw(port))

    def close(self) -> None:
        for port in list(self._servers):
            self.withdraw(port)
        self._run(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _publish(self, port: int, address: str, inner: int) -> None:
        writers = self._connections[port] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            try:
                await self._carry(reader, writer, address, inner, writers)
            finally:
                writers.discard(writer)
                writer.close()

        self._servers[port] = await asyncio.start_server(serve, HOST, port)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: str,
        inner: int,
        writers: set[asyncio.StreamWriter],
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(address, inner)
        except OSError:
            return
        writers.add(far_writer)
        ways = [
            asyncio.ensure_future(_copy(reader, far_writer)),
            asyncio.ensure_future(_copy(far_reader, writer)),
        ]
        self._carriers.update(ways)
        try:
            await asyncio.wait(ways)
        finally:
            self._carriers.difference_update(ways)
            writers.discard(far_writer)
            far_writer.close()

    async def _withdraw(self, port: int) -> None:
        server = self._servers.pop(port, None)
        if server is None:
            return
        server.close()
        for writer in self._connections.pop(port):
            writer.transport.abort()

    async def _settle(self) -> None:
        """What was cut off has come to its end: the loop can stop without leaving anything."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=5)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One way, to its end; then the other side hears that no more comes."""
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
