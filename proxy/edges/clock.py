"""The only module that reads a clock or draws at random (ports `Clock` and `Entropy`)."""

import secrets
import time
import uuid
from collections.abc import Callable
from typing import Final

from msgspec import Struct

SAMPLE_AGE_MAX_MS: Final = 60_000  # A clock that drifts by 200 parts in a million is 12 ms off by then.
_RANDOM_BITS: Final = 74


class _Sample(Struct, frozen=True):
    """One reply of the store: its clock less ours, off by at most half the round trip."""

    heard_ms: int
    round_trip_ms: int
    offset_ms: int


class SystemClock:
    """This machine's clocks, and an estimate of the store's.

    The store's time is taken for the midpoint between question and answer, and the reply with the shortest round trip
    says most (as in NTP, RFC 5905, section 10): it counts for a minute, or until one is as short. A reply that it
    contradicts shows that the store's clock was set: then that one counts.
    """

    def __init__(
        self, monotonic_ns: Callable[[], int] = time.monotonic_ns, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._wall_ns = wall_ns
        self._best: _Sample | None = None
        self._last_store_ms = 0

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; they run on while the process is stopped."""
        return self._monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the epoch by this machine's clock."""
        return self._wall_ns() // 1_000_000

    def store_ms(self) -> int:
        """Milliseconds since the epoch by the store's clock, never going back; by ours until the store was heard."""
        if self._best is None:
            return self.wall_ms()
        self._last_store_ms = max(self._last_store_ms, self.monotonic_ms() + self._best.offset_ms)
        return self._last_store_ms

    def heard(self, store_ms: int, asked_monotonic_ms: int) -> None:
        """Take note of the store's time as it said in a reply to what was asked then."""
        now = self.monotonic_ms()
        trip = max(0, now - asked_monotonic_ms)
        sample = _Sample(heard_ms=now, round_trip_ms=trip, offset_ms=store_ms - (now - trip // 2))
        best = self._best
        if (
            best is None
            or trip <= best.round_trip_ms
            or now - best.heard_ms > SAMPLE_AGE_MAX_MS
            or _contradict(sample, best)
        ):
            self._best = sample


def _contradict(one: _Sample, other: _Sample) -> bool:
    """Can both not be true? Each is off by half its round trip; rounding and a minute's drift add some."""
    tolerance_ms = (one.round_trip_ms + other.round_trip_ms) // 2 + 20
    return abs(one.offset_ms - other.offset_ms) > tolerance_ms


class SystemEntropy:
    """Identifiers from the operating system's random numbers."""

    def action_id(self, now_ms: int) -> str:
        """Return a UUIDv7 (RFC 9562, section 5.7): 48 bits of time, 74 random ones."""
        drawn = secrets.randbits(_RANDOM_BITS)
        high, low = drawn >> 62, drawn & ((1 << 62) - 1)
        return str(uuid.UUID(int=(now_ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low))

    def token(self) -> str:
        """Return 16 hexadecimal digits, unique for all practical purposes."""
        return secrets.token_hex(8)
