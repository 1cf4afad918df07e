"""A response whose body is handed on while it comes: for reads, which need no record."""

from collections.abc import AsyncIterator
from typing import Self

from proxy.core.http import Headers, Integrity, Response
from proxy.edges.upstream.connection import Connection, Ticks
from proxy.edges.upstream.pool import Pool
from proxy.edges.upstream.reader import Reader


class Truncated(Exception):
    """The body ended before its end: `integrity` is CUT (lost, or idle for too long) or MALFORMED."""

    def __init__(self, integrity: Integrity) -> None:
        super().__init__(integrity)
        self.integrity = integrity


class Stream:
    """A response under way. Iterate over it once, in pieces as they come, and close it in any case.

    `head`: the response, its body empty. `trailers`: complete after the last piece. No more than 256 KiB and one
    read of the socket wait here for a slow consumer; then the provider's socket is read no further.
    """

    def __init__(
        self, connection: Connection, reader: Reader, pool: Pool, clock: Ticks, *, idle_ms: int, keep_alive: bool
    ) -> None:
        """`idle_ms`: how long a piece may keep us waiting."""
        self.head: Response = reader.response(b"")
        self.upload_ended = connection.upload_ended
        self._connection: Connection | None = connection
        self._reader = reader
        self._pool = pool
        self._clock = clock
        self._idle_ms = idle_ms
        self._keep_alive = keep_alive
        connection.due(None)
        if reader.ended:
            self._give_back()

    @property
    def trailers(self) -> Headers:
        """The trailer section, once the last piece came."""
        return self._reader.trailers

    @property
    def buffered_bytes(self) -> int:
        """What came and was not asked for yet."""
        return self._reader.buffered

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece; raises Truncated where the body does not come to its end."""
        while not self._reader.buffered:
            if self._reader.ended:
                self._give_back()
                if self._reader.integrity in (Integrity.WHOLE, Integrity.TRAILING):
                    raise StopAsyncIteration
                raise Truncated(self._reader.integrity)
            if self._connection is None:
                raise StopAsyncIteration  # Closed by us.
            self._connection.due(self._clock.monotonic_ms() + self._idle_ms)
            await self._connection.arrival()
            self._connection.due(None)
        piece = self._reader.take()
        if self._connection is not None:
            self._connection.resume()
        return piece

    async def aclose(self) -> None:
        """Let go of the connection; one whose response is not at its end is closed."""
        self._give_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _give_back(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._pool.give(connection, reader=self._reader, keep_alive=self._keep_alive)
