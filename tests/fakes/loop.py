"""An event loop on the time of a ManualClock: where nothing is left to do, time goes on to the next timer at once."""

import asyncio
import math
import selectors

from tests.fakes.clock import ManualClock

JUMPS_MOST = 100_000


class Stuck(Exception):
    """Nothing can happen any more, or nothing but the passing of time does: the code under test hangs."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is the clock's; it never waits."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall_ahead_ms=7_000)
        self.idlers: list[asyncio.Future[None]] = []
        super().__init__(_Jumping(self))

    def time(self) -> float:
        """The monotonic clock, in seconds."""
        return self.clock.monotonic_ms() / 1000


class _Jumping(selectors.SelectSelector):
    """Instead of waiting, it lets a test that waits for quiet go on, or else moves the clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._jumps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            return []
        if self._loop.idlers:
            self._loop.idlers.pop().set_result(None)
            return []
        self._jumps += 1
        if timeout is None or self._jumps > JUMPS_MOST:
            raise Stuck
        self._loop.clock.advance_ms(max(1, math.ceil(timeout * 1000 - 0.001)))
        return []


def virtual_loop() -> VirtualLoop:
    """The loop that the test runs on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


async def quiet() -> None:
    """Let everything go on that can without the passing of time."""
    loop = virtual_loop()
    idle = loop.create_future()
    loop.idlers.append(idle)
    await idle


async def passing(ms: int) -> None:
    """Let time pass, and whatever happens in it."""
    await asyncio.sleep(ms / 1000)
    await quiet()
