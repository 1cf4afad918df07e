"""Which limits cover an action, and how much room each must have (CONTRACT 1, 6)."""

from fnmatch import fnmatchcase

from msgspec import Struct

from proxy.core.model import Amount
from proxy.core.records import Period, Reservation


class Limit(Struct, frozen=True):
    """One shared limit: of an amount in a currency, or of a count."""

    name: str
    match: str
    period: Period
    amount: int | None = None
    currency: str | None = None
    count: int | None = None
    provider: str | None = None
    account: str | None = None

    @property
    def cap(self) -> int:
        """The cap in its own unit."""
        return self.amount if self.amount is not None else self.count or 0

    def covers(self, route_type: str, provider: str, account: str) -> bool:
        """Is this an action that the limit is about, whatever it moves?"""
        return (
            fnmatchcase(route_type, self.match)
            and self.provider in (None, provider)
            and self.account in (None, account)
        )


class Undeterminable(Exception):
    """A limit covers the action, and what it moves cannot be told."""


def needs_amount(limits: tuple[Limit, ...]) -> bool:
    """Does any of these limits count money?"""
    return any(limit.amount is not None for limit in limits)


def reservations(limits: tuple[Limit, ...], amount: Amount, *, moves: bool) -> tuple[Reservation, ...]:
    """Return the room that the covering limits must have. Raises Undeterminable.

    `moves` is false for a request that moves nothing whatever its amount says: it takes no money's room.
    """
    out = [_room(limit, 1, counts=True) for limit in limits if limit.count is not None]
    priced = [limit for limit in limits if limit.amount is not None]
    if not priced or not moves:
        return tuple(out)
    if amount.minor is None or amount.currency is None:
        raise Undeterminable
    matching = [limit for limit in priced if limit.currency == amount.currency]
    if not matching:
        raise Undeterminable
    return (*out, *(_room(limit, amount.minor, counts=False) for limit in matching))


def _room(limit: Limit, amount: int, *, counts: bool) -> Reservation:
    return Reservation(limit.name, limit.period, limit.cap, amount, counts)
