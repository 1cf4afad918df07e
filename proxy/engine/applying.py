"""An event applied to the record, whoever else writes it meanwhile: read, step, commit, and again where overtaken."""

import contextlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from proxy.core.adapter import Adapter
from proxy.core.durations import parse_ms
from proxy.core.events import Event, Moment, Rules, Suspected
from proxy.core.lifecycle import step
from proxy.core.model import Action, Status, Tier
from proxy.core.records import Lookups, Projection, Reservation, Slip, project
from proxy.engine.settings import Settings
from proxy.ports import (
    Clock,
    Committed,
    Conflict,
    Entropy,
    Exhausted,
    Forgotten,
    Meter,
    Retired,
    Store,
    Stored,
    StoreUnavailable,
)

ROUNDS: Final = 64  # Each lost race means that somebody else's write went through.
RECENT: Final = 4096
CREDENTIAL, REQUEST, RESPONSE = "credential", "request", "response"


class Applier:
    """Commits steps of existing actions."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        entropy: Entropy,
        meter: Meter,
        adapters: Mapping[str, Adapter],
        settings: Settings,
    ) -> None:
        self.store = store
        self.clock = clock
        self.entropy = entropy
        self.meter = meter
        self.adapters = adapters
        self.settings = settings
        self._recent: OrderedDict[str, Stored] = OrderedDict()

    def moment(self) -> Moment:
        """Return now, with an identifier for what it leaves behind."""
        return Moment(self.clock.store_ms(), self.entropy.token())

    def rules(self, action: Action) -> Rules:
        """Return what the action's type and the configuration say of its time."""
        adapter, settings = self.adapters.get(action.identity.provider), self.settings
        if adapter is None:
            return Rules(scheduled=False, retry_window_ms=settings.retry_window_ms)  # Its provider was taken out.
        route = adapter.route(action.identity.route)
        reads = [adapter.doc.read[name] for name in route.readback]
        by_path = bool(route.object_path) and "{object}" not in route.object_path
        min_age_ms = settings.min_age_ms.get(action.identity.provider, parse_ms(route.min_age) or 0)
        return Rules(
            scheduled=bool(reads) and (action.tier in (Tier.FULL, Tier.RECONCILABLE) or by_path),
            by_object=bool(reads) and action.tier is Tier.PARTIAL,
            first_ms=settings.readback_first_ms,
            max_ms=settings.readback_max_ms,
            attempts=settings.readback_attempts,
            min_age_ms=min_age_ms,
            settle_within_ms=parse_ms(route.settle_within) or 0,
            look_back_ms=max((parse_ms(read.look_back) or 0 for read in reads), default=0),
            retry_window_ms=settings.retry_window_ms,
        )

    def projection(self, action: Action) -> Projection:
        """Return what the store must know of the action."""
        return project(action, self.rules(action), self.settings.lease_ms)

    async def apply(
        self,
        action_id: str,
        event: Event,
        *,
        known: Stored | None = None,
        keep: Mapping[str, bytes] | None = None,
        reserve: tuple[Reservation, ...] = (),
        lookups: Lookups = (),
        alive_until_ms: int = 0,
        once: bool = False,
    ) -> Stored | Conflict | Exhausted:
        """Apply an event. `once`: return the Conflict of a lost race instead of stepping on what stands then.

        `lookups`, `alive_until_ms`: see Slip; they come with `once`, since what they find is another action.

        Raises StoreUnavailable; the commit may then have been, or may yet be, applied. Twice, it applies once.
        """
        at_hand = known or self._recent.get(action_id)
        stored = at_hand or await self._read(action_id)
        for _ in range(ROUNDS):
            stepped = step(stored.action, event, self.moment(), self.rules(stored.action))
            if stepped.action == stored.action:
                if at_hand is None:
                    return stored
                at_hand = None  # A copy may be stale: that it is not concerned is believed of the record alone.
                stored = await self._read(action_id)
                continue
            slip = self._slip(stored, stepped.action, keep or {}, reserve)
            slip = replace(slip, lookups=lookups, alive_until_ms=alive_until_ms) if lookups else slip
            result = await self.commit(slip)
            match result:
                case Committed(version):
                    return await self._committed(stored, Stored(stepped.action, version), stepped.suspects)
                case Conflict(current, version) if not once:
                    stored, at_hand = Stored(current, version), None
                case Conflict() | Exhausted():
                    return result
                case Retired():
                    raise Forgotten(action_id)  # Only what is new can be told so.
        raise StoreUnavailable("overtaken again and again")

    async def _read(self, action_id: str) -> Stored:
        stored = await self.store.get(action_id)
        if stored is None:
            raise Forgotten(action_id)
        return stored

    async def commit(self, slip: Slip) -> Committed | Conflict | Exhausted | Retired:
        """Commit; once more where the reply was lost: the same commit applies once, and then answers as it did."""
        try:
            return await self.store.commit(slip)
        except StoreUnavailable:
            return await self.store.commit(slip)

    def _slip(
        self, stored: Stored, action: Action, keep: Mapping[str, bytes], reserve: tuple[Reservation, ...]
    ) -> Slip:
        kept = {name: value for name, value in keep.items() if name != RESPONSE or action.answer_kept}
        return Slip(
            commit_id=self.entropy.token(),
            action=action,
            expected=stored.version,
            before=self.projection(stored.action),
            after=self.projection(action),
            reserve=reserve,
            keep=kept,
            drop=_dropped(action),
        )

    async def _committed(self, before: Stored, after: Stored, suspects: str | None) -> Stored:
        self.remember(after)
        if after.action.status is not before.action.status:
            self.meter.action(after.action)
            if before.action.status is Status.DENIED_UNRESOLVED:
                self.meter.settled(after.action, self.moment())
        if suspects is not None:
            with contextlib.suppress(Forgotten):  # The run before may have left the store.
                await self.apply(suspects, Suspected())
        return after

    def newest(self, stored: Stored) -> Stored:
        """Return the record, or a later version of it that is at hand."""
        recent = self._recent.get(stored.action.action_id)
        return recent if recent is not None and recent.version > stored.version else stored

    def remember(self, stored: Stored) -> None:
        """Keep a record at hand: the next event is likely about it, and a stale copy only costs a round."""
        self._recent[stored.action.action_id] = stored
        self._recent.move_to_end(stored.action.action_id)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)


def _dropped(action: Action) -> tuple[str, ...]:
    """Return what need not be kept any longer: the credential as soon as nothing will be asked with it."""
    if action.status is Status.PENDING:
        return ()
    if not action.unresolved:
        return (CREDENTIAL, REQUEST)
    return (CREDENTIAL,) if action.needs_operator and action.next_readback_ms is None else ()
