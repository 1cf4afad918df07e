"""Actions and slips for tests: complete, short to write, and told apart by a number."""

import itertools
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from proxy.core.events import Event, Moment, Rules
from proxy.core.lifecycle import step
from proxy.core.model import Action, Amount, Dispatch, Effect, Identity, Tier
from proxy.core.records import NOTHING, Projection, Reservation, Slip, project
from tests.fakes.clock import START_MS

RULES: Final = Rules(scheduled=True)
REFUND: Final = Amount(5400, "usd")
_commits = itertools.count(1)


def action_id(number: int) -> str:
    """Return an ID of a UUIDv7's shape; a higher number is newer."""
    made_ms = START_MS + number
    return f"{made_ms >> 16:08x}-{made_ms & 0xFFFF:04x}-7000-8000-{number:012x}"


def make_action(
    number: int = 1,
    *,
    now_ms: int = START_MS,
    ledger: str = "default",
    event_id: str | None = None,
    provider: str = "stripe",
    account: str = "test",
    action_type: str = "stripe.refund.create",
    effect: Effect = Effect.MONEY,
    tier: Tier = Tier.RECONCILABLE,
    amount: Amount = REFUND,
    payload: str = "",
    targets: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    content: tuple[dict[str, str], ...] = (),
    owner: str = "proxy-1",
) -> Action:
    """Return an action that its owner has just dispatched and awaits."""
    event_id = event_id if event_id is not None else f"ticket-{number}"
    identity = Identity(
        action_id=action_id(number),
        ledger=ledger,
        provider=provider,
        account=account,
        event_id=event_id,
        action_type=action_type,
        route=action_type,
        method="POST",
        idempotency_key=f"{event_id}:{action_type}",
        payload=payload,
        targets=targets,
        content=content,
    )
    return Action(
        identity=identity,
        effect=effect,
        tier=tier,
        created_at_ms=now_ms,
        awaited=True,
        amount=amount,
        dispatches=(make_dispatch(now_ms, f"d{number}-1", owner),),
        aliases=aliases,
    )


def make_dispatch(now_ms: int, dispatch_id: str, owner: str = "proxy-1") -> Dispatch:
    """Return a dispatch with the default deadlines."""
    return Dispatch(
        dispatch_id=dispatch_id,
        owner=owner,
        dispatched_at_ms=now_ms,
        send_before_ms=now_ms + 10_000,
        answer_by_ms=now_ms + 25_000,
        harvest_ms=now_ms + 120_000,
    )


def after(action: Action, *events: Event, now_ms: int = START_MS, rules: Rules = RULES) -> Action:
    """Return what the events make of the action."""
    for event in events:
        action = step(action, event, Moment(now_ms, f"{next(_commits):016x}"), rules).action
    return action


def creation(
    action: Action,
    *,
    projection: Projection | None = None,
    commit_id: str | None = None,
    scope: str = "",
    lookups: tuple[tuple[str, tuple[str, ...]], ...] = (),
    replaces: str = "",
    replaces_version: int = 0,
    reserve: tuple[Reservation, ...] = (),
    keep: Mapping[str, bytes] | None = None,
) -> Slip:
    """Return the slip that creates the action. `projection`: what a test says follows from it, instead of the rules."""
    return Slip(
        commit_id=commit_id or f"commit-{next(_commits)}",
        action=action,
        expected=0,
        before=NOTHING,
        after=projection if projection is not None else project(action, RULES),
        scope=scope,
        lookups=lookups,
        replaces=replaces,
        replaces_version=replaces_version,
        reserve=reserve,
        keep=keep or {},
    )


def change(slip: Slip, action: Action | None = None, *, projection: Projection | None = None, **fields: object) -> Slip:
    """Return the slip that follows the given one: the action as it has become, at the version that slip left.

    Further `fields` are those of Slip: `expected`, `commit_id`, `reserve`, `keep`, `drop`.
    """
    action = action if action is not None else slip.action
    following = Slip(
        commit_id=f"commit-{next(_commits)}",
        action=action,
        expected=slip.expected + 1,
        before=slip.after,
        after=projection if projection is not None else project(action, RULES),
    )
    return replace(following, **fields)
