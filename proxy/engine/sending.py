"""The dispatches of this instance that are under way, and who waits for them."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from proxy.core.events import AskersGone
from proxy.core.model import Status
from proxy.engine.applying import Applier
from proxy.engine.asking import Asker
from proxy.engine.cutting import Cutting
from proxy.engine.dispatching import Dispatcher, Live, Outcome
from proxy.engine.making import Made
from proxy.ports import Forgotten, Spawner, Stored, StoreUnavailable

POLL_FIRST_MS: Final = 20
POLL_MOST_MS: Final = 250


class Draining(Exception):
    """This process takes no new dispatch; nothing was sent."""


class Coming:
    """A request on its way to its first commit. `targets`: the digests of what it is aimed at, under every key."""

    def __init__(self, targets: frozenset[str]) -> None:
        self.targets = targets
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Sender:
    """Registers a dispatch before its first commit, so that a second request finds it whenever it looks."""

    def __init__(self, applier: Applier, dispatcher: Dispatcher, tasks: Spawner) -> None:
        self._applier = applier
        self._dispatcher = dispatcher
        self._tasks = tasks
        self._live: dict[str, Live] = {}
        self._expected: set[Live] = set()
        self._coming: defaultdict[str, list[Coming]] = defaultdict(list)  # By target, in the order in which they came.
        self._untold: dict[str, int] = {}  # Whose last asker has gone, which the store does not know yet; how often.
        self._carrying: set[asyncio.Task[None]] = set()
        self._draining = False
        self._drained = False
        self.cutting = Cutting()  # First commits: with a store that hangs they would outlast the drain.

    def __len__(self) -> int:
        return len(self._carrying)

    def expect(self, action_id: str) -> Live:
        """Register a dispatch that may be committed. Raises Draining."""
        if self._draining:
            raise Draining
        live = Live(action_id)
        self._live.setdefault(action_id, live)  # Of several that race for one action, `start` tells which it is.
        self._expected.add(live)
        return live

    def forget(self, live: Live) -> None:
        """It is not going to be sent; whoever found it looks again."""
        self._drop(live)
        live.resolve(None)

    @contextlib.contextmanager
    def coming(self, targets: frozenset[str]) -> Iterator[Coming]:
        """Register a request before anything of it is awaited, until its first commit is over."""
        coming = Coming(targets)
        for target in targets:
            self._coming[target].append(coming)
        try:
            yield coming
        finally:
            for target in targets:
                self._coming[target].remove(coming)
                if not self._coming[target]:
                    del self._coming[target]
            coming.over.set_result(None)

    async def until_told(self, coming: Coming) -> None:
        """Return, with nothing awaited since, once the store knows whom nobody waits for any more at its targets.

        A reworded retry may come while what it repeats is on its way to its first commit, its asker gone already.
        Raises StoreUnavailable.
        """
        while True:
            at_mine = (takewhile(lambda other: other is not coming, self._coming[target]) for target in coming.targets)
            if before := {other.over for others in at_mine for other in others}:
                await asyncio.wait(before)
            elif self._untold:
                await self.tell()
            else:
                return

    def _drop(self, live: Live) -> None:
        self._expected.discard(live)
        if self._live.get(live.action_id) is live:
            del self._live[live.action_id]

    def start(self, live: Live, stored: Stored, made: Made) -> None:
        """Send, in a task of its own: the agent's connection only waits for it. Raises Draining: it comes too late."""
        if self._drained:
            raise Draining
        self._applier.remember(stored)
        task = self._tasks.spawn(self._dispatcher.carry(live, stored, made), "dispatch")
        self._live[live.action_id] = live
        self._expected.discard(live)
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
            self._nobody_waits(live.action_id)

    def _nobody_waits(self, action_id: str) -> None:
        self._untold[action_id] = self._untold.get(action_id, 0) + 1
        self._tasks.spawn(self._askers_gone(), "askers gone")

    async def _askers_gone(self) -> None:
        with contextlib.suppress(
            StoreUnavailable
        ):  # It is told before the next beat, and before a twin is let through.
            await self.tell()

    async def tell(self) -> None:
        """Record of which actions the last asker has gone. Raises StoreUnavailable; nothing is forgotten then."""
        for action_id, times in tuple(self._untold.items()):
            live = self._live.get(action_id)
            if live is None or not live.askers:
                with contextlib.suppress(Forgotten):
                    await self._applier.apply(action_id, AskersGone())
            if self._untold.get(action_id) == times:
                del self._untold[action_id]

    def left(self, action_id: str) -> None:
        """A request that was folded into an action in flight waits for it no longer, or never did."""
        live = self._live.get(action_id)
        if live is None or not live.askers:
            self._nobody_waits(action_id)

    async def settled(self, stored: Stored, asker: Asker, within_ms: int, *, folded: bool) -> Outcome | Stored:
        """Wait until an action is no longer pending, whoever owns it. `folded`: the asker was taken for it.

        Returns the outcome where it is ours, else the record as it stands then, or when time is up.
        """
        until_ms = self._applier.clock.monotonic_ms() + within_ms
        live = self._live.get(stored.action.action_id)
        if live is not None:
            got = await self.outcome(live, asker, within_ms)
            if got is not None:
                return got
            stored = await self.as_it_stands(stored)
        began_ms = self._applier.clock.monotonic_ms()
        pause_ms = POLL_FIRST_MS
        while stored.action.status is Status.PENDING and not (asker.gone or self._drained):
            left_ms = until_ms - self._applier.clock.monotonic_ms()
            if left_ms <= 0:
                break
            await asyncio.sleep(min(pause_ms, left_ms) / 1000)
            pause_ms = min(pause_ms * 2, POLL_MOST_MS)
            stored = await self.as_it_stands(stored)
        asker.waited_ms += self._applier.clock.monotonic_ms() - began_ms
        if folded and stored.action.status is Status.PENDING:
            self.left(stored.action.action_id)
        return stored

    async def as_it_stands(self, known: Stored) -> Stored:
        """Read the record again. Where that cannot be, what is known of it holds: it may have been sent.

        So it does where the store has forgotten a dispatch: what it says then is of an earlier one.
        """
        try:
            found = await self._applier.store.get(known.action.action_id)
        except StoreUnavailable:
            return known
        sent = {dispatch.dispatch_id for dispatch in known.action.dispatches}
        knows = found is not None and sent <= {dispatch.dispatch_id for dispatch in found.action.dispatches}
        return found if found is not None and knows else known

    async def drain(self, within_ms: int) -> None:
        """Wait for what is under way, first commits included; what is left when time runs out becomes `shutdown`."""
        self._draining = True
        clock = self._applier.clock
        until_ms = clock.monotonic_ms() + within_ms
        while self._carrying or self._expected:
            left_ms = until_ms - clock.monotonic_ms()
            if left_ms <= 0:
                break
            under_way: set[asyncio.Future[Any]] = {*self._carrying, *(live.outcome for live in self._expected)}
            await asyncio.wait(under_way, timeout=left_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        self._drained = True
        self.cutting.cut()
        for task in tuple(self._carrying):
            task.cancel()
        if self._carrying:
            await asyncio.wait(self._carrying)
