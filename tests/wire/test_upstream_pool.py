"""Connections are kept, bounded and dropped as they should be."""

import asyncio
import socket
from collections.abc import Callable, Sequence

import pytest

from proxy.core.http import Answered, NotSent, Unsent
from proxy.edges.upstream.dial import Address
from tests.wire.scripted import Asker, Peer, Scripted, answered, asking, get, ok, on_both_loops, post, start, turns


async def asked_again(asker: Asker, server: Scripted) -> bool:
    """Make a second exchange; was the first connection used for it?"""
    before = len(server.peers)
    task = asker.ask(get("/again"))
    first = asyncio.get_running_loop().create_task(server.peers[0].request())
    accepted = asyncio.get_running_loop().create_task(server.accept())
    done, _ = await asyncio.wait([first, accepted], return_when=asyncio.FIRST_COMPLETED)
    kept = first in done and not first.cancelled() and first.exception() is None
    if kept:
        accepted.cancel()
        peer = server.peers[0]
    else:
        peer = await accepted
        await peer.request()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
    peer.say(ok())
    assert isinstance(await task, Answered)
    assert (len(server.peers) == before) is kept
    return kept


KEPT = {
    "a length": ok(),
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "1.0 that says so": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
    "a long time to keep it": ok(b"ok", b"Keep-Alive: timeout=60"),
}
CLOSED = {
    "close": ok(b"ok", b"Connection: close"),
    "1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "204 that says a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "trailing bytes": ok() + b"x",
    "a second to keep it": ok(b"ok", b"Keep-Alive: timeout=1"),
}


@on_both_loops
@pytest.mark.parametrize("answer", KEPT)
async def test_a_connection_is_kept_after_a_spotless_answer(answer: str) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        await answered(asker, server, get(), KEPT[answer])

        assert await asked_again(asker, server)


@on_both_loops
@pytest.mark.parametrize("answer", CLOSED)
async def test_a_connection_is_closed_after_any_other(answer: str) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), CLOSED[answer])

        assert await peer.heard_no_more() == b""
        assert not await asked_again(asker, server)


@on_both_loops
async def test_a_request_that_says_close_closes() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get("/", ((b"Connection", b"close"),)), ok())

        assert await peer.heard_no_more() == b""


@on_both_loops
async def test_the_newest_idle_connection_is_taken_first() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        tasks, peers = [], []
        for target in ("/a", "/b", "/c"):
            tasks.append(asker.ask(get(target)))
            peers.append(await server.accept())
            await peers[-1].request()
        for at in (1, 2, 0):
            peers[at].say(ok())
            await tasks[at]
        task = asker.ask(get("/d"))

        assert (await peers[0].request()).startswith(b"GET /d ")
        peers[0].say(ok())
        await task


@on_both_loops
async def test_a_connection_that_was_idle_for_too_long_is_not_used() -> None:
    async with Scripted() as server, asking(server.port, idle_ms=15_000) as asker:
        await answered(asker, server, get(), ok())
        asker.watch.monotonic_ahead_ms = 14_000
        assert await asked_again(asker, server)
        asker.watch.monotonic_ahead_ms = 29_500

        assert not await asked_again(asker, server)


@on_both_loops
async def test_a_connection_is_used_no_longer_than_a_second_less_than_its_server_keeps_it() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        await answered(asker, server, get(), ok(b"ok", b"Keep-Alive: timeout=5, max=100"))
        asker.watch.monotonic_ahead_ms = 4_001

        assert not await asked_again(asker, server)


@on_both_loops
async def test_idle_connections_are_closed_without_being_asked_for() -> None:
    async with Scripted() as server, asking(server.port, idle_ms=30) as asker:
        first = asker.ask(get())
        one = await server.accept()
        await one.request()
        second = asker.ask(get())
        two = await server.accept()
        await two.request()
        one.say(ok())
        await first
        two.say(ok())
        await second

        assert (await one.heard_no_more(), await two.heard_no_more()) == (b"", b"")


@on_both_loops
@pytest.mark.parametrize("event", [Peer.hang_up, Peer.reset, lambda peer: peer.say(b"\r\n")])
async def test_anything_that_happens_on_an_idle_connection_ends_it(event: Callable[[Peer], None]) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        event(peer)
        await peer.heard_no_more()
        while asker.client._pools["acme"]._open:
            await turns(1)

        assert not asker.client._pools["acme"]._idle


@on_both_loops
async def test_a_request_beyond_the_bound_waits_for_its_turn() -> None:
    async with Scripted() as server, asking(server.port, connections_max=1) as asker:
        first = asker.ask(get("/1"))
        peer = await server.accept()
        await peer.request()
        second, third = asker.ask(get("/2")), asker.ask(get("/3"))
        await turns()
        peer.say(ok())
        await first
        for task, target in ((second, b"/2"), (third, b"/3")):
            assert (await peer.request()).startswith(b"GET %b " % target)
            peer.say(ok())
            assert isinstance(await task, Answered)

        assert len(server.peers) == 1


@on_both_loops
async def test_a_turn_comes_also_where_the_first_connection_is_lost_or_never_made() -> None:
    async with Scripted() as server, asking(server.port, connections_max=1) as asker:
        first, second = asker.ask(get("/1")), asker.ask(get("/2"))
        peer = await server.accept()
        peer.reset()
        await first
        other = await server.accept()
        assert (await other.request()).startswith(b"GET /2 ")
        other.say(ok())
        assert isinstance(await second, Answered)
    async with asking(server.port, connections_max=1) as asker:
        outcomes = await asyncio.gather(*(asker.exchange(get()) for _ in range(5)))
        assert outcomes == [NotSent(Unsent.REFUSED)] * 5


@on_both_loops
async def test_a_turn_that_does_not_come_in_time_is_not_sent() -> None:
    async with Scripted() as server, asking(server.port, connections_max=1, connect_timeout_ms=400) as asker:
        first = asker.ask(get("/1"))
        peer = await server.accept()
        await peer.request()

        assert await asker.exchange(post()) == NotSent(Unsent.TIMEOUT)
        assert asker.sent[1].left_bytes == 0
        peer.say(ok())
        await first
        assert not asker.client._pools["acme"]._waiting


@on_both_loops
async def test_a_turn_of_a_cancelled_request_goes_to_the_next() -> None:
    async with Scripted() as server, asking(server.port, connections_max=1) as asker:
        pool = asker.client._pools["acme"]
        connection = await pool.obtain(20_000)
        second, third = start(pool.obtain(20_000)), start(pool.obtain(20_000))
        await turns()
        pool.give(connection, reader=None)  # The second's turn comes; before it can take it, it is cancelled.
        second.cancel()

        with pytest.raises(asyncio.CancelledError):
            await second
        assert await third is connection


@on_both_loops
async def test_a_closed_client_sends_nothing_more_and_its_waiters_end() -> None:
    async with Scripted() as server, asking(server.port, connections_max=1) as asker:
        first = asker.ask(get("/1"))
        peer = await server.accept()
        await peer.request()
        second = asker.ask(get("/2"))
        await turns()
        await asyncio.gather(asker.client.close(), asker.client.close())

        assert await second == NotSent(Unsent.CLOSED)
        assert await asker.exchange(get("/3")) == NotSent(Unsent.CLOSED)
        await first
        assert not asker.client._pools["acme"]._open


@on_both_loops
async def test_a_connection_that_is_made_after_the_client_was_closed_sends_nothing() -> None:
    closed: asyncio.Future[None]

    async def slowly(host: str, port: int) -> Sequence[Address]:
        await closed
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async with Scripted() as server, asking(server.port, resolve=slowly) as asker:
        closed = asyncio.get_running_loop().create_future()
        task = asker.ask(post())
        await turns()
        await asyncio.gather(asker.client.close(), asker.client.close())
        closed.set_result(None)

        assert await task == NotSent(Unsent.CLOSED)
        assert asker.sent[0].left_bytes == 0
        assert await (await server.accept()).heard_no_more() == b""


@on_both_loops
async def test_many_exchanges_at_once_are_each_answered_with_their_own() -> None:
    async with Scripted() as server, asking(server.port, connections_max=8) as asker:

        async def serve(peer: Peer) -> None:
            while True:
                try:
                    target = (await peer.request()).split(b" ")[1]
                except asyncio.IncompleteReadError:
                    return
                peer.say(ok(target))

        async def accept() -> None:
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(serve(await server.accept()))

        accepting = asyncio.get_running_loop().create_task(accept())
        outcomes = await asyncio.gather(*(asker.exchange(get(f"/{number}")) for number in range(300)))
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)

        assert [outcome.response.body for outcome in outcomes] == [b"/%d" % number for number in range(300)]
        assert len(server.peers) <= 8
