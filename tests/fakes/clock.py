"""A clock that stands still until a test moves it."""

from typing import Final

START_MS: Final = 1_792_065_600_000  # Noon of 15 October 2026, UTC: hours and days from the edge of any period.


class ManualClock:
    """The Clock port as a value. The store's clock, this machine's and the monotonic one move together.

    They do not show the same number: whoever mixes them up is found out.
    """

    def __init__(self, store_ms: int = START_MS, *, wall_ahead_ms: int = 0) -> None:
        self._store_ms = store_ms
        self._monotonic_ms = 5_000_000
        self.wall_ahead_ms = wall_ahead_ms
        self.heard_last: tuple[int, int] | None = None  # What `heard` was told last.

    def advance_ms(self, ms: int) -> None:
        """Let time pass."""
        if ms < 0:
            raise ValueError("time does not go back")
        self._store_ms += ms
        self._monotonic_ms += ms

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return self._monotonic_ms

    def wall_ms(self) -> int:
        """Milliseconds since the epoch by this machine's clock."""
        return self._store_ms + self.wall_ahead_ms

    def store_ms(self) -> int:
        """Milliseconds since the epoch by the store's clock; the estimate of it is exact here."""
        return self._store_ms

    def heard(self, store_ms: int, asked_monotonic_ms: int) -> None:
        """Take note of the store's time; it is known already."""
        self.heard_last = (store_ms, asked_monotonic_ms)
