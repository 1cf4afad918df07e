"""Stripe's events: what names our key is ours, and what else about it must hold (CONTRACT 4)."""

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.core.events import Absent, Candidates, Finding, Found, Several, Unreadable
from proxy.core.http import Answered
from proxy.core.model import Amount
from proxy.core.readback import Subject
from proxy.core.verdict import Accepted, Rejected
from tests.core.pure_adapters import STRIPE
from tests.core.pure_record import EVENTS, REFUNDED, Json, Record, asked, event, foreign, key, one, refund

SUBJECT = asked(REFUNDED)
KEY = key(SUBJECT)
DONE = Accepted(("re_1",), amount=Amount(5400, "usd"))
CHARGE = {"id": "ch_1", "object": "charge", "amount": 5400, "currency": "usd", "amount_refunded": 5400}


def found_in(*events: Json, subject: Subject = SUBJECT, similar: tuple[Json, ...] = ()) -> Finding:
    return one(STRIPE, Record({EVENTS: events, "/v1/refunds": similar}), subject)


def verdict_in(*events: Json, subject: Subject = SUBJECT) -> Accepted | Rejected:
    finding = found_in(*events, subject=subject)
    assert isinstance(finding, Found)
    return finding.verdict


def test_an_event_that_names_our_key_is_found() -> None:
    assert verdict_in(*foreign(5), event(1, KEY, refund())) == DONE


def test_the_evidence_bears_the_digest_of_the_page_that_it_was_read_from() -> None:
    pages: list[bytes] = []
    record = Record({EVENTS: [event(1, KEY, refund())], "/v1/refunds": []})

    def listening(target: str) -> Answered | None:
        answer = record(target)
        assert answer is not None
        pages.append(answer.response.body)
        return answer

    finding = one(STRIPE, listening, SUBJECT)

    assert isinstance(finding, Found)
    assert finding.digest == f"sha256:{hashlib.sha256(pages[0]).hexdigest()}"


def test_several_events_of_one_refund_are_one() -> None:
    events = [
        event(4, KEY, refund(status="succeeded"), "refund.updated"),
        event(3, KEY, CHARGE, "charge.refunded"),
        event(2, KEY, refund(), "refund.created"),
        event(1, KEY, refund(), "refund.created"),
    ]

    assert verdict_in(*events) == DONE


def test_two_refunds_under_our_key_are_several() -> None:
    events = [event(2, KEY, refund(2)), event(1, KEY, refund(1))]

    assert found_in(*events) == Several(("re_2", "re_1"))


@pytest.mark.parametrize("bearing", [None, "", KEY + "0", KEY[:-1], KEY.upper(), f"{KEY}:2", f"{KEY}#acct_1"])
def test_an_event_under_any_other_key_is_nobodys(bearing: str | None) -> None:
    assert found_in(event(1, bearing, refund())) == Absent()


def test_an_action_without_a_key_is_named_by_no_event() -> None:
    action = SUBJECT.action
    keyless = replace(SUBJECT, action=replace(action, identity=replace(action.identity, idempotency_key=None)))

    assert found_in(event(1, None, refund()), event(2, KEY, refund(2)), subject=keyless) == Absent()


@pytest.mark.parametrize(
    "other",
    [{"amount": 5300}, {"currency": "eur"}, {"charge": "ch_2"}, {"amount": 540}],
    ids=["amount", "currency", "charge", "a prefix of the amount"],
)
def test_an_identity_that_differs_from_the_request_is_a_candidate(other: dict[str, Any]) -> None:
    assert found_in(event(1, KEY, refund(**other))) == Candidates(("re_1",))


@pytest.mark.parametrize(
    "facts",
    [
        {"charge": "ch_1"},
        {"payment_intent": "pi_1", "amount": "5400"},
        {"charge": "ch_1", "currency": "USD"},
        {},
    ],
    ids=["a full refund", "by its payment intent", "a currency in capitals", "nothing is known"],
)
def test_what_the_request_did_not_say_cannot_differ(facts: dict[str, str]) -> None:
    assert verdict_in(event(1, KEY, refund()), subject=asked(facts)) == DONE


def test_an_event_of_the_other_mode_is_not_ours() -> None:
    assert found_in(event(1, KEY, refund(), livemode=True)) == Absent()
    assert verdict_in(event(1, KEY, refund(), livemode=True), subject=asked(REFUNDED, account="live/acct_1")) == DONE
    assert found_in(event(1, KEY, refund()), subject=asked(REFUNDED, account="live")) == Absent()


def test_an_event_of_another_connected_account_is_not_ours() -> None:
    theirs = event(1, KEY, refund(), account="acct_9")
    subject = asked(REFUNDED, account="test/acct_9")

    assert found_in(theirs) == Absent()
    assert found_in(theirs, subject=asked(REFUNDED, account="test/acct_1")) == Absent()
    assert verdict_in(event(1, key(subject), refund(), account="acct_9"), subject=subject) == DONE
    assert verdict_in(event(1, key(subject), refund()), subject=subject) == DONE


def test_a_record_that_the_provider_did_not_mark_is_not_the_providers() -> None:
    def through_a_middlebox(target: str) -> Answered | None:
        answer = Record({EVENTS: [event(1, KEY, refund())], "/v1/refunds": []})(target)
        assert answer is not None
        return replace(answer, response=replace(answer.response, headers=()))

    assert one(STRIPE, through_a_middlebox, SUBJECT) == Unreadable("unmarked")


@pytest.mark.parametrize("object_id", [5, "", "re_\ud800", None], ids=["a number", "empty", "half a pair", "none"])
def test_an_object_without_an_id_is_not_found(object_id: object) -> None:
    assert found_in(event(1, KEY, refund(id=object_id))) == Absent()


def test_where_no_mode_is_known_or_told_none_can_disagree() -> None:
    silent = event(1, KEY, refund())
    del silent["livemode"]

    assert verdict_in(silent) == DONE
    assert verdict_in(event(1, KEY, refund(), livemode=True), subject=asked(REFUNDED, account="default")) == DONE


def test_the_charge_alone_is_a_candidate() -> None:
    assert found_in(event(1, KEY, CHARGE, "charge.refunded")) == Candidates(("ch_1",))


def test_a_refund_created_as_failed_did_not_happen() -> None:
    assert verdict_in(event(1, KEY, refund(status="failed"))) == Rejected()
    assert verdict_in(event(1, KEY, refund(status="canceled"))) == Rejected()


@pytest.mark.parametrize("status", ["pending", "requires_action", "succeeded", "of a kind nobody has heard of"])
def test_a_refund_that_waits_is_accepted(status: str) -> None:
    assert verdict_in(event(1, KEY, refund(status=status))) == DONE


LATER = [
    ("a failure that the provider found later", {"request": None}, Accepted),
    ("a failure that another request caused", {"request": "req_2"}, Accepted),
    ("a failure that our own request met", {"request": "req_1"}, Rejected),
]


@pytest.mark.parametrize(("_", "other", "kind"), LATER, ids=[name for name, _, _ in LATER])
def test_a_failure_counts_only_where_our_own_request_met_it(_: str, other: dict[str, Any], kind: type) -> None:
    events = [event(2, KEY, refund(status="failed"), "refund.failed", **other), event(1, KEY, refund(status="pending"))]

    assert isinstance(verdict_in(*events), kind)


def intent(status: str) -> Json:
    failed = {"last_payment_error": {"code": "card_declined"}} if status == "requires_payment_method" else {}
    return {"id": "pi_1", "object": "payment_intent", "amount": 5400, "currency": "usd", "status": status} | failed


def test_a_declined_payment_did_not_happen_though_its_intent_was_made() -> None:
    subject = asked({"amount": "5400", "currency": "usd"}, "payment_intent.create")
    bearing = key(subject)
    declined = event(3, bearing, intent("requires_payment_method"), "payment_intent.payment_failed")
    charge = event(2, bearing, CHARGE | {"status": "failed"}, "charge.failed")
    created = event(1, bearing, intent("requires_confirmation"), "payment_intent.created")
    paid = event(3, bearing, intent("succeeded"), "payment_intent.succeeded")

    assert verdict_in(declined, charge, created, subject=subject) == Rejected()
    assert verdict_in(created, charge, declined, subject=subject) == Rejected()
    assert verdict_in(paid, created, subject=subject) == Accepted(("pi_1",), amount=Amount(5400, "usd"))
    assert verdict_in(created, subject=subject) == Accepted(("pi_1",), amount=Amount(5400, "usd"))


def test_an_invoice_whose_payment_failed_was_not_paid_and_its_update_proves_nothing() -> None:
    subject = asked({"invoice": "in_1"}, "invoice.pay")
    invoice = {"id": "in_1", "object": "invoice", "status": "open"}
    failed = event(2, key(subject), invoice, "invoice.payment_failed")
    updated = event(1, key(subject), invoice, "invoice.updated")
    paid = event(3, key(subject), invoice | {"status": "paid"}, "invoice.paid")

    assert verdict_in(failed, updated, subject=subject) == Rejected()
    assert found_in(updated, subject=subject) == Candidates(("in_1",))
    assert verdict_in(paid, updated, subject=subject) == Accepted(("in_1",))


def test_a_reversal_is_named_by_its_transfer_whose_amount_is_another() -> None:
    subject = asked({"transfer": "tr_1", "amount": "2000"}, "transfer.reverse")
    transfer = {"id": "tr_1", "object": "transfer", "amount": 5400, "currency": "usd"}

    assert verdict_in(event(1, key(subject), transfer, "transfer.reversed"), subject=subject) == Accepted(("tr_1",))


def test_a_write_that_no_route_names_is_found_by_its_key_whatever_it_made() -> None:
    subject = asked({}, "post./v1/coupons")
    coupon = {"id": "co_1", "object": "coupon"}

    assert verdict_in(*foreign(3), event(1, key(subject), coupon, "coupon.created"), subject=subject) == Accepted(
        ("co_1",)
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"data": {}},
        {"data": None},
        {"data": {"object": {"object": "refund"}}},
        {"data": {"object": {"object": "refund", "id": ""}}},
        {"data": {"object": ["re_1"]}},
        {"request": None},
        {"request": "req_1"},
    ],
)
def test_an_event_of_nobodys_shape_proves_nothing(broken: dict[str, object]) -> None:
    finding = found_in(event(1, KEY, refund()) | broken)

    assert not isinstance(finding, Found | Several)


def test_items_that_are_no_events_are_passed_over() -> None:
    page: list[Any] = [None, 7, "evt", [], {}, event(1, KEY, refund())]

    assert verdict_in(*page) == DONE
