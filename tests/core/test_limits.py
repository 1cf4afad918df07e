"""Which limits cover an action, and how much room each must have."""

from typing import Any

import pytest

from proxy.core.durations import parse_ms
from proxy.core.limits import Limit, Undeterminable, needs_amount, reservations
from proxy.core.model import Amount
from proxy.core.records import Period, Reservation

USD = Limit("refunds", "stripe.refund.*", Period.DAY, amount=100_000, currency="usd")
EUR = Limit("euros", "stripe.*", Period.MONTH, amount=50_000, currency="eur")
COUNT = Limit("calls", "*", Period.TOTAL, count=20)


@pytest.mark.parametrize(
    ("match", "route_type", "covered"),
    [
        ("stripe.refund.*", "stripe.refund.create", True),
        ("stripe.refund.*", "stripe.refunds.create", False),
        ("stripe.*", "stripe.post./v1/coupons/*", True),
        ("*", "resend.email.send", True),
        ("stripe.refund.create", "stripe.refund.create", True),
        ("stripe.refund.create", "stripe.refund.create2", False),
        ("Stripe.refund.*", "stripe.refund.create", False),
        ("stripe.post./v1/coupons/*", "stripe.post./v1/coupons/*", True),
    ],
)
def test_a_limit_covers_what_its_pattern_takes(match: str, route_type: str, covered: bool) -> None:
    assert Limit("l", match, Period.DAY, count=1).covers(route_type, "stripe", "live") == covered


@pytest.mark.parametrize(
    ("only", "provider", "account", "covered"),
    [
        ({"provider": "stripe"}, "stripe", "live", True),
        ({"provider": "stripe"}, "resend", "live", False),
        ({"account": "live"}, "stripe", "live", True),
        ({"account": "live"}, "stripe", "test", False),
        ({"account": "live"}, "stripe", "live/acct_1", False),
        ({"account": "live/acct_1"}, "stripe", "live/acct_1", True),
        ({"provider": "stripe", "account": "test"}, "stripe", "live", False),
        ({}, "any", "any", True),
    ],
)
def test_a_limit_may_be_of_one_provider_or_account(
    only: dict[str, Any], provider: str, account: str, covered: bool
) -> None:
    assert Limit("l", "*", Period.DAY, count=1, **only).covers("x.y.z", provider, account) == covered


def test_the_cap_is_an_amount_or_a_count() -> None:
    assert (USD.cap, COUNT.cap) == (100_000, 20)
    assert Limit("none", "*", Period.DAY, amount=0, currency="usd").cap == 0
    assert Limit("none", "*", Period.DAY, count=0).cap == 0


def test_only_limits_of_amounts_need_one() -> None:
    assert needs_amount((COUNT, USD))
    assert not needs_amount((COUNT,))
    assert not needs_amount(())


def test_room_is_taken_in_every_limit_that_covers_it() -> None:
    other = Limit("more refunds", "stripe.refund.create", Period.TOTAL, amount=9, currency="usd")

    assert reservations((USD, COUNT, EUR, other), Amount(5400, "usd"), moves=True) == (
        Reservation("calls", Period.TOTAL, 20, 1, counts=True),
        Reservation("refunds", Period.DAY, 100_000, 5400),
        Reservation("more refunds", Period.TOTAL, 9, 5400),
    )


def test_without_limits_nothing_is_needed_and_nothing_is_asked() -> None:
    assert reservations((), Amount(), moves=True) == ()
    assert reservations((COUNT,), Amount(), moves=True) == (Reservation("calls", Period.TOTAL, 20, 1, counts=True),)


@pytest.mark.parametrize("amount", [Amount(), Amount(5400), Amount(None, "usd"), Amount(5400, "gbp")])
def test_an_amount_that_no_limit_can_weigh_is_undeterminable(amount: Amount) -> None:
    with pytest.raises(Undeterminable):
        reservations((USD, COUNT), amount, moves=True)


def test_what_moves_nothing_takes_no_moneys_room_but_is_counted() -> None:
    assert reservations((USD, COUNT), Amount(), moves=False) == (
        Reservation("calls", Period.TOTAL, 20, 1, counts=True),
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("300ms", 300),
        ("1.3s", 1_300),
        (" 5m ", 300_000),
        ("20h", 72_000_000),
        ("90d", 7_776_000_000),
        ("0s", 0),
        ("0.0004s", 0),
        ("0.0006s", 1),
        ("", None),
        ("5", None),
        ("m", None),
        ("-5m", None),
        ("5 m", None),
        ("5M", None),
        ("1h30m", None),
        (".5s", None),
        ("5.s", None),
        ("1234567890123s", None),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, ms: int | None) -> None:
    assert parse_ms(text) == ms
