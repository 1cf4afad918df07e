"""The Store port on Redis or Valkey."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from proxy.core import identity
from proxy.core.records import Filter, Period, Reservation, Slip, period_label
from proxy.core.retirement import Outcome, Retirement
from proxy.edges.store.codec import decode_record, encode_retirements, encode_slip
from proxy.edges.store.lane import Lane, Script
from proxy.edges.store.topology import Shard
from proxy.edges.tasks import Tasks
from proxy.ports import (
    Clock,
    Committed,
    Conflict,
    Exhausted,
    ExposureRow,
    Forgotten,
    LimitUse,
    Page,
    Retired,
    Stored,
    StoreUnavailable,
)

COMMIT: Final = Script("commit")
CLAIM: Final = Script("claim")
BEAT: Final = Script("beat")
SETTLED: Final = Script("settled")
RETIRE: Final = Script("retire")
GRAVES: Final = 6  # As many as retire.lua says.
PERIOD_MARGIN_MS: Final = 2 * 86_400_000  # Our estimate of the store's time must not end a period that is running.
SCANNED_MOST: Final = 20_000  # Of one list request: a filter that finds little must not hold the store.
Timed = Callable[[str, float], None]


def tag_of(ledger: str) -> bytes:
    """Return what every key of a ledger begins with: the hash tag that puts them all into one slot."""
    return b"dl:{" + ledger.encode() + b"}:"


class RedisStore:
    """Actions of one ledger. All its keys share one hash tag, so it runs unchanged on a cluster."""

    def __init__(self, shard: Shard, ledger: str, clock: Clock, tasks: Tasks, timed: Timed | None = None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._timed = timed
        self.answers = False  # Did it, when it was last asked?
        self._lane = Lane(shard, tasks, (COMMIT, CLAIM, BEAT, SETTLED, RETIRE))
        tag = tag_of(ledger)
        self._actions, self._claims, self._due, self._index = (
            tag + n for n in (b"actions", b"claims", b"due", b"index")
        )
        self._kept, self._exposure, self._limits, self._meta = (
            tag + n for n in (b"kept", b"exposure", b"limits", b"meta")
        )
        self._instances, self._settled = tag + b"instances", tag + b"settled"
        self._lease_keys = [self._instances, self._due, self._actions, self._index]
        self._graves = [tag + b"graves:%d" % number for number in range(1, GRAVES + 1)]

    async def _ask(self, op: str, *command: Any) -> Any:
        asked_ms = self._clock.monotonic_ms()
        try:
            answer = await self._lane.ask(*command)
        except StoreUnavailable:
            self.answers = False
            raise
        else:
            self.answers = True
            return answer
        finally:
            if self._timed is not None:
                self._timed(op, (self._clock.monotonic_ms() - asked_ms) / 1000)

    async def commit(self, slip: Slip) -> Committed | Conflict | Exhausted | Retired:
        """See the port."""
        asked_ms = self._clock.monotonic_ms()
        args = encode_slip(slip, self._clock.store_ms())
        keys = [
            self._actions,
            self._claims,
            self._due,
            self._index,
            self._kept,
            self._exposure,
            self._limits,
            self._meta,
            self._settled,
            *self._graves,
            self._instances,
        ]
        answer = await self._ask("commit", *COMMIT.call(keys, *args))
        match answer[0]:
            case b"committed":
                _, version, sequence, then, stale, now = answer
                self._clock.heard(int(now), asked_ms)  # Not `then`: a repeated commit would turn the clock back.
                return Committed(int(version), int(then), int(sequence), stale.decode() or None)
            case b"conflict":
                _, via, raw, now = answer
                self._clock.heard(int(now), asked_ms)
                stored = decode_record(raw)
                return Conflict(stored.action, stored.version, int(now), via.decode())
            case b"exhausted":
                _, limit, available, now = answer
                return Exhausted(limit.decode(), int(available), int(now))
            case b"retired":
                _, via, outcome, now = answer
                self._clock.heard(int(now), asked_ms)
                return Retired(Outcome(outcome.decode()), via.decode(), int(now))
            case _:
                raise Forgotten(slip.action.action_id)

    async def get(self, action_id: str) -> Stored | None:
        """See the port."""
        raw = await self._ask("get", "HGET", self._actions, action_id)
        return None if raw is None else decode_record(raw)

    async def kept(self, action_id: str, name: str) -> bytes | None:
        """See the port."""
        raw: bytes | None = await self._ask("get", "HGET", self._kept, f"{action_id}:{name}")
        return raw

    async def find(self, kind: str, digest: str) -> tuple[str, ...]:
        """See the port."""
        if kind == "scope":
            raw = await self._ask("find", "HGET", self._claims, "s" + digest)
            return () if raw is None else (raw.decode(),)
        if kind == "key":
            raw = await self._ask("find", "HGET", self._claims, f"key:{digest}")
            return () if raw is None else tuple(sorted(raw.decode().split(",")))
        prefix = f"{kind}:{digest}:"
        found = await self._ask("find", "ZRANGEBYLEX", self._index, f"[{prefix}", f"({prefix}\x7f", "LIMIT", 0, 1000)
        return tuple(member.decode().removeprefix(prefix) for member in found)

    async def page(self, chosen: Filter, cursor: str | None, limit: int) -> Page:
        """See the port."""
        prefix = self._list_of(chosen) + ":"
        rows: list[Stored] = []
        scanned = 0
        while True:
            top = f"({prefix}{cursor}" if cursor else f"({prefix}\x7f"
            step = max(limit - len(rows), 50)
            members = await self._ask("list", "ZREVRANGEBYLEX", self._index, top, f"[{prefix}", "LIMIT", 0, step)
            ids = [member.decode().removeprefix(prefix) for member in members]
            raws = await self._ask("list", "HMGET", self._actions, *ids) if ids else []
            for action_id, raw in zip(ids, raws, strict=True):
                cursor, scanned = action_id, scanned + 1
                stored = None if raw is None else decode_record(raw)
                if stored is not None and chosen.takes(stored.action):
                    rows.append(stored)
                    if len(rows) == limit:
                        return Page(tuple(rows), cursor)
            if len(ids) < step:
                return Page(tuple(rows), None)
            if scanned >= SCANNED_MOST:
                return Page(tuple(rows), cursor)

    def _list_of(self, chosen: Filter) -> str:
        """Return the shortest list that holds everything the filter takes."""
        if chosen.event_id is not None:
            return "event:" + identity.event_index(self._ledger, chosen.event_id)
        if chosen.contradicted:
            return "contradicted"
        if chosen.needs_operator:
            return "needs_operator"
        if chosen.status in ("pending", "denied_unresolved", "failed"):
            return f"status:{chosen.status}"
        return "status:denied_unresolved" if chosen.status == "unknown" else "all"

    async def claim_due(self, lease_ms: int, most: int) -> list[Stored]:
        """See the port."""
        asked_ms = self._clock.monotonic_ms()
        answer = await self._ask("claim", *CLAIM.call([self._actions, self._due, self._instances], lease_ms, most))
        self._clock.heard(int(answer[0]), asked_ms)
        return [decode_record(raw) for raw in answer[1:]]

    async def beat(self, instance: str, lease_ms: int) -> int:
        """See the port."""
        asked_ms = self._clock.monotonic_ms()
        now = await self._ask("beat", *BEAT.call(self._lease_keys, instance, lease_ms))
        self._clock.heard(int(now), asked_ms)
        return int(now)

    async def bury(self, instance: str) -> None:
        """See the port."""
        await self._ask("beat", *BEAT.call(self._lease_keys, instance, 0))

    async def settled(self, instance: str, lease_ms: int, keep_ms: int, most: int) -> list[Stored]:
        """See the port."""
        asked_ms = self._clock.monotonic_ms()
        keys = [self._settled, self._actions, self._limits, self._meta, *self._graves]
        over_ms = self._clock.store_ms() - keep_ms - PERIOD_MARGIN_MS
        labels = (period_label(period, over_ms) for period in (Period.DAY, Period.MONTH))
        answer = await self._ask("settled", *SETTLED.call(keys, instance, lease_ms, keep_ms, most, *labels))
        self._clock.heard(int(answer[0]), asked_ms)
        return [decode_record(raw) for raw in answer[1:]]

    async def retire(self, leaving: Sequence[Retirement], keep_ms: int, keep_scopes_ms: int) -> tuple[str, ...]:
        """See the port."""
        keys = [self._actions, self._claims, self._due, self._index, self._kept, self._settled, self._meta]
        args = (keep_ms, keep_scopes_ms, encode_retirements(leaving))
        gone = await self._ask("retire", *RETIRE.call([*keys, *self._graves], *args))
        return tuple(action_id.decode() for action_id in gone)

    async def exposure(self) -> list[ExposureRow]:
        """See the port."""
        flat = await self._ask("exposure", "HGETALL", self._exposure)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        found = {key.decode(): int(value) for key, value in pairs}
        rows = []
        for key in sorted(k for k in found if k.startswith("n|")):
            provider, account, currency = key[2:].split("|")
            amount = found.get("a|" + key[2:], 0)
            rows.append(ExposureRow(provider, account, currency or None, amount, found[key]))
        return rows

    async def limit_use(self, limits: Sequence[Reservation]) -> list[LimitUse]:
        """See the port."""
        fields = [f for r in limits for f in (f"c|{r.name}|{self._label(r)}", f"r|{r.name}", f"u|{r.name}")]
        if not fields:
            return []
        found = [int(v or 0) for v in await self._ask("limits", "HMGET", self._limits, *fields)]
        return [
            LimitUse(r.name, *found[3 * i : 3 * i + 3])  # Consumed, reserved, unknown.
            for i, r in enumerate(limits)
        ]

    def _label(self, reservation: Reservation) -> str:
        return period_label(reservation.period, self._clock.store_ms())

    async def due_count(self) -> int:
        """See the port."""
        return int(await self._ask("due", "ZCOUNT", self._due, "-inf", self._clock.store_ms()))
