"""How the provider's record is asked: together, with which credential, and what of it proves something (CONTRACT 4)."""

import pytest
from msgspec.structs import replace

from proxy.core.adapter import Adapter
from proxy.core.model import Source, Status
from proxy.core.readback import SKEW_MS
from tests.engine.asks import broken, mail, refund, unnamed
from tests.engine.provider import ResendRecord, StripeRecord
from tests.engine.rig import Rig
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Call, Script, answers
from tests.fakes.vault import PlainVault

FIRST_MS = 31_000
MAIL_1, MAIL_2 = "3f2b1c00-0000-4000-8000-000000000001", "3f2b1c00-0000-4000-8000-000000000002"
NOON = "2026-10-15T12:00:00Z"


def paths(calls: list[Call]) -> list[str]:
    return [call.request.target.partition("?")[0] for call in calls]


async def test_one_scan_serves_all_that_is_due_of_an_account(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.otherwise = broken()
    replica = rig.replica(read_keys={"stripe": {"": "rk_live_read"}})
    for number in range(5):
        await replica.ask(refund(f"ticket-{number}", charge=f"ch_{number}"))
        record.made(f"ticket-{number}:stripe.refund.create", refund_of(number))
    await passing(FIRST_MS)

    await replica.reconcile()

    assert {action.status for action in rig.actions} == {Status.CONFIRMED}
    assert paths(rig.upstream.read).count("/v1/events") == 1


async def test_each_account_is_asked_apart_and_with_its_own_headers(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.otherwise = broken()
    replica = rig.replica()
    await replica.ask(refund("ticket-1"))
    await replica.ask(refund("ticket-2", headers={"Stripe-Account": "acct_7", "Stripe-Version": "2026-09-30"}))
    await replica.ask(refund("ticket-3", credential="sk_test_1"))
    await passing(FIRST_MS)

    await replica.reconcile()

    asked = {(call.credential, dict(call.request.headers).get(b"Stripe-Account")) for call in rig.upstream.read}
    assert asked == {
        ("Bearer sk_live_1", None),
        ("Bearer sk_live_1", b"acct_7"),
        ("Bearer sk_test_1", None),
    }
    assert dict(rig.upstream.read[-1].request.headers)[b"User-Agent"]
    assert b"2026-09-30" in {dict(call.request.headers).get(b"Stripe-Version") for call in rig.upstream.read}


async def test_what_names_the_account_is_repeated_whether_or_not_the_adapter_says_so(rig: Rig) -> None:
    rig.adapters["stripe"] = Adapter(replace(rig.adapters["stripe"].doc, repeat_headers=()))
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund(headers={"Stripe-Account": "acct_7"}))
    await passing(FIRST_MS)

    await replica.reconcile()

    assert {dict(call.request.headers)[b"Stripe-Account"] for call in rig.upstream.read} == {b"acct_7"}


@pytest.mark.parametrize(
    ("keys", "used"),
    [
        ({"": "rk_any"}, "Bearer rk_any"),
        ({"live": "rk_live", "": "rk_any"}, "Bearer rk_live"),
        ({"live/acct_7": "rk_7", "live": "rk_live"}, "Bearer rk_7"),
        ({"test": "rk_test"}, "Bearer sk_live_1"),
        ({}, "Bearer sk_live_1"),
    ],
)
async def test_the_read_key_of_the_account_comes_first_then_what_was_sent(
    rig: Rig, keys: dict[str, str], used: str
) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica(read_keys={"stripe": keys})
    await replica.ask(refund(headers={"Stripe-Account": "acct_7"}))
    await passing(FIRST_MS)

    await replica.reconcile()

    assert {call.credential for call in rig.upstream.read} == {used}
    assert {dict(call.request.headers)[b"Stripe-Account"] for call in rig.upstream.read} == {b"acct_7"}


async def test_without_a_credential_it_is_unreadable_and_does_not_count(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    await rig.replica(vault=PlainVault("old")).ask(refund())
    await passing(FIRST_MS)

    await rig.replica(vault=PlainVault("new")).reconcile()

    assert [(a.result, a.detail) for a in rig.only.attempts] == [("unreadable", "no_credential")]
    assert (rig.only.readbacks, rig.upstream.read) == (0, [])


async def test_a_read_key_alone_does_not_do_where_the_connected_account_is_not_known_any_more(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    await rig.replica(vault=PlainVault("old")).ask(refund(headers={"Stripe-Account": "acct_7"}))
    await passing(FIRST_MS)

    await rig.replica(vault=PlainVault("new"), read_keys={"stripe": {"": "rk_any"}}).reconcile()

    assert [(a.result, a.detail) for a in rig.only.attempts] == [("unreadable", "no_credential")]
    assert rig.upstream.read == []


async def test_a_provider_that_was_taken_out_is_unreadable(rig: Rig) -> None:
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    await passing(FIRST_MS)
    del rig.adapters["stripe"]

    await replica.reconcile()

    assert [(a.result, a.detail) for a in rig.only.attempts] == [("unreadable", "unknown_provider")]
    assert rig.only.status is Status.DENIED_UNRESOLVED


async def test_a_record_that_goes_on_and_on_is_unreadable(rig: Rig) -> None:
    pages = iter(range(1_000))

    def endless(call: Call) -> Script:
        event = {"id": f"evt_{next(pages)}", "created": 1_792_065_600, "livemode": True}
        return answers(200, {"data": [event], "has_more": True}, thinking=9_000)

    rig.upstream.reads = endless
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    await passing(FIRST_MS)

    await replica.reconcile()
    await passing(70_000)

    assert [(a.result, a.detail) for a in rig.only.attempts] == [("unreadable", "timeout")]
    assert rig.only.readbacks == 0


async def test_the_mode_of_the_record_must_be_the_actions(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    record.made("ticket-17:stripe.refund.create", live=False)
    await passing(FIRST_MS)

    await replica.reconcile()

    assert rig.only.status is Status.DENIED_UNRESOLVED


async def test_what_differs_in_amount_is_shown_and_settles_nothing(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    record.made("ticket-17:stripe.refund.create", refund_of(1) | {"amount": 91})
    await passing(FIRST_MS)

    await replica.reconcile()

    assert rig.only.status is Status.DENIED_UNRESOLVED
    assert (rig.only.attempts[-1].result, rig.only.attempts[-1].candidates) == ("candidates", ("re_1",))


async def test_a_message_is_found_by_its_content(rig: Rig) -> None:
    record = rig.upstream.reads = ResendRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(mail())
    record.sent(MAIL_1, NOON)
    await passing(FIRST_MS)

    await replica.reconcile()

    assert (rig.only.status, rig.only.object_ids) == (Status.CONFIRMED, (MAIL_1,))
    assert rig.only.settled_by is not None
    assert rig.only.settled_by.source is Source.READ_BACK


async def test_a_message_with_a_twin_of_ours_is_shown_and_settles_nothing(rig: Rig) -> None:
    record = rig.upstream.reads = ResendRecord()
    rig.upstream.otherwise = broken()
    replica = rig.replica()
    for event in ("t-1", "t-2"):
        await replica.ask(mail(event))
    record.sent(MAIL_1, NOON)
    await passing(FIRST_MS)

    await replica.reconcile()

    assert {a.status for a in rig.actions} == {Status.DENIED_UNRESOLVED}
    assert [a.attempts[-1].candidates for a in rig.actions] == [(MAIL_1,)] * 2


async def test_an_equal_message_of_ours_long_after_is_no_twin(rig: Rig) -> None:
    record = rig.upstream.reads = ResendRecord()
    rig.upstream.otherwise = broken()
    replica = rig.replica()
    await replica.ask(mail("t-1"))
    await passing(120_000 + 2 * SKEW_MS + 1_000)
    await replica.ask(mail("t-2"))
    record.sent(MAIL_1, NOON)

    await replica.reconcile()

    assert [a.status for a in rig.actions] == [Status.CONFIRMED, Status.DENIED_UNRESOLVED]


async def test_two_equal_messages_in_the_record_settle_nothing(rig: Rig) -> None:
    record = rig.upstream.reads = ResendRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(mail())
    record.sent(MAIL_1, NOON)
    record.sent(MAIL_2, NOON)
    await passing(FIRST_MS)

    await replica.reconcile()

    assert rig.only.status is Status.DENIED_UNRESOLVED
    assert rig.only.attempts[-1].candidates == (MAIL_1, MAIL_2)


async def test_a_store_that_fails_under_a_read_back_costs_a_round_and_no_more(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(unnamed(1))
    record.made(rig.only.identity.idempotency_key)
    await passing(FIRST_MS)
    replica.store.fail_next("commit", "before", times=2)
    await replica.reconcile()
    missed = rig.only.status
    await passing(90_000)

    await replica.reconcile()
    await quiet()

    assert (missed, rig.only.status) == (Status.DENIED_UNRESOLVED, Status.CONFIRMED)


def refund_of(number: int) -> dict[str, object]:
    return {
        "id": f"re_{number}",
        "object": "refund",
        "amount": 5400,
        "currency": "usd",
        "charge": f"ch_{number}",
        "status": "succeeded",
    }
