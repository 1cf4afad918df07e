"""What the store must know of an action besides its record: derived from the action, never decided apart from it.

A commit carries the projection before and after, so that indexes, claims, holds and exposure cannot drift from it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from proxy.core import identity
from proxy.core.events import Rules
from proxy.core.model import FOREVER_MS, Action, Effect, NotDispatched, Status

FORGOTTEN_MS = 60_000  # An action still awaited so long after its answer deadline is awaited by nobody: a bug of ours.
WAITED_FOR_MS = (
    1  # "Until" of a claim that stands only for who asks elsewhere, until its owner has shown that it lives.
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(StrEnum):
    """The period of a limit; days and months are UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


class Bucket(StrEnum):
    """Where the amount of an action stands in the limits that cover it."""

    NONE = ""
    RESERVED = "reserved"
    UNKNOWN = "unknown"
    CONSUMED = "consumed"
    RELEASED = "released"


class Reservation(Struct, frozen=True):
    """Room asked of one limit: in minor units, or 1 where it counts actions."""

    name: str
    period: Period
    cap: int
    amount: int
    counts: bool = False


class Filter(Struct, frozen=True, omit_defaults=True):
    """Which actions to list; every field that is set must hold."""

    status: str | None = None
    grade: str | None = None
    provider: str | None = None
    action_type: str | None = None
    event_id: str | None = None
    account: str | None = None
    needs_operator: bool | None = None
    contradicted: bool | None = None

    def takes(self, action: Action) -> bool:
        """Does the action belong in the list?"""
        ident = action.identity
        status = Status.DENIED_UNRESOLVED.value if self.status == "unknown" else self.status
        return all(
            want is None or want == have
            for want, have in (
                (status, action.status.value),
                (self.grade, action.grade.value),
                (self.provider, ident.provider),
                (self.event_id, ident.event_id),
                (self.account, ident.account),
                (self.needs_operator, action.needs_operator),
                (self.contradicted, action.contradicted),
            )
        ) and (self.action_type is None or self.action_type in (ident.action_type, ident.route))


class Projection(Struct, frozen=True):
    """What follows from one state of an action.

    `claims`: (kind, digest) → until when other requests find the action there. `index`: lists that it is in.
    `due_ms`: when it is claimed next, by the store's clock. `owner`: the instance that awaits it, or "";
    `owned_until_ms`: after that even a living owner has lost track of it.
    """

    claims: Mapping[tuple[str, str], int] = {}
    index: frozenset[str] = frozenset()
    exposed: tuple[str, str, str, int] | None = None  # provider, account, currency ("": unpriced), minor units
    bucket: Bucket = Bucket.NONE
    actual: int | None = None
    due_ms: int | None = None
    owner: str = ""
    owned_until_ms: int = 0
    unresolved: bool = False
    settled: bool = False  # It may leave, once nothing has changed it for `state.keep`.


Lookups = tuple[tuple[str, tuple[str, ...]], ...]


class Slip(Struct, frozen=True):
    """One commit. `expected` 0 creates. The lookups must find nothing but the action itself, or what it replaces.

    `lookups`: (kind, digests) in order, any of whose live claims stands in the way. `replaces`: the action, at that
    version, which must be the latest of the scope. `keep` and `drop` are of the sealed values beside the action.
    `alive_until_ms`: an instance whose lease ends no sooner lives, and the askers it says that it has are there.
    """

    commit_id: str
    action: Action
    expected: int
    before: Projection
    after: Projection
    scope: str = ""
    lookups: Lookups = ()
    replaces: str = ""
    replaces_version: int = 0
    reserve: tuple[Reservation, ...] = ()
    keep: Mapping[str, bytes] = {}
    drop: tuple[str, ...] = ()
    alive_until_ms: int = 0


NOTHING = Projection()


def project(action: Action, rules: Rules, lease_ms: int = 15_000) -> Projection:
    """Derive what the store must know."""
    ident = action.identity
    claims: dict[tuple[str, str], int] = {}
    for alias in action.aliases:
        claims["alias", alias] = FOREVER_MS
    if (until := folds_until_ms(action, rules)) > 0 and ident.payload:
        claims["payload", ident.payload] = until
    for target in ident.targets:
        digest, _, within = target.partition("+")
        until = twin_until_ms(action, rules)
        if within and until:
            until = min(until, action.created_at_ms + int(within))
        if until > 0:
            claims["target", digest] = until
    last = action.dispatch
    return Projection(
        claims=claims,
        index=index_of(action),
        exposed=_exposed(action),
        bucket=_bucket(action),
        actual=action.amount.minor,
        due_ms=last.dispatched_at_ms + lease_ms if action.awaited and last else action.next_readback_ms,
        owner=last.owner if action.awaited and last else "",
        owned_until_ms=last.answer_by_ms + FORGOTTEN_MS if action.awaited and last else 0,
        unresolved=action.unresolved,
        settled=action.status in (Status.CONFIRMED, Status.FAILED) and not action.contradicted,
    )


def folds_until_ms(action: Action, rules: Rules) -> int:
    """Return until when an unnamed request of the same payload is taken for this action (CONTRACT 2.3, rule 2)."""
    if action.contradicted:
        return _unresolved_until_ms(
            action, rules
        )  # Nobody knows how often it happened: it is as open as an unknown one.
    match action.status:
        case Status.PENDING:
            return FOREVER_MS
        case Status.DENIED_UNRESOLVED:
            return _unresolved_until_ms(action, rules)
        case _ if isinstance(action.delivery, NotDispatched):
            return 0  # It never was under way: the next one is asked for room anew.
        case _:
            settled_ms = action.settled_at_ms or action.created_at_ms
            undelivered = action.unanswered_first or action.unanswered_folded > 0
            return settled_ms + rules.retry_window_ms if undelivered or action.was_unknown else 0


def twin_until_ms(action: Action, rules: Rules) -> int:
    """Return until when a request aimed at the same target is taken for a reworded retry (CONTRACT 2.3, rule 3).

    While an asker waits for it there is none; but only its owner knows that, and a dead one says nothing any more.
    What provably had no effect and was never in doubt has no twin.
    """
    if action.contradicted:
        return _unresolved_until_ms(action, rules)
    match action.status:
        case Status.PENDING:
            return FOREVER_MS if action.askers_gone else WAITED_FOR_MS
        case Status.DENIED_UNRESOLVED:
            return _unresolved_until_ms(action, rules)
        case Status.FAILED if not action.was_unknown:
            return 0
        case _:
            settled_ms = action.settled_at_ms or action.created_at_ms
            undelivered = action.unanswered_first or action.unanswered_folded > 0
            return settled_ms + rules.retry_window_ms if undelivered or action.was_unknown else 0


def _unresolved_until_ms(action: Action, rules: Rules) -> int:
    if action.effect is Effect.MONEY:
        return FOREVER_MS
    since_ms = action.unknown_since_ms or action.settled_at_ms or action.created_at_ms
    return since_ms + rules.retry_window_ms


def index_of(action: Action) -> frozenset[str]:
    """Return the lists that the action is in."""
    ident = action.identity
    names = {"all", "event:" + identity.event_index(ident.ledger, ident.event_id)}
    if action.status is not Status.CONFIRMED:  # Of those there are so many that a list of all finds them as soon.
        names.add(f"status:{action.status.value}")
    if action.needs_operator:
        names.add("needs_operator")
    if action.contradicted:
        names.add("contradicted")
    if ident.idempotency_key is not None:
        key = identity.key_index(ident.ledger, ident.provider, ident.account, ident.idempotency_key)
        names.add(f"key:{key}")
    names |= {f"object:{identity.object_index(ident.ledger, ident.provider, o)}" for o in action.object_ids}
    names |= {f"content:{digest}" for digest in content_digests(action)}
    return frozenset(names)


def content_digests(action: Action) -> set[str]:
    """Return one digest for each message of the action, under which its twins of ours are found."""
    return {identity.content_index(action.identity.ledger, message) for message in action.identity.content}


def _exposed(action: Action) -> tuple[str, str, str, int] | None:
    if not action.unresolved or action.effect is not Effect.MONEY:
        return None
    ident, amount = action.identity, action.amount
    if amount.minor is None or amount.currency is None:
        return (ident.provider, ident.account, "", 0)
    return (ident.provider, ident.account, amount.currency, amount.minor)


def _bucket(action: Action) -> Bucket:
    if action.contradicted:
        return Bucket.CONSUMED  # Whatever the state says: it may have happened, and is never given out again.
    match action.status:
        case Status.PENDING:
            return Bucket.RESERVED
        case Status.DENIED_UNRESOLVED:
            return Bucket.UNKNOWN
        case Status.CONFIRMED:
            return Bucket.CONSUMED
        case Status.FAILED:
            return Bucket.RELEASED


def period_label(period: Period, now_ms: int) -> str:
    """Return the name of the period that a moment falls into; days and months are UTC."""
    if period is Period.TOTAL:
        return "total"
    day = (EPOCH + timedelta(milliseconds=now_ms)).date().isoformat()
    return day if period is Period.DAY else day[:7]
