"""Stripe's money: balances are checked, amounts are integers, and every deed leaves its events."""

import pytest
from standin_client import Client

from proxy.edges.standin import StandIn


def types(standin: StandIn) -> list[str]:
    return [event["type"] for event in standin.events()]


async def test_a_refund_without_amount_takes_what_is_left(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "400"})
    assert (await stripe.post("/v1/refunds", {"charge": "ch_1"})).json["amount"] == 5000
    charge = (await stripe.get("/v1/charges/ch_1")).json
    assert (charge["amount_refunded"], charge["refunded"]) == (5400, True)


async def test_more_than_is_left_cannot_be_refunded(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "5000"})
    over = await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "401"})
    assert (over.status, over.error["param"], len(standin.refunds())) == (400, "amount", 1)


async def test_what_was_refunded_whole_says_so_by_its_code(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    await stripe.post("/v1/refunds", {"charge": "ch_1"})
    again = await stripe.post("/v1/refunds", {"charge": "ch_1"})
    assert (again.status, again.error["code"]) == (400, "charge_already_refunded")


async def test_one_refund_makes_two_events_with_one_key(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    made = await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "100"}, key="ticket-17")
    charge_refunded, refund_created = standin.events()
    assert (charge_refunded["type"], refund_created["type"]) == ("charge.refunded", "refund.created")
    assert charge_refunded["data"]["object"]["id"] == "ch_1"
    assert charge_refunded["data"]["previous_attributes"] == {"amount_refunded": 0, "refunded": False}
    assert refund_created["data"]["object"] == made.json
    request = {"id": made.headers["request-id"], "idempotency_key": "ticket-17"}
    assert charge_refunded["request"] == refund_created["request"] == request


async def test_the_legacy_aliases_refund_and_one_of_them_answers_with_the_charge(
    standin: StandIn, stripe: Client
) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    plural = await stripe.post("/v1/charges/ch_1/refunds", {"amount": "100"})
    legacy = await stripe.post("/v1/charges/ch_1/refund", {"amount": "100"})
    assert (plural.json["object"], legacy.json["object"]) == ("refund", "charge")
    assert [arrival.object_id for arrival in standin.journal] == [refund["id"] for refund in standin.refunds()]


@pytest.mark.parametrize("target", ["/v1//refunds", "/v1/refunds/", "/v1/%72efunds", "//v1/refunds"])
async def test_a_spelling_of_the_path_is_the_path(standin: StandIn, stripe: Client, target: str) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    assert (await stripe.post(target, {"charge": "ch_1", "amount": "1"})).status == 200
    assert standin.journal[0].target == target


async def test_a_refund_of_nothing_and_of_what_does_not_exist_is_refused(standin: StandIn, stripe: Client) -> None:
    assert (await stripe.post("/v1/refunds", {})).status == 400
    missing = await stripe.post("/v1/refunds", {"charge": "ch_none"})
    assert (missing.status, missing.error["code"], missing.error["param"]) == (404, "resource_missing", "charge")


@pytest.mark.parametrize("amount", ["0", "-1", "1.5", "1e3", "", "९"])
async def test_an_amount_is_a_positive_integer(standin: StandIn, stripe: Client, amount: str) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    assert (await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": amount})).status == 400
    assert standin.refunds() == []


async def test_a_parameter_that_a_refund_does_not_have_is_refused(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    wrong = await stripe.post("/v1/refunds", {"charge": "ch_1", "colour": "red"})
    assert (wrong.error["code"], wrong.error["param"]) == ("parameter_unknown", "colour")


@pytest.mark.parametrize("status", ["pending", "failed", "requires_action"])
async def test_the_state_of_the_next_refund_can_be_forced(standin: StandIn, stripe: Client, status: str) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    standin.force_status("refund", status)
    answers = [(await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "100"})).json for _ in range(2)]
    assert [answer["status"] for answer in answers] == [status, "succeeded"]


async def test_a_refund_that_was_created_failed_gives_nothing_back(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    standin.force_status("refund", "failed")
    await stripe.post("/v1/refunds", {"charge": "ch_1"})
    assert (await stripe.get("/v1/charges/ch_1")).json["amount_refunded"] == 0
    assert types(standin) == ["refund.created"]


async def test_a_refund_that_requires_action_can_be_canceled_and_frees_its_amount(
    standin: StandIn, stripe: Client
) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    standin.force_status("refund", "requires_action")
    made = (await stripe.post("/v1/refunds", {"charge": "ch_1"})).json
    assert (await stripe.post(f"/v1/refunds/{made['id']}/cancel")).json["status"] == "canceled"
    assert (await stripe.post("/v1/refunds", {"charge": "ch_1"})).json["amount"] == 5400
    assert (await stripe.post(f"/v1/refunds/{made['id']}/cancel")).status == 400


async def test_a_charge_can_be_authorised_first_and_captured_in_part_once(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "900", "currency": "USD", "source": "tok_visa", "capture": "false"}
    charge = (await stripe.post("/v1/charges", form)).json
    assert (charge["captured"], charge["amount_captured"], charge["currency"]) == (False, 0, "usd")
    assert (await stripe.post("/v1/refunds", {"charge": charge["id"]})).status == 400
    captured = (await stripe.post(f"/v1/charges/{charge['id']}/capture", {"amount": "800"})).json
    assert (captured["captured"], captured["amount_captured"]) == (True, 800)
    again = await stripe.post(f"/v1/charges/{charge['id']}/capture")
    assert again.error["code"] == "charge_already_captured"
    assert (await stripe.post("/v1/refunds", {"charge": charge["id"]})).json["amount"] == 800


async def test_a_charge_needs_something_to_charge(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "900", "currency": "usd"}
    assert (await stripe.post("/v1/charges", form)).error["code"] == "parameter_missing"
    charge = (await stripe.post("/v1/charges", form | {"customer": "cus_1", "capture": "false"})).json
    over = await stripe.post(f"/v1/charges/{charge['id']}/capture", {"amount": "901"})
    assert over.error["code"] == "amount_too_large"


async def test_of_a_refund_only_the_metadata_can_change(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    made = (await stripe.post("/v1/refunds", {"charge": "ch_1", "metadata[a]": "1"})).json
    changed = await stripe.post(f"/v1/refunds/{made['id']}", {"metadata[b]": "2"})
    assert changed.json["metadata"] == {"a": "1", "b": "2"}
    assert (await stripe.post(f"/v1/refunds/{made['id']}", {"amount": "1"})).status == 400
    assert types(standin)[-1] == "refund.updated"


async def test_a_declined_charge_exists_as_failed_and_has_its_event(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "100", "currency": "usd", "source": "tok_chargeDeclined"}
    declined = await stripe.post("/v1/charges", form, key="k")
    assert (declined.status, declined.error["code"]) == (402, "card_declined")
    shown = (await stripe.get("/v1/charges/" + declined.error["charge"])).json
    assert (shown["status"], shown["amount_captured"]) == ("failed", 0)
    assert [(event["type"], event["request"]["idempotency_key"]) for event in standin.events()] == [
        ("charge.failed", "k")
    ]


async def test_an_intent_moves_money_only_when_confirmed(standin: StandIn, stripe: Client) -> None:
    intent = (await stripe.post("/v1/payment_intents", {"amount": "700", "currency": "eur"})).json
    assert (intent["status"], standin.stripe_objects("charge")) == ("requires_payment_method", [])
    paid = await stripe.post(f"/v1/payment_intents/{intent['id']}/confirm", {"payment_method": "pm_card_visa"})
    assert (paid.json["status"], paid.json["amount_received"]) == ("succeeded", 700)
    assert types(standin) == ["payment_intent.created", "charge.succeeded", "payment_intent.succeeded"]
    assert (await stripe.post(f"/v1/payment_intents/{intent['id']}/confirm")).status == 400
    refund = await stripe.post("/v1/refunds", {"payment_intent": intent["id"], "amount": "1"})
    assert refund.json["charge"] == paid.json["latest_charge"]


async def test_an_intent_in_the_wrong_state_is_refused_by_its_code(standin: StandIn, stripe: Client) -> None:
    intent = (await stripe.post("/v1/payment_intents", {"amount": "700", "currency": "eur"})).json
    path = f"/v1/payment_intents/{intent['id']}"
    assert (await stripe.post(path + "/confirm")).error["code"] == "parameter_missing"
    assert (await stripe.post("/v1/refunds", {"payment_intent": intent["id"]})).status == 400
    assert (await stripe.post(path + "/capture")).error["code"] == "payment_intent_unexpected_state"
    await stripe.post(path + "/cancel")
    assert (await stripe.post(path + "/cancel")).error["code"] == "payment_intent_unexpected_state"


async def test_an_intent_can_be_captured_later_for_less(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "700", "currency": "eur", "payment_method": "pm_card_visa", "confirm": "true"}
    intent = (await stripe.post("/v1/payment_intents", form | {"capture_method": "manual"})).json
    assert (intent["status"], intent["amount_capturable"]) == ("requires_capture", 700)
    over = await stripe.post(f"/v1/payment_intents/{intent['id']}/capture", {"amount_to_capture": "701"})
    assert over.status == 400
    captured = await stripe.post(f"/v1/payment_intents/{intent['id']}/capture", {"amount_to_capture": "600"})
    assert (captured.json["status"], captured.json["amount_received"]) == ("succeeded", 600)


async def test_an_intent_whose_card_is_declined_can_be_canceled(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "700", "currency": "eur", "payment_method": "pm_card_chargeDeclined", "confirm": "true"}
    declined = await stripe.post("/v1/payment_intents", form)
    assert declined.status == 402
    (intent,) = standin.stripe_objects("payment_intent")
    assert (intent["status"], intent["last_payment_error"]["code"]) == ("requires_payment_method", "card_declined")
    canceled = await stripe.post(f"/v1/payment_intents/{intent['id']}/cancel")
    assert canceled.json["status"] == "canceled"
    assert types(standin)[-2:] == ["payment_intent.payment_failed", "payment_intent.canceled"]


async def test_an_intent_may_wait_for_a_person(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "700", "currency": "eur", "payment_method": "pm_card_authenticationRequired", "confirm": "true"}
    waiting = await stripe.post("/v1/payment_intents", form)
    assert (waiting.status, waiting.json["status"]) == (200, "requires_action")


async def test_a_transfer_can_be_reversed_until_nothing_is_left(standin: StandIn, stripe: Client) -> None:
    form = {"amount": "500", "currency": "usd", "destination": "acct_9"}
    transfer = (await stripe.post("/v1/transfers", form)).json
    path = f"/v1/transfers/{transfer['id']}/reversals"
    assert (await stripe.post(path, {"amount": "200"})).json["object"] == "transfer_reversal"
    assert (await stripe.post(path)).json["amount"] == 300
    assert (await stripe.post(path)).status == 400
    assert types(standin) == ["transfer.created", "transfer.reversed", "transfer.reversed"]


async def test_a_payout_is_pending_and_can_be_canceled_once(standin: StandIn, stripe: Client) -> None:
    payout = (await stripe.post("/v1/payouts", {"amount": "500", "currency": "usd"})).json
    assert payout["status"] == "pending"
    assert (await stripe.post(f"/v1/payouts/{payout['id']}/cancel")).json["status"] == "canceled"
    assert (await stripe.post(f"/v1/payouts/{payout['id']}/cancel")).status == 400


async def test_an_invoice_is_paid_once(standin: StandIn, stripe: Client) -> None:
    standin.seed("invoice", "in_1", amount_due=300, amount_remaining=300, currency="usd", status="open")
    paid = (await stripe.post("/v1/invoices/in_1/pay")).json
    assert (paid["status"], paid["amount_paid"], paid["amount_remaining"]) == ("paid", 300, 0)
    assert (await stripe.post("/v1/invoices/in_1/pay")).status == 400
    draft = (await stripe.post("/v1/invoices", {"customer": "cus_1", "amount_due": "5"})).json
    assert (draft["status"], draft["amount_remaining"]) == ("draft", 5)
    assert types(standin) == ["invoice.paid", "invoice.payment_succeeded", "invoice.created"]


async def test_the_balance_is_what_came_in_less_what_went_out(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    standin.seed_charge(100, "eur")
    await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "400"})
    await stripe.post("/v1/payouts", {"amount": "1000", "currency": "usd"})
    form = {"amount": "50", "currency": "usd", "destination": "acct_9"}
    transfer = (await stripe.post("/v1/transfers", form)).json
    await stripe.post(f"/v1/transfers/{transfer['id']}/reversals", {"amount": "20"})
    await stripe.post("/v1/customers", {})
    available = (await stripe.get("/v1/balance")).json["available"]
    assert {row["currency"]: row["amount"] for row in available} == {"usd": 3970, "eur": 100}


async def test_a_customer_is_created_changed_and_deleted_and_then_shows_only_that(
    standin: StandIn, stripe: Client
) -> None:
    made = (await stripe.post("/v1/customers", {"email": "a@example.com", "metadata[plan]": "pro"})).json
    path = f"/v1/customers/{made['id']}"
    assert made["metadata"] == {"plan": "pro"}
    assert (await stripe.post(path, {"name": "Ada", "metadata[seats]": "2"})).json["metadata"] == {
        "plan": "pro",
        "seats": "2",
    }
    await stripe.post(path, {"name": "Ada"})  # Changes nothing: no event.
    await stripe.ask("DELETE", path, key="has-no-effect")
    assert (await stripe.get(path)).json == {"id": made["id"], "object": "customer", "deleted": True}
    assert (await stripe.post(path, {"name": "Eve"})).status == 404
    assert (await stripe.get("/v1/customers")).json["data"] == []
    assert types(standin) == ["customer.created", "customer.updated", "customer.deleted"]
    assert standin.events()[-1]["request"]["idempotency_key"] is None


async def test_any_other_endpoint_makes_an_object_that_holds_what_was_sent(standin: StandIn, stripe: Client) -> None:
    form = {"mode": "payment", "line_items[0][price]": "price_1", "line_items[0][quantity]": "2"}
    session = (await stripe.post("/v1/checkout/sessions", form)).json
    assert (session["object"], session["line_items"]) == ("checkout.session", [{"price": "price_1", "quantity": "2"}])
    assert (await stripe.post(f"/v1/checkout/sessions/{session['id']}/expire")).json["id"] == session["id"]
    coupon = (await stripe.post("/v1/coupons", {"amount_off": "100"})).json
    assert (coupon["object"], coupon["amount_off"]) == ("coupon", 100)
    assert (await stripe.get(f"/v1/coupons/{coupon['id']}")).json == coupon
    customer = (await stripe.post("/v1/customers", {})).json
    below = (await stripe.post(f"/v1/customers/{customer['id']}/balance_transactions", {"amount": "-500"})).json
    assert (below["customer"], below["amount"]) == (customer["id"], -500)


async def test_an_unknown_path_is_404_and_executes_nothing(standin: StandIn, stripe: Client) -> None:
    for method, target in (
        ("POST", "/v2/core/accounts"),
        ("PUT", "/v1/refunds"),
        ("POST", "/v1/a/b/c/d"),
        ("GET", "/nothing"),
        ("DELETE", "/v1/x"),
    ):
        answer = await stripe.ask(method, target)
        assert (answer.status, answer.error["type"]) == (404, "invalid_request_error")
    assert standin.executions() == 0
