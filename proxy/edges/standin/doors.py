"""Listening sockets: opened, shut so that the kernel refuses, opened again on the same port."""

import asyncio
import socket
from collections.abc import Callable
from ssl import SSLContext
from typing import Final, Literal

from msgspec import Struct

ProviderName = Literal["stripe", "resend"]
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
_BACKLOG: Final = 128
_TURNS: Final = 100


class Listener(Struct, frozen=True):
    """Where a provider listens. Port 0: any that is free; `StandIn.port` tells which."""

    provider: ProviderName
    host: str = "127.0.0.1"
    port: int = 0
    ssl: SSLContext | None = None


class Door:
    """One listening socket. Shut, its port stays bound, so that nobody else takes it and the kernel refuses."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.port = listener.port
        self._server: asyncio.Server | None = None
        self._bound: socket.socket | None = None

    async def open(self, accept: Accept) -> None:
        """Listen; a second call changes nothing."""
        if self._server is None:
            bound, self._bound = self._bound or self._bind(), None
            self._server = await asyncio.start_server(accept, sock=bound, ssl=self.listener.ssl, backlog=_BACKLOG)

    async def shut(self) -> None:
        """Stop listening and keep the port. Connections that are open stay open."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for turn in range(_TURNS):  # uvloop closes the socket some turns of the loop later.
            try:
                self._bound = self._bind()
            except OSError:
                if turn == _TURNS - 1:
                    raise
                await asyncio.sleep(0)
            else:
                return

    def close(self) -> None:
        """Stop listening and give the port up."""
        if self._server:
            self._server.close()
            self._server = None
        if self._bound:
            self._bound.close()
            self._bound = None

    def _bind(self) -> socket.socket:
        host = self.listener.host
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, self.port))
        except OSError:
            bound.close()
            raise
        self.port = bound.getsockname()[1]
        return bound
