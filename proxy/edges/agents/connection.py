"""One agent's connection: whether it is still there, and whether it has shown that an answer arrived (CONTRACT 2.3).

An answer that was written is not an answer that arrived. It counts as delivered by the next request on the connection,
by an orderly close once every byte was acknowledged, or where the connection is still open after two seconds with
nothing left to send, in asyncio's buffer or in the kernel's. A reset, or a close before that, leaves it undelivered.
"""

import asyncio
import fcntl
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from proxy.core.answers import Code, own
from proxy.edges.agents.writing import OwnResponse
from proxy.engine import Asker

SHOWN_AFTER_S: Final = 2.0
_TIOCOUTQ: Final = 0x5411  # Linux, tcp(7) SIOCOUTQ: bytes that are unsent, or sent and not acknowledged.
_SO_NWRITE: Final = 0x1024  # macOS, getsockopt(2): the same.

_REFUSED: Final = {
    "LineTooLong": "a line of its head, or a header, is too long",
    "BadHttpMethod": "its first line is no request line of HTTP/1.1",
    "TransferEncodingError": "its chunks are not framed as RFC 9112 says",
    "ContentLengthError": "its Content-Length is not what follows",
    "InvalidHeader": "one of its headers is not a header",
    "InvalidURLError": "its target is not a path or URL",
}


class AgentConnection(RequestHandler):
    """aiohttp's strict parser and keep-alive, with an ear for what the agent does after it was answered."""

    __slots__ = ("_closed", "_given", "_watch", "asker", "on_shown", "overloaded")

    def __init__(self, manager: Any, on_shown: Callable[[str, bool], None], **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self.on_shown = on_shown
        self.asker = Asker()
        self.overloaded = False
        self._given: tuple[str, bool] | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None

    def new_asker(self) -> Asker:
        """Begin a request: the agent is there, or was when it sent it."""
        self.asker = Asker()
        if self.transport is None or self.transport.is_closing():
            self.asker.hang_up()
        return self.asker

    # ── What was given ────────────────────────────────────────────────────────────────────────────────────────────────

    def gave(self, action_id: str, *, folded: bool) -> None:
        """A provider's own answer was written; from now on, watch what the agent does."""
        self._given = (action_id, folded)
        self._watch = self._loop.call_later(SHOWN_AFTER_S, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._given is None or self.transport is None or self.transport.is_closing():
            return
        if self._unread() == 0:
            self._shown()
        else:
            self._watch = self._loop.call_later(SHOWN_AFTER_S, self._look)

    def _shown(self) -> None:
        given, self._given = self._given, None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if given is not None:
            self.on_shown(*given)

    def _unread(self) -> int:
        """Return how many bytes of ours the agent's machine has not acknowledged, as far as can be told."""
        transport = self.transport
        if transport is None:
            return 1
        return transport.get_write_buffer_size() + unacknowledged(transport.get_extra_info("socket"))

    async def linger(self) -> None:
        """Before we close a connection after an answer: let the agent close first, so that it shows that it got it."""
        transport = self.transport
        if self._given is None or transport is None or transport.is_closing():
            return
        self._closed = self._loop.create_future()
        if transport.can_write_eof():
            transport.write_eof()
        await asyncio.wait({self._closed}, timeout=SHOWN_AFTER_S)

    # ── What the agent does ───────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """The next request shows that the last answer was read, if all of it had left."""
        if data and self._given is not None and self._unread() == 0:
            self._shown()
        super().data_received(data)

    def eof_received(self) -> None:
        """An orderly close: after reading, where nothing is left unacknowledged."""
        if self._given is not None and self._unread() == 0:
            self._shown()
        self._given = None
        self.asker.hang_up()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Whatever was not shown by now stays undelivered."""
        self._given = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.asker.hang_up()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        super().connection_lost(exc)

    # ── What cannot be parsed ─────────────────────────────────────────────────────────────────────────────────────────

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  # It quotes what was sent; that may be a secret.
    ) -> StreamResponse:
        """Answer what is no request, without a word of it in the answer or the log."""
        if request.writer.output_size > 0:
            raise ConnectionError("a response is under way already")
        if status < 500:
            why = next((_REFUSED[k.__name__] for k in type(exc).__mro__ if k.__name__ in _REFUSED), None)
            said = own(
                Code.BAD_REQUEST,
                f"this is not a request as RFC 9112 frames it{f': {why}' if why else ''}. Nothing was sent.",
            )
        else:
            said = own(Code.OUTCOME_UNKNOWN, "this proxy failed while it handled the request; its outcome is unknown.")
        response = OwnResponse(said)
        response.force_close()
        return response


def unacknowledged(sock: socket.socket | None) -> int:
    """Return the bytes in the kernel's send queue that the peer has not acknowledged; 0 where no one can tell."""
    if sock is None:
        return 0
    try:
        platform: str = sys.platform
        if platform == "linux":
            return cast("int", struct.unpack("i", fcntl.ioctl(sock.fileno(), _TIOCOUTQ, b"\0\0\0\0"))[0])
        if platform == "darwin":
            return sock.getsockopt(socket.SOL_SOCKET, _SO_NWRITE)
    except OSError:
        return 1  # The socket is gone: nothing more can be acknowledged on it.
    return 0
