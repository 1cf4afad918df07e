"""What goes wrong, and how often: every fate of a call over a port. Once it has `cleared`, nothing does any more."""

from typing import Final

from tests.simulation.chance import Chance

WRITES: Final = {
    "made": 40.0,
    "made, and answered late": 5.0,
    "made late": 4.0,
    "made, and the connection is lost": 7.0,
    "lost before it is read": 5.0,
    "made, and never answered": 3.0,
    "neither made nor answered": 3.0,
    "made, and 500": 4.0,
    "500": 3.0,
    "in conflict": 2.0,
    "not executed": 4.0,
    "unauthorised": 3.0,
    "invalid": 3.0,
    "declined": 2.0,
    "made, and cut short": 3.0,
    "refused, and cut short": 1.0,
    "made, and bytes behind it": 2.0,
    "made, behind a middlebox": 5.0,
    "a middlebox": 5.0,
    "created as failed": 2.0,
    "made, and repeated by a middlebox": 3.0,
    "key reused": 1.0,
    "made, and a bug of ours": 1.0,
    "made, and answered before the upload ended": 1.0,
}
CONNECTIONS: Final = {"connected": 90.0, "refused": 4.0, "no name": 2.0, "connected slowly": 5.0, "a bug of ours": 0.5}
READS: Final = {"read": 80.0, "no answer": 5.0, "failed": 5.0, "refused": 4.0, "cut short": 3.0, "read slowly": 3.0}
STORE: Final = {"lost request": 3.0, "lost reply": 4.0, "late": 3.0, "slow": 4.0}
MIDDLEBOX: Final = (200, 302, 401, 404, 429, 502, 503)


class Weather:
    """Fates, drawn. `rough`: how much goes wrong in this run, 1 being the usual."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.rough = chance.of((0.2, 0.6, 1.0, 1.0, 1.6))
        self.cleared = False
        self.provider_down = False
        self.reads_fail = False

    def write(self) -> str:
        """Return what becomes of a write whose first byte has left."""
        return "made" if self._fair(0.75) else self.chance.weighted(WRITES)

    def connection(self) -> str:
        """Return what becomes of an attempt to connect."""
        if self.provider_down:
            return "refused"
        return "connected" if self._fair(0.8) else self.chance.weighted(CONNECTIONS)

    def read(self) -> str:
        """Return what becomes of a GET."""
        if self.reads_fail:
            return self.chance.of(("no answer", "failed", "refused"))
        return "read" if self._fair(0.6) else self.chance.weighted(READS)

    def store(self, op: str) -> str:
        """Return what becomes of an operation of the store."""
        share = {"commit": 0.12, "beat": 0.04, "claim_due": 0.04}.get(op, 0.08)
        return "done" if self._fair(share) else self.chance.weighted(STORE)

    def strikes(self) -> str | None:
        """Return what hits a process at a call of its own, if anything does."""
        if self._fair(0.008):
            return None
        return self.chance.weighted({"crash": 1.0, "pause": 1.5})

    def pause_ms(self) -> int:
        """Return for how long a process stands still: a moment, past its lease, or past everything."""
        return self.chance.between(
            *self.chance.of(((50, 900), (1_000, 9_000), (9_000, 30_000), (40_000, 120_000), (40_000, 120_000)))
        )

    def _fair(self, share: float) -> bool:
        return self.cleared or not self.chance.happens(share * self.rough)
