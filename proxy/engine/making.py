"""A draft made into an action, its dispatch, and the slip of its first commit."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from proxy.core import identity, limits
from proxy.core.adapter import Adapter
from proxy.core.events import Refused
from proxy.core.http import Request, without
from proxy.core.lifecycle import step
from proxy.core.model import Action, Amount, Cause, Dispatch, Effect, Identity
from proxy.core.records import NOTHING, Lookups, Reservation, Slip
from proxy.engine.applying import CREDENTIAL, REQUEST, Applier
from proxy.engine.drafting import FIELDS_MOST, Draft
from proxy.engine.pricing import Pricer, credential_headers
from proxy.ports import SendBefore, Sending, Stored, Vault

SEND_GRACE_MS = 5_000  # CONTRACT 2.4: the first byte leaves within `deadlines.connect` + 5 s of the commit, or never.


class Made(Struct):
    """Everything that a try needs: what is recorded of it, what is sent, and until when."""

    action: Action
    request: Request
    sending: Sending
    answer_by_ms: int  # Monotonic.
    keep: dict[str, bytes]
    reserve: tuple[Reservation, ...]
    slip: Slip | None = None  # Of a creation.


def twins(draft: Draft) -> Lookups:
    """Return the lookups of rule 3 (CONTRACT 2.3), where nobody named what the request is: no event, no earlier run."""
    if draft.event is not None or draft.retry_of is not None:
        return ()
    return tuple(("target", digests) for digests, _ in draft.targets)


class Maker:
    """Makes actions and dispatches."""

    def __init__(self, applier: Applier, adapters: Mapping[str, Adapter], pricer: Pricer, vault: Vault) -> None:
        self._applier = applier
        self._adapters = adapters
        self._pricer = pricer
        self._vault = vault
        self._clock = applier.clock
        self._entropy = applier.entropy
        self._settings = applier.settings

    async def create(self, draft: Draft, prior: Stored | None, alive_until_ms: int) -> Made:
        """Make a new action: the first run of its scope, or the one after `prior`. Raises limits.Undeterminable.

        `alive_until_ms`: see Slip.
        """
        amount, reserve = await self._room(draft)
        action_id = self._entropy.action_id(self._clock.store_ms())
        ident = self._identity(draft, action_id, prior)
        made = self._try(draft, ident, amount, reserve)
        slip = self._slip(draft, made.action, made, prior)
        return msgspec.structs.replace(made, slip=msgspec.structs.replace(slip, alive_until_ms=alive_until_ms))

    def refuse(self, draft: Draft, prior: Stored | None, cause: Cause) -> Slip:
        """Make the record of an action that may not be sent."""
        ident = self._identity(draft, self._entropy.action_id(self._clock.store_ms()), prior)
        base = self._action(draft, ident, draft.amount, ())
        refused = step(base, Refused(cause), self._applier.moment(), self._applier.rules(base)).action
        return self._slip(draft, refused, None, prior)

    async def again(self, draft: Draft, stored: Stored) -> Made:
        """Make a further dispatch of an action that provably executed nothing. Raises limits.Undeterminable."""
        amount, reserve = await self._room(draft)
        first = stored.action.identity
        ident = msgspec.structs.replace(
            self._identity(draft, first.action_id, None),
            event_id=first.event_id,
            explicit=first.explicit,
            run=first.run,
            retry_of=first.retry_of,
            idempotency_key=first.idempotency_key,
            agent_key=first.agent_key or draft.agent_key,
        )
        return self._try(draft, ident, amount, reserve)

    def scope_of(self, draft: Draft, event: str) -> str:
        """Return the digest of the scope that the draft falls into under an event."""
        return identity.scope(self._settings.ledger, draft.account, event, draft.action_type)

    # ── Parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _room(self, draft: Draft) -> tuple[Amount, tuple[Reservation, ...]]:
        """Return what the action moves and the room it must have; read what it does not say where a limit covers it."""
        covering = tuple(
            limit
            for limit in self._settings.limits
            if limit.covers(draft.match.route_type, draft.ask.provider, draft.account)
        )
        amount = draft.amount
        if draft.moves and draft.plain and not amount.priced and limits.needs_amount(covering):
            amount = await self._pricer.quote(
                draft.ask.provider, draft.account, draft.match.route, draft.facts, amount, draft.ask.headers
            )
        return amount, limits.reservations(covering, amount, moves=draft.moves)

    def _identity(self, draft: Draft, action_id: str, prior: Stored | None) -> Identity:
        before = None if prior is None else prior.action.identity
        event = before.event_id if before is not None else draft.event or f"auto-{action_id}"
        run = before.run + 1 if before is not None else 1
        key = None
        if draft.key is not None:
            text = identity.idempotency_key(
                event=event, type_=draft.action_type, run=run, account=draft.account, ledger=self._settings.ledger
            )
            key = identity.fitted(text, draft.key)
        route = draft.match.route
        fields = sorted(draft.body.fields(route.volatile).items())[:FIELDS_MOST]
        return Identity(
            action_id=action_id,
            ledger=self._settings.ledger,
            provider=draft.ask.provider,
            account=draft.account,
            event_id=event,
            action_type=draft.action_type,
            route=draft.match.route_type,
            method=draft.ask.method,
            run=run,
            explicit=before.explicit if before is not None else draft.event is not None,
            idempotency_key=key,
            agent_key=draft.agent_key,
            agent=draft.agent,
            credential=draft.credentials[0],
            payload=draft.payloads[0],
            fields={name: self._vault.digest(data)[:16] for name, data in fields}
            | {"(path)": self._vault.digest(f"{draft.ask.method} {draft.ask.target}".encode())[:16]},
            targets=tuple(f"{digests[0]}+{within}" if within else digests[0] for digests, within in draft.targets),
            facts=draft.facts,
            content=tuple(
                {name: self._vault.digest(data) for name, data in message.items()}
                for message in identity.content(draft.body, route)
            ),
            retry_of=before.action_id if before is not None else None,
        )

    def _try(self, draft: Draft, ident: Identity, amount: Amount, reserve: tuple[Reservation, ...]) -> Made:
        settings, now_ms = self._settings, self._clock.store_ms()
        monotonic_ms = self._clock.monotonic_ms()
        # Never after the harvest end: from then on others may let a second send go.
        send_within_ms = min(settings.connect_ms + SEND_GRACE_MS, settings.harvest_ms)
        dispatch = Dispatch(
            dispatch_id=self._entropy.token(),
            owner=settings.instance,
            dispatched_at_ms=now_ms,
            send_before_ms=now_ms + send_within_ms,
            answer_by_ms=now_ms + settings.answer_ms,
            harvest_ms=now_ms + settings.harvest_ms,
        )
        send_before = SendBefore(monotonic_ms + send_within_ms, self._clock.wall_ms() + send_within_ms)
        return Made(
            action=self._action(draft, ident, amount, (dispatch,)),
            request=draft.request(ident.idempotency_key),
            sending=Sending(monotonic_ms + settings.harvest_ms, send_before),
            answer_by_ms=monotonic_ms + settings.answer_ms,
            keep=self._kept(draft, ident),
            reserve=reserve,
        )

    def _action(self, draft: Draft, ident: Identity, amount: Amount, dispatches: tuple[Dispatch, ...]) -> Action:
        route = draft.match.route
        effect = Effect.RECORD if route.effect is Effect.MONEY and not draft.moves else route.effect
        return Action(
            identity=ident,
            effect=effect,
            tier=route.tier,
            created_at_ms=self._clock.store_ms(),
            awaited=True,
            amount=amount,
            dispatches=dispatches,
            aliases=draft.alias[:1],
        )

    def _slip(self, draft: Draft, action: Action, made: Made | None, prior: Stored | None) -> Slip:
        lookups = twins(draft)
        if draft.event is None and prior is None:
            lookups = (("alias", draft.alias), ("payload", draft.payloads), *lookups)
        return Slip(
            commit_id=self._entropy.token(),
            action=action,
            expected=0,
            before=NOTHING,
            after=self._applier.projection(action),
            scope=self.scope_of(draft, action.identity.event_id),
            lookups=lookups,
            replaces=prior.action.action_id if prior is not None else "",
            replaces_version=prior.version if prior is not None else 0,
            reserve=made.reserve if made is not None else (),
            keep=made.keep if made is not None else {},
        )

    def _kept(self, draft: Draft, ident: Identity) -> dict[str, bytes]:
        """Seal what a read-back authenticates with, and the bytes of a replay where the type has one."""
        adapter, route = self._adapters[draft.ask.provider], draft.match.route
        out = {}
        if route.readback or route.replay or route.quotes:
            sent = credential_headers(draft.ask.headers, adapter)
            out[CREDENTIAL] = self._seal(ident.action_id, CREDENTIAL, msgspec.msgpack.encode(sent))
        if route.replay and len(draft.ask.body) <= self._settings.kept_body_bytes:
            request = draft.request(ident.idempotency_key)
            secret = identity.credential_names(request.headers)
            bare = msgspec.structs.replace(request, headers=tuple(without(request.headers, *secret)))
            out[REQUEST] = self._seal(ident.action_id, REQUEST, msgspec.msgpack.encode(bare))
        return out

    def _seal(self, action_id: str, name: str, plain: bytes) -> bytes:
        return self._vault.seal(plain, f"{action_id}:{name}")
