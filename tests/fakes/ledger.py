"""What a store holds of one ledger, and the rules of its one write: `commit.lua` told a second time.

Longer than 300 lines, as the scripts together are: one state, and every rule about it.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from proxy.core.model import Action
from proxy.core.records import WAITED_FOR_MS, Bucket, Projection, Reservation, Slip, period_label
from proxy.core.retirement import Outcome, Retirement
from proxy.ports import Committed, Conflict, Exhausted, Forgotten, Retired, Stored

COMMITS_REMEMBERED: Final = 8
EXPIRED_MOST: Final = 4
KEPT: Final = ("credential", "request", "response")
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Action).decode


@dataclass(slots=True)
class Hold:
    """What one action holds of one limit, and in which of its buckets."""

    name: str
    label: str
    amount: int
    counts: bool
    bucket: Bucket = Bucket.NONE

    @property
    def place(self) -> tuple[str, ...] | None:
        """Where it is added up; consumption belongs to a period, all else stands against every period."""
        match self.bucket:
            case Bucket.CONSUMED:
                return (self.bucket.value, self.name, self.label)
            case Bucket.RESERVED | Bucket.UNKNOWN:
                return (self.bucket.value, self.name)
            case _:
                return None


@dataclass(slots=True)
class Record:
    """One action as stored: bytes, so that nobody changes it in passing."""

    raw: bytes
    version: int
    owner: str
    owned_until_ms: int
    unresolved: bool
    commits: dict[str, Committed]
    holds: list[Hold]

    @property
    def stored(self) -> Stored:
        """The record as read."""
        return Stored(_DECODE(self.raw), self.version)


@dataclass(slots=True)
class Ledger:
    """All that is stored. `claims` are of payloads and targets: who stands there until when."""

    records: dict[str, Record] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    claims: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    index: dict[str, set[str]] = field(default_factory=dict)
    due: dict[str, int] = field(default_factory=dict)
    instances: dict[str, int] = field(default_factory=dict)
    kept: dict[tuple[str, str], bytes] = field(default_factory=dict)
    exposed: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)
    used: dict[tuple[str, ...], int] = field(default_factory=dict)
    settled: dict[str, int] = field(default_factory=dict)
    tombstones: dict[tuple[str, str], tuple[Outcome, int]] = field(default_factory=dict)
    retirer: tuple[str, int] = ("", 0)
    sequence: int = 0

    def commit(self, slip: Slip, now_ms: int) -> Committed | Conflict | Exhausted | Retired:
        """Write all or nothing."""
        record = self.records.get(slip.action.action_id)
        if record is not None and slip.commit_id in record.commits:
            return record.commits[slip.commit_id]
        if slip.expected == 0:
            if (found := self._in_the_way(slip, record, now_ms)) is not None:
                return found
        elif record is None:
            raise Forgotten(slip.action.action_id)
        elif record.version != slip.expected:
            return _conflict(record, "version", now_ms)
        if (found := self._looked_up(slip, now_ms)) is not None:
            return found
        held = record.holds if record is not None else []
        asked = [
            Hold(r.name, period_label(r.period, now_ms), r.amount, r.counts, Bucket.RESERVED) for r in slip.reserve
        ]
        for want, hold in zip(slip.reserve, asked, strict=True):
            available = want.cap - self._taken(hold, held)
            if want.amount > available:
                return Exhausted(want.name, max(available, 0), now_ms)
        return self._apply(slip, record, asked, now_ms)

    # ── May it be written? ────────────────────────────────────────────────────────────────────────────────────────────

    def _in_the_way(self, slip: Slip, record: Record | None, now_ms: int) -> Conflict | Retired | None:
        if record is not None:
            return _conflict(record, "version", now_ms)
        if slip.scope:
            latest = self.scopes.get(slip.scope)
            replaced = self.records.get(slip.replaces)
            if latest is not None and latest != slip.replaces:
                if latest in self.records:
                    return _conflict(self.records[latest], "scope", now_ms)
            elif replaced is not None and replaced.version != slip.replaces_version:
                return _conflict(replaced, "scope", now_ms)
            if latest is None and (outcome := self._buried("scope", slip.scope, now_ms)) is not None:
                return Retired(outcome, "scope", now_ms)
        return None

    def _looked_up(self, slip: Slip, now_ms: int) -> Conflict | Retired | None:
        own = (slip.action.action_id, slip.replaces)  # Nothing stands in its own way.
        for kind, digests in slip.lookups:
            for digest in digests:
                for claimant, until_ms in self._claimants(kind, digest):
                    if kind != "alias" and claimant in own:
                        continue
                    if until_ms > now_ms and claimant in self.records:
                        return _conflict(self.records[claimant], kind, now_ms)
                    if self._waits_elsewhere(slip, claimant, until_ms):
                        return _conflict(self.records[claimant], "elsewhere", now_ms)
                if kind == "alias" and (outcome := self._buried(kind, digest, now_ms)) is not None:
                    return Retired(outcome, kind, now_ms)
        return None

    def _buried(self, kind: str, digest: str, now_ms: int) -> Outcome | None:
        outcome, until_ms = self.tombstones.get((kind, digest), (None, 0))
        return outcome if until_ms > now_ms else None

    def _waits_elsewhere(self, slip: Slip, claimant: str, until_ms: int) -> bool:
        """May an asker be gone of whom only another instance can tell, which has not shown yet that it lives?"""
        owner, asks = self._waited_for(claimant, until_ms), slip.after.owner
        shown = slip.alive_until_ms and self.instances.get(owner, 0) >= slip.alive_until_ms
        return bool(owner and asks and owner != asks and not shown)

    def _waited_for(self, claimant: str, until_ms: int) -> str:
        """Return who awaits an action that stands only for those who ask elsewhere."""
        record = self.records.get(claimant)
        return record.owner if record is not None and until_ms == WAITED_FOR_MS else ""

    def _claimants(self, kind: str, digest: str) -> list[tuple[str, int]]:
        if kind != "alias":
            return list(self.claims.get((kind, digest), {}).items())
        return [(self.aliases[digest], 1 << 53)] if digest in self.aliases else []

    def _taken(self, hold: Hold, held: list[Hold]) -> int:
        places = (("consumed", hold.name, hold.label), ("reserved", hold.name), ("unknown", hold.name))
        own = sum(h.amount for h in held if h.name == hold.name and h.bucket in (Bucket.RESERVED, Bucket.UNKNOWN))
        return sum(self.used.get(place, 0) for place in places) - own

    # ── Write it. ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _apply(self, slip: Slip, record: Record | None, asked: list[Hold], now_ms: int) -> Committed:
        action_id = slip.action.action_id
        self.sequence += 1
        stale = self._prune(slip, now_ms)
        done = Committed(slip.expected + 1, now_ms, self.sequence, stale)
        if slip.expected == 0 and slip.scope:
            self.scopes[slip.scope] = action_id
        self._claim(action_id, slip.before, slip.after, now_ms)
        for name in slip.before.index - slip.after.index:
            self.index.get(name, set()).discard(action_id)
        for name in slip.after.index - slip.before.index:
            self.index.setdefault(name, set()).add(action_id)
        self.due.pop(action_id, None)
        if slip.after.due_ms is not None:
            self.due[action_id] = max(slip.after.due_ms, now_ms)
        if slip.after.settled:
            self.settled[action_id] = now_ms
        elif slip.before.settled:
            self.settled.pop(action_id, None)
        if slip.before.exposed != slip.after.exposed:
            self._expose(slip.before, -1)
            self._expose(slip.after, 1)
        for name, value in slip.keep.items():
            self.kept[action_id, name] = value
        for name in slip.drop:
            self.kept.pop((action_id, name), None)
        self.records[action_id] = Record(
            raw=_ENCODE(slip.action),
            version=done.version,
            owner=slip.after.owner,
            owned_until_ms=max(slip.after.owned_until_ms, now_ms),
            unresolved=slip.after.unresolved,
            commits=dict([*(record.commits if record else {}).items(), (slip.commit_id, done)][-COMMITS_REMEMBERED:]),
            holds=self._move(record.holds if record else [], asked, slip.after),
        )
        return done

    def _prune(self, slip: Slip, now_ms: int) -> str | None:
        """Drop the expired claims of settled actions; return the unresolved one that has outlived its folding."""
        stale = None
        own = (slip.action.action_id, slip.replaces)
        for kind, digest in ((k, d) for k, digests in slip.lookups if k != "alias" for d in digests):
            for claimant, until_ms in self._claimants(kind, digest):
                record = self.records.get(claimant)
                if claimant in own and record is not None:
                    continue
                if record is None or not (record.unresolved or self._waited_for(claimant, until_ms)):
                    self._drop(kind, digest, claimant)
                elif kind == "payload" and until_ms <= now_ms:
                    stale = claimant
        return stale

    def _claim(self, action_id: str, before: Projection, after: Projection, now_ms: int) -> None:
        for (kind, digest), until_ms in after.claims.items():
            if before.claims.get((kind, digest)) == until_ms:
                continue
            if kind == "alias":
                if self.aliases.get(digest) not in self.records:
                    self.aliases[digest] = action_id
            else:
                self._freshen(kind, digest, action_id, now_ms)
                self.claims.setdefault((kind, digest), {})[action_id] = until_ms
        for kind, digest in before.claims.keys() - after.claims.keys():
            if kind == "alias" and self.aliases.get(digest) == action_id:
                del self.aliases[digest]
            elif kind != "alias":
                self._drop(kind, digest, action_id)

    def _freshen(self, kind: str, digest: str, action_id: str, now_ms: int) -> None:
        """Drop the action's own claim, and the first of those that are over for good."""
        self._drop(kind, digest, action_id)
        over = [
            claimant
            for claimant, until_ms in self._claimants(kind, digest)
            if until_ms <= now_ms and not self._waited_for(claimant, until_ms)
        ]
        for claimant in over[:EXPIRED_MOST]:
            if claimant not in self.records or not self.records[claimant].unresolved:
                self._drop(kind, digest, claimant)

    def _drop(self, kind: str, digest: str, action_id: str) -> None:
        there = self.claims.get((kind, digest), {})
        there.pop(action_id, None)
        if not there:
            self.claims.pop((kind, digest), None)

    def _expose(self, projection: Projection, sign: int) -> None:
        if projection.exposed is None:
            return
        provider, account, currency, minor = projection.exposed
        amount, actions = self.exposed.pop((provider, account, currency), (0, 0))
        if actions + sign != 0:
            self.exposed[provider, account, currency] = (amount + sign * minor, actions + sign)

    def _move(self, held: list[Hold], asked: list[Hold], after: Projection) -> list[Hold]:
        """Move what the action holds to where its state says; what it asks anew replaces what it held."""
        if asked:
            for old in held:
                if old.bucket is not Bucket.CONSUMED:
                    self._add(old, -old.amount)
            for hold in asked:
                self._add(hold, hold.amount)
        unasked = [h for h in held if not (h.bucket is Bucket.RELEASED and after.bucket is Bucket.RESERVED)]
        moved = []
        for hold in asked or unasked:
            amount = hold.amount
            if hold.bucket is not after.bucket:
                self._add(hold, -amount)
                if after.bucket is Bucket.CONSUMED and not hold.counts and after.actual is not None:
                    amount = after.actual
            new = Hold(hold.name, hold.label, amount, hold.counts, after.bucket)
            if hold.bucket is not after.bucket:
                self._add(new, amount)
            moved.append(new)
        return moved

    def _add(self, hold: Hold, amount: int) -> None:
        if hold.place is not None:
            self.used[hold.place] = self.used.get(hold.place, 0) + amount

    # ── Leave. ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def old(self, instance: str, lease_ms: int, keep_ms: int, most: int, now_ms: int) -> list[Stored]:
        """Return what may leave, to one instance at a time, and drop the tombstones that are over."""
        holder, until_ms = self.retirer
        if holder not in ("", instance) and until_ms > now_ms:
            return []
        self.retirer = (instance, now_ms + lease_ms)
        self.tombstones = {name: stone for name, stone in self.tombstones.items() if stone[1] > now_ms}
        old = sorted((since_ms, i) for i, since_ms in self.settled.items() if since_ms <= now_ms - keep_ms)
        return [self.records[i].stored for _, i in old[:most]]

    def retire(self, leaving: Retirement, keep_ms: int, keep_scopes_ms: int, now_ms: int) -> bool:
        """Remove one settled action with every trace, but for its tombstones; False where it stays."""
        action_id = leaving.action_id
        record, since_ms = self.records.get(action_id), self.settled.get(action_id)
        if record is None or since_ms is None or record.version != leaving.version or since_ms > now_ms - keep_ms:
            return False
        if record.unresolved or record.owner:
            del self.settled[action_id]
            return False
        if self._has_open_twin(leaving):
            self.settled[action_id] = now_ms
            return False
        until_ms = ((since_ms + keep_scopes_ms) // 1000 + 1) * 1000
        if self.scopes.get(leaving.scope) == action_id:
            del self.scopes[leaving.scope]
            self.tombstones["scope", leaving.scope] = (leaving.outcome, until_ms)
        for alias in leaving.aliases:
            if self.aliases.get(alias) == action_id:
                del self.aliases[alias]
                self.tombstones["alias", alias] = (leaving.outcome, until_ms)
        for kind, digest in leaving.claims:
            self._drop(kind, digest, action_id)
        for name in leaving.index:
            self.index.get(name, set()).discard(action_id)
        for name in KEPT:
            self.kept.pop((action_id, name), None)
        self.due.pop(action_id, None)
        del self.settled[action_id], self.records[action_id]
        return True

    def _has_open_twin(self, leaving: Retirement) -> bool:
        twins = {i for name in leaving.index if name.startswith("content:") for i in self.index.get(name, ())}
        return any(self.records[i].unresolved or self.records[i].owner for i in twins - {leaving.action_id})

    def use_of(self, limit: Reservation, now_ms: int) -> tuple[int, int, int]:
        """Return what is consumed, reserved and unknown of a limit in its current period."""
        label = period_label(limit.period, now_ms)
        places = (("consumed", limit.name, label), ("reserved", limit.name), ("unknown", limit.name))
        consumed, reserved, unknown = (self.used.get(place, 0) for place in places)
        return consumed, reserved, unknown


def _conflict(record: Record, via: str, now_ms: int) -> Conflict:
    return Conflict(record.stored.action, record.version, now_ms, via)


def _asked(limit: Reservation, now_ms: int) -> Hold:
    return Hold(limit.name, period_label(limit.period, now_ms), limit.amount, limit.counts, Bucket.RESERVED)
