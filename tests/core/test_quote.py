"""Reading what a request does not say: a refund's currency, what remains of a charge (CONTRACT 1, exposure)."""

from collections.abc import Mapping

import pytest

from proxy.core.http import Answered, Integrity
from proxy.core.model import Amount
from proxy.core.quote import Quoting
from tests.core.pure_adapters import HOST_ONLY, STRIPE, route
from tests.core.pure_http import answered

CHARGE = {"id": "ch_1", "object": "charge", "amount": 5400, "amount_refunded": 400, "currency": "usd"}
INTENT = {"id": "pi_1", "object": "payment_intent", "currency": "EUR", "latest_charge": "ch_1"}
AT_CHARGE, AT_INTENT = "/v1/charges/ch_1", "/v1/payment_intents/pi_1"


def quoted(type_: str, facts: dict[str, str], amount: Amount, record: Mapping[str, object]) -> tuple[Amount, list[str]]:
    """Return what was learnt, and what was asked for it. What the record lacks is not answered."""
    quoting = Quoting(STRIPE, route(STRIPE, type_), facts, amount)
    asked: list[str] = []
    while (target := quoting.ask()) is not None:
        asked.append(target)
        found = record.get(target)
        quoting.hear(found if isinstance(found, Answered) else answered(200, found) if found is not None else None)
        assert len(asked) < 10
    return quoting.amount, asked


@pytest.mark.parametrize(
    ("facts", "said", "amount", "asked"),
    [
        ({"charge": "ch_1"}, Amount(1000), Amount(1000, "usd"), [AT_CHARGE]),
        ({"charge": "ch_1"}, Amount(), Amount(5000, "usd"), [AT_CHARGE]),
        ({"charge": "ch_1"}, Amount(None, "usd"), Amount(5000, "usd"), [AT_CHARGE]),
        ({"payment_intent": "pi_1"}, Amount(1000), Amount(1000, "eur"), [AT_INTENT]),
        ({"payment_intent": "pi_1"}, Amount(), Amount(5000, "eur"), [AT_INTENT, AT_CHARGE]),
        ({"charge": "ch_1", "payment_intent": "pi_1"}, Amount(), Amount(5000, "usd"), [AT_CHARGE]),
        ({}, Amount(1000), Amount(1000), []),
        ({"charge": "ch_1"}, Amount(1000, "gbp"), Amount(1000, "gbp"), []),
        ({"charge": ".."}, Amount(), Amount(), []),
    ],
    ids=[
        "the currency of a charge",
        "what remains of a charge",
        "what remains, in the currency that was said",
        "the currency of a payment intent",
        "what remains of its latest charge",
        "the nearest first",
        "nothing to ask",
        "nothing is missing",
        "an ID that would lead elsewhere",
    ],
)
def test_a_refund_is_priced_from(facts: dict[str, str], said: Amount, amount: Amount, asked: list[str]) -> None:
    assert quoted("refund.create", facts, said, {AT_CHARGE: CHARGE, AT_INTENT: INTENT}) == (amount, asked)


UNREADABLE = {
    "no answer": None,
    "404": answered(404, {"error": {}}),
    "403": answered(403, {"error": {}}),
    "500 with a body": answered(500, CHARGE),
    "cut short": answered(200, CHARGE, integrity=Integrity.CUT),
    "no JSON": answered(200, b"<html>"),
    "nothing in it": answered(200, {}),
    "a list": answered(200, [CHARGE]),
    "a currency that is none": answered(200, CHARGE | {"currency": "dollars", "amount": None}),
}


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_stays_unpriced(answer: Answered | None) -> None:
    record = {AT_CHARGE: answer} if answer is not None else {}

    assert quoted("refund.create", {"charge": "ch_1"}, Amount(1000), record) == (Amount(1000), [AT_CHARGE])
    assert quoted("refund.create", {"charge": "ch_1"}, Amount(), record) == (Amount(), [AT_CHARGE])


@pytest.mark.parametrize(
    "other",
    [
        {"amount_refunded": 5400},
        {"amount_refunded": 9999},
        {"amount": -1},
        {"amount": 54.0},
        {"amount": None},
        {"amount_refunded": None},
        {"amount": 10**20},
        {"amount": 0},
    ],
)
def test_nothing_left_and_nothing_readable_is_no_amount(other: dict[str, object]) -> None:
    amount, _ = quoted("refund.create", {"charge": "ch_1"}, Amount(), {AT_CHARGE: CHARGE | other})

    assert amount == Amount(None, "usd")


def test_an_unreadable_first_read_leaves_the_second_to_say_what_it_can() -> None:
    record: dict[str, object] = {AT_INTENT: INTENT}

    amount, asked = quoted("refund.create", {"charge": "ch_1", "payment_intent": "pi_1"}, Amount(), record)

    assert (amount, asked) == (Amount(None, "eur"), [AT_CHARGE, AT_INTENT])


def test_a_said_amount_is_in_the_unit_of_the_currency_that_is_read() -> None:
    krona = CHARGE | {"currency": "isk", "amount": 50000, "amount_refunded": 0}

    assert quoted("refund.create", {"charge": "ch_1"}, Amount(20000), {AT_CHARGE: krona})[0] == Amount(200, "isk")
    assert quoted("refund.create", {"charge": "ch_1"}, Amount(), {AT_CHARGE: krona})[0] == Amount(500, "isk")
    assert quoted("refund.create", {"charge": "ch_1"}, Amount(None, "isk"), {AT_CHARGE: krona})[0] == Amount(500, "isk")


def test_a_said_amount_that_the_currency_has_not_is_replaced_by_nothing() -> None:
    krona = INTENT | {"currency": "isk"}
    record: dict[str, object] = {AT_INTENT: krona, AT_CHARGE: CHARGE | {"currency": "isk", "amount": 50000}}

    assert quoted("refund.create", {"payment_intent": "pi_1"}, Amount(20050), record) == (
        Amount(None, "isk"),
        [AT_INTENT],
    )


@pytest.mark.parametrize(
    ("type_", "facts", "said", "record", "amount"),
    [
        (
            "payment_intent.capture",
            {"payment_intent": "pi_1"},
            Amount(),
            {AT_INTENT: {"amount": 5400, "amount_capturable": 3000, "currency": "usd"}},
            Amount(3000, "usd"),
        ),
        (
            "payment_intent.confirm",
            {"payment_intent": "pi_1"},
            Amount(),
            {AT_INTENT: {"amount": 5400, "currency": "usd"}},
            Amount(5400, "usd"),
        ),
        (
            "transfer.reverse",
            {"transfer": "tr_1"},
            Amount(),
            {"/v1/transfers/tr_1": {"amount": 5400, "amount_reversed": 5000, "currency": "usd"}},
            Amount(400, "usd"),
        ),
        (
            "invoice.pay",
            {"invoice": "in_1"},
            Amount(),
            {"/v1/invoices/in_1": {"amount_remaining": 700, "currency": "usd"}},
            Amount(700, "usd"),
        ),
        (
            "refund.cancel",
            {"refund": "re_1"},
            Amount(),
            {"/v1/refunds/re_1": {"amount": 5400, "currency": "usd"}},
            Amount(5400, "usd"),
        ),
        (
            "credit_note.create",
            {"invoice": "in_1"},
            Amount(900),
            {"/v1/invoices/in_1": {"currency": "usd"}},
            Amount(900, "usd"),
        ),
        ("subscription.create", {"customer": "cus_1"}, Amount(), {}, Amount()),
        ("customer.create", {}, Amount(), {}, Amount()),
    ],
)
def test_other_routes_are_priced_from_their_own_objects(
    type_: str, facts: dict[str, str], said: Amount, record: dict[str, object], amount: Amount
) -> None:
    assert quoted(type_, facts, said, record)[0] == amount


def test_a_provider_without_facts_is_asked_nothing() -> None:
    assert Quoting(HOST_ONLY, HOST_ONLY.match("POST", "/x").route, {"charge": "ch_1"}, Amount()).ask() is None


def test_an_answer_to_no_question_changes_nothing() -> None:
    quoting = Quoting(STRIPE, route(STRIPE, "refund.create"), {}, Amount(7))
    quoting.hear(answered(200, CHARGE))

    assert quoting.amount == Amount(7)


def test_the_facts_of_the_request_stay_what_they_were() -> None:
    facts = {"payment_intent": "pi_1"}
    quoted("refund.create", facts, Amount(), {AT_CHARGE: CHARGE, AT_INTENT: INTENT})

    assert facts == {"payment_intent": "pi_1"}
