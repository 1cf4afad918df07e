"""What happens without a request of ours: somebody else's objects, twins, later changes; and signed webhooks."""

import base64
import json

import pytest
import resend as resend_sdk
import stripe as stripe_sdk
from standin_client import Client, Hands

from proxy.edges.standin import StandIn

SVIX_SECRET = "whsec_" + base64.b64encode(b"a secret of some length").decode()


async def test_somebody_elses_refund_has_a_key_and_events_of_its_own(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    theirs = standin.foreign_refund("ch_1", 1000, key="theirs")
    await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "1000"}, key="ours")
    assert len(standin.refunds()) == 2
    assert standin.executions() == len(standin.journal) == 1
    keys = [event["request"]["idempotency_key"] for event in standin.events()]
    assert keys == ["theirs", "theirs", "ours", "ours"]
    assert theirs["id"] == standin.events()[1]["data"]["object"]["id"]


async def test_a_duplicate_is_a_second_object_under_the_same_key(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    first = (await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "3000", "metadata[a]": "b"}, key="k")).json
    twin = standin.duplicate(first["id"])
    assert twin["id"] != first["id"]
    assert {name: twin[name] for name in ("amount", "charge", "metadata")} == {
        name: first[name] for name in ("amount", "charge", "metadata")
    }
    created = [event for event in standin.events() if event["type"] == "refund.created"]
    assert [event["request"]["idempotency_key"] for event in created] == ["k", "k"]
    assert created[0]["request"]["id"] != created[1]["request"]["id"]
    assert standin.stripe_objects("charge")[0]["amount_refunded"] == 6000  # A provider that failed did not ask.


async def test_any_object_can_have_a_twin(standin: StandIn, stripe: Client, resend: Client) -> None:
    customer = (await stripe.post("/v1/customers", {"email": "a@example.com"}, key="k")).json
    twin = standin.duplicate(customer["id"])
    assert (twin["email"], twin["id"] == customer["id"]) == ("a@example.com", False)
    assert [event["request"]["idempotency_key"] for event in standin.events()] == ["k", "k"]
    mail = {"from": "a@acme.example", "to": "b@example.com", "subject": "s", "text": "t"}
    email_id = (await resend.post("/emails", body=mail)).json["id"]
    assert standin.duplicate(email_id)["text"] == "t"
    assert len(standin.emails()) == 2
    with pytest.raises(LookupError):
        standin.duplicate("re_none")


async def test_a_refund_that_fails_later_gives_its_amount_back_and_tells(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    refund = (await stripe.post("/v1/refunds", {"charge": "ch_1"}, key="k")).json
    standin.mutate(refund["id"], status="failed", failure_reason="lost_or_stolen_card")
    assert [event["type"] for event in standin.events()][2:] == ["refund.updated", "refund.failed"]
    updated = standin.events()[2]
    assert updated["data"]["previous_attributes"] == {"status": "succeeded", "failure_reason": None}
    assert updated["request"] == {"id": None, "idempotency_key": None}
    assert standin.stripe_objects("charge")[0]["amount_refunded"] == 0


async def test_a_payout_tells_its_new_state_by_name(standin: StandIn, stripe: Client) -> None:
    payout = (await stripe.post("/v1/payouts", {"amount": "5", "currency": "usd"})).json
    standin.mutate(payout["id"], status="paid")
    standin.mutate(payout["id"], description="note")
    types = [event["type"] for event in standin.events()]
    assert types == ["payout.created", "payout.updated", "payout.paid", "payout.updated"]


async def test_an_email_may_bounce(standin: StandIn, resend: Client) -> None:
    email = standin.foreign_email(sender="a@acme.example", to="b@example.com", subject="s", text="t")
    standin.mutate(email["id"], last_event="bounced")
    assert (await resend.get(f"/emails/{email['id']}")).json["last_event"] == "bounced"


async def test_what_a_test_is_shown_is_a_copy(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")["amount"] = 0
    standin.stripe_objects("charge")[0]["amount"] = 0
    assert standin.stripe_objects("charge")[0]["amount"] == 5400


async def test_a_reset_forgets_objects_keys_journal_and_faults(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/customers", {"name": "a"}, key="k")
    standin.reset()
    assert (len(standin.journal), standin.events(), list(standin.faults)) == (0, [], [])
    again = await stripe.post("/v1/customers", {"name": "b"}, key="k")
    assert (again.status, standin.journal[0].n) == (200, 1)


async def test_stripes_own_library_accepts_the_signature(standin: StandIn, stripe: Client, hands: Hands) -> None:
    made = (await stripe.post("/v1/customers", {"name": "Ådä"}, key="k")).json
    headers, body = standin.webhook_request(made["id"], secret="whsec_test")
    signature = headers["Stripe-Signature"]
    verify = stripe_sdk.WebhookSignature.verify_header
    assert verify(body, signature, "whsec_test", tolerance=None)
    assert f"t={hands() // 1000}," in signature
    assert json.loads(body)["data"]["object"]["id"] == made["id"]
    with pytest.raises(stripe_sdk.SignatureVerificationError):
        verify(body, signature, "whsec_other", tolerance=None)
    with pytest.raises(stripe_sdk.SignatureVerificationError):
        verify(body + b" ", signature, "whsec_test", tolerance=None)


async def test_a_webhook_is_about_the_event_that_was_named(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    refund = standin.foreign_refund("ch_1")
    standin.mutate(refund["id"], status="failed")
    for subject, event_type, expected in (
        (refund["id"], None, "refund.failed"),
        (refund["id"], "refund.created", "refund.created"),
        (standin.events()[0]["id"], None, "charge.refunded"),
    ):
        _, body = standin.webhook_request(subject, secret="whsec_test", event_type=event_type)
        assert json.loads(body)["type"] == expected
    with pytest.raises(LookupError):
        standin.webhook_request(refund["id"], secret="whsec_test", event_type="refund.pending")


async def test_resends_own_library_accepts_the_signature(
    standin: StandIn, resend: Client, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resend.webhooks._webhooks.time.time", lambda: hands() / 1000)
    mail = {"from": "a@acme.example", "to": "b@example.com", "subject": "s", "text": "t", "headers": {"X-Ours": "1"}}
    mail["tags"] = [{"name": "ref", "value": "ticket-17"}]
    email_id = (await resend.post("/emails", body=mail)).json["id"]
    headers, body = standin.webhook_request(
        email_id, secret=SVIX_SECRET, provider="resend", event_type="email.delivered", delivery_id="msg_1"
    )
    signed = {
        "id": "msg_1",
        "timestamp": headers["svix-timestamp"],
        "signature": headers["svix-signature"],
    }
    resend_sdk.Webhooks.verify({"payload": body.decode(), "headers": signed, "webhook_secret": SVIX_SECRET})
    payload = json.loads(body)
    assert (payload["type"], payload["data"]["email_id"]) == ("email.delivered", email_id)
    assert payload["data"]["tags"] == {"ref": "ticket-17"}
    assert payload["data"]["headers"] == [{"name": "X-Ours", "value": "1"}]
    with pytest.raises(ValueError, match="signature"):
        resend_sdk.Webhooks.verify({"payload": body.decode() + " ", "headers": signed, "webhook_secret": SVIX_SECRET})


async def test_a_delivery_can_be_dated(standin: StandIn) -> None:
    email = standin.foreign_email(sender="a@acme.example", to="b@example.com", subject="s", text="t")
    headers, _ = standin.webhook_request(email["id"], secret=SVIX_SECRET, provider="resend", timestamp=5)
    assert headers["svix-timestamp"] == "5"
    with pytest.raises(ValueError, match="Svix"):
        standin.webhook_request(email["id"], secret="whsec_###", provider="resend")
