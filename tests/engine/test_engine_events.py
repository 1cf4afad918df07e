"""What names the event of a request, and what is asked of one that names none (CONTRACT 2.3)."""

import pytest
from msgspec.structs import replace

from tests.engine.asks import mail, mailed, refund, refunded, unnamed
from tests.engine.rig import Rig, code_of, message_of, status_of
from tests.fakes.loop import quiet


@pytest.mark.parametrize(
    ("named", "event"),
    [
        ({"event": "mine", "key": "developers"}, "mine"),
        ({"event": None, "key": "developers"}, "developers"),
        ({"event": None, "key": "developers", "headers": {"X-Job": "job-7"}}, "job-7"),
    ],
)
async def test_the_first_that_names_one_counts(rig: Rig, named: dict[str, str], event: str) -> None:
    rig.upstream.writes.append(refunded())

    await rig.replica(event_headers=("Doubtless-Event-Id", "X-Job")).ask(refund(**named))  # type: ignore[arg-type]

    assert (rig.only.identity.event_id, rig.only.identity.explicit) == (event, True)
    assert rig.upstream.dispatched[0].key == f"{event}:stripe.refund.create"


async def test_the_url_comes_before_configured_headers_and_the_providers_own(rig: Rig) -> None:
    rig.upstream.writes.append(refunded())
    ask = replace(refund(None, key="developers", headers={"X-Job": "job-7"}), url_event="ticket%2F17")

    await rig.replica(event_headers=("X-Job",)).ask(ask)

    assert rig.only.identity.event_id == "ticket/17"


@pytest.mark.parametrize("key", ["stripe-node-retry-7", "0e984725-c51c-4bf4-9960-e1c80e27aba0"])
async def test_a_key_that_an_sdk_made_names_none(rig: Rig, key: str) -> None:
    rig.upstream.writes.append(refunded())

    await rig.replica().ask(refund(None, key=key))

    assert (rig.only.identity.explicit, rig.only.identity.agent_key) == (False, key)
    assert rig.upstream.dispatched[0].key != key


@pytest.mark.parametrize("ask", [unnamed(1), refund(None), mail()])
async def test_where_one_is_required_a_request_without_it_is_not_sent(rig: Rig, ask: object) -> None:
    answer = await rig.replica(derive=False).ask(ask)  # type: ignore[arg-type]

    assert (status_of(answer), code_of(answer)) == (400, "event_id_required")
    assert (rig.actions, rig.upstream.calls) == ([], [])


async def test_where_one_is_required_a_developers_key_is_one(rig: Rig) -> None:
    rig.upstream.writes.append(refunded())

    await rig.replica(derive=False).ask(refund(None, key="order-9"))

    assert rig.only.identity.event_id == "order-9"


@pytest.mark.parametrize("event", ["", "x" * 256, "a\x01b"])
async def test_one_that_cannot_be_one_is_refused_in_words(rig: Rig, event: str) -> None:
    answer = await rig.replica().ask(refund(event))

    assert (status_of(answer), code_of(answer)) == (400, "bad_request")
    assert "event ID" in message_of(answer)
    assert rig.actions == []


@pytest.mark.parametrize("suffix", ["second", "/", "stripe.payout.create"])
async def test_a_type_may_only_be_extended(rig: Rig, suffix: str) -> None:
    answer = await rig.replica().ask(refund(headers={"Doubtless-Action-Type": suffix}))

    assert code_of(answer) == "bad_request"


async def test_an_extension_makes_a_second_action_of_one_event(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [refunded("re_1"), refunded("re_2")]

    await replica.ask(refund())
    await replica.ask(refund(headers={"Doubtless-Action-Type": "/second"}))

    assert [c.key for c in rig.upstream.dispatched] == [
        "ticket-17:stripe.refund.create",
        "ticket-17:stripe.refund.create/second",
    ]


async def test_ledger_and_connected_account_are_part_of_the_key(rig: Rig) -> None:
    rig.upstream.writes.append(refunded())

    await rig.replica(ledger="eu").ask(refund(headers={"Stripe-Account": "acct_7"}))

    assert rig.upstream.dispatched[0].key == "ticket-17:stripe.refund.create#acct_7@eu"


async def test_no_key_is_sent_where_the_provider_documents_none(rig: Rig) -> None:
    rig.upstream.writes.append(mailed())
    ask = replace(mail("t-1"), target="/emails/49a3999c/cancel", body=b"")

    await rig.replica().ask(replace(ask, headers=(*ask.headers, (b"Idempotency-Key", b"the agents own"))))
    await quiet()

    assert rig.only.identity.idempotency_key is None
    assert rig.upstream.dispatched[0].key == "the agents own"
