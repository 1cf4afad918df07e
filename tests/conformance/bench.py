"""What the suite needs of a store besides the port: its time, time that passes, and a look at what is written."""

from typing import Protocol

from proxy.ports import Store
from tests.fakes.clock import ManualClock
from tests.fakes.store import MemoryStore

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Bench(Protocol):
    """A fresh ledger, and two instances that work on it."""

    @property
    def ledger(self) -> str:
        """The ledger's name."""
        ...

    @property
    def store(self) -> Store:
        """The ledger as one instance sees it."""
        ...

    @property
    def other(self) -> Store:
        """The same ledger as another instance sees it, over a connection of its own."""
        ...

    async def now_ms(self) -> int:
        """The store's time."""
        ...

    async def pass_time(self, ms: int) -> None:
        """Make everything that is stored older, as if so much time had passed; in whole days past a day."""
        ...

    async def contents(self) -> object:
        """Everything that is stored, as a value to compare: what leaves it equal has written nothing."""
        ...

    async def claimants(self, kind: str, digest: str) -> list[str]:
        """Who stands under a payload or target claim, the expired included."""
        ...


class MemoryBench:
    """The verified fake, on its clock."""

    def __init__(self) -> None:
        self.ledger = "default"
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.other = MemoryStore(self.clock, self.store.ledger)

    async def now_ms(self) -> int:
        """See Bench."""
        return self.clock.store_ms()

    async def pass_time(self, ms: int) -> None:
        """See Bench."""
        self.clock.advance_ms(ms)

    async def contents(self) -> object:
        """See Bench."""
        return self.store.snapshot()

    async def claimants(self, kind: str, digest: str) -> list[str]:
        """See Bench."""
        return list(self.store.ledger.claims.get((kind, digest), {}))
