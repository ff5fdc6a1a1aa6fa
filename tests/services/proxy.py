"""A TCP proxy in front of a server, to break the network between it and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

from .service import HOST, Service, free_port

T = TypeVar("T")
CHUNK = 65536
CALL_SECONDS = 30.0
# Closing with no linger sends RST instead of FIN.
NO_LINGER = struct.pack("ii", 1, 0)


class Way(Enum):
    """The two directions of a connection."""

    REQUESTS = "from the client to the server"
    ANSWERS = "from the server to the client"


class Proxy:
    """Forwards connections to a server until it is told otherwise; `heal` ends every trouble.

        with Proxy(redis) as proxy:
            client = connect(proxy.url)
            proxy.reset()

    It runs in a thread of its own. Each method has taken effect when it returns.
    """

    def __init__(self, server: Service) -> None:
        self.server = server
        self.port = free_port()
        self.accepted = 0
        """How many connections it has accepted."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._flow: dict[Way, asyncio.Event] = {}
        self._swallows = False

    @property
    def url(self) -> str:
        """The server's URL, through the proxy."""
        return self.through(self.server.url)

    def through(self, url: str) -> str:
        """A URL of the server, through the proxy: of another database, say."""
        here = f"{HOST}:{self.server.port}"
        if here not in url:
            raise ValueError(f"{url} does not name {here}")
        return url.replace(here, f"{HOST}:{self.port}")

    # Troubles.

    def refuse(self) -> None:
        """New connections are refused; those that exist go on."""
        self._call(self._stop_listening())

    def reset(self) -> None:
        """Connections that exist are reset (RST), in mid-command if there is one."""
        self._call(self._reset())

    def reset_after(self, count: int, way: Way = Way.REQUESTS) -> None:
        """Each connection is reset when it has forwarded so many more bytes one way."""
        self._call(self._reset_after(count, way))

    def black_hole(self) -> None:
        """Old and new connections stay open; what either side sends disappears."""
        self._call(self._swallow())

    def strand(self) -> None:
        """Connections that exist are never heard of again, neither by data nor by a reset, not
        after `heal` either; new ones work. So a router forgets them, or a host that is gone."""
        self._call(self._strand())

    def stall(self, *ways: Way) -> None:
        """What is sent that way waits until `heal`, then arrives; both ways if none is given."""
        self._call(self._stall(ways or tuple(Way)))

    def heal(self) -> None:
        """Forward again. Connections that lost bytes to a black hole are reset."""
        self._call(self._heal())

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._links)

    # Life.

    def start(self) -> Proxy:
        self._thread.start()
        self._call(self._start())
        return self

    def close(self) -> None:
        """Reset every connection and stop listening."""
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()

    def __enter__(self) -> Proxy:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(CALL_SECONDS)

    # In the loop's thread.

    async def _start(self) -> None:
        self._flow = {way: asyncio.Event() for way in Way}
        await self._heal()

    async def _stop(self) -> None:
        await self._stop_listening()
        await self._reset()

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _reset(self, *, only_lossy: bool = False) -> None:
        links = [each for each in self._links if each.lost_bytes or not only_lossy]
        for link in links:
            link.task.cancel()
        if links:
            await asyncio.wait([link.task for link in links])

    async def _reset_after(self, count: int, way: Way) -> None:
        for link in self._links:
            link.allowance[way] = count

    async def _swallow(self) -> None:
        self._swallows = True
        # What was stalled is swallowed too.
        self._let_flow()

    async def _strand(self) -> None:
        for link in self._links:
            link.is_stranded = True

    async def _stall(self, ways: tuple[Way, ...]) -> None:
        for way in ways:
            self._flow[way].clear()

    async def _heal(self) -> None:
        self._swallows = False
        await self._reset(only_lossy=True)
        for link in self._links:
            link.allowance.clear()
        self._let_flow()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accept, HOST, self.port)

    def _let_flow(self) -> None:
        for event in self._flow.values():
            event.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(reader, writer)
        self._links.add(link)
        link.task = asyncio.ensure_future(self._serve(link))
        link.task.add_done_callback(lambda _: self._links.discard(link))

    async def _serve(self, link: _Link) -> None:
        """Forward until both sides have finished; any trouble of one side resets the other too."""
        try:
            if self._swallows:
                await link.swallow()
            else:
                await self._forward_both(link)
        except OSError:
            link.reset()
        except asyncio.CancelledError:
            link.reset()
            raise
        else:
            link.close()

    async def _forward_both(self, link: _Link) -> None:
        reader, writer = await asyncio.open_connection(HOST, self.server.port)
        link.writers.append(writer)
        ways = (
            asyncio.ensure_future(self._forward(link, Way.REQUESTS, link.reader, writer)),
            asyncio.ensure_future(self._forward(link, Way.ANSWERS, reader, link.writers[0])),
        )
        try:
            await asyncio.gather(*ways)
        finally:
            for each in ways:
                each.cancel()

    async def _forward(
        self, link: _Link, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            data = await reader.read(CHUNK)
            await self._flow[way].wait()
            if link.is_stranded:
                if not data:
                    await asyncio.Event().wait()
                continue
            if self._swallows:
                link.lost_bytes = True
                if not data:
                    return
                continue
            if not data:
                writer.write_eof()
                return
            allowance = link.allowance.get(way)
            writer.write(data[:allowance])
            await writer.drain()
            if allowance is not None:
                link.allowance[way] = allowance - len(data)
                if allowance <= len(data):
                    raise ConnectionResetError


class _Link:
    """One connection of a client, and the one to the server that belongs to it."""

    task: asyncio.Future[None]

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writers = [writer]
        self.allowance: dict[Way, int] = {}
        self.lost_bytes = False
        self.is_stranded = False

    async def swallow(self) -> None:
        """Read to the end and answer nothing; the server never hears of it."""
        self.lost_bytes = True
        while await self.reader.read(CHUNK):
            pass

    def reset(self) -> None:
        for writer in self.writers:
            own = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):  # closed already, by the other side's end
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            writer.transport.abort()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
