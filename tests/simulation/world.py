"""One run: two replicas, agents, an operator and two providers, all on virtual time and on one seed."""

import asyncio
import contextlib
import copy
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final

from msgspec import Struct

from proxy.core.limits import Limit
from proxy.core.records import Period, Slip
from proxy.engine import Settings
from proxy.ports import Committed, Conflict, Exhausted
from tests.fakes.entropy import CountingEntropy
from tests.fakes.ledger import Ledger
from tests.simulation.agents import Agent, Errand, make_errand
from tests.simulation.chance import Chance
from tests.simulation.chaos import FORGETS_MOST, Chaos
from tests.simulation.journal import Journal
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.operators import Operator
from tests.simulation.process import Process, Slot
from tests.simulation.providers import ResendLike, StripeLike
from tests.simulation.story import Broken, Story
from tests.simulation.truth import ANSWERED, OF_A_STORE_THAT_REMEMBERS, Truth
from tests.simulation.weather import Weather

HEALS_MOST_MS: Final = 900_000
LOOK_MS: Final = 5_000


class Run(Struct):
    """What came of a seed."""

    seed: int
    digest: str
    tally: dict[str, int]
    broken: str | None  # The invariant's name and what broke it.


class World:
    """See the module."""

    def __init__(
        self, seed: int, loop: SimulatedLoop, say: Callable[[str], None] | None, *, forgets: bool = False
    ) -> None:
        self.clock = loop.clock
        began_ms = self.clock.monotonic_ms()
        self.story = Story(lambda: self.clock.monotonic_ms() - began_ms, say)
        self.chance = Chance(seed)
        self.weather = Weather(self.chance)
        self.journal = Journal()
        self.ledger = Ledger()
        self.entropy = CountingEntropy()
        self.truth = Truth(self)
        self.journal.told = self.truth.executed
        self.network = Network(self)
        self.errands: dict[str, Errand] = {}
        self.requests = 0
        self.open_requests: dict[int, Process] = {}
        self.store_down = False
        self.forgets = forgets
        self.story.waived = OF_A_STORE_THAT_REMEMBERS if forgets else frozenset()
        self._before: deque[Ledger] = deque(maxlen=FORGETS_MOST)
        self.limits = self._limits()
        made = (self.journal, self.chance, self.clock.store_ms, self.chance.happens(0.5))
        self.stripe = StripeLike("stripe", *made)
        resend = ResendLike("resend", *made)
        self.providers: dict[str, Any] = {"stripe": self.stripe, "resend": resend}
        self.slots = [Slot(self, name) for name in ("left", "right")]
        self._chaos = Chaos(self)
        self._work: list[asyncio.Task[None]] = []
        self._times = self.chance.of(((12_000, 40_000), (25_000, 120_000)))

    def _limits(self) -> tuple[Limit, ...]:
        if self.chance.happens(0.5):
            return ()
        return (
            Limit("refunds", "stripe.refund.*", Period.DAY, amount=self.chance.of((12_000, 30_000)), currency="usd"),
        )

    def settings(self, instance: str) -> Settings:
        """Return what the processes are configured with."""
        answer_ms, harvest_ms = self._times
        return Settings(
            instance=instance,
            connect_ms=3_000,
            answer_ms=answer_ms,
            harvest_ms=harvest_ms,
            lease_ms=8_000,
            readback_first_ms=8_000,
            readback_max_ms=60_000,
            readback_attempts=5,
            limits=self.limits,
        )

    def later(self, ms: int, work: Callable[..., object], *args: object) -> None:
        """Let something happen, whatever becomes of the process that this is called in."""
        asyncio.get_running_loop().call_later(ms / 1000, work, *args, context=Context())

    def commit(self, slip: Slip) -> Committed | Conflict | Exhausted:
        """Be the store's one write."""
        sequence = self.ledger.sequence
        if self.forgets:
            self._before.append(copy.deepcopy(self.ledger))
        result = self.ledger.commit(slip, self.clock.store_ms())
        if self.ledger.sequence > sequence:
            self.truth.committed(slip)
        return result

    def forget(self, commits: int) -> None:
        """Be a store that loses the last commits that it had acknowledged."""
        if len(self._before) >= commits:
            before = self._before[-commits]
            self._before.clear()
            for name in Ledger.__slots__:
                setattr(self.ledger, name, getattr(before, name))
            self.truth.forgotten()

    # ── The run ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Let it all happen, then heal, then look."""
        for slot in self.slots:
            slot.start()
        await asyncio.sleep(1)
        for number in range(1, self.chance.between(2, 6)):
            errand = make_errand(self, number)
            self.errands[errand.name] = errand
            together = self.chance.happens(0.25)
            for _ in range(self.chance.between(2, 4) if together else 1):
                self._begin(Agent(self, errand, rewords=not together).run())
            await asyncio.sleep(self.chance.between(0, 15_000) / 1000)
            if number == 1:
                self._begin(self._chaos.run())
                self._begin(Operator(self).run())
        await self._passing(self.chance.between(20_000, 90_000))
        self.story.tell("world", "heals")
        self._chaos.end()
        await self._heal()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work.append(asyncio.get_running_loop().create_task(work))

    async def _passing(self, ms: int) -> None:
        """Let time pass; what was broken meanwhile ends the run."""
        until_ms = self.clock.monotonic_ms() + ms
        while (left_ms := until_ms - self.clock.monotonic_ms()) > 0:
            await asyncio.sleep(min(left_ms, LOOK_MS) / 1000)
            self._look()

    def _look(self) -> None:
        if self.story.broken is not None:
            raise self.story.broken
        for task in self._work:
            if task.done():
                task.result()

    async def _heal(self) -> None:
        until_ms = self.clock.monotonic_ms() + HEALS_MOST_MS
        while self.clock.monotonic_ms() < until_ms:
            await self._passing(LOOK_MS)
            if all(task.done() for task in self._work) and not (self.truth.unsettled() or self.open_requests):
                break
        await self._passing(LOOK_MS)
        open_here = [n for n, process in self.open_requests.items() if not process.gate.dead]
        self.story.hold(ANSWERED, not open_here, lambda: f"requests {open_here}")
        for record in self.ledger.records.values():
            self.truth.healed(record.stored)

    def end(self) -> None:
        """Nothing goes on; nobody's last words are heard."""
        for slot in self.slots:
            if slot.process is not None:
                slot.process.gate.dead = True


def run(seed: int, say: Callable[[str], None] | None = None, *, forgets: bool = False) -> Run:
    """Run one seed. `forgets`: with a store that loses what it had acknowledged, of which less is promised."""
    loop = SimulatedLoop()
    loop.set_exception_handler(lambda _, context: None)
    world: World | None = None

    async def main() -> str | None:
        nonlocal world
        world = World(seed, loop, say, forgets=forgets)
        try:
            await world.run()
        except Broken as broken:
            return str(broken)
        finally:
            world.end()
        return None

    try:
        broken = loop.run_until_complete(main())
        assert world is not None
        _close(loop)
        return Run(seed, world.story.digest, dict(world.story.tally), broken)
    finally:
        loop.close()


def _close(loop: SimulatedLoop) -> None:
    """Drop everything that still waits. Its process is dead: what its `finally` says is said to nobody."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with contextlib.suppress(RuntimeError):
            task.get_coro().close()  # type: ignore[union-attr]
