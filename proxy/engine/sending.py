"""The dispatches of this instance that are under way, and who waits for them."""

import asyncio
from typing import Final

from proxy.core.events import AskersGone
from proxy.core.model import Status
from proxy.engine.applying import Applier
from proxy.engine.asking import Asker
from proxy.engine.dispatching import Dispatcher, Live, Outcome
from proxy.engine.making import Made
from proxy.ports import Spawner, Stored, StoreUnavailable

POLL_FIRST_MS: Final = 20
POLL_MOST_MS: Final = 250


class Sender:
    """Registers a dispatch before its first commit, so that a second request finds it whenever it looks."""

    def __init__(self, applier: Applier, dispatcher: Dispatcher, tasks: Spawner) -> None:
        self._applier = applier
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._live: dict[str, Live] = {}
        self._carrying: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._carrying)

    def expect(self, action_id: str) -> Live:
        """Register a dispatch that may be committed."""
        live = self._live[action_id] = Live(action_id)
        return live

    def forget(self, live: Live) -> None:
        """It was not committed; whoever found it looks again."""
        self._drop(live)
        live.resolve(None)

    def _drop(self, live: Live) -> None:
        if self._live.get(live.action_id) is live:
            del self._live[live.action_id]

    def start(self, live: Live, stored: Stored, made: Made) -> None:
        """Send, in a task of its own: the agent's connection only waits for it."""
        self._applier.remember(stored)
        task = self._tasks.spawn(self._dispatcher.carry(live, stored, made), "dispatch")
        self._carrying.add(task)

        def ended(done: "asyncio.Task[None]") -> None:
            self._carrying.discard(done)
            self._drop(live)

        task.add_done_callback(ended)

    async def outcome(self, live: Live, asker: Asker, within_ms: int) -> Outcome | None:
        """Wait for what becomes of a dispatch; None where time ran out first, or where it was never dispatched."""
        began_ms = self._applier.clock.monotonic_ms()
        live.askers.add(asker)
        asker.on_gone(lambda: self._left(live, asker))
        try:
            async with asyncio.timeout(within_ms / 1000):
                return await asyncio.shield(live.outcome)
        except TimeoutError:
            self._left(live, asker)
            return None
        finally:
            asker.waited_ms += self._applier.clock.monotonic_ms() - began_ms

    def _left(self, live: Live, asker: Asker) -> None:
        """An asker hung up, or waits no longer. When the last one has, a reworded retry must not get through."""
        live.askers.discard(asker)
        if not live.askers and not live.outcome.done():
            self._tasks.spawn(self._askers_gone(live.action_id), "askers gone")

    async def _askers_gone(self, action_id: str) -> None:
        try:
            await self._applier.apply(action_id, AskersGone())
        except StoreUnavailable:
            return  # A twin may then be let through while this one is in flight; it is told apart by its event.

    async def settled(self, stored: Stored, asker: Asker, within_ms: int) -> Outcome | Stored:
        """Wait until an action is no longer pending, whoever owns it.

        Returns the outcome where it is ours, else the record as it stands then, or when time is up.
        """
        live = self._live.get(stored.action.action_id)
        if live is not None:
            got = await self.outcome(live, asker, within_ms)
            if got is not None:
                return got
            return await self._applier.store.get(stored.action.action_id) or stored
        began_ms = self._applier.clock.monotonic_ms()
        until_ms = began_ms + within_ms
        pause_ms = POLL_FIRST_MS
        while stored.action.status is Status.PENDING:
            left_ms = until_ms - self._applier.clock.monotonic_ms()
            if left_ms <= 0:
                break
            await asyncio.sleep(min(pause_ms, left_ms) / 1000)
            pause_ms = min(pause_ms * 2, POLL_MOST_MS)
            stored = await self._applier.store.get(stored.action.action_id) or stored
        asker.waited_ms += self._applier.clock.monotonic_ms() - began_ms
        return stored

    async def drain(self, within_ms: int) -> None:
        """Wait for what is under way; what is left when time runs out is recorded as `shutdown`."""
        if self._carrying:
            await asyncio.wait(self._carrying, timeout=within_ms / 1000)
        for task in tuple(self._carrying):
            task.cancel()
        if self._carrying:
            await asyncio.wait(self._carrying)
