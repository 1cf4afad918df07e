"""Stripe's idempotency (facts, section 1): what is kept under a key, what is not, for how long, for whom."""

import asyncio

import pytest
from standin_client import DAY_MS, REFUND, Client, Hands

from proxy.edges.standin import Fault, StandIn


@pytest.fixture(autouse=True)
def a_charge(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")


async def test_the_same_key_and_parameters_get_the_first_answer_and_execute_once(
    standin: StandIn, stripe: Client
) -> None:
    first = await stripe.post("/v1/refunds", REFUND, key="k")
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    assert again.body == first.body
    assert (first.status, again.status) == (200, 200)
    assert len(standin.refunds()) == standin.executions() == 1


async def test_a_replay_says_so_and_names_the_first_request(standin: StandIn, stripe: Client) -> None:
    first = await stripe.post("/v1/refunds", REFUND, key="k")
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["original-request"] == first.headers["request-id"] != again.headers["request-id"]
    assert again.headers["idempotency-key"] == "k"
    assert [arrival.replayed for arrival in standin.journal] == [False, True]


async def test_parameters_in_another_order_are_the_same_parameters(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/refunds", REFUND, key="k")
    again = await stripe.post("/v1/refunds", dict(reversed(REFUND.items())), key="k")
    assert again.headers["idempotent-replayed"] == "true"


async def test_other_parameters_under_a_key_are_an_idempotency_error(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/refunds", REFUND, key="k")
    other = await stripe.post("/v1/refunds", REFUND | {"amount": "999"}, key="k")
    assert (other.status, other.error["type"]) == (400, "idempotency_error")
    assert len(standin.refunds()) == 1


async def test_another_endpoint_under_a_key_is_an_idempotency_error(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/refunds", REFUND, key="k")
    other = await stripe.post("/v1/customers", {"email": "a@example.com"}, key="k")
    assert other.error["type"] == "idempotency_error"


async def test_a_key_is_in_use_while_the_first_request_executes(standin: StandIn, stripe: Client) -> None:
    hold = standin.faults.add(Fault("hold_before_commit"))
    first = await stripe.sent("POST", "/v1/refunds", REFUND, key="k")
    await hold.reached()
    second = await stripe.post("/v1/refunds", REFUND, key="k")
    assert (second.status, second.error["code"]) == (409, "idempotency_key_in_use")
    assert standin.refunds() == []
    hold.release()
    assert (await first.hear()).status == 200
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).headers["idempotent-replayed"] == "true"
    assert len(standin.refunds()) == 1


async def test_twenty_requests_with_one_key_execute_once(standin: StandIn, stripe: Client) -> None:
    lines = [await stripe.sent("POST", "/v1/refunds", REFUND, key="k") for _ in range(20)]
    heard = await asyncio.gather(*(line.hear() for line in lines))
    assert {answer.status for answer in heard} <= {200, 409}
    assert len(standin.refunds()) == 1


async def test_a_failed_validation_is_not_kept(standin: StandIn, stripe: Client) -> None:
    wrong = await stripe.post("/v1/refunds", REFUND | {"amount": "ten"}, key="k")
    assert (wrong.status, wrong.error["code"]) == (400, "parameter_invalid_integer")
    right = await stripe.post("/v1/refunds", REFUND, key="k")
    assert (right.status, standin.executions(key="k")) == (200, 1)


async def test_a_refusal_of_an_endpoint_that_executed_is_kept(standin: StandIn, stripe: Client) -> None:
    too_much = await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "6000"}, key="k")
    again = await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "6000"}, key="k")
    assert (too_much.status, again.body) == (400, too_much.body)
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_declined_card_is_kept_so_that_a_retry_does_not_charge(standin: StandIn, stripe: Client) -> None:
    declined = {"amount": "100", "currency": "usd", "source": "tok_chargeDeclined"}
    first = await stripe.post("/v1/charges", declined, key="k")
    again = await stripe.post("/v1/charges", declined, key="k")
    assert (first.status, first.error["type"], again.body) == (402, "card_error", first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert [charge["status"] for charge in standin.stripe_objects("charge")] == ["succeeded", "failed"]
    assert standin.executions() == 0


async def test_a_500_after_execution_is_kept_and_replayed(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_after_commit"))
    first = await stripe.post("/v1/refunds", REFUND, key="k")
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    assert (first.status, again.status, again.body) == (500, 500, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(standin.refunds()) == 1


async def test_a_500_without_execution_is_kept_too(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_without_commit"))
    await stripe.post("/v1/refunds", REFUND, key="k")
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).status == 500
    assert standin.refunds() == []


@pytest.mark.parametrize("status", [401, 409, 429])
async def test_what_stripe_says_before_its_idempotency_layer_is_not_kept(
    standin: StandIn, stripe: Client, status: int
) -> None:
    standin.faults.add(Fault("status_without_commit", status=status))
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).status == status
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).status == 200


async def test_a_middleboxs_502_leaves_stripes_own_answer_under_the_key(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("html_502", commit=True))
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).status == 502
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")


async def test_a_middleboxs_502_without_execution_leaves_the_key_free(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("html_502"))
    await stripe.post("/v1/refunds", REFUND, key="k")
    assert "idempotent-replayed" not in (await stripe.post("/v1/refunds", REFUND, key="k")).headers


async def test_a_key_serves_24_hours_and_then_means_a_new_request(
    standin: StandIn, stripe: Client, hands: Hands
) -> None:
    await stripe.post("/v1/refunds", REFUND, key="k")
    hands.move(DAY_MS - 1)
    assert "idempotent-replayed" in (await stripe.post("/v1/refunds", REFUND, key="k")).headers
    hands.move(1)
    await stripe.post("/v1/refunds", REFUND, key="k")
    assert len(standin.refunds()) == 2


async def test_a_key_may_have_255_characters_and_no_more(standin: StandIn, stripe: Client) -> None:
    assert (await stripe.post("/v1/refunds", REFUND, key="k" * 255)).status == 200
    assert (await stripe.post("/v1/refunds", REFUND, key="k" * 256)).status == 400
    assert len(standin.refunds()) == 1


async def test_a_key_has_no_effect_on_reads_and_deletes(standin: StandIn, stripe: Client) -> None:
    made = (await stripe.post("/v1/customers", {"email": "a@example.com"}, key="k")).json
    shown = await stripe.get("/v1/customers/" + made["id"], key="k")
    assert (shown.status, shown.json["id"]) == (200, made["id"])
    gone = await stripe.ask("DELETE", "/v1/customers/" + made["id"], key="k")
    assert gone.json == {"id": made["id"], "object": "customer", "deleted": True}
    assert (await stripe.ask("DELETE", "/v1/customers/" + made["id"], key="k")).status == 404


async def test_a_key_belongs_to_one_account_and_one_mode(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1", account="acct_2")
    standin.seed_charge(5400, charge_id="ch_1", mode="live")
    await stripe.post("/v1/refunds", REFUND, key="k")
    other = await stripe.post("/v1/refunds", REFUND, key="k", headers={"Stripe-Account": "acct_2"})
    stripe.secret = "sk_live_mine"
    live = await stripe.post("/v1/refunds", REFUND, key="k")
    assert not {"idempotent-replayed"} & (other.headers.keys() | live.headers.keys())
    assert len(standin.refunds()) == 3


async def test_with_idempotency_off_nothing_hides_a_duplicate(hands: Hands) -> None:
    async with StandIn(clock=hands, idempotency=False) as standin:
        client = Client(standin.port("stripe"), secret="sk_test_mine")
        standin.seed_charge(5400, charge_id="ch_1")
        answers = [await client.post("/v1/refunds", REFUND, key="k") for _ in range(2)]
        assert answers[0].json["id"] != answers[1].json["id"]
        assert standin.executions(key="k") == len(standin.refunds()) == 2
        assert {event["request"]["idempotency_key"] for event in standin.events()} == {"k"}
        client.close()
