"""One connection to a provider: writes one request at a time, feeds its reader, minds its time.

It never decides to send, and never sends twice. Whatever goes wrong ends in `abort`, and the reader says what came.
"""

import asyncio
import select
import ssl
from collections.abc import Callable
from typing import Final, Protocol, cast

from proxy.core.http import Answered, Silence
from proxy.edges.upstream.reader import Reader
from proxy.ports import Sending

# A streamed body is read no further ahead of its consumer than this.
BUFFERED_BYTES: Final = 256 * 1024
# POLLRDHUP (the peer's FIN alone) exists on Linux only; elsewhere a FIN is readable as well.
_ANYTHING: Final = select.POLLIN | select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Ticks(Protocol):
    """The two clocks that a deadline is compared with; `proxy.ports.Clock` is one."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class Connection(asyncio.Protocol):
    """The protocol of one connection. `idle_until_ms`: set by the pool while it rests there."""

    __slots__ = (
        "_clock",
        "_due_ms",
        "_head_seen",
        "_loop",
        "_lost",
        "_paused",
        "_poll",
        "_raw",
        "_reader",
        "_streaming",
        "_timer",
        "_timer_ms",
        "_transport",
        "_waiter",
        "gone",
        "idle_until_ms",
        "timed_out",
        "upload_ended",
    )

    _raw: asyncio.Transport
    _transport: asyncio.Transport

    def __init__(self, clock: Ticks, lost: Callable[["Connection"], None]) -> None:
        """`lost` is called once, when the connection is closed for good."""
        self._clock = clock
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._poll = select.poll()
        self._reader: Reader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._due_ms: int | None = None
        self._head_seen = False
        self._streaming = False
        self._paused = False
        self.gone = False
        self.timed_out = False
        self.upload_ended = True
        self.idle_until_ms = 0

    # Before a request

    def secured(self, transport: asyncio.Transport) -> None:
        """From now on write to the TLS transport, which lies over the one the connection was made with."""
        self._transport = transport

    @property
    def closing(self) -> bool:
        """Is it closed, or about to be?"""
        return self._transport.is_closing()

    def stale(self) -> bool:
        """Ask the kernel whether an idle connection is still good: anything to read is a FIN, an RST or a lie.

        The event loop may not have told us yet. Not for a fresh TLS connection: session tickets are readable.
        """
        # The order matters: the number of a closed socket may be another's by now.
        return self._transport.is_closing() or bool(self._poll.poll(0))

    def send(self, parts: tuple[bytes, ...], reader: Reader, sending: Sending, *, streaming: bool) -> None:
        """Write a request; from here on a byte may have left.

        `streaming`: `arrival` ends with the head and with each piece, not only with the whole.
        """
        self._reader = reader
        self._streaming = streaming
        self._head_seen = False
        self.timed_out = False
        self.upload_ended = True
        self.due(sending.until_ms)
        try:
            for part in parts:
                sending.left_bytes += len(part)  # Before the write: one that raises may have sent.
                self._transport.write(part)
        except (OSError, RuntimeError):  # uvloop raises the latter where asyncio reports the loss later.
            reader.cut()
            self.abort()

    # While it waits

    async def arrival(self) -> None:
        """Wait until the reader ended, or while streaming until there is more. Cancelled, it closes."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._waiter = None

    def due(self, at_ms: int | None) -> None:
        """End the exchange at a time of the monotonic clock, or with None at none.

        The timer is left running from exchange to exchange and looks at the clock when it fires: setting one and
        cancelling it for each would cost more than the parsing.
        """
        self._due_ms = at_ms
        if at_ms is None or self.gone or (self._timer is not None and self._timer_ms <= at_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = at_ms
        self._timer = self._loop.call_later(max(at_ms - self._clock.monotonic_ms(), 0) / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._due_ms is None:
            return
        if self._clock.monotonic_ms() < self._due_ms:
            self.due(self._due_ms)
            return
        self._due_ms = None
        self.timed_out = True
        self._cut()
        self.abort()

    def resume(self) -> None:
        """Read on, after the consumer has taken what was buffered."""
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    # After it

    def outcome(self) -> Silence | Answered:
        """Say what the exchange came to; the reader has ended."""
        reader = self._reader
        assert reader is not None
        if reader.head is None:
            return Silence(timed_out=self.timed_out, garbled=reader.garbled)
        return Answered(reader.response(reader.take()), reader.integrity, self.upload_ended)

    def rest(self) -> None:
        """Let go of the exchange; whatever comes now was not asked for."""
        self._reader = None
        self._due_ms = None
        self.resume()

    def abort(self) -> None:
        """Close at once. What was not given to the kernel yet is dropped."""
        self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; the TLS one, if any, comes later by `secured`."""
        self._raw = self._transport = cast("asyncio.Transport", transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), _ANYTHING)

    def data_received(self, data: bytes) -> None:
        """Feed the reader; with none, somebody speaks who was not asked, and is not to be trusted further."""
        reader = self._reader
        if reader is None:
            self.abort()
            return
        reader.feed(data)
        if not self._head_seen and reader.head is not None:
            self._head_seen = True
            self.upload_ended = not self._unwritten()
        if reader.ended:
            self._due_ms = None
            if not reader.reusable:
                self.abort()
        elif self._streaming and reader.buffered > BUFFERED_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake(reader)

    def eof_received(self) -> None:
        """The peer will say no more. The transport closes itself after this."""
        if self._reader is not None:
            if self._said_goodbye():
                self._reader.eof()
            else:
                self._reader.cut()
            self._wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the event loop's signature.
        """It is closed for good, by whomever."""
        self.gone = True
        if self._timer is not None:
            self._timer.cancel()
        self._cut()
        self._lost(self)

    def _cut(self) -> None:
        if self._reader is not None:
            self._reader.cut()
            self._wake(self._reader)

    def _wake(self, reader: Reader) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done() and (reader.ended or (self._streaming and self._head_seen)):
            waiter.set_result(None)

    def _unwritten(self) -> int:
        """Bytes that were not given to the kernel. A TLS transport does not count those of the one below it."""
        waiting = self._raw.get_write_buffer_size()
        if self._transport is not self._raw:
            waiting += self._transport.get_write_buffer_size()
        return waiting

    def _said_goodbye(self) -> bool:
        """Over TLS a FIN may be forged: only close_notify ends a body without framing (RFC 9112, section 9.8).

        uvloop calls `eof_received` for close_notify alone, asyncio for a bare FIN too; the TLS object knows.
        """
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return True
        try:
            return tls.read(1) == b""
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError:
            return False
