"""A Store in memory: the reference that all other tests rest on. It passes `tests/conformance` like the real ones."""

import asyncio
import copy
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeVar

from proxy.core import records
from proxy.core.records import Reservation, Slip
from proxy.core.retirement import Retirement
from proxy.ports import (
    Clock,
    Committed,
    Conflict,
    Exhausted,
    ExposureRow,
    LimitUse,
    Page,
    Retired,
    Stored,
    StoreUnavailable,
)
from tests.fakes.ledger import Ledger, Record

T = TypeVar("T")
ENDED_LONG_AGO_MS: Final = 86_400_000
When = Literal["before", "after", "later"]
WRITTEN_OFF_WITHIN_MS = 3_000


class MemoryStore:
    """The Store port on a clock that a test moves: `clock.store_ms()` is what `TIME` is to the scripts.

    Every operation gives way to others twice, as on its way to a server and back; nothing else happens by itself.
    Several stores may share one `ledger`, as several instances do, and fail apart from each other.
    """

    def __init__(self, clock: Clock, ledger: Ledger | None = None) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.down = False
        self.asked: list[str] = []  # The operations, in order, those that failed among them.
        self._clock = clock
        self._faults: defaultdict[str, deque[When]] = defaultdict(deque)
        self._on_their_way: list[Callable[[], object]] = []

    # ── Faults ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def fail_next(self, op: str, when: When, times: int = 1) -> None:
        """Let the next calls of a method raise StoreUnavailable; the write is not applied, applied, or applied `later`.

        Further faults of the same method queue up behind.
        """
        self._faults[op].extend([when] * times)

    def arrive(self) -> None:
        """Apply what failed with `later`, in order: it was on its way all the time."""
        for work in self._on_their_way:
            work()
        self._on_their_way.clear()

    def snapshot(self) -> Ledger:
        """Return what is stored now, for `forget_since`."""
        return copy.deepcopy(self.ledger)

    def forget_since(self, snapshot: Ledger) -> None:
        """Lose everything acknowledged since, as an asynchronous failover does."""
        for name in Ledger.__slots__:
            setattr(self.ledger, name, copy.deepcopy(getattr(snapshot, name)))

    async def _do(self, op: str, work: Callable[[], T]) -> T:
        self.asked.append(op)
        await asyncio.sleep(0)
        fault = self._faults[op].popleft() if self._faults[op] else None
        if fault == "later":
            self._on_their_way.append(work)
        if self.down or fault in ("before", "later"):
            raise StoreUnavailable(f"{op} was told to fail")
        result = work()
        await asyncio.sleep(0)
        if fault == "after":
            raise StoreUnavailable(f"{op} was told to fail once it was done")
        return result

    # ── The port ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def commit(self, slip: Slip) -> Committed | Conflict | Exhausted | Retired:
        """See the port."""
        return await self._do("commit", lambda: self.ledger.commit(slip, self._clock.store_ms()))

    async def get(self, action_id: str) -> Stored | None:
        """See the port."""
        return await self._do("get", lambda: self._stored(action_id))

    async def kept(self, action_id: str, name: str) -> bytes | None:
        """See the port."""
        return await self._do("kept", lambda: self.ledger.kept.get((action_id, name)))

    async def find(self, kind: str, digest: str) -> tuple[str, ...]:
        """See the port."""
        return await self._do("find", lambda: self._find(kind, digest))

    async def page(self, chosen: records.Filter, cursor: str | None, limit: int) -> Page:
        """See the port."""
        return await self._do("page", lambda: self._page(chosen, cursor, limit))

    async def claim_due(self, lease_ms: int, most: int) -> list[Stored]:
        """See the port."""
        return await self._do("claim_due", lambda: self._claim_due(lease_ms, most))

    async def beat(self, instance: str, lease_ms: int) -> int:
        """See the port."""
        return await self._do("beat", lambda: self._beat(instance, lease_ms))

    async def bury(self, instance: str) -> None:
        """See the port."""
        await self._do("bury", lambda: self._beat(instance, 0))

    async def settled(self, instance: str, lease_ms: int, keep_ms: int, most: int) -> list[Stored]:
        """See the port."""
        asked = (instance, lease_ms, keep_ms, most)
        return await self._do("settled", lambda: self.ledger.old(*asked, self._clock.store_ms()))

    async def retire(self, leaving: Sequence[Retirement], keep_ms: int, keep_scopes_ms: int) -> tuple[str, ...]:
        """See the port."""
        return await self._do("retire", lambda: self._retire(leaving, keep_ms, keep_scopes_ms))

    async def exposure(self) -> list[ExposureRow]:
        """See the port."""
        return await self._do("exposure", self._exposure)

    async def limit_use(self, limits: Sequence[Reservation]) -> list[LimitUse]:
        """See the port."""
        now_ms = self._clock.store_ms()
        return await self._do("limit_use", lambda: [LimitUse(r.name, *self.ledger.use_of(r, now_ms)) for r in limits])

    async def due_count(self) -> int:
        """See the port."""
        now_ms = self._clock.store_ms()
        return await self._do("due_count", lambda: sum(due_ms <= now_ms for due_ms in self.ledger.due.values()))

    # ── What they do ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _stored(self, action_id: str) -> Stored | None:
        record = self.ledger.records.get(action_id)
        return None if record is None else record.stored

    def _find(self, kind: str, digest: str) -> tuple[str, ...]:
        if kind == "scope":
            return (self.ledger.scopes[digest],) if digest in self.ledger.scopes else ()
        return tuple(sorted(self.ledger.index.get(f"{kind}:{digest}", ())))

    def _page(self, chosen: records.Filter, cursor: str | None, limit: int) -> Page:
        """The cursor is the last ID of the page: what is newer does not move it."""
        rows: list[Stored] = []
        for action_id in sorted(self.ledger.index.get("all", ()), reverse=True):
            if cursor is not None and action_id >= cursor:
                continue
            stored = self.ledger.records[action_id].stored
            if chosen.takes(stored.action):
                rows.append(stored)
                if len(rows) == limit:
                    return Page(tuple(rows), action_id)
        return Page(tuple(rows), None)

    def _claim_due(self, lease_ms: int, most: int) -> list[Stored]:
        now_ms = self._clock.store_ms()
        claimed: list[Stored] = []
        for _, action_id in sorted((due_ms, i) for i, due_ms in self.ledger.due.items() if due_ms <= now_ms):
            if len(claimed) == most:
                break
            record = self.ledger.records[action_id]
            owner_until_ms = self._lease_of(record)
            held_ms = min(lease_ms, WRITTEN_OFF_WITHIN_MS) if record.owner else lease_ms
            self.ledger.due[action_id] = owner_until_ms + 1 if owner_until_ms > now_ms else now_ms + held_ms
            if owner_until_ms <= now_ms:
                claimed.append(record.stored)
        return claimed

    def _retire(self, leaving: Sequence[Retirement], keep_ms: int, keep_scopes_ms: int) -> tuple[str, ...]:
        times = (keep_ms, keep_scopes_ms, self._clock.store_ms())
        return tuple(one.action_id for one in leaving if self.ledger.retire(one, *times))

    def _lease_of(self, record: Record) -> int:
        """Return until when the action is its owner's; a living owner loses track of it in the end."""
        if not record.owner or record.owned_until_ms <= self._clock.store_ms():
            return 0
        return self.ledger.instances.get(record.owner, 0)

    def _beat(self, instance: str, lease_ms: int) -> int:
        now_ms = self._clock.store_ms()
        if lease_ms > 0:
            if instance not in self.ledger.instances:
                leases = self.ledger.instances
                self.ledger.instances = {i: until for i, until in leases.items() if until >= now_ms - ENDED_LONG_AGO_MS}
            self.ledger.instances[instance] = now_ms + lease_ms
            return now_ms
        self.ledger.instances.pop(instance, None)
        for action_id in self.ledger.due:
            if self.ledger.records[action_id].owner == instance:
                self.ledger.due[action_id] = now_ms
        return now_ms

    def _exposure(self) -> list[ExposureRow]:
        return [
            ExposureRow(provider, account, currency or None, amount, actions)
            for (provider, account, currency), (amount, actions) in sorted(self.ledger.exposed.items())
        ]
