"""Amounts: integers in ISO 4217's minor unit, read from requests and written for people. Never floats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.adapter import Match
from proxy.core.facts import AmountRule, Unit
from proxy.core.model import Amount
from proxy.core.money import LARGEST, currency_code, decimals, human, iso_minor, minor, moves, of_request
from proxy.core.payload import Payload, read
from tests.core.pure_adapters import HOST_ONLY, SLACK, STRIPE, route
from tests.core.pure_bodies import form, json_, parts
from tests.core.pure_http import headers
from tests.core.pure_hypothesis import DETERMINED

REFUND = STRIPE.match("POST", "/v1/refunds")
INTENT = STRIPE.match("POST", "/v1/payment_intents")
TRANSFER = STRIPE.match("POST", "/v1/transfers")
POST = SLACK.match("POST", "/api/chat.postMessage")


@pytest.mark.parametrize(
    ("currency", "places"),
    [
        ("usd", 2), ("EUR", 2), ("huf", 2), ("twd", 2), ("mga", 2), ("xyz", 2),
        ("bif", 0), ("clp", 0), ("djf", 0), ("gnf", 0), ("isk", 0), ("jpy", 0), ("kmf", 0), ("krw", 0), ("pyg", 0),
        ("rwf", 0), ("ugx", 0), ("vnd", 0), ("vuv", 0), ("xaf", 0), ("XOF", 0), ("xpf", 0),
        ("bhd", 3), ("iqd", 3), ("jod", 3), ("kwd", 3), ("lyd", 3), ("omr", 3), ("TND", 3),
    ],
)  # fmt: skip
def test_a_currency_has_the_decimals_of_iso_4217(currency: str, places: int) -> None:
    assert decimals(currency) == places


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Amount(5400, "usd"), "54.00 USD"),
        (Amount(5, "usd"), "0.05 USD"),
        (Amount(100, "EUR"), "1.00 EUR"),
        (Amount(5400, "jpy"), "5400 JPY"),
        (Amount(54001, "bhd"), "54.001 BHD"),
        (Amount(LARGEST, "usd"), "90071992547409.91 USD"),
        (Amount(5400), "5400 (in minor units; its currency is not known yet)"),
        (Amount(None, "usd"), "an amount that is not known yet"),
        (Amount(), "an amount that is not known yet"),
    ],
)
def test_people_read_an_amount_in_major_units(amount: Amount, text: str) -> None:
    assert human(amount) == text


@pytest.mark.parametrize(
    ("match", "body", "amount"),
    [
        (TRANSFER, form(b"amount=5400&currency=usd"), Amount(5400, "usd")),
        (TRANSFER, form(b"currency=USD&amount=5400"), Amount(5400, "usd")),
        (TRANSFER, json_(b'{"amount":5400,"currency":"usd"}'), Amount(5400, "usd")),
        (TRANSFER, json_(b'{"amount":"5400","currency":"usd"}'), Amount(5400, "usd")),
        (TRANSFER, form(b"amount=5400&currency=jpy"), Amount(5400, "jpy")),
        (TRANSFER, form(b"amount=5400&currency=kwd"), Amount(5400, "kwd")),
        (TRANSFER, form(b"amount=5400&currency=isk"), Amount(54, "isk")),
        (TRANSFER, form(b"amount=5400&currency=ugx"), Amount(54, "ugx")),
        (TRANSFER, form(b"amount=5400&currency=mga"), Amount(540000, "mga")),
        (TRANSFER, form(b"amount=5450&currency=isk"), Amount(None, "isk")),
        (TRANSFER, form(b"amount=9007199254740991&currency=usd"), Amount(LARGEST, "usd")),
        (REFUND, form(b"charge=ch_1&amount=5400"), Amount(5400)),
        (REFUND, form(b"charge=ch_1"), Amount()),
        (STRIPE.match("POST", "/v1/customers"), form(b"amount=5400&currency=usd"), Amount()),
        (STRIPE.match("POST", "/v1/coupons"), form(b"amount=5400&currency=usd"), Amount()),
    ],
)
def test_a_request_says_what_it_moves(match: Match, body: Payload, amount: Amount) -> None:
    assert of_request(body, match, STRIPE) == amount


@pytest.mark.parametrize(
    "body",
    [
        form(b"currency=usd"),
        form(b"currency=usd&amount="),
        form(b"currency=usd&amount=0"),
        form(b"currency=usd&amount=-5400"),
        form(b"currency=usd&amount=%2B5400"),
        form(b"currency=usd&amount=54.00"),
        form(b"currency=usd&amount=5e3"),
        form(b"currency=usd&amount=+5400"),
        form(b"currency=usd&amount=5400&amount=5400"),
        form(b"currency=usd&amount[]=5400"),
        form(b"currency=usd&amount=9007199254740992"),
        form(b"currency=usd&amount=" + b"9" * 5000),
        form("currency=usd&amount=٥٤٠٠".encode()),
        json_(b'{"currency":"usd","amount":54.0}'),
        json_(b'{"currency":"usd","amount":5400.0}'),
        json_(b'{"currency":"usd","amount":1e3}'),
        json_(b'{"currency":"usd","amount":-1}'),
        json_(b'{"currency":"usd","amount":true}'),
        json_(b'{"currency":"usd","amount":null}'),
        json_(b'{"currency":"usd","amount":[5400]}'),
        json_(b'{"currency":"usd","amount":1,"amount":5400}'),
    ],
)
def test_an_amount_that_is_none_missing_twice_there_or_too_large_is_not_guessed(body: Payload) -> None:
    assert of_request(body, TRANSFER, STRIPE) == Amount(None, "usd")


@pytest.mark.parametrize("currency", [b"", b"us", b"dollars", b"u%24d", b"usd&currency=eur", "üsd".encode()])
def test_a_currency_that_is_none_is_not_guessed(currency: bytes) -> None:
    assert of_request(form(b"amount=5400&currency=" + currency), TRANSFER, STRIPE) == Amount(5400)


def test_a_body_that_cannot_be_read_says_nothing() -> None:
    assert of_request(read((), b"amount=5400&currency=usd"), TRANSFER, STRIPE) == Amount()
    assert of_request(parts(("amount", b"5400"), ("currency", b"usd")), TRANSFER, STRIPE) == Amount()


@pytest.mark.parametrize(
    ("text", "currency", "found"),
    [
        ("54.00", "usd", 5400),
        ("54", "usd", 5400),
        ("54.5", "usd", 5450),
        ("0.01", "usd", 1),
        ("54", "jpy", 54),
        ("54.001", "kwd", 54001),
        ("54.00", "jpy", None),
        ("54.001", "usd", None),
        ("54.", "usd", None),
        (".5", "usd", None),
        ("0.00", "usd", None),
        ("-54.00", "usd", None),
        ("54,00", "usd", None),
        ("1e2", "usd", None),
        ("90071992547409.92", "usd", None),
        ("54.00", None, None),
        (None, "usd", None),
    ],
)
def test_major_units_are_read_without_a_float(text: str | None, currency: str | None, found: int | None) -> None:
    assert minor(text, Unit.MAJOR, currency, HOST_ONLY) == found


def test_a_request_in_major_units() -> None:
    assert of_request(json_(b'{"price":"54.00","currency":"EUR"}'), POST, SLACK) == Amount(5400, "eur")
    assert of_request(json_(b'{"price":54.1,"currency":"EUR"}'), POST, SLACK) == Amount(5410, "eur")
    assert of_request(json_(b'{"price":"54.00"}'), POST, SLACK) == Amount()


@DETERMINED
@given(st.integers(1, LARGEST), st.sampled_from(["usd", "jpy", "kwd"]))
def test_what_people_read_reads_back_as_the_same_amount(value: int, currency: str) -> None:
    text, _, code = human(Amount(value, currency)).partition(" ")

    assert minor(text, Unit.MAJOR, currency_code(code), HOST_ONLY) == value


def test_a_providers_own_minor_unit_is_turned_only_where_it_is_another() -> None:
    assert iso_minor(5400, "usd", STRIPE) == 5400
    assert iso_minor(5400, None, STRIPE) == 5400
    assert iso_minor(5400, "isk", HOST_ONLY) == 5400


# ── Does it move anything? ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "moving"),
    [
        (form(b"amount=1&currency=usd"), False),
        (form(b"confirm=false"), False),
        (form(b"confirm="), False),
        (form(b"confirm=true"), True),
        (form(b"confirm=True"), True),
        (form(b"confirm=false&confirm=true"), True),
        (form(b"confirm=true&confirm=false"), True),
        (form(b"confirm[]=true"), True),
        (json_(b'{"confirm":true}'), True),
        (json_(b'{"confirm":"true"}'), True),
        (json_(b'{"confirm":false}'), False),
        (json_(b'{"confirm":null}'), False),
        (json_(b'{"confirm":false,"confirm":true}'), True),
        (parts(("confirm", b"false")), True),
        (read((), b"confirm=false"), True),
        (read(headers(content_type="application/x-www-form-urlencoded", content_encoding="gzip"), b"\x1f\x8b"), True),
        (read((), b""), False),
        (form(b""), False),
    ],
)
def test_a_payment_moves_money_where_it_is_confirmed_and_where_nobody_can_tell(body: Payload, moving: bool) -> None:
    assert moves(body, INTENT) == moving


def test_what_moves_nothing_has_no_amount_and_what_has_no_condition_always_moves() -> None:
    assert of_request(form(b"amount=1&currency=usd"), INTENT, STRIPE) == Amount()
    assert of_request(form(b"amount=1&currency=usd&confirm=true"), INTENT, STRIPE) == Amount(1, "usd")
    assert moves(form(b"confirm=false"), REFUND)


def test_an_amount_rule_tells_where_the_object_says_it_unless_told_otherwise() -> None:
    assert (AmountRule(value="/a").moved, AmountRule(value="/a").moved_currency) == ("/amount", "/currency")
    assert route(STRIPE, "charge.capture").amount == AmountRule(value="/amount", moved="/amount_captured")
