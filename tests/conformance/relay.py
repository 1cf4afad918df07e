"""A line between a client and a server that loses a reply, or holds it back, when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

Mishap = Literal["swallow", "hold"]


class Relay:
    """Passes everything on, and counts what the client sends."""

    def __init__(self, upstream: str, socket: str) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"
        self.sent: list[bytes] = []  # Each piece of the client's, as it came.
        self.on_sent: Callable[[bytes], None] = lambda data: None  # Called before the server gets a piece.
        self.connections = 0
        self._upstream = upstream
        self._mishap: Mishap | None = None
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []

    def lose_next_reply(self) -> None:
        """Let the server do what it is told next, and hang up on the client instead of passing the reply on."""
        self._mishap = "swallow"

    def hold_next_reply(self) -> None:
        """Keep the next reply until `release`."""
        self._mishap = "hold"

    def release(self) -> None:
        """Pass on what was held back, if the client is still there to hear it."""
        for client, data in self._held:
            if not client.is_closing():
                client.write(data)
        self._held.clear()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the client's."""
        self.connections += 1
        from_server, to_server = await asyncio.open_unix_connection(self._upstream)
        there = asyncio.gather(self._there(reader, to_server), self._back(from_server, writer))
        try:
            await there
        except ConnectionError:
            pass  # The client or the server went away: that is what is tested.
        finally:
            for end in (writer, to_server):
                end.close()

    async def _there(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await client.read(1 << 20):
            self.sent.append(data)
            self.on_sent(data)
            server.write(data)
            await server.drain()
        server.close()

    async def _back(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await server.read(1 << 20):
            mishap, self._mishap = self._mishap, None
            if mishap == "swallow":
                break
            if mishap == "hold":
                self._held.append((client, data))
                continue
            client.write(data)
            await client.drain()
        client.close()


@asynccontextmanager
async def relaying(upstream: str, socket: str) -> AsyncIterator[Relay]:
    """Open a relay in front of a server's socket, and close it."""
    relay = Relay(upstream, socket)
    listening = await asyncio.start_unix_server(relay.handle, socket, limit=1 << 20)
    async with listening:
        yield relay
