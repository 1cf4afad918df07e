"""A raw server that does what a test says, connection by connection, and what such tests need besides.

Nothing here sleeps: a test waits for bytes, for an event, or for a deadline of the code under test.
"""

import asyncio
import functools
import inspect
import socket
import ssl
import struct
import time
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest
import uvloop

from proxy.core.http import Answered, Headers, NotSent, Request, Silence
from proxy.edges.upstream import Origin, UpstreamClient
from proxy.ports import SendBefore, Sending

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
PATIENCE_S = 30  # A test that hangs ends here, red.


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on asyncio's loop and on uvloop; what a callback raises inside the loop fails it too."""

    @functools.wraps(test)
    def run(*args: Any, loop: str, **kwargs: Any) -> None:
        complaints: list[dict[str, Any]] = []

        async def guarded() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            async with asyncio.timeout(PATIENCE_S):
                await test(*args, **kwargs)

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(guarded())
        if complaints:
            pytest.fail(f"the event loop complained: {complaints}")

    signature = inspect.signature(test)
    extra = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    both: Callable[..., None] = pytest.mark.parametrize("loop", LOOPS)(run)
    return both


def start(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Let something run beside the script; the test holds and awaits it."""
    return asyncio.get_running_loop().create_task(coroutine)


async def turns(count: int = 5) -> None:
    """Let the event loop look at its sockets a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def timer(seconds: float) -> None:
    """Wait for a timer of the loop, where a deadline has to pass for real."""
    rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, rung.set_result, None)
    await rung


class Watch:
    """The clocks of this machine, each movable by a test."""

    def __init__(self) -> None:
        self.monotonic_ahead_ms = 0
        self.wall_ahead_ms = 0

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self.monotonic_ahead_ms

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.wall_ahead_ms


def sending(watch: Watch, *, ms: int = 20_000, send_before_ms: int | None = None) -> Sending:
    """A try that ends `ms` from now, and may begin until `send_before_ms` from now."""
    limit = None
    if send_before_ms is not None:
        limit = SendBefore(watch.monotonic_ms() + send_before_ms, watch.wall_ms() + send_before_ms)
    return Sending(watch.monotonic_ms() + ms, limit)


class Peer:
    """One accepted connection, from the server's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Read one request, head and body by Content-Length, as its raw bytes."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                return head + await self.reader.readexactly(int(value))
        return head

    def say(self, data: bytes) -> None:
        """Write as one piece."""
        self.writer.write(data)

    def hang_up(self) -> None:
        """Send FIN; over TLS close_notify before it."""
        self.writer.close()

    def reset(self) -> None:
        """Send RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    def stop_reading(self) -> None:
        """Take nothing more out of the kernel."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def heard_no_more(self) -> bytes:
        """Wait until the other side has closed; return what it said until then."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


class Scripted:
    """A listening server; `accept` hands out its connections in order."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._tls = tls
        self._host = host
        self._accepted: asyncio.Queue[Peer] = asyncio.Queue()
        self.peers: list[Peer] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for peer in self.peers:
            peer.writer.transport.abort()
        await turns()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        self._accepted.put_nowait(peer)

    async def accept(self) -> Peer:
        return await self._accepted.get()


class Asker:
    """A client of one provider, `acme`, and the clocks it looks at."""

    def __init__(self, client: UpstreamClient, watch: Watch) -> None:
        self.client = client
        self.watch = watch
        self.sent: list[Sending] = []

    def sending(self, *, ms: int = 20_000, send_before_ms: int | None = None) -> Sending:
        self.sent.append(sending(self.watch, ms=ms, send_before_ms=send_before_ms))
        return self.sent[-1]

    async def exchange(self, request: Request, given: Sending | None = None) -> NotSent | Silence | Answered:
        return await self.client.exchange("acme", request, given or self.sending())

    def ask(self, request: Request, given: Sending | None = None) -> asyncio.Task[NotSent | Silence | Answered]:
        return start(self.exchange(request, given))

    async def open(self, request: Request, given: Sending | None = None) -> Any:
        return await self.client.open("acme", request, given or self.sending())


@asynccontextmanager
async def asking(
    port: int,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    connect_timeout_ms: int = 10_000,
    response_bytes: int = 1 << 20,
    prefix: str = "",
    **settings: Any,
) -> Any:
    """A client whose provider `acme` is at a local port."""
    watch = Watch()
    origin = Origin("https" if tls else "http", host, port, tls, prefix)
    client = UpstreamClient(
        {"acme": origin},
        connect_timeout_ms=connect_timeout_ms,
        response_bytes=response_bytes,
        clock=watch,
        **settings,
    )
    try:
        yield Asker(client, watch)
    finally:
        await client.close()


def get(target: str = "/", headers: Headers = ()) -> Request:
    return Request("GET", target, headers)


def post(body: bytes = b"amount=5400", *, target: str = "/refunds", headers: Headers = ()) -> Request:
    return Request("POST", target, (*headers, (b"Content-Length", b"%d" % len(body))), body)


def ok(body: bytes = b"ok", *headers: bytes) -> bytes:
    lines = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


async def answered(asker: Asker, server: Scripted, request: Request, raw: bytes) -> tuple[Peer, Answered]:
    """One exchange on a fresh connection, answered at once."""
    task = asker.ask(request)
    peer = await server.accept()
    await peer.request()
    peer.say(raw)
    outcome = await task
    assert isinstance(outcome, Answered)
    return peer, outcome
