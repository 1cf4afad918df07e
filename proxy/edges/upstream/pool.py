"""The connections of one origin: bounded, reused last in first out, dropped when they are idle for long."""

import asyncio
from collections import deque

from proxy.core.http import Unsent
from proxy.edges.upstream.connection import Connection, Ticks
from proxy.edges.upstream.dial import Resolve, SocketAddress, Unreached, dial
from proxy.edges.upstream.origin import Origin
from proxy.edges.upstream.reader import Reader


class Pool:
    """At most `connections_max` connections to an origin, those being opened and those in use included."""

    def __init__(self, origin: Origin, *, clock: Ticks, resolve: Resolve, connections_max: int, idle_ms: int) -> None:
        self.origin = origin
        self.authority = origin.authority
        self._clock = clock
        self._resolve = resolve
        self._connections_max = connections_max
        self._idle_ms = idle_ms
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # Ordered, and quick to remove from anywhere.
        self._dialing = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._prefer: SocketAddress | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    def take(self) -> Connection | None:
        """Take the newest idle connection that is still good, asking the kernel; drop those that are not."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if self._clock.monotonic_ms() < connection.idle_until_ms and not connection.stale():
                return connection
            connection.abort()
        return None

    async def obtain(self, timeout_ms: int) -> Connection:
        """Get a connection that became idle, or a fresh one. Raises Unreached, after `timeout_ms` at the latest."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    if self._emptied is not None:
                        raise Unreached(Unsent.CLOSED)
                    if (connection := self.take()) is not None:
                        return connection
                    if len(self._open) + self._dialing < self._connections_max:
                        return await self._dial(timeout_ms)
                    await self._turn()
        except TimeoutError:
            raise Unreached(Unsent.TIMEOUT) from None

    def give(self, connection: Connection, *, reader: Reader | None, keep_alive: bool = True) -> None:
        """Give a connection back after an exchange, or with no reader unused; it is kept only if it is spotless."""
        unspoilt = reader is None or (
            keep_alive and reader.ended and reader.reusable and connection.upload_ended and reader.head is not None
        )
        idle_ms = self._idle_ms
        if reader is not None and reader.head is not None and reader.head.keep_alive_s is not None:
            # A server that says when it hangs up is left a second earlier: what is written into its FIN is lost.
            idle_ms = min(idle_ms, reader.head.keep_alive_s * 1000 - 1000)
        connection.rest()
        if not unspoilt or idle_ms <= 0 or connection.closing or self._emptied is not None:
            connection.abort()
            return
        connection.idle_until_ms = self._clock.monotonic_ms() + idle_ms
        self._idle[connection] = None
        if self._sweeper is None:
            self._sweep_in(idle_ms)
        self._wake()

    async def close(self) -> None:
        """Close every connection, those in use too, and wait until they are gone."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._emptied is None:
            self._emptied = asyncio.get_running_loop().create_future()
        while self._waiting:
            self._wake()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await self._emptied

    async def _dial(self, timeout_ms: int) -> Connection:
        self._dialing += 1
        until_s = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            connection, self._prefer = await dial(
                self.origin,
                self._resolve,
                lambda: Connection(self._clock, self._lost),
                until_s=until_s,
                prefer=self._prefer,
            )
        finally:
            self._dialing -= 1
            self._wake()
        if connection.gone:
            raise Unreached(Unsent.CLOSED)
        self._open.add(connection)
        if self._emptied is not None:
            connection.abort()
            raise Unreached(Unsent.CLOSED)
        return connection

    async def _turn(self) -> None:
        """Wait until there may be room."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # The turn was ours and is somebody else's now.
            raise

    def _wake(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)
        self._wake()
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    def _sweep_in(self, idle_ms: int) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(idle_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        """Drop what is idle for too long. Nobody depends on it: `take` looks for itself."""
        self._sweeper = None
        now_ms = self._clock.monotonic_ms()
        for connection in [idle for idle in self._idle if idle.idle_until_ms <= now_ms]:
            del self._idle[connection]
            connection.abort()
        if self._idle:
            self._sweep_in(max(min(idle.idle_until_ms for idle in self._idle) - now_ms, 1))
