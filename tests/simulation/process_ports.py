"""The ports of one process: what it knows of the time, its way to the store, its disk, and its tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.core.records import Slip
from proxy.ports import Committed, Conflict, Exhausted, Observation, StoreUnavailable
from tests.fakes.fuse import Bug
from tests.fakes.spool import MemorySpool
from tests.fakes.store import MemoryStore
from tests.simulation.loop import Gate

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

T = TypeVar("T")


class Clock:
    """The clock of one machine: its wall clock is off, and what it knows of the store's time is a little old."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._wall_off_ms = world.chance.between(-3_000, 3_000)
        self._lag_ms = world.chance.between(0, 200)

    def monotonic_ms(self) -> int:
        """See the port."""
        return self._world.clock.monotonic_ms()

    def wall_ms(self) -> int:
        """See the port."""
        return self._world.clock.wall_ms() + self._wall_off_ms

    def store_ms(self) -> int:
        """See the port."""
        return self._world.clock.store_ms() - self._lag_ms

    def heard(self, store_ms: int, asked_monotonic_ms: int) -> None:
        """See the port."""


class Store(MemoryStore):
    """The Store port over a network: requests and replies are lost, slow, or late."""

    def __init__(self, world: "World", process: "Process") -> None:
        super().__init__(world.clock, world.ledger)
        self._world = world
        self._process = process

    async def _do(self, op: str, work: Callable[[], T]) -> T:
        world = self._world
        await self._process.struck()
        cut_off = world.store_down or self._process.slot.cut_off
        fate = "lost request" if cut_off else world.weather.store(op)
        if fate != "done":
            world.story.count(f"store: {fate}", self._process.name, f"store.{op}: {fate}")
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        world.later(self._there_ms(fate), self._at_store, op, work, fate, reply)
        await asyncio.wait({reply})
        await self._process.struck()
        return reply.result()

    async def commit(self, slip: Slip) -> Committed | Conflict | Exhausted:
        """See the port."""
        return await self._do("commit", lambda: self._world.commit(slip))

    def _there_ms(self, fate: str) -> int:
        """A slow operation takes a moment, or longer than what waits for it may be sent."""
        chance = self._world.chance
        return chance.between(*chance.of(((200, 4_000), (4_000, 14_000)))) if fate == "slow" else 1

    def _at_store(self, op: str, work: Callable[[], T], fate: str, reply: "asyncio.Future[T]") -> None:
        world = self._world
        fails_ms = world.chance.between(1, 2_000)
        match fate:
            case "lost request":
                world.later(fails_ms, _fail, reply, StoreUnavailable(op))
            case "lost reply":
                self._work(work)
                world.later(fails_ms, _fail, reply, StoreUnavailable(op))
            case "late":
                world.later(world.chance.between(fails_ms, 25_000), self._work, work)
                world.later(fails_ms, _fail, reply, StoreUnavailable(op))
            case _:
                done = self._work(work)
                world.later(1, _fail if isinstance(done, Exception) else _tell, reply, done)

    def _work(self, work: Callable[[], T]) -> T | Exception:
        try:
            return work()
        except StoreUnavailable as refused:
            return refused


def _fail(reply: "asyncio.Future[Any]", why: Exception) -> None:
    reply.set_exception(why)
    reply.exception()  # Whoever asked may be gone.


def _tell(reply: "asyncio.Future[Any]", result: object) -> None:
    reply.set_result(result)


class Spool:
    """The Spool port of one process on the disk of its slot: a dead process writes nothing any more."""

    def __init__(self, world: "World", disk: MemorySpool, gate: Gate, who: str) -> None:
        self._disk = disk
        self._gate = gate
        self._world = world
        self._who = who

    def __len__(self) -> int:
        return len(self._disk)

    def add(self, observation: Observation) -> None:
        """See the port."""
        if not self._gate.dead:
            self._disk.add(observation)
            self._world.story.count("spooled", self._who, f"writes an observation of {observation.action_id} down")

    def pending(self) -> list[Observation]:
        """See the port."""
        return self._disk.pending()

    def taken(self, count: int) -> None:
        """See the port."""
        if not self._gate.dead:
            self._disk.taken(count)

    def check(self) -> None:
        """See the port."""
        self._disk.check()


class Tasks:
    """The Spawner port, and what failed in the tasks."""

    def __init__(self, world: "World", process: "Process") -> None:
        self.running: dict[asyncio.Task[Any], None] = {}
        self._world = world
        self._process = process

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """See the port."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self.running.pop(task, None)
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if not isinstance(failure, StoreUnavailable | Bug):
            self._world.truth.failed(self._process.name, task.get_name(), failure)
