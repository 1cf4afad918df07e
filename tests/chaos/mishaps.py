"""What goes wrong, from a seed: each subject has dice of its own, and is whole again when its mishap is over."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.chaos.dice import Random, dice
from tests.chaos.world import Sidecar, World

# Nothing here lies about what was executed: a provider that did would leave nothing to judge by.
SLOW: Final = (
    {"delay_ms": 300},
    {"delay_ms": 2_000},
    {"delay_ms": 4_500},
)  # At once, in time, past the answer deadline.
FAULTS: Final[tuple[tuple[str, tuple[dict[str, Any], ...]], ...]] = (
    ("drop_after_commit", ({}, {"how": "rst"})),
    ("half_head_after_commit", ({},)),
    ("delay_after_commit", SLOW),
    ("delay_before_commit", SLOW),
    ("hold_after_commit", ({},)),
    ("status_after_commit", ({"status": 500}, {"status": 503}, {"status": 502, "marked": False})),
    ("status_without_commit", ({"status": 500}, {"status": 429}, {"status": 409}, {"status": 503, "marked": False})),
    ("html_502", ({"commit": True}, {"commit": False})),
    ("redirect", ({"commit": True}, {"commit": False})),
    ("drop_after_read", ({}, {"how": "rst"})),
    ("drop_before_read", ({},)),
    ("drop_after_head", ({},)),
    ("refuse_connection", ({"times": 3},)),
    ("hang", ({},)),
    ("truncate_after_commit", ({}, {"framing": "chunked"})),
    ("garbage_after_commit", ({"where": "body"}, {"where": "head"})),
    ("unmarked_after_commit", ({},)),
    ("without_object_id_after_commit", ({},)),
    ("trailing_bytes_after_commit", ({},)),
    ("second_response_after_commit", ({},)),
    ("close_idle_after", ({},)),
)
_PAUSES_S: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
_LONG_S: Final = 8.0  # Past a lease, past `send_before`, past the harvest end.


class Mishaps:
    """Makes them happen until it is told to stop. `done` counts them by kind."""

    def __init__(self, world: World, seed: int, pace: float) -> None:
        self._world = world
        self._seed = seed
        self._pace = pace
        self.done: Counter[str] = Counter()

    async def run(self, stopping: asyncio.Event) -> None:
        """Go on until then; afterwards all runs, and nothing is stopped."""
        subjects: list[tuple[str, Callable[[Random], Awaitable[None]]]] = [("provider", self._provider)]
        subjects += [("store", self._store)]
        for sidecar in self._world.sidecars:
            subjects.append((sidecar.name, lambda rng, sidecar=sidecar: self._sidecar(sidecar, rng)))  # type: ignore[misc]
        async with asyncio.TaskGroup() as group:
            for name, happen in subjects:
                group.create_task(self._subject(dice(self._seed, name), happen, stopping))

    async def _subject(self, rng: Random, happen: Callable[[Random], Awaitable[None]], stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            pause_s = rng.uniform(0.2, 2.0) * self._pace
            try:
                async with asyncio.timeout(pause_s):
                    await stopping.wait()
            except TimeoutError:
                await happen(rng)

    async def _provider(self, rng: Random) -> None:
        for _ in range(rng.randint(1, 4)):
            kind, variants = rng.choice(FAULTS)
            fault = {"kind": kind, "provider": rng.choice(("stripe", "stripe", "resend"))} | rng.choice(variants)
            if kind != "refuse_connection" and kind != "drop_before_read":
                fault["method"] = rng.choice(("POST", "POST", "POST", "GET")) if _also_of_reads(kind) else "POST"
            self.done[f"fault {kind}"] += 1
            await self._world.provider.ask("POST", "faults", fault)

    async def _store(self, rng: Random) -> None:
        store = self._world.store
        pause_s = rng.choice(_PAUSES_S)
        if rng.random() < 0.5:
            self.done["store stopped"] += 1
            pid = self._world.store_pid
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(pause_s)
            os.kill(pid, signal.SIGCONT)
        else:
            self.done["store killed"] += 1
            await asyncio.to_thread(store.kill)
            await asyncio.sleep(pause_s / 2)
            await asyncio.to_thread(store.start)
        await asyncio.sleep(rng.uniform(0, 4))

    async def _sidecar(self, sidecar: Sidecar, rng: Random) -> None:
        if rng.random() < 0.5:
            self.done["sidecar stopped"] += 1
            sidecar.tell(signal.SIGSTOP)
            await asyncio.sleep(_LONG_S if rng.random() < 0.15 else rng.choice(_PAUSES_S))
            sidecar.tell(signal.SIGCONT)
        else:
            self.done["sidecar killed"] += 1
            await sidecar.kill()
            await asyncio.sleep(rng.choice((0.0, 0.2, 1.0, 4.0)))
            await sidecar.start()
        await asyncio.sleep(rng.uniform(0, 2))


def _also_of_reads(kind: str) -> bool:
    return kind in ("hang", "status_without_commit", "drop_after_read", "delay_before_commit")
