"""Was this process stopped a moment ago? Then what it reads may have lain there while its agent went elsewhere."""

import asyncio
from typing import Final

from proxy.ports import Clock

EVERY_MS: Final = 50
STOPPED_AFTER_MS: Final = 150  # No agent gives up, asks elsewhere and is answered in less.
WAKING_MS: Final = 1_000  # How long what came in meanwhile is still being taken up.


class Pulse:
    """Beats by itself while the process runs. One that was never started says nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: tuple[int, int] | None = None  # On both clocks: in a machine asleep the monotonic one stands still.
        self._waking_until_ms = 0

    async def run(self) -> None:
        """Beat, for ever."""
        while True:
            self._beat()
            await asyncio.sleep(EVERY_MS / 1000)

    def _beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._is_late():
            self._waking_until_ms = now_ms + WAKING_MS
        self._last = (now_ms, self._clock.wall_ms())

    def _is_late(self) -> bool:
        if self._last is None:
            return False
        gaps = (self._clock.monotonic_ms() - self._last[0], self._clock.wall_ms() - self._last[1])
        return max(gaps) > STOPPED_AFTER_MS

    @property
    def waking(self) -> bool:
        """Was it stopped until now, or a moment ago?"""
        return self._is_late() or self._clock.monotonic_ms() < self._waking_until_ms
