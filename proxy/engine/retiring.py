"""What has been settled for `state.keep` leaves the store: into the archive first, then for a tombstone."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
import structlog

from proxy.core import view
from proxy.core.adapter import Adapter
from proxy.core.retirement import Retirement, retirement
from proxy.ports import Archive, Store, Stored, StoreUnavailable

MOST: Final = 50  # Of one round: about 2 ms of the store's time.
TRACES_MOST: Final = 2_000  # Of one script: a batch of a hundred messages has hundreds of places in lists.
LEASE_MS: Final = 30_000
PAUSE_MS: Final = 20  # Between full rounds: some 2,000 actions a second, and the store is free most of the time.
_log = structlog.get_logger(__name__)


class Retirer:
    """Retires actions, a bounded number a round. Of any number of instances one at a time does it."""

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, Adapter],
        archive: Archive | None,
        *,
        instance: str,
        keep_ms: int,
        keep_scopes_ms: int,
    ) -> None:
        self._store = store
        self._adapters = adapters
        self._archive = archive
        self._instance = instance
        self._keep_ms = keep_ms
        self._keep_scopes_ms = keep_scopes_ms
        self._failing = False

    async def run(self, every_ms: int) -> None:
        """Retire for ever; where there is much to do, with short pauses."""
        while True:
            retired = 0
            try:
                retired = await self.round()
                self._failing = False
            except StoreUnavailable:
                self._failing = False  # Others say so.
            except OSError as refused:
                if not self._failing:
                    _log.error("the archive cannot be written: nothing leaves the store", why=refused.strerror)
                self._failing = True
            await asyncio.sleep((PAUSE_MS if retired >= MOST else every_ms) / 1000)

    async def round(self) -> int:
        """Retire what is old; how many left. Raises StoreUnavailable, and OSError where the archive refuses.

        A crash between the two steps archives an action twice; no order of them loses one.
        """
        old = await self._store.settled(self._instance, LEASE_MS, self._keep_ms, MOST)
        if old and self._archive is not None:
            await self._archive.append([self._line(stored) for stored in old])
        retired = 0
        for part in parts([retirement(stored.action, stored.version) for stored in old]):
            retired += len(await self._store.retire(part, self._keep_ms, self._keep_scopes_ms))
        return retired

    def _line(self, stored: Stored) -> bytes:
        """Return the action as an operator sees it: evidence and all, no body and no credential."""
        action = stored.action
        return msgspec.json.encode(view.detail(action, self._adapters.get(action.identity.provider), ""))


def parts(leaving: list[Retirement]) -> list[list[Retirement]]:
    """Split by how much each has to be removed from: one script must not hold the store for long."""
    out: list[list[Retirement]] = []
    traces = 0
    for one in leaving:
        own = len(one.index) + len(one.claims) + len(one.aliases)
        if not out or traces + own > TRACES_MOST:
            out.append([])
            traces = 0
        out[-1].append(one)
        traces += own
    return out
