"""The `Upstream` port over connections of our own, and `open` for answers that are streamed."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

from proxy.core.http import Exchange, NotSent, Request, Silence, Unsent
from proxy.edges.upstream.connection import Connection, Ticks
from proxy.edges.upstream.dial import Resolve, Unreached, system_resolve
from proxy.edges.upstream.origin import Origin
from proxy.edges.upstream.outgoing import outgoing
from proxy.edges.upstream.pool import Pool
from proxy.edges.upstream.reader import Reader
from proxy.edges.upstream.stream import Stream
from proxy.ports import Sending

IDLE_MS: Final = 15_000  # Under what the usual servers and balancers allow (60 s and more).
PIECE_IDLE_MS: Final = 120_000
CONNECTIONS_MAX: Final = 1024  # Far over what a provider takes; a bound for our descriptors.


class UpstreamClient:
    """Sends requests to providers, each once. One event loop; made and closed inside it.

    Args:
        origins: provider → where it is reached.
        connect_timeout_ms: for waiting for the pool, resolving, connecting and TLS together.
        response_bytes: the longest body that `exchange` reads.
        clock: for deadlines; `monotonic_ms` and `wall_ms` are asked.
        idle_ms: how long a connection is kept unused.
        piece_idle_ms: how long a stream waits for its next piece.
        connections_max: per provider.
        resolve: name and port → addresses, raising OSError; the system's resolver unless given.
    """

    def __init__(
        self,
        origins: Mapping[str, Origin],
        *,
        connect_timeout_ms: int,
        response_bytes: int,
        clock: Ticks,
        idle_ms: int = IDLE_MS,
        piece_idle_ms: int = PIECE_IDLE_MS,
        connections_max: int = CONNECTIONS_MAX,
        resolve: Resolve = system_resolve,
    ) -> None:
        self._connect_timeout_ms = connect_timeout_ms
        self._response_bytes = response_bytes
        self._clock = clock
        self._piece_idle_ms = piece_idle_ms
        self._pools = {
            provider: Pool(origin, clock=clock, resolve=resolve, connections_max=connections_max, idle_ms=idle_ms)
            for provider, origin in origins.items()
        }

    async def exchange(self, provider: str, request: Request, sending: Sending) -> Exchange:
        """Send the request once and hear the whole answer; see `proxy.ports.Upstream`.

        Raises ValueError, before any byte, where the request is not coherent (`outgoing`); KeyError for a provider
        that has no origin.
        """
        pool = self._pools[provider]
        out = outgoing(request, pool.authority, pool.origin.prefix)
        connection = await self._connect(pool, sending)
        if isinstance(connection, Unsent):
            return NotSent(connection)
        reader = Reader(request.method, self._response_bytes)
        connection.send(out.parts, reader, sending, streaming=False)
        while not reader.ended:
            await connection.arrival()
        outcome = connection.outcome()
        pool.give(connection, reader=reader, keep_alive=out.keep_alive)
        return outcome

    async def open(self, provider: str, request: Request, sending: Sending) -> NotSent | Silence | Stream:
        """Send the request once and return as soon as the head of the answer is there.

        `sending.until_ms` bounds the wait for the head, nothing else. Raises as `exchange` does.
        """
        pool = self._pools[provider]
        out = outgoing(request, pool.authority, pool.origin.prefix)
        connection = await self._connect(pool, sending)
        if isinstance(connection, Unsent):
            return NotSent(connection)
        reader = Reader(request.method, sys.maxsize)
        connection.send(out.parts, reader, sending, streaming=True)
        while reader.head is None and not reader.ended:
            await connection.arrival()
        if reader.head is None or reader.head.complaint is not None:
            # A head with faulty framing begins no body that could be handed on.
            silence = Silence(timed_out=connection.timed_out, garbled=reader.garbled or reader.head is not None)
            pool.give(connection, reader=reader, keep_alive=False)
            return silence
        return Stream(connection, reader, pool, self._clock, idle_ms=self._piece_idle_ms, keep_alive=out.keep_alive)

    async def close(self) -> None:
        """Close every connection, and wait until they are closed. Exchanges under way end as lost."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    async def _connect(self, pool: Pool, sending: Sending) -> Connection | Unsent:
        """Get a connection and leave to send, or the reason why nothing will be sent.

        Nothing is awaited between the last check and the first byte: `send` must follow at once.
        """
        connection = pool.take()
        if connection is None:
            left_ms = sending.until_ms - self._clock.monotonic_ms()
            try:
                connection = await pool.obtain(min(self._connect_timeout_ms, left_ms))
            except Unreached as failure:
                return failure.why
        if connection.closing:
            pool.give(connection, reader=None)
            return Unsent.CLOSED
        why = self._refusal(sending)
        if why is not None:
            pool.give(connection, reader=None)
            return why
        return connection

    def _refusal(self, sending: Sending) -> Unsent | None:
        if sending.abandoned:
            return Unsent.CANCELLED
        now_ms = self._clock.monotonic_ms()
        limit = sending.send_before
        if limit is not None and (now_ms > limit.monotonic_ms or self._clock.wall_ms() > limit.wall_ms):
            return Unsent.SEND_BEFORE
        if now_ms >= sending.until_ms:
            return Unsent.TIMEOUT
        return None
