"""The sockets of pages of our own, admin and health: aiohttp's, but for what it says of requests that are none.

Its own answer and its own log line quote up to a hundred bytes of what came, and that may be a token.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

CLOSE_S: Final = 1.0
LINGER_S: Final = 2.0
_log = structlog.get_logger(__name__)
_silent = logging.getLogger("proxy.edges.sites.silent")
_silent.disabled = True


class QuietConnection(RequestHandler):
    """A connection that repeats nothing of what it cannot read."""

    __slots__ = ("_closed",)

    _closed: "asyncio.Future[None] | None"

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  # It quotes what was sent.
    ) -> StreamResponse:
        """Answer what is no request, and a failure of ours."""
        if request.writer.output_size > 0:
            raise ConnectionError("a response is under way already")
        if status < 500:
            said = {"code": "bad_request", "message": "This is not a request as RFC 9112 frames it."}
        else:
            _log.error("a page failed", error=type(exc).__name__)
            said = {"code": "internal", "message": "This page failed; the log of Doubtless says by what."}
        response = _Last(self, body=msgspec.json.encode(said), status=status, content_type="application/json")
        response.force_close()
        return response

    async def linger(self) -> None:
        """Let whoever is still sending finish: a close of ours with bytes unread would be a reset."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._closed = self._loop.create_future()
        self.close()
        if transport.can_write_eof():
            transport.write_eof()
        await asyncio.wait({self._closed}, timeout=LINGER_S)

    def eof_received(self) -> None:
        """They close; so do we."""
        self._end_linger()

    def connection_lost(self, exc: BaseException | None) -> None:
        """They are gone."""
        self._end_linger()
        super().connection_lost(exc)

    def _end_linger(self) -> None:
        closed = getattr(self, "_closed", None)
        if closed is not None and not closed.done():
            closed.set_result(None)


class _Last(web.Response):
    """A response after which the connection ends."""

    def __init__(self, connection: QuietConnection, *, body: bytes, status: int, content_type: str) -> None:
        super().__init__(body=body, status=status, content_type=content_type)
        self._connection = connection

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        await self._connection.linger()


@contextlib.asynccontextmanager
async def site(application: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve an application; the port that it got."""
    runner = web.AppRunner(application, access_log=None, logger=_silent, shutdown_timeout=CLOSE_S)
    await runner.setup()
    server, loop = runner.server, asyncio.get_running_loop()
    assert server is not None
    try:
        listening = await loop.create_server(
            lambda: QuietConnection(server, loop=loop, **server._kwargs),  # As aiohttp's own factory does.
            host,
            port,
        )
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            listening.close()
    finally:
        await runner.cleanup()
