"""One connection to the stand-in: reads requests as they come, performs the steps of the answers, breaks on demand."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import Final, cast

from msgspec import Struct

from proxy.edges.standin.delivery import Close, Send, Step
from proxy.edges.standin.exchange import Exchange, pause
from proxy.edges.standin.faults import Fault, Faults, How, Kind, Stage
from proxy.edges.standin.journal import Entry, Journal
from proxy.edges.standin.provider import Call, Clock, Provider
from proxy.edges.standin.wire import (
    END_OF_HEAD,
    HEAD_BYTES_MAX,
    Answer,
    Body,
    Head,
    Malformed,
    encode,
    framing_of,
    normal_path,
    parse_head,
)

CONTROL: Final = "/_standin/"
_READ_BYTES: Final = 1 << 16
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_MALFORMED: Final = Answer(400, ((b"Content-Type", b"text/plain"), (b"Connection", b"close")), b"malformed request\n")
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close() sends RST instead of FIN.


class Gone(Exception):
    """The client ended the connection in the middle of a request."""


class Inbox:
    """Bytes that have arrived and were not taken yet."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.waiting = b""

    async def more(self) -> bool:
        """Wait for more bytes; False at the end."""
        data = await self._reader.read(_READ_BYTES)
        self.waiting += data
        return bool(data)

    async def any(self) -> bool:
        """Is there anything to be read? Waits until that is known."""
        return bool(self.waiting) or await self.more()

    async def head(self) -> bytes:
        """Take a whole request head."""
        while END_OF_HEAD not in self.waiting:
            if len(self.waiting) > HEAD_BYTES_MAX:
                raise Malformed("the head is too long")
            if not await self.more():
                raise Gone
        raw, _, self.waiting = self.waiting.partition(END_OF_HEAD)
        return raw + END_OF_HEAD

    async def fill(self, body: Body, at_least: int | None = None) -> None:
        """Feed a body until it is whole, or holds `at_least` bytes."""
        while True:
            self.waiting = body.feed(self.waiting)
            if body.done or (at_least is not None and len(body.raw) >= at_least):
                return
            if not await self.more():
                raise Gone


class Shop(Struct, frozen=True):
    """What a connection works with. `control` answers what is asked below /_standin/."""

    provider: Provider
    faults: Faults
    journal: Journal
    clock: Clock
    control: Callable[[Call], Answer]


class Connection:
    """Serves one connection until either side ends it."""

    def __init__(self, shop: Shop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, number: int) -> None:
        self._shop = shop
        self._reader = reader
        self._writer = writer
        self._inbox = Inbox(reader)
        self._number = number
        self._count = 0

    async def serve(self) -> None:
        """Answer one request after the other."""
        transport = self._writer.transport
        transport.set_write_buffer_limits(0)  # So that drain() means: given to the kernel.
        try:
            refused = self._take(Stage.ACCEPT)
            if refused:
                self._reset()
                return
            while await self._inbox.any() and await self._one():
                pass
        except OSError:
            pass  # The client reset the connection: the journal has what arrived.
        finally:
            transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()

    async def closed(self) -> None:
        """Return once the connection has ended."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _one(self) -> bool:
        """Serve one request; True where the connection goes on."""
        if self._inbox.waiting.startswith(b"\r\n"):
            self._inbox.waiting = self._inbox.waiting[2:]  # RFC 9112, section 2.2: ignored before a request line.
            return True
        dropped = None if self._is_control() else self._take(Stage.FIRST_BYTE)
        if dropped:
            self._open(head=self._inbox.waiting, fault=dropped.kind.value)
            await self._close(dropped.how, unread=True)
            return False
        entry, raw = None, b""
        try:
            raw = await self._inbox.head()
            head = parse_head(raw)
            framing, length = framing_of(head)
            if head.target.startswith(CONTROL):
                return await self._serve_control(head, Body(framing, length))
            entry = self._open(head=head.raw, method=head.method, target=head.target, headers=head.headers)
            entry.note(framing=framing)
            return await self._serve_request(head, Body(framing, length), entry)
        except Gone:
            if entry is None:
                self._open(head=self._inbox.waiting)
            return False
        except Malformed as problem:
            (entry or self._open(head=raw or self._inbox.waiting)).note(status=400, fault=f"malformed: {problem}")
            await self._send(encode(_MALFORMED, bodiless=False), entry)
            await self._close("fin", unread=True)
            return False

    def _is_control(self) -> bool:
        """Is it a control request that begins here? Their first bytes use up no fault."""
        return self._inbox.waiting.partition(b" ")[2].startswith(CONTROL.encode())

    def _open(self, **fields: object) -> Entry:
        self._count += 1
        shop = self._shop
        entry = shop.journal.open(
            provider=shop.provider.name, connection=self._number, nth=self._count, arrived_ms=shop.clock()
        )
        entry.note(**fields)
        return entry

    async def _serve_control(self, head: Head, body: Body) -> bool:
        if head.expects_continue:
            await self._send(_CONTINUE, None)
        await self._inbox.fill(body)
        answer = self._shop.control(Call(head.method, head.target, head.headers, bytes(body.data)))
        await self._send(encode(answer, bodiless=head.method == "HEAD"), None)
        return head.keeps_alive

    async def _serve_request(self, head: Head, body: Body, entry: Entry) -> bool:
        call = Call(head.method, head.target, head.headers)
        caller = self._shop.provider.caller(call)
        entry.note(key=caller.key, account=caller.account, mode=caller.mode)
        fault = self._take(Stage.HEAD, head, entry)
        if fault and fault.kind is Kind.DROP_AFTER_HEAD:
            await self._close(fault.how, unread=not body.done)
            return False
        await self._upload(head, body, entry, fault)
        if fault and fault.kind is Kind.ANSWER_BEFORE_UPLOAD_ENDS:
            return head.keeps_alive
        call = Call(head.method, head.target, head.headers, bytes(body.data))
        exchange = Exchange(self._shop.provider, self._shop.faults, call, entry)
        goes_on = await self._perform(await exchange.steps(), entry)
        return goes_on and head.keeps_alive

    async def _upload(self, head: Head, body: Body, entry: Entry, fault: Fault | None) -> None:
        """Read the body, with what a fault makes of it; the journal has even a part of one."""
        try:
            if head.expects_continue and not self._take(Stage.CONTINUE, head, entry):
                await self._send(_CONTINUE, entry)
            if fault:
                await self._interrupt(head, body, entry, fault)
            await self._inbox.fill(body)
        finally:
            entry.note(body=bytes(body.data), body_raw=bytes(body.raw), complete=body.done)

    async def _interrupt(self, head: Head, body: Body, entry: Entry, fault: Fault) -> None:
        await self._inbox.fill(body, at_least=fault.after_bytes)
        entry.note(body=bytes(body.data), body_raw=bytes(body.raw))
        if fault.kind is Kind.STOP_READING:
            transport = cast(asyncio.Transport, self._writer.transport)
            transport.pause_reading()
            await fault.gate.wait()
            transport.resume_reading()
            return
        call = Call(head.method, head.target, head.headers)
        reply = self._shop.provider.refusal(call, fault.status or 413)
        body_sent = reply.answer.body if fault.body is None else fault.body
        answer = Answer(reply.answer.status, (*reply.answer.headers, *fault.headers), body_sent)
        entry.note(status=answer.status, request_id=reply.request_id)
        await self._send(encode(answer, bodiless=head.method == "HEAD"), entry)

    async def _perform(self, steps: tuple[Step, ...], entry: Entry) -> bool:
        """Carry out the steps; False where one of them ends the connection."""
        for step in steps:
            match step:
                case Send():
                    await self._send(step.data, entry)
                case Close():
                    await self._close(step.how)
                    return False
                case _:
                    await pause(step)
        return True

    async def _send(self, data: bytes, entry: Entry | None) -> None:
        if entry:
            entry.note(sent=entry.arrival.sent + data)
        self._writer.write(data)
        await self._writer.drain()

    async def _close(self, how: How, *, unread: bool = False) -> None:
        """End the connection. A FIN with bytes unread would reach the client as a RST: those are read first."""
        if how == "rst":
            self._reset()
            return
        if unread and self._writer.can_write_eof():
            self._writer.write_eof()
            while await self._reader.read(_READ_BYTES):
                pass
        self._writer.transport.close()

    def _reset(self) -> None:
        descriptor = self._writer.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(descriptor)) as twin:  # uvloop's own socket object sets no options.
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()

    def _take(self, stage: Stage, head: Head | None = None, entry: Entry | None = None) -> Fault | None:
        method, path = (head.method, normal_path(head.target)) if head else ("", "")
        fault = self._shop.faults.take(stage, self._shop.provider.name, method=method, path=path)
        if fault and entry:
            entry.note(fault=fault.kind.value)
        return fault
