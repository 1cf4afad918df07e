"""One process of ours: engine and reconciler over ports that can fail, on a gate that can close."""

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

from proxy.engine import Engine
from proxy.ports import StoreUnavailable
from proxy.reconciler import Reconciler
from tests.engine.rig import ADAPTERS
from tests.fakes.meter import TallyMeter
from tests.fakes.spool import MemorySpool
from tests.fakes.vault import PlainVault
from tests.simulation.loop import GATE, Gate
from tests.simulation.network import Line
from tests.simulation.process_ports import Clock, Spool, Store, Tasks

if TYPE_CHECKING:
    from tests.simulation.world import World

BEAT_MS: Final = 2_500
ROUND_MS: Final = 3_000
DRAIN_MS: Final = 4_000


class Slot:
    """A place where a process runs: its disk, its share of the network, and the process that runs there now."""

    def __init__(self, world: "World", name: str) -> None:
        self.name = name
        self.disk = MemorySpool()
        self.cut_off = False
        self.process: Process | None = None
        self.past: list[
            Process
        ] = []  # Held: nothing of the dead may be collected, and say its last words, in the middle.
        self.dead: list[str] = []  # Instances that died here and are not buried yet.
        self._world = world
        self._started = 0

    def start(self) -> None:
        """Start a process, if none runs."""
        if self.process is None:
            self._started += 1
            self.process = Process(self._world, self, f"{self.name}.{self._started}")
            self.process.call(self.process.begin)


class Process:
    """See the module."""

    def __init__(self, world: "World", slot: Slot, name: str) -> None:
        self.name = name
        self.slot = slot
        self.world = world
        self.gate = Gate()
        self.clock = Clock(world)
        self.ready = False
        self.stopping = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tasks = Tasks(world, self)
        self.meter = TallyMeter()
        vault, spool = PlainVault(), Spool(world, slot.disk, self.gate, name)
        self.store = Store(world, self)
        self.engine = Engine(
            store=self.store,
            upstream=Line(world, self),
            clock=self.clock,
            entropy=world.entropy,
            vault=vault,
            spool=spool,
            meter=self.meter,
            tasks=self.tasks,
            adapters=ADAPTERS,
            settings=world.settings(name),
        )
        self.vault = vault
        self.reconciler = Reconciler(self.engine, vault, spool, self.tasks, name)
        self._context = copy_context()
        self._context.run(GATE.set, self.gate)
        world.story.tell(name, "starts")

    def call(self, work: Callable[..., object], *args: object) -> None:
        """Let the process do something as soon as it can; one that is dead never does."""
        asyncio.get_running_loop().call_soon(work, *args, context=self._context.copy())

    # ── Its life ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self) -> None:
        """Start as the product does: what the dead left first, then the loops."""
        self.tasks.spawn(self._begin(), "begin")

    async def _begin(self) -> None:
        while True:
            try:
                await self.store.beat(self.name, self.world.settings(self.name).lease_ms)
                await self.reconciler.unspool()
                for dead in tuple(self.slot.dead):
                    await self.store.bury(dead)
                    self.slot.dead.remove(dead)
                while await self.reconciler.round():
                    pass
            except (StoreUnavailable, OSError):
                await asyncio.sleep(1)
            else:
                break
        self.tasks.spawn(self.reconciler.beat(BEAT_MS), "heartbeat")
        self.tasks.spawn(self.reconciler.run(ROUND_MS), "reconciler")
        self.ready = True

    async def struck(self) -> None:
        """Be hit by a fault at a call over a port, perhaps: before it, or once it is done."""
        match self.world.weather.strikes() if self.gate.open else None:
            case "crash":
                self.world.story.count("crash at a call", self.name, "crashes at a call of its own")
                self.crash()
                await asyncio.sleep(0)  # From which it does not come back.
            case "pause":
                self.world.story.count("pause at a call", self.name, "stands still at a call of its own")
                self.pause(self.world.weather.pause_ms())
                await asyncio.sleep(0)

    def pause(self, ms: int) -> None:
        """Stand still for a while."""
        if self.gate.open:
            self.gate.paused = True
            self.world.story.tell(self.name, f"is paused for {ms} ms")
            self.world.later(ms, self.goes_on)

    def goes_on(self) -> None:
        """Run again after a pause."""
        if self.gate.paused and not self.gate.dead:
            self.world.story.tell(self.name, "goes on")
            self.gate.go_on()

    def crash(self) -> None:
        """Be gone at once; somebody starts another one after a while."""
        if not self.gate.dead:
            self.gate.dead = True
            self._gone("is gone")

    def _gone(self, how: str) -> None:
        self.world.story.tell(self.name, how)
        self.world.truth.gone(self)
        self.slot.dead.append(self.name)
        self.slot.process = None
        self.slot.past.append(self)
        self.world.later(0, self._tell_askers)
        self.world.later(self.world.chance.between(300, 25_000), self.slot.start)

    def _tell_askers(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def stop(self) -> None:
        """Be stopped in an orderly way: drain, then end."""
        if self.gate.open and self.ready and not self.stopping:
            self.stopping = True
            self.world.story.tell(self.name, "is told to stop")
            self.call(self._stop)

    def _stop(self) -> None:
        self.tasks.spawn(self._drain(), "drain")

    async def _drain(self) -> None:
        with contextlib.suppress(StoreUnavailable):
            await self.engine.drain(DRAIN_MS)
        await asyncio.sleep(0.5)  # Its answers are written.
        self.gate.dead = True
        self._gone("has stopped")
