"""What befalls the machines, besides what befalls single calls: crashes, pauses, partitions, full disks, outages."""

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.process import Slot
    from tests.simulation.world import World

TROUBLES: Final = {
    "crash": 3.0,
    "pause": 4.0,
    "orderly restart": 2.5,
    "store down": 3.0,
    "store cut off": 4.0,
    "disk full": 1.0,
    "disk broken": 1.0,
    "provider down": 1.5,
    "reads fail": 1.5,
    "refund by hand": 1.5,
}
OF_A_STORE_THAT_FORGETS: Final = {**TROUBLES, "store forgets": 5.0}
FORGETS_MOST: Final = 4  # Commits.


class Chaos:
    """Makes trouble until the weather clears."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = world.chance

    async def run(self) -> None:
        """One trouble after the other; they overlap."""
        while not self._world.weather.cleared:
            await asyncio.sleep(self._chance.between(2_000, round(30_000 / max(self._world.weather.rough, 0.5))) / 1000)
            if self._world.weather.cleared:
                return
            trouble = self._chance.weighted(OF_A_STORE_THAT_FORGETS if self._world.forgets else TROUBLES)
            self._world.story.count(f"trouble: {trouble}", "chaos", trouble)
            self._make(trouble, self._chance.of(self._world.slots), self._chance.between(300, 30_000))

    def _make(self, trouble: str, slot: "Slot", ms: int) -> None:
        world, process = self._world, slot.process
        match trouble:
            case "crash" if process is not None:
                process.crash()
            case "pause" if process is not None:
                process.pause(world.weather.pause_ms())
            case "orderly restart" if process is not None:
                process.stop()
            case "store down":
                world.store_down = True
                world.later(ms, setattr, world, "store_down", False)
            case "store cut off":
                slot.cut_off = True
                world.later(ms, setattr, slot, "cut_off", False)
            case "disk full" | "disk broken":
                name = trouble.removeprefix("disk ")
                setattr(slot.disk, name, True)
                world.later(ms, setattr, slot.disk, name, False)
            case "provider down":
                world.weather.provider_down = True
                world.later(ms, setattr, world.weather, "provider_down", False)
            case "reads fail":
                world.weather.reads_fail = True
                world.later(ms, setattr, world.weather, "reads_fail", False)
            case "store forgets":
                world.forget(self._chance.between(1, FORGETS_MOST))
            case "refund by hand" if world.errands:
                errand = self._chance.of(tuple(world.errands.values()))
                world.stripe.by_hand(f"ch_{errand.name}", errand.amount or 5_400)

    def end(self) -> None:
        """Everything is well again."""
        world = self._world
        world.weather.cleared = True
        world.weather.provider_down = world.weather.reads_fail = world.store_down = False
        for slot in world.slots:
            slot.cut_off = slot.disk.full = slot.disk.broken = False
            if slot.process is not None and slot.process.gate.paused:
                slot.process.goes_on()
            slot.start()
