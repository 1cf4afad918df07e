"""The real libraries, stripe-python 16.1.0 and resend-python 2.52.0, take the stand-in for the providers.

They are synchronous: each call runs in a thread, the stand-in in the test's loop.
"""

import asyncio
from typing import Any

import pytest
import resend as resend_sdk
import stripe as stripe_sdk
from resend.exceptions import MissingApiKeyError, RateLimitError, ResendError

from proxy.edges.standin import Fault, StandIn

MAIL: dict[str, Any] = {
    "from": "Acme <hello@acme.example>",
    "to": ["ada@example.com"],
    "subject": "Welcome",
    "html": "<b>Hello</b>",
}


@pytest.fixture
def client(standin: StandIn) -> stripe_sdk.StripeClient:
    """A Stripe client that never retries."""
    standin.seed_charge(5400, charge_id="ch_1")
    addresses = {"api": standin.url("stripe")}
    return stripe_sdk.StripeClient("sk_test_mine", base_addresses=addresses, max_network_retries=0)


@pytest.fixture
def module(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module-level Stripe API: two retries, and no time between them."""
    standin.seed_charge(5400, charge_id="ch_1")
    monkeypatch.setattr(stripe_sdk, "api_key", "sk_test_mine")
    monkeypatch.setattr(stripe_sdk, "api_base", standin.url("stripe"))
    monkeypatch.setattr(stripe_sdk, "max_network_retries", 2)
    monkeypatch.setattr("stripe._http_client.HTTPClient._sleep_time_seconds", lambda *_, **__: 0)


@pytest.fixture
def mail(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resend_sdk, "api_key", "re_full")
    monkeypatch.setattr(resend_sdk, "api_url", standin.url("resend"))


async def refund(client: stripe_sdk.StripeClient, amount: int = 1000, **options: Any) -> stripe_sdk.Refund:
    return await asyncio.to_thread(client.v1.refunds.create, {"charge": "ch_1", "amount": amount}, options)


async def test_a_refund_and_its_replay(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    first = await refund(client, idempotency_key="k")
    again = await refund(client, idempotency_key="k")
    assert (first.id, first.amount, first.status) == (again.id, 1000, "succeeded")
    assert (len(standin.refunds()), standin.executions(key="k")) == (1, 1)


async def test_other_parameters_are_an_idempotency_error(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    await refund(client, idempotency_key="k")
    with pytest.raises(stripe_sdk.IdempotencyError):
        await refund(client, 999, idempotency_key="k")
    assert len(standin.refunds()) == 1


async def test_errors_arrive_as_the_librarys_own_classes(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    with pytest.raises(stripe_sdk.InvalidRequestError) as over:
        await refund(client, 6000)
    assert over.value.param == "amount"
    form: Any = {"amount": 100, "currency": "usd", "source": "tok_chargeDeclined"}
    with pytest.raises(stripe_sdk.CardError) as declined:
        await asyncio.to_thread(client.v1.charges.create, form)
    assert declined.value.code == "card_declined"
    standin.faults.add(Fault("status_without_commit", status=429))
    with pytest.raises(stripe_sdk.RateLimitError):
        await refund(client)


async def test_a_lost_answer_and_what_the_events_know_of_it(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    for n in range(120):
        standin.foreign_refund("ch_1", 1, key=f"theirs-{n}")
    standin.faults.add(Fault("drop_after_commit", how="rst"))
    with pytest.raises(stripe_sdk.APIConnectionError):
        await refund(client, idempotency_key="ticket-17:stripe.refund.create")
    for n in range(120):
        standin.foreign_refund("ch_1", 1, key=f"later-{n}")

    def read_back() -> list[str]:
        events = client.v1.events.list({"types": ["refund.created"], "limit": 100})
        return [
            event.data.object["id"]
            for event in events.auto_paging_iter()
            if event.request and event.request.idempotency_key == "ticket-17:stripe.refund.create"
        ]

    (found,) = await asyncio.to_thread(read_back)
    (ours,) = [item for item in standin.refunds() if item["amount"] == 1000]
    assert (found, standin.executions()) == (ours["id"], 1)


async def test_the_modules_own_retry_repeats_the_key_and_executes_once(standin: StandIn, module: None) -> None:
    standin.faults.add(Fault("drop_after_commit"))
    made = await asyncio.to_thread(stripe_sdk.Refund.create, charge="ch_1", amount=1000)
    first, second = standin.journal
    assert (first.key, second.replayed) == (second.key, True)
    assert [made.id] == [item["id"] for item in standin.refunds()]


async def test_the_modules_own_retry_duplicates_where_idempotency_is_off(
    module: None, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = StandIn(clock=lambda: 1_790_000_000_000, idempotency=False)
    await careless.start()
    monkeypatch.setattr(stripe_sdk, "api_base", careless.url("stripe"))
    careless.seed_charge(5400, charge_id="ch_1")
    careless.faults.add(Fault("drop_after_commit", times=2))
    await asyncio.to_thread(stripe_sdk.Refund.create, charge="ch_1", amount=1000)
    assert len(careless.refunds()) == careless.executions() == 3
    await careless.stop()


async def test_intents_customers_transfers_and_payouts(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    def life() -> tuple[str, bool | None, int, str, int]:
        intent = client.v1.payment_intents.create({"amount": 700, "currency": "eur", "payment_method": "pm_card_visa"})
        paid = client.v1.payment_intents.confirm(intent.id)
        customer = client.v1.customers.create({"email": "a@example.com", "metadata": {"plan": "pro"}})
        client.v1.customers.update(customer.id, {"name": "Ada"})
        client.v1.customers.delete(customer.id)
        gone = client.v1.customers.retrieve(customer.id)
        transfer = client.v1.transfers.create({"amount": 5, "currency": "usd", "destination": "acct_9"})
        payout = client.v1.payouts.create({"amount": 5, "currency": "usd"})
        charges = client.v1.charges.list({"payment_intent": intent.id})
        return paid.status, gone.deleted, transfer.amount, payout.status, len(charges.data)

    assert await asyncio.to_thread(life) == ("succeeded", True, 5, "pending", 1)
    assert {arrival.mode for arrival in standin.journal} == {"test"}


async def test_an_account_is_a_world_of_its_own(standin: StandIn, client: stripe_sdk.StripeClient) -> None:
    with pytest.raises(stripe_sdk.InvalidRequestError) as missing:
        await refund(client, stripe_account="acct_2")
    assert (missing.value.http_status, missing.value.code) == (404, "resource_missing")
    assert standin.journal[0].account == "acct_2"


async def test_an_email_its_replay_its_list_and_its_log(standin: StandIn, mail: None) -> None:
    def life() -> tuple[str, str, str, list[str], list[str]]:
        first = resend_sdk.Emails.send(MAIL, {"idempotency_key": "k"})
        again = resend_sdk.Emails.send(MAIL, {"idempotency_key": "k"})
        shown = resend_sdk.Emails.get(first["id"])
        listed = resend_sdk.Emails.list({"limit": 100})
        logged = resend_sdk.Logs.list()
        return (
            first["id"],
            again["id"],
            shown["html"],
            [row["id"] for row in listed["data"]],
            [row["method"] for row in logged["data"]],
        )

    first, again, html, listed, logged = await asyncio.to_thread(life)
    assert (first, html, listed) == (again, "<b>Hello</b>", [first])
    assert (logged, len(standin.emails())) == (["GET", "GET", "POST", "POST"], 1)


async def test_a_batch_under_one_key(standin: StandIn, mail: None) -> None:
    batch: Any = [MAIL, MAIL | {"to": "b@example.com"}]
    sent = [await asyncio.to_thread(resend_sdk.Batch.send, batch, {"idempotency_key": "k"}) for _ in range(2)]
    assert [row["id"] for row in sent[0]["data"]] == [row["id"] for row in sent[1]["data"]]
    assert len(standin.emails()) == 2


async def test_resends_errors_arrive_as_the_librarys_own_classes(
    standin: StandIn, mail: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    send: Any = resend_sdk.Emails.send
    await asyncio.to_thread(send, MAIL, {"idempotency_key": "k"})
    with pytest.raises(ResendError) as mismatch:
        await asyncio.to_thread(send, MAIL | {"subject": "Bye"}, {"idempotency_key": "k"})
    assert (mismatch.value.code, mismatch.value.error_type) == (409, "invalid_idempotent_request")
    standin.faults.add(Fault("status_without_commit", status=429))
    with pytest.raises(RateLimitError):
        await asyncio.to_thread(send, MAIL)
    monkeypatch.setattr(resend_sdk, "api_key", "")
    with pytest.raises(MissingApiKeyError):
        await asyncio.to_thread(send, MAIL)


async def test_a_lost_email_is_sent_and_the_library_says_it_failed(standin: StandIn, mail: None) -> None:
    standin.faults.add(Fault("drop_after_commit"))
    with pytest.raises(ResendError):
        await asyncio.to_thread(resend_sdk.Emails.send, MAIL)
    assert len(standin.emails()) == len(standin.journal) == 1
