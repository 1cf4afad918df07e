"""The journal: every request that arrived, as it came, and what became of it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import msgspec
from msgspec import Struct

from proxy.core.http import Headers
from proxy.edges.standin.wire import Framing


class Arrival(Struct, frozen=True):
    """One request. Written when its head is in (or its connection was dropped before), replaced as it goes on."""

    n: int  # 1 for the first since the last reset.
    provider: str
    connection: int
    nth: int  # On its connection, from 1.
    arrived_ms: int
    head: bytes = b""  # As it came, up to and including the empty line.
    method: str = ""
    target: str = ""
    headers: Headers = ()
    framing: Framing = Framing.NONE
    body: bytes = b""  # Without its transfer coding.
    body_raw: bytes = b""  # As it came.
    complete: bool = False  # Did the whole request arrive?
    key: str | None = None
    account: str | None = None
    mode: str | None = None
    request_id: str | None = None
    executed: bool = False  # Did it do what it asked for?
    replayed: bool = False
    object_id: str | None = None
    status: int | None = None  # Of the answer that was meant for it; None: none was.
    fault: str | None = None  # The fault that struck last.
    sent: bytes = b""  # What was written to the client, as it left.


class Entry:
    """The place of one arrival in the journal."""

    def __init__(self, journal: "Journal", arrival: Arrival, generation: int) -> None:
        self._journal = journal
        self._generation = generation
        self.arrival = arrival

    def note(self, **changes: Any) -> None:
        """Say what became of it."""
        self.arrival = msgspec.structs.replace(self.arrival, **changes)
        self._journal.put(self.arrival, self._generation)


class Journal(Sequence[Arrival]):
    """A read-only list of arrivals, with a way to wait for what has to be in it."""

    def __init__(self) -> None:
        self._arrivals: list[Arrival] = []
        self._generation = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._arrivals)

    def __iter__(self) -> Iterator[Arrival]:
        return iter(tuple(self._arrivals))

    @overload
    def __getitem__(self, index: int) -> Arrival: ...

    @overload
    def __getitem__(self, index: slice) -> list[Arrival]: ...

    def __getitem__(self, index: int | slice) -> Arrival | list[Arrival]:
        return self._arrivals[index]

    def open(self, *, provider: str, connection: int, nth: int, arrived_ms: int) -> Entry:
        """Begin the record of a request."""
        arrival = Arrival(len(self) + 1, provider, connection, nth, arrived_ms)
        self._arrivals.append(arrival)
        self._wake()
        return Entry(self, arrival, self._generation)

    def put(self, arrival: Arrival, generation: int) -> None:
        """Replace an arrival; one that a reset has forgotten stays forgotten."""
        if generation == self._generation:
            self._arrivals[arrival.n - 1] = arrival
            self._wake()

    def clear(self) -> None:
        """Forget everything."""
        self._arrivals = []
        self._generation += 1
        self._wake()

    async def until(self, holds: Callable[["Journal"], bool]) -> None:
        """Return once `holds` of this journal."""
        while not holds(self):
            await self._changed.wait()

    async def arrived(self, count: int) -> None:
        """Return once so many requests have arrived."""
        await self.until(lambda journal: len(journal) >= count)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
