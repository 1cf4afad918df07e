"""Reads the shared state for the gauges, every few seconds."""

import asyncio
from collections.abc import Mapping
from typing import Final

from proxy.core import view
from proxy.core.adapter import Adapter
from proxy.core.limits import Limit
from proxy.core.model import Action
from proxy.core.records import Filter, Reservation
from proxy.edges.metrics import Metrics
from proxy.ports import Clock, Spool, Store, StoreUnavailable

EVERY_S: Final = 5.0
READ_MOST: Final = 20_000
CLOSING_MS: Final = 3_600_000


class Sampler:
    """Keeps the gauges of shared state fresh: at most 15 s old while the store answers."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        adapters: Mapping[str, Adapter],
        limits: tuple[Limit, ...],
        clock: Clock,
        spool: Spool,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._adapters = adapters
        self._limits = {limit.name: limit for limit in limits}
        self._clock = clock
        self._spool = spool
        self.answers = True

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            try:
                await self.sample()
                self.answers = True
            except StoreUnavailable:
                self.answers = False
            self._metrics.store_up.set(1 if self.answers else 0)
            self._metrics.spooled.set(len(self._spool))
            await asyncio.sleep(EVERY_S if self.answers else 1.0)

    async def sample(self) -> None:
        """Read once, all before any of it is shown. Raises StoreUnavailable."""
        unknown = await self._all(Filter(status="denied_unresolved"))
        contradicted = await self._all(Filter(contradicted=True))
        exposure, due = await self._store.exposure(), await self._store.due_count()
        asked = [Reservation(limit.name, limit.period, limit.cap, 0) for limit in self._limits.values()]
        uses = await self._store.limit_use(asked)
        now_ms = self._clock.store_ms()
        self._metrics.sample(
            unknown=unknown,
            needs_operator=[action for action in unknown if action.needs_operator],
            contradicted=contradicted,
            closing=[action for action in unknown if self._closes_soon(action, now_ms)],
            exposure=exposure,
            due=due,
            now_ms=now_ms,
        )
        self._metrics.sample_limits(self._limits, uses)

    async def _all(self, chosen: Filter) -> list[Action]:
        out: list[Action] = []
        cursor: str | None = None
        while len(out) < READ_MOST:
            page = await self._store.page(chosen, cursor, 500)
            out += [stored.action for stored in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
        return out

    def _closes_soon(self, action: Action, now_ms: int) -> bool:
        adapter = self._adapters.get(action.identity.provider)
        until_ms = None if adapter is None else view.last_safe_replay_ms(action, adapter)
        return until_ms is not None and now_ms < until_ms < now_ms + CLOSING_MS
