"""One agent's connection: whether it is still there, and whether it has shown that an answer arrived (CONTRACT 2.3).

An answer that was written is not an answer that arrived. It counts as delivered by the next request on the connection,
by an orderly close once every byte was acknowledged, or where the connection is still open after two seconds with
nothing left to send, in asyncio's buffer or in the kernel's. A reset, or a close before that, leaves it undelivered.
An agent that only closes its own half still gets its answer: whether it reads it, nobody can tell any more.
"""

import asyncio
import fcntl
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from proxy.core.answers import Code, own
from proxy.edges.agents.ways import NO_EGRESS
from proxy.edges.agents.writing import OwnResponse, own_bytes
from proxy.engine import Asker

SHOWN_AFTER_S: Final = 2.0
LINGER_S: Final = 2.0  # How long we let an agent close first: a close of ours with bytes unread would be a reset.
OPENING_BYTES: Final = 64 << 10
_CONNECT: Final = b"CONNECT "
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

    __slots__ = (
        "_answered",
        "_begun",
        "_closed",
        "_ended",
        "_given",
        "_opening",
        "_taken",
        "_watch",
        "asker",
        "on_shown",
        "overloaded",
    )

    def __init__(self, manager: Any, on_shown: Callable[[str, bool], None], **kwargs: Any) -> None:
        super().__init__(manager, **kwargs)
        self.on_shown = on_shown
        self.asker = Asker()
        self.overloaded = False
        self._given: list[tuple[str, bool]] = []
        self._watch: asyncio.TimerHandle | None = None
        self._closed: asyncio.Future[None] | None = None
        self._opening = b""
        self._begun = False  # Is it known that the connection does not begin with CONNECT?
        self._ended = False  # Has the agent closed its half?
        self._taken: StreamReader | None = None  # The body of the request that is being answered.
        self._answered = 0

    def new_asker(self) -> Asker:
        """Begin a request: the agent is there, or was when it sent it."""
        self.asker = Asker()
        if self._ended or self.transport is None or self.transport.is_closing():
            self.asker.hang_up()
        return self.asker

    def takes(self, payload: StreamReader) -> None:
        """Note that a request is taken up, with its body."""
        self._taken = payload

    async def finish_response(
        self, request: BaseRequest, resp: StreamResponse, start_time: float | None
    ) -> tuple[StreamResponse, bool]:
        """Note that a request is answered."""
        finished = await super().finish_response(request, resp, start_time)
        self._answered += 1
        if self._ended and not self._messages:
            self.close()  # That was the last that it had asked.
        return finished

    # ── What was given ────────────────────────────────────────────────────────────────────────────────────────────────

    def gave(self, action_id: str, *, folded: bool) -> None:
        """A provider's own answer was written; from now on, watch what the agent does."""
        if self._ended:
            return  # Its FIN came before our last byte.
        self._given.append((action_id, folded))
        self._watch_in(SHOWN_AFTER_S)

    def _watch_in(self, seconds: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._watch = None
        if not self._given or self.transport is None or self.transport.is_closing():
            return
        if self._unread() == 0:
            self._shown()
        else:
            self._watch_in(SHOWN_AFTER_S)

    def _shown(self) -> None:
        """Answers leave in order: where the last one was read, so were those before it."""
        given = self._forget_given()
        for action_id, folded in given:
            self.on_shown(action_id, folded)

    def _forget_given(self) -> "list[tuple[str, bool]]":
        given, self._given = self._given, []
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        return given

    def _unread(self) -> int:
        """Return how many bytes of ours the agent's machine has not acknowledged, as far as can be told."""
        transport = self.transport
        if transport is None:
            return 1
        return transport.get_write_buffer_size() + unacknowledged(transport.get_extra_info("socket"))

    async def linger(self) -> None:
        """Before we close a connection after an answer: let the agent close first, so that it gets all of it."""
        transport = self.transport
        if transport is None or transport.is_closing() or self._ended:
            return
        self._closed = self._loop.create_future()
        self.close()  # What it still sends is not for us.
        if transport.can_write_eof():
            transport.write_eof()
        await asyncio.wait({self._closed}, timeout=LINGER_S)

    # ── What the agent does ───────────────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        """The next request shows that the last answer was read, if all of it had left."""
        if data and self._given and self._unread() == 0:
            self._shown()
        if not self._begun:
            data = self._begin(data)
            if not self._begun:
                return
        super().data_received(data)

    def _begin(self, data: bytes) -> bytes:
        """Tell CONNECT from all else, before a parser that refuses it for the `Host` that Python 3.11 does not send."""
        self._opening += data
        if not (_CONNECT.startswith(self._opening[: len(_CONNECT)])):
            opening, self._opening = self._opening, b""
            self._begun = True
            return opening
        if b"\r\n\r\n" in self._opening or len(self._opening) > OPENING_BYTES:
            self._opening = b""
            self._refuse_tunnel()
        return b""

    def _refuse_tunnel(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing() or self._close:
            return
        transport.write(own_bytes(own(Code.EGRESS_DENIED, NO_EGRESS), head_only=False, keep_alive=False))
        self.close()
        if transport.can_write_eof():
            transport.write_eof()
        self._watch = self._loop.call_later(LINGER_S, transport.close)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # aiohttp never keeps its half open.
        """An orderly close: after reading, where nothing is left unacknowledged. True: it is still to be answered."""
        if self._given and self._unread() == 0:
            self._shown()
        self._forget_given()
        self._ended = True
        self.asker.hang_up()
        self._end_linger()
        super().eof_received()
        if self._request_count == self._answered or self._closed is not None:
            return None
        last = self._messages[-1][1] if self._messages else self._taken
        if last is not None and not last.is_eof():
            last.set_exception(RequestPayloadError("cut short"))  # It is not sent, and hears why.
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """Whatever was not shown by now stays undelivered."""
        self._forget_given()
        self._ended = True
        self.asker.hang_up()
        self._end_linger()
        super().connection_lost(exc)

    def _end_linger(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

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
        response = OwnResponse(said, self.linger)
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
