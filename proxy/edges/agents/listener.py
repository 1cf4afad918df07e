"""Listening sockets for agents."""

import asyncio
import logging
from typing import Any, Final

from aiohttp import web
from aiohttp.web_request import BaseRequest

from proxy.edges.agents.connection import AgentConnection
from proxy.edges.agents.handler import Handler, Limits
from proxy.engine import Engine

LINE_BYTES: Final = (
    64 << 10
)  # What providers accept, and more: over aiohttp's default of 8190 they would be refused here.
HEADERS_MOST: Final = 256
KEEPALIVE_S: Final = 75.0
LINGERING_S: Final = 2.0

_silent = logging.getLogger("proxy.edges.agents.silent")
_silent.disabled = True  # aiohttp logs what it cannot parse, word for word: that may hold a secret.


class AgentServer(web.Server):
    """aiohttp's low-level server, with connections of our own."""

    def __init__(self, handler: Handler, engine: Engine, limits: Limits) -> None:
        super().__init__(
            handler,
            request_factory=self._request,
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
            max_headers=HEADERS_MOST,
            auto_decompress=False,
            access_log=None,
            logger=_silent,
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGERING_S,
        )
        self._handler = handler
        self._engine = engine
        self._limits = limits
        self._listening: list[asyncio.Server] = []

    def __call__(self) -> AgentConnection:
        """Make the protocol of a new connection."""
        connection = AgentConnection(self, self._shown, loop=self._loop, **self._kwargs)
        connection.overloaded = len(self._connections) >= self._limits.connections
        return connection

    def _shown(self, action_id: str, folded: bool) -> None:
        self._engine.delivered(action_id, folded=folded)

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> BaseRequest:
        """Make a request whose body may be as large as our own bounds say."""
        protocol.takes(payload)
        return BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=2**62)

    async def listen(self, host: str, port: int) -> int:
        """Listen; the port."""
        server = await self._loop.create_server(self, host, port, backlog=1024)
        self._listening.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def close(self, within_s: float) -> None:
        """Stop listening, and let what is being answered be answered."""
        for server in self._listening:
            server.close()
        self._handler.pages.hurry()
        self._handler.reads.cut()
        self.pre_shutdown()
        await self.shutdown(within_s)
