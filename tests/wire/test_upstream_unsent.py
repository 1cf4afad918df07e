"""What is called not sent is proven unsent: the reason, the counter at 0, and a server that saw no byte."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from proxy.core.http import Answered, NotSent, Unsent
from proxy.edges.upstream.dial import Address, in_turn
from tests.wire.scripted import Asker, Scripted, answered, asking, get, ok, on_both_loops, post, turns

TCP = (socket.AF_INET, socket.SOCK_STREAM, 0, "")


def at(*addresses: tuple[str, int]) -> Callable[[str, int], Any]:
    """A resolver that knows these addresses."""

    async def resolve(_host: str, _port: int) -> Sequence[Address]:
        return [(*TCP, address) for address in addresses]

    return resolve


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Deaf:
    """A listener whose queue is full, so that a further connection attempt hangs."""

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._fillers = [socket.socket() for _ in range(4)]
        for filler in self._fillers:
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
        return int(self._listener.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        for sock in (self._listener, *self._fillers):
            sock.close()


def nothing_left(asker: Asker) -> bool:
    return all(given.left_bytes == 0 for given in asker.sent)


@on_both_loops
async def test_a_name_that_does_not_resolve_is_a_dns_error() -> None:
    async def nowhere(_host: str, _port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async def unspeakable(host: str, _port: int) -> Sequence[Address]:
        raise UnicodeError(host)

    for resolve in (nowhere, unspeakable, at()):
        async with asking(80, host="acme.invalid", resolve=resolve) as asker:
            assert await asker.exchange(post()) == NotSent(Unsent.DNS)
            assert nothing_left(asker)


@on_both_loops
async def test_a_port_that_nobody_listens_on_refuses() -> None:
    async with asking(closed_port()) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.REFUSED)
        assert nothing_left(asker)


@on_both_loops
async def test_an_address_that_cannot_be_routed_is_unreachable() -> None:
    async with asking(9, resolve=at(("255.255.255.255", 9))) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.UNREACHABLE)
        assert nothing_left(asker)


@on_both_loops
@pytest.mark.parametrize("bound", ["connect_timeout_ms", "until_ms"])
async def test_a_connection_that_is_not_made_in_time_is_a_timeout(bound: str) -> None:
    patience = {"connect_timeout_ms": (60, 20_000), "until_ms": (20_000, 60)}[bound]
    with Deaf() as port:
        async with asking(port, connect_timeout_ms=patience[0]) as asker:
            assert await asker.exchange(post(), asker.sending(ms=patience[1])) == NotSent(Unsent.TIMEOUT)
            assert nothing_left(asker)


@on_both_loops
async def test_a_resolver_that_hangs_is_a_timeout() -> None:
    async def hang(_host: str, _port: int) -> Sequence[Address]:
        never: asyncio.Future[Sequence[Address]] = asyncio.get_running_loop().create_future()
        return await never

    async with asking(80, resolve=hang, connect_timeout_ms=40) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.TIMEOUT)


@on_both_loops
async def test_time_that_ran_out_before_is_a_timeout() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        await answered(asker, server, get(), ok())
        given = asker.sending(ms=0)

        assert await asker.exchange(post(), given) == NotSent(Unsent.TIMEOUT)
        assert given.left_bytes == 0


@on_both_loops
async def test_an_address_that_refuses_or_hangs_gives_way_to_the_next_which_is_remembered() -> None:
    with Deaf() as deaf:
        async with Scripted() as server:
            resolve = at(("127.0.0.1", closed_port()), ("127.0.0.1", deaf), ("127.0.0.1", server.port))
            async with asking(80, resolve=resolve, connect_timeout_ms=400) as asker:
                peer, _ = await answered(asker, server, post(), ok(b"ok", b"Connection: close"))
                assert await peer.heard_no_more() == b""
                assert asker.client._pools["acme"]._prefer == ("127.0.0.1", server.port)
                _, second = await answered(asker, server, post(), ok(b"again"))

    assert second.response.body == b"again"


def test_address_families_take_turns_and_the_last_that_answered_goes_first() -> None:
    six: list[Address] = [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", (f"::{n}", 443, 0, 0)) for n in (1, 2, 3)]
    four: list[Address] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{n}", 443)) for n in (1, 2)]

    assert in_turn([*six, *four], None) == [six[0], four[0], six[1], four[1], six[2]]
    assert in_turn([*six, *four], ("127.0.0.2", 443)) == [four[1], six[0], four[0], six[1], six[2]]
    assert in_turn(four, ("127.0.0.9", 443)) == four
    assert in_turn([], None) == []


@on_both_loops
async def test_a_connection_refused_by_every_address_says_the_last_reason() -> None:
    resolve = at(("255.255.255.255", 9), ("127.0.0.1", closed_port()))
    async with asking(80, resolve=resolve) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.REFUSED)


@on_both_loops
@pytest.mark.parametrize("clock", ["monotonic_ahead_ms", "wall_ahead_ms"])
@pytest.mark.parametrize("pooled", [False, True])
async def test_a_moment_that_passed_on_either_clock_alone_stops_the_first_byte(clock: str, pooled: bool) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        if pooled:
            await answered(asker, server, get(), ok())
        given = asker.sending(send_before_ms=5_000)
        setattr(asker.watch, clock, 5_500)

        assert await asker.exchange(post(), given) == NotSent(Unsent.SEND_BEFORE)
        assert given.left_bytes == 0
        await asker.client.close()
        assert await (await server.accept() if not pooled else server.peers[0]).heard_no_more() == b""


@on_both_loops
@pytest.mark.parametrize("clock", ["monotonic_ahead_ms", "wall_ahead_ms"])
async def test_a_moment_that_passes_while_the_connection_is_made_stops_the_first_byte(clock: str) -> None:
    asker: Asker

    async def slowly(_host: str, port: int) -> Sequence[Address]:
        setattr(asker.watch, clock, 5_500)
        return [(*TCP, ("127.0.0.1", port))]

    async with Scripted() as server, asking(server.port, resolve=slowly) as asker:
        given = asker.sending(send_before_ms=5_000)

        assert await asker.exchange(post(), given) == NotSent(Unsent.SEND_BEFORE)
        await asker.client.close()
        assert await (await server.accept()).heard_no_more() == b""


@on_both_loops
async def test_before_that_moment_it_is_sent() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        given = asker.sending(send_before_ms=60_000)
        task = asker.ask(post(), given)
        peer = await server.accept()
        await peer.request()
        peer.say(ok())

        assert isinstance(await task, Answered)


@on_both_loops
@pytest.mark.parametrize("pooled", [False, True])
async def test_an_abandoned_try_sends_nothing_and_its_connection_serves_the_next(pooled: bool) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        if pooled:
            await answered(asker, server, get(), ok())
        given = asker.sending()
        given.abandoned = True

        assert await asker.exchange(post(), given) == NotSent(Unsent.CANCELLED)
        assert given.left_bytes == 0
        task = asker.ask(get("/next"))
        peer = server.peers[0] if pooled else await server.accept()
        assert (await peer.request()).startswith(b"GET /next ")
        peer.say(ok())
        await task
        assert len(server.peers) == 1


@on_both_loops
async def test_a_try_that_is_abandoned_while_the_connection_is_made_sends_nothing() -> None:
    asker: Asker

    async def slowly(_host: str, port: int) -> Sequence[Address]:
        asker.sent[0].abandoned = True
        return [(*TCP, ("127.0.0.1", port))]

    async with Scripted() as server, asking(server.port, resolve=slowly) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.CANCELLED)
        assert nothing_left(asker)


@on_both_loops
async def test_a_try_that_is_cancelled_while_the_connection_is_made_left_nothing_open() -> None:
    with Deaf() as port:
        async with asking(port) as asker:
            task = asker.ask(post())
            await turns(20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert nothing_left(asker)
