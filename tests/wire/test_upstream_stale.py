"""The last look before the first byte, and the count that is raised before each write."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from proxy.core.http import Answered, NotSent, Silence, Unsent
from tests.wire.scripted import Scripted, answered, asking, get, ok, on_both_loops, post


class Raw:
    """A server socket without an event loop about it: what it does has happened when it returns."""

    async def __aenter__(self) -> "Raw":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self.connections: list[socket.socket] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        for sock in (self._listener, *self.connections):
            sock.close()

    async def serve(self, raw: bytes = ok()) -> bytes:
        """Accept a connection and answer its one request; return what was asked."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self._listener)
        connection.setblocking(False)
        self.connections.append(connection)
        asked = await loop.sock_recv(connection, 65536)
        await loop.sock_sendall(connection, raw)
        return asked


def fin(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


def rst(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def speak(connection: socket.socket) -> None:
    connection.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")


@on_both_loops
@pytest.mark.parametrize("event", [fin, rst, speak])
async def test_an_idle_connection_that_went_bad_is_found_out_before_the_event_loop_tells(event: Any) -> None:
    async with Raw() as server, asking(server.port) as asker:
        task = asker.ask(get())
        await server.serve()
        assert isinstance(await task, Answered)
        pool = asker.client._pools["acme"]
        assert len(pool._idle) == 1

        event(server.connections[0])
        assert pool.take() is None  # In the same breath: no turn of the loop was possible.


@on_both_loops
@pytest.mark.parametrize("event", [fin, rst, speak])
async def test_a_stale_connection_is_passed_over_and_the_request_leaves_once_on_another(event: Any) -> None:
    async with Raw() as server, asking(server.port) as asker:
        task = asker.ask(get())
        await server.serve()
        await task
        event(server.connections[0])
        task = asker.ask(post())

        assert (await server.serve(ok(b"fresh"))).startswith(b"POST /refunds ")
        outcome = await task
        assert isinstance(outcome, Answered)
        assert outcome.response.body == b"fresh"
        if event is not rst:
            with contextlib.suppress(ConnectionResetError):  # What is closed with something unread is reset.
                assert await asyncio.get_running_loop().sock_recv(server.connections[0], 100) == b""


@on_both_loops
async def test_a_server_that_hangs_up_on_every_stale_and_fresh_connection_was_sent_nothing() -> None:
    async with Raw() as server, asking(server.port, connect_timeout_ms=200) as asker:
        task = asker.ask(get())
        await server.serve()
        await task
        rst(server.connections[0])
        server._listener.close()

        given = asker.sending()
        assert await asker.exchange(post(), given) == NotSent(Unsent.REFUSED)
        assert given.left_bytes == 0


class Tap:
    """A transport that does something else on write."""

    def __init__(self, transport: Any, write: Callable[[Any, bytes], None]) -> None:
        self._transport = transport
        self._write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._write(self._transport, data)


@on_both_loops
@pytest.mark.parametrize("error", [OSError("broken"), RuntimeError("the handler is closed")])
@pytest.mark.parametrize("sends_first", [False, True])
async def test_the_counter_is_raised_before_the_write_so_one_that_raises_is_silence(
    error: Exception, sends_first: bool
) -> None:
    counted: list[int] = []

    def write(transport: Any, data: bytes) -> None:
        counted.append(given.left_bytes)
        if sends_first:
            transport.write(data)
        raise error

    async with Scripted() as server, asking(server.port) as asker:
        await answered(asker, server, get(), ok())
        (connection,) = asker.client._pools["acme"]._idle
        connection._transport = Tap(connection._transport, write)
        given = asker.sending()

        assert await asker.exchange(post(), given) == Silence()
        assert counted == [given.left_bytes]
        assert given.left_bytes > 0


@on_both_loops
async def test_each_write_of_a_large_request_is_counted_before_it_is_made() -> None:
    seen: list[tuple[int, int]] = []

    def write(transport: Any, data: bytes) -> None:
        seen.append((given.left_bytes, len(data)))
        transport.write(data)

    async with Scripted() as server, asking(server.port) as asker:
        await answered(asker, server, get(), ok())
        (connection,) = asker.client._pools["acme"]._idle
        connection._transport = Tap(connection._transport, write)
        given = asker.sending()
        task = asker.ask(post(bytes(100_000)), given)
        peer = server.peers[0]
        whole = await peer.request()
        peer.say(ok())
        await task

    (first, head), (second, body) = seen
    assert (first, second) == (head, head + body)
    assert given.left_bytes == head + body == len(whole)
