"""Every way an exchange can break off once a byte may have left: never an error, and never sent again."""

import asyncio
from typing import Any

import pytest

from proxy.core.http import Answered, Integrity, Request, Response, Silence
from proxy.edges.upstream import Truncated
from tests.wire.scripted import Peer, Scripted, answered, asking, get, ok, on_both_loops, post, start, timer, turns

LARGE = bytes(8 << 20)  # Far more than the kernel's buffers and the server's take unread.


async def _at_accept(peer: Peer) -> None:
    """Neither read nor say anything."""


async def _after_the_head(peer: Peer) -> None:
    await peer.reader.readuntil(b"\r\n\r\n")


async def _after_the_body(peer: Peer) -> None:
    await peer.request()


async def _in_the_status_line(peer: Peer) -> None:
    await peer.request()
    peer.say(b"HTTP/1.1 20")
    await peer.writer.drain()


async def _in_the_head(peer: Peer) -> None:
    await peer.request()
    peer.say(b"HTTP/1.1 200 OK\r\nContent-Le")


async def _after_an_interim_response(peer: Peer) -> None:
    await peer.request()
    peer.say(b"HTTP/1.1 103 Early\r\n\r\n")


PHASES = [_at_accept, _after_the_head, _after_the_body, _in_the_status_line, _in_the_head, _after_an_interim_response]


@on_both_loops
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("ending", [Peer.hang_up, Peer.reset])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_connection_lost_before_a_whole_head_is_silence_and_the_request_is_sent_once(
    method: str, ending: Any, phase: Any
) -> None:
    request = Request(method, "/x", ((b"Content-Length", b"3"),), b"abc")
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(request)
        peer = await server.accept()
        await phase(peer)
        ending(peer)

        assert await task == Silence()
        await turns()
        assert (
            asker.sent[0].left_bytes
            == len(b"%b /x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (method.encode(), server.port)) + 24
        )
        assert len(server.peers) == 1


BODIES = {
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npartial",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\npartial\r\n",
}


@on_both_loops
@pytest.mark.parametrize("framing", BODIES)
async def test_a_body_that_the_peer_ends_early_is_cut(framing: str) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        peer.say(BODIES[framing])
        peer.hang_up()
        outcome = await task

    assert (outcome.response.status, outcome.response.body) == (200, b"partial")
    assert outcome.integrity is Integrity.CUT


@on_both_loops
@pytest.mark.parametrize("framing", [*BODIES.values(), b"HTTP/1.1 200 OK\r\n\r\npartial"])
async def test_a_reset_within_a_body_cuts_it_even_one_that_the_end_of_the_connection_would_end(
    framing: bytes,
) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = start(asker.open(get()))
        peer = await server.accept()
        await peer.request()
        peer.say(framing)
        stream = await task
        assert await anext(stream) == b"partial"  # It has come: an RST could have overtaken it.
        peer.reset()

        with pytest.raises(Truncated, match="cut"):
            await anext(stream)


@on_both_loops
async def test_a_body_without_framing_ends_with_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(get())
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        peer.hang_up()

        assert await task == Answered(Response(200, b"OK", (), b"all of it"))


@on_both_loops
async def test_time_that_runs_out_before_the_head_is_timed_out_silence() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())

        assert await asker.exchange(post(), asker.sending(ms=60)) == Silence(timed_out=True)
        await peer.request()
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_time_that_runs_out_within_the_body_cuts_it() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        task = asker.ask(post(), asker.sending(ms=400))
        await peer.request()
        peer.say(BODIES["a length"])
        outcome = await task

        assert isinstance(outcome, Answered)
        assert (outcome.integrity, outcome.response.body) == (Integrity.CUT, b"partial")
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_each_exchange_on_a_kept_connection_has_its_own_end() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        first = asker.ask(get(), asker.sending(ms=300))
        await peer.request()
        peer.say(ok())
        await first
        second = asker.ask(get(), asker.sending(ms=1_500))
        await peer.request()
        await timer(0.35)  # The end of the first passes, and is not the second's.
        assert not second.done()

        assert await second == Silence(timed_out=True)


@on_both_loops
async def test_an_upload_that_the_peer_does_not_read_ends_in_time() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        peer.stop_reading()
        given = asker.sending(ms=80)

        assert await asker.exchange(post(LARGE), given) == Silence(timed_out=True)
        assert given.left_bytes > len(LARGE)


@on_both_loops
async def test_a_cancelled_exchange_closes_its_connection_and_stays_cancelled() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task
        assert asker.sent[0].left_bytes > 0
        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_an_exchange_whose_client_is_closed_is_silence() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        await asker.client.close()

        assert await task == Silence()
