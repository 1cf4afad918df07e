"""Answers that are handed on while they come."""

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from proxy.core.http import Integrity, NotSent, Request, Response, Silence, Unsent
from proxy.edges.upstream import Stream, Truncated, tls_context
from proxy.edges.upstream.connection import BUFFERED_BYTES
from tests.wire.scripted import Asker, Peer, Scripted, answered, asking, get, ok, on_both_loops, start, timer, turns

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
# What one read of a socket may bring besides: 256 KiB on asyncio and uvloop; over TLS as much again in records.
ONE_READ_BYTES = 512 * 1024


async def opened(asker: Asker, server: Scripted, raw: bytes, **settings: Any) -> tuple[Peer, Stream]:
    task = start(asker.open(get(), **settings))
    peer = await server.accept()
    await peer.request()
    peer.say(raw)
    stream = await task
    assert isinstance(stream, Stream)
    return peer, stream


@on_both_loops
async def test_pieces_are_handed_on_as_they_come_and_trailers_after_them() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED)
        assert stream.head == Response(200, b"OK", ((b"Transfer-Encoding", b"chunked"),))
        for piece in (b"data: 1\n\n", b"data: 2\n\n"):
            peer.say(b"%x\r\n%b\r\n" % (len(piece), piece))
            assert await anext(stream) == piece
        peer.say(b"0\r\nX-Sum: 2\r\n\r\n")

        assert [piece async for piece in stream] == []
        assert stream.trailers == ((b"X-Sum", b"2"),)
        assert stream.upload_ended


@on_both_loops
async def test_a_small_answer_frees_its_connection_before_it_is_read() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, ok(b"small"))
        second = asker.ask(get("/second"))
        assert (await peer.request()).startswith(b"GET /second ")
        peer.say(ok())
        await second

        assert [piece async for piece in stream] == [b"small"]
        await stream.aclose()


@on_both_loops
async def test_a_streamed_answer_that_came_to_its_end_frees_its_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        assert await anext(stream) == b"ab"
        peer.say(b"cd")
        assert [piece async for piece in stream] == [b"cd"]
        second = asker.ask(get("/second"))

        assert (await peer.request()).startswith(b"GET /second ")
        peer.say(ok())
        await second


@on_both_loops
@pytest.mark.parametrize("secure", [False, True])
async def test_a_large_answer_waits_at_the_provider_for_a_slow_reader(secure: bool) -> None:
    total = 50 << 20
    ca = trustme.CA()
    client_tls = server_tls = None
    if secure:
        client_tls, server_tls = tls_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.configure_trust(client_tls)
        ca.issue_cert("127.0.0.1").configure_cert(server_tls)

    async def produce(peer: Peer) -> None:
        for _ in range(total >> 16):
            peer.say(bytes(65536))
            await peer.writer.drain()

    async with Scripted(server_tls) as server, asking(server.port, tls=client_tls) as asker:
        peer, stream = await opened(asker, server, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        producing = start(produce(peer))
        while stream.buffered_bytes <= BUFFERED_BYTES:
            await turns(1)
        await turns(300)  # Nothing of this is read: it has to wait at the other end.
        held = stream.buffered_bytes
        assert held <= BUFFERED_BYTES + ONE_READ_BYTES
        assert not producing.done()
        received = 0
        async for piece in stream:
            assert len(piece) <= BUFFERED_BYTES + ONE_READ_BYTES
            received += len(piece)
        await producing

    assert received == total


@on_both_loops
@pytest.mark.parametrize("ending", [Peer.hang_up, Peer.reset])
async def test_a_body_that_is_lost_is_handed_on_as_far_as_it_came_and_then_truncated(ending: Any) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED + b"2\r\nok\r\n")
        assert await anext(stream) == b"ok"
        ending(peer)

        with pytest.raises(Truncated) as caught:
            await anext(stream)
        assert caught.value.integrity is Integrity.CUT
        await stream.aclose()


@on_both_loops
async def test_chunks_that_are_none_truncate() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED + b"2\r\nok\r\nzz\r\n")
        assert await anext(stream) == b"ok"

        with pytest.raises(Truncated) as caught:
            await anext(stream)
        assert caught.value.integrity is Integrity.MALFORMED
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_a_body_that_goes_wrong_closes_the_connection_before_anybody_reads_on() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED)
        peer.say(b"2\r\nok\r\nzz\r\n")
        assert await peer.heard_no_more() == b""

        assert await anext(stream) == b"ok"
        with pytest.raises(Truncated):
            await anext(stream)


@on_both_loops
async def test_a_piece_that_does_not_come_in_time_truncates() -> None:
    async with Scripted() as server, asking(server.port, piece_idle_ms=40) as asker:
        peer, stream = await opened(asker, server, CHUNKED + b"2\r\nok\r\n")
        assert await anext(stream) == b"ok"

        with pytest.raises(Truncated):
            await anext(stream)
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_the_end_of_the_exchange_bounds_the_head_and_not_the_body() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED, given=asker.sending(ms=300))
        await timer(0.35)
        peer.say(b"2\r\nok\r\n0\r\n\r\n")

        assert b"".join([piece async for piece in stream]) == b"ok"


@on_both_loops
async def test_bytes_after_the_end_do_not_spoil_what_came_before_but_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, ok(b"whole") + b"EXTRA")

        assert [piece async for piece in stream] == [b"whole"]
        assert await peer.heard_no_more() == b""


@on_both_loops
@pytest.mark.parametrize(
    ("raw", "silence"),
    [
        (b"SSH-2.0-OpenSSH\r\n", Silence(garbled=True)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", Silence(garbled=True)),
        (b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n", Silence(garbled=True)),
    ],
)
async def test_an_answer_that_cannot_be_streamed_is_silence(raw: bytes, silence: Silence) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = start(asker.open(get()))
        peer = await server.accept()
        await peer.request()
        peer.say(raw)

        assert await task == silence
        assert await peer.heard_no_more() == b""


@on_both_loops
@pytest.mark.parametrize("ending", [Peer.hang_up, Peer.reset])
async def test_a_head_that_does_not_come_is_silence(ending: Any) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = start(asker.open(get()))
        peer = await server.accept()
        await peer.request()
        ending(peer)

        assert await task == Silence()


@on_both_loops
async def test_a_head_that_does_not_come_in_time_is_timed_out_silence() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())

        assert await asker.open(get(), asker.sending(ms=60)) == Silence(timed_out=True)
        await peer.request()
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_what_cannot_be_sent_is_not_sent() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        given = asker.sending()
        given.abandoned = True

        assert await asker.open(get(), given) == NotSent(Unsent.CANCELLED)
        assert given.left_bytes == 0


@on_both_loops
async def test_a_stream_that_is_closed_early_closes_its_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED + b"2\r\nok\r\n")
        async with stream:
            assert await anext(stream) == b"ok"

        assert await peer.heard_no_more() == b""
        assert [piece async for piece in stream] == []


@on_both_loops
async def test_a_reader_that_is_cancelled_closes_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, CHUNKED)
        task = start(anext(stream))
        await turns()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_a_body_without_framing_streams_to_the_end_of_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, stream = await opened(asker, server, b"HTTP/1.1 200 OK\r\n\r\nfirst")
        assert await anext(stream) == b"first"
        peer.say(b"last")
        peer.hang_up()

        assert b"".join([piece async for piece in stream]) == b"last"


@on_both_loops
async def test_a_head_request_has_no_pieces() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = start(asker.open(Request("HEAD", "/")))
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
        stream = await task

        assert stream.head.headers == ((b"Content-Length", b"100"),)
        assert [piece async for piece in stream] == []
