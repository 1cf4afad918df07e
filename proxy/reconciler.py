"""What is due: read-backs of the unknown, the pending actions of the dead, and what the spool holds.

Any number of instances run it on one store; what one has claimed, no other gets for the length of the claim.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from proxy.core.events import Event, Finding, OwnerLost, ReadBack, Responded, Unreadable, Unsendable
from proxy.core.http import Headers
from proxy.core.identity import content_index
from proxy.core.model import Action
from proxy.core.readback import SKEW_MS, Inquiry, Subject
from proxy.engine.applying import RESPONSE
from proxy.engine.dispatching import EVENT_DECODER
from proxy.engine.engine import Engine
from proxy.ports import Forgotten, Observation, Spawner, Spool, SpoolFull, Stored, StoreUnavailable, Vault

CLAIM_MS: Final = 90_000  # Longer than an inquiry may take, so that nobody else asks meanwhile.
INQUIRY_MS: Final = 60_000
READ_MS: Final = 10_000
CLAIMED_MOST: Final = 64
TWINS_MOST: Final = 32
COMMIT_MAY_COME_MS: Final = 600_000  # The last bytes of a closed connection are repeated for minutes (tcp(7)).
LOOK_AGAIN_FIRST_MS: Final = 250
LOOK_AGAIN_MOST_MS: Final = 30_000


class Refused(Exception):
    """A read-back on demand that may not be made; `code` is of CONTRACT 3, `until_ms` when it may."""

    def __init__(self, code: str, message: str, until_ms: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.until_ms = until_ms


class Reconciler:
    """Settles what is unknown from the provider's own record."""

    def __init__(self, engine: Engine, vault: Vault, spool: Spool, tasks: Spawner, instance: str) -> None:
        self._engine = engine
        self._applier = engine.applier
        self._store = engine.applier.store
        self._vault = vault
        self._spool = spool
        self._tasks = tasks
        self._instance = instance
        self._leaving = False
        self._waiting = 0  # Observations of actions that the store did not know when it was last asked.
        self._look_again_ms = 0
        self._pause_ms = LOOK_AGAIN_FIRST_MS
        self._beaten_ms = engine.applier.clock.monotonic_ms()

    # ── The round ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, every_ms: int) -> None:
        """Look for what is due, for ever."""
        while True:
            try:
                was_away = await self._renew()
                await self.unspool()  # First: what was seen and written down is not unknown.
                if was_away:
                    await self._let_others_beat()
                claimed = await self.round()
            except (StoreUnavailable, OSError):
                claimed = 0
            if claimed < CLAIMED_MOST:
                await asyncio.sleep(every_ms / 1000)

    async def beat(self, every_ms: int) -> None:
        """Keep the lease of this instance, for ever."""
        while not self._leaving:
            # The lease may run out meanwhile: then others write our actions off, and what we hear is late evidence.
            with contextlib.suppress(StoreUnavailable):
                await self._beat()
            await asyncio.sleep(every_ms / 1000)

    async def leave(self, within_ms: int) -> None:
        """Let the lease of this instance end with its drain: what it has not recorded by then is others' to write off.

        No state changes by it: what finishes in time is recorded by its owner, as ever.
        """
        self._leaving = True
        with contextlib.suppress(StoreUnavailable):  # Then it ends by itself, within the length of a lease.
            await self._store.beat(self._instance, max(within_ms, 1))

    async def _beat(self) -> None:
        if self._leaving:
            return
        await self._engine.tell()
        asked_ms = self._applier.clock.monotonic_ms()
        await self._store.beat(self._instance, self._applier.settings.lease_ms)
        self._beaten_ms = asked_ms

    async def _renew(self) -> bool:
        """Renew a lease of ours that may have lapsed: a process that lives must not write off what it awaits itself.

        Returns whether the leases of others may have lapsed with it.
        """
        lease_ms = self._applier.settings.lease_ms
        silent_ms = self._applier.clock.monotonic_ms() - self._beaten_ms
        if silent_ms > lease_ms // 2:
            await self._beat()
        return silent_ms > lease_ms * 7 // 10  # They beat at other moments than we do.

    async def _let_others_beat(self) -> None:
        """A store that was away is no death: who lives renews its lease before anything of it is written off."""
        await asyncio.sleep(self._applier.settings.lease_ms / 2000)
        await self._beat()

    async def round(self) -> int:
        """Claim what is due and see to it; how much was claimed. Read-backs go on beside it."""
        claimed = await self._store.claim_due(CLAIM_MS, CLAIMED_MOST)
        due = []
        for stored in claimed:
            action = stored.action
            if action.awaited and action.dispatch is not None:
                lost = await self._applier.apply(action.action_id, OwnerLost(action.dispatch.owner), known=stored)
                if isinstance(lost, Stored):
                    self._tasks.spawn(self._price_written_off(lost.action), "pricing")
            elif action.unresolved:
                due.append(stored)
        if due:
            self._tasks.spawn(self._read_back_scheduled(due), "read-back")
        return len(claimed)

    async def _read_back_scheduled(self, due: list[Stored]) -> None:
        with contextlib.suppress(StoreUnavailable):  # Done again when the claim runs out.
            await self._read_back(due, scheduled=True)

    async def _price_written_off(self, action: Action) -> None:
        with contextlib.suppress(StoreUnavailable):  # Done again before it is read back.
            await self._price(action)

    async def _price(self, action: Action) -> Action:
        """Read what an action moves that nobody could price so far."""
        if not self._engine.pricer.unpriced(action):
            return action
        headers = await self._engine.pricer.kept_headers(action)
        return await self._engine.pricer.price(action, headers)

    # ── Read-backs ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def reconcile(self, action_id: str) -> Stored:
        """Ask the provider's record about one action, on demand. Raises Refused, Forgotten and StoreUnavailable."""
        stored = await self._store.get(action_id)
        if stored is None:
            raise Forgotten(action_id)
        action, now_ms = stored.action, self._applier.clock.store_ms()
        if action.awaited:
            raise Refused("too_early", "The action is still in flight.", action.dispatches[-1].answer_by_ms)
        if not action.unresolved:
            raise Refused("already_settled", "The action is settled; there is nothing to ask.")
        if action.eligible_at_ms is not None and now_ms < action.eligible_at_ms:
            raise Refused("too_early", "The provider's record may not show it yet.", action.eligible_at_ms)
        await self._read_back([stored], scheduled=False)
        return await self._store.get(action_id) or stored

    async def _read_back(self, due: list[Stored], *, scheduled: bool) -> None:
        """Ask about actions, one conversation an account."""
        groups: dict[tuple[str, Headers], list[Subject]] = {}
        for stored in due:
            action = await self._price(stored.action)
            ident = action.identity
            adapter = self._applier.adapters.get(ident.provider)
            if adapter is None:
                await self._found(action, Unreadable("unknown_provider"), scheduled=scheduled)
                continue
            sent = await self._engine.pricer.kept_headers(action)
            headers = self._engine.reader.headers(ident.provider, ident.account, sent)
            if not headers:
                await self._found(action, Unreadable("no_credential"), scheduled=scheduled)
                continue
            route = adapter.route(ident.route)
            twins = bool(ident.content) and await self._has_twins(action)
            groups.setdefault((ident.provider, headers), []).append(Subject(action, route, twins))
        for (provider, headers), subjects in groups.items():
            await self._ask(provider, headers, subjects, scheduled=scheduled)

    async def _ask(self, provider: str, headers: Headers, subjects: list[Subject], *, scheduled: bool) -> None:
        inquiry = Inquiry(self._applier.adapters[provider], subjects, self._vault.digests)
        findings: dict[str, Finding]
        try:
            async with asyncio.timeout(INQUIRY_MS / 1000):
                while (target := inquiry.ask()) is not None:
                    inquiry.hear(await self._engine.reader.get(provider, target, headers, READ_MS))
            findings = inquiry.findings()
        except TimeoutError:
            findings = {subject.action.action_id: Unreadable("timeout") for subject in subjects}
        for subject in subjects:
            await self._found(subject.action, findings[subject.action.action_id], scheduled=scheduled)

    async def _found(self, action: Action, finding: Finding, *, scheduled: bool) -> None:
        self._applier.meter.readback(action.identity.provider, str(type(finding).__struct_config__.tag))
        await self._applier.apply(action.action_id, ReadBack(finding, scheduled))

    async def _has_twins(self, action: Action) -> bool:
        """Did another action of ours send an equal message at about the same time? Then equality proves nothing."""
        for message in action.identity.content:
            digest = content_index(action.identity.ledger, message)
            for other_id in (await self._store.find("content", digest))[:TWINS_MOST]:
                if other_id == action.action_id:
                    continue
                other = await self._store.get(other_id)
                if other is not None and _overlap(action, other.action):
                    return True
        return False

    # ── The spool ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def unspool(self) -> None:
        """Step every observation again, on the state that the store holds now.

        One of an action that the store does not know waits, and holds up none of the others.
        """
        loose, now_ms = self._engine.notebook.loose, self._applier.clock.monotonic_ms()
        nothing_new = len(self._spool) + len(loose) == self._waiting
        if nothing_new and now_ms < self._look_again_ms:
            return
        self._look_again_ms = 0
        self._pause_ms = min(self._pause_ms * 2, LOOK_AGAIN_MOST_MS) if nothing_new else LOOK_AGAIN_FIRST_MS
        for observation in tuple(loose):
            if await self._observe(observation) and observation in loose:
                loose.remove(observation)
        waiting: list[Observation] = []
        seen = 0
        try:
            for observation in self._spool.pending():
                taken = await self._observe(observation)
                if taken and not waiting:
                    self._spool.taken(1)
                    continue
                seen += 1
                if not taken:
                    waiting.append(observation)
        finally:
            if len(waiting) < seen:
                self._put_back(waiting, seen)
        self._waiting = len(waiting) + len(loose)
        self._look_again_ms = now_ms + self._pause_ms

    def _put_back(self, waiting: list[Observation], seen: int) -> None:
        """Move what waits behind the rest. Where the disk refuses, all of it is stepped again: it changes nothing."""
        with contextlib.suppress(SpoolFull, OSError):
            for observation in waiting:
                self._spool.add(observation)
            self._spool.taken(seen)

    async def _observe(self, observation: Observation) -> bool:
        """Step an observation; False where it must wait until the store knows its action (again)."""
        event: Event = EVENT_DECODER.decode(observation.event)
        keep = {} if observation.response is None else {RESPONSE: observation.response}
        try:
            await self._applier.apply(observation.action_id, event, keep=keep)
        except Forgotten:
            match event:
                case Responded():
                    return False  # The only proof there is.
                case Unsendable():
                    # The first commit may be on its way still, and would say "in flight" of what never was sent.
                    return self._applier.clock.store_ms() > made_ms(observation.action_id) + COMMIT_MAY_COME_MS
                case _:
                    return True
        return True


def made_ms(action_id: str) -> int:
    """Return when an action was made: a UUIDv7 begins with 48 bits of time (RFC 9562, section 5.7)."""
    return int(action_id.replace("-", "")[:12], 16)


def _overlap(one: Action, other: Action) -> bool:
    """Were both under way within the time in which the provider may have stamped either?"""
    mine, theirs = _window(one.dispatches), _window(other.dispatches)
    return mine is not None and theirs is not None and mine[0] <= theirs[1] and theirs[0] <= mine[1]


def _window(dispatches: Iterable[object]) -> tuple[int, int] | None:
    spans = [(d.dispatched_at_ms - SKEW_MS, d.harvest_ms + SKEW_MS) for d in dispatches]  # type: ignore[attr-defined]
    return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None
