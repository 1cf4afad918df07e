"""Incidents about idempotency keys: missing, changing, overwritten, or made of the wrong thing."""

import uuid
from pathlib import Path

import pytest

from tests.incidents.agent import TWILIO, Agent, agent_on, is_unknown, own_provider, told
from tests.sdk.fixtures import Staged
from tests.sdk.stage import Stage
from tests.wire.scripted import Scripted, start

SMS = {"To": "+15550100", "From": "+15550199", "Body": "Your refund is on its way."}


async def test_6_a_tool_call_id_that_changes_each_turn_is_not_part_of_the_key(stage: Stage, agent: Agent) -> None:
    """https://github.com/openai/openai-agents-python/issues/4254"""
    first = await agent.refund(event="T-6", X_Tool_Call_Id="call_a")
    again = await agent.refund(event="T-6", X_Tool_Call_Id="call_b")
    assert first.json() == again.json()
    await agent.send(
        "stripe", "POST", "/v1/customers", {"email": "ada@example.com"}, event="T-6", X_Tool_Call_Id="call_c"
    )
    assert [write.key for write in stage.writes] == ["T-6:stripe.refund.create", "T-6:stripe.customer.create"]


async def test_10_a_mail_without_a_key_gets_one_and_keeps_it(stage: Stage, agent: Agent) -> None:
    """https://github.com/resend/resend-node/issues/387: a try that never left is repeated under the same key."""
    event = "webhook/" + "a" * 247
    await stage.provider.shut("resend")
    unsent = await agent.mail(event=event)
    assert (unsent.status_code, unsent.headers["Doubtless-Retry"]) == (502, "safe")
    await stage.provider.open("resend")
    sent = await agent.mail(event=event)
    again = await agent.mail(event=event)
    assert (sent.status_code, again.status_code) == (200, 200)
    (write,) = stage.writes
    assert write.key == told(unsent)["idempotency_key"]
    assert 1 <= len(write.key or "") <= 256
    assert len(stage.provider.emails()) == 1


async def test_11_twilios_own_header_carries_the_key(staged: Staged, tmp_path: Path) -> None:
    """https://github.com/elizaOS/eliza/issues/22382, https://github.com/twilio/twilio-ruby/issues/519"""
    async with Scripted() as twilio, staged(**own_provider(tmp_path, "twilio", TWILIO, twilio.port)) as stage:
        agent = agent_on(stage)
        path = "/2010-04-01/Accounts/AC1/Messages.json"
        asking = start(agent.send("twilio", "POST", path, SMS, event="T-11"))
        peer = await twilio.accept()
        request = (await peer.request()).lower()
        assert b"i-twilio-idempotency-token: t-11:twilio.message.create/ac1\r\n" in request
        assert b"\r\nidempotency-key:" not in request
        peer.reset()
        assert is_unknown(await asking)
        assert is_unknown(await agent.send("twilio", "POST", path, SMS, event="T-11"))
        assert len(twilio.peers) == 1


async def test_14_a_token_that_rotates_between_two_tries_does_not_change_the_key(stage: Stage, agent: Agent) -> None:
    """https://github.com/tempoxyz/pympp/pull/155"""
    stage.fault("status_without_commit", status=429, path="/v1/refunds")
    limited = await agent.refund(event="T-14", secret="sk_test_" + "a" * 24, X_Expires="1")
    passed = await agent.refund(event="T-14", secret="sk_test_" + "b" * 24, X_Expires="2")
    assert (limited.status_code, limited.headers["Doubtless-Retry"]) == (429, "safe")
    assert passed.status_code == 200
    assert [write.key for write in stage.writes] == ["T-14:stripe.refund.create"] * 2
    assert len({dict(write.headers)[b"Authorization"] for write in stage.writes}) == 2
    assert stage.provider.executions() == 1


async def test_14_a_rotated_token_is_told_nothing_of_what_another_one_did(stage: Stage, agent: Agent) -> None:
    """https://github.com/tempoxyz/pympp/pull/155: whoever holds another credential gets code and message only."""
    stage.fault("drop_after_commit", path="/v1/refunds")
    await agent.refund(event="T-14", secret="sk_test_" + "a" * 24)
    other = await agent.refund(event="T-14", secret="sk_test_" + "b" * 24)
    assert (other.status_code, other.json()["error"]["code"]) == (423, "outcome_unknown")
    assert told(other) == {"retry": "never"}
    assert "Doubtless-Action-Id" not in other.headers
    assert len(stage.writes) == 1


@pytest.mark.parametrize("event", ["T-16", None])
async def test_16_a_key_of_the_developers_own_is_recorded_and_ours_goes_to_the_provider(
    stage: Stage, agent: Agent, event: str | None
) -> None:
    """https://github.com/stripe/stripe-php/issues/637: by CONTRACT 2.3 ours goes upstream, theirs is kept beside it."""
    answer = await agent.refund(event=event, key="order-16-refund")
    (action,) = await stage.actions()
    named = event or "order-16-refund"
    assert answer.status_code == 200
    assert (action["event_id"], action["agent_key"]) == (named, "order-16-refund")
    assert [write.key for write in stage.writes] == [f"{named}:stripe.refund.create"]


async def test_32_a_model_that_mints_a_key_for_each_retry_does_not_get_past_the_event(
    stage: Stage, agent: Agent
) -> None:
    """https://github.com/square/square-mcp-server/issues/31"""
    stage.fault("drop_after_commit", path="/v1/refunds")
    answers = [await agent.refund(event="T-32", key=f"retry-{uuid.uuid4().hex[:8]}") for _ in range(3)]
    assert all(is_unknown(answer) for answer in answers)
    (action,) = await stage.actions()
    assert action["agent_key"].startswith("retry-")
    assert [write.key for write in stage.writes] == ["T-32:stripe.refund.create"]


async def test_35_a_declined_card_can_be_charged_again_under_a_new_key(stage: Stage, agent: Agent) -> None:
    """https://github.com/odoo/odoo/pull/107723"""
    card = {"amount": "5000", "currency": "usd", "source": "tok_chargeDeclined"}
    declined = await agent.send("stripe", "POST", "/v1/charges", card, event="order-35")
    again = await agent.send("stripe", "POST", "/v1/charges", card, event="order-35")
    assert (declined.status_code, declined.headers["Doubtless-Retry"]) == (402, "new-run")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (402, "true")

    another = card | {"source": "tok_visa"}
    unasked = await agent.send("stripe", "POST", "/v1/charges", another, event="order-35")
    assert (unasked.status_code, unasked.json()["error"]["code"]) == (409, "retry_of_required")
    action_id = declined.headers["Doubtless-Action-Id"]
    paid = await agent.send("stripe", "POST", "/v1/charges", another, event="order-35", Doubtless_Retry_Of=action_id)
    assert paid.status_code == 200
    assert [write.key for write in stage.writes] == ["order-35:stripe.charge.create", "order-35:stripe.charge.create:2"]
    (second, first) = await stage.actions()
    assert (second["retry_of"], second["run"]) == (first["action_id"], 2)
