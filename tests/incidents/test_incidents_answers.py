"""Incidents in which an answer was taken for more, or for less, than it proved."""

from pathlib import Path
from typing import Any

import pytest

from tests.incidents.agent import GMAIL, MAIL, Agent, agent_on, is_unknown, own_provider, told
from tests.sdk.fixtures import Staged
from tests.sdk.stage import RESEND_KEY, Stage
from tests.wire.scripted import Scripted, start

SEND = "/gmail/v1/users/me/messages/send"
LETTER = {"raw": "VG86IGFkYUBleGFtcGxlLmNvbQ"}
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


async def test_7_a_read_timeout_on_a_provider_without_keys_invents_none_and_sends_no_second_mail(
    staged: Staged, tmp_path: Path
) -> None:
    """https://github.com/ComposioHQ/composio/issues/3586, https://github.com/ComposioHQ/composio/issues/3654"""
    async with Scripted() as gmail, staged(**own_provider(tmp_path, "gmail", GMAIL, gmail.port)) as stage:
        agent = agent_on(stage)
        asking = start(agent.send("gmail", "POST", SEND, LETTER, event="T-7"))
        peer = await gmail.accept()
        assert b"idempotency" not in (await peer.request()).lower()
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Len")
        peer.reset()
        first = await asking
        again = await agent.send("gmail", "POST", SEND, LETTER, event="T-7")
        assert is_unknown(first)
        assert is_unknown(again)
        assert (told(first)["cause"], told(first)["idempotency_key"]) == ("connection_lost", None)
        (action,) = await stage.actions()
        assert (action["tier"], action["needs_operator"], action["next_readback_at"]) == ("blind", True, None)
        assert len(gmail.peers) == 1


async def test_7_an_agents_own_key_passes_where_the_provider_documents_none(staged: Staged, tmp_path: Path) -> None:
    """https://github.com/ComposioHQ/composio/pull/3657"""
    async with Scripted() as gmail, staged(**own_provider(tmp_path, "gmail", GMAIL, gmail.port)) as stage:
        asking = start(agent_on(stage).send("gmail", "POST", SEND, LETTER, key="mine-7", event="T-7"))
        peer = await gmail.accept()
        assert b"\r\nidempotency-key: mine-7\r\n" in (await peer.request()).lower()
        peer.say(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{"id":"18c"}')
        assert (await asking).json() == {"id": "18c"}


async def test_8_a_loop_of_three_retries_on_503_sends_one_mail(staged: Staged, tmp_path: Path) -> None:
    """https://github.com/taylorwilsdon/google_workspace_mcp/issues/997, https://github.com/taylorwilsdon/google_workspace_mcp/pull/1062"""
    async with Scripted() as gmail, staged(**own_provider(tmp_path, "gmail", GMAIL, gmail.port)) as stage:
        agent = agent_on(stage)
        asking = start(agent.send("gmail", "POST", SEND, LETTER))
        peer = await gmail.accept()
        await peer.request()
        peer.say(UNAVAILABLE)
        answers = [await asking, *[await agent.send("gmail", "POST", SEND, LETTER) for _ in range(3)]]
        assert all(is_unknown(answer) for answer in answers)
        assert {told(answer)["cause"] for answer in answers} == {"server_error"}
        assert {told(answer)["delivery"] for answer in answers} == {"pending"}
        assert len(gmail.peers) == 1


async def test_9_a_mail_whose_answer_is_cut_short_is_delivered_and_not_failed(stage: Stage, agent: Agent) -> None:
    """https://github.com/codefuturist/email-mcp/issues/62"""
    stage.fault("truncate_after_commit", path="/emails")
    answer = await agent.mail(event="T-9")
    assert is_unknown(answer)
    seen = told(answer)
    assert (seen["delivery"], seen["acceptance"], seen["cause"]) == ("confirmed", "pending", "malformed_response")
    assert is_unknown(await agent.mail(event="T-9"))
    settled = await stage.reconcile(seen["action_id"])
    assert (settled["status"], len(stage.provider.emails()), len(stage.writes)) == ("confirmed", 1, 1)


async def test_19_the_second_write_is_limited_and_only_it_is_sent_again(stage: Stage, agent: Agent) -> None:
    """https://github.com/bobmatnyc/trusty-tools/issues/8013: a 429 of Stripe's is a definite "not executed"."""
    stage.fault("status_without_commit", status=429, path="/v1/customers")
    customer = {"email": "ada@example.com"}

    async def both() -> list[int]:
        first = await agent.refund(event="step-19")
        second = await agent.send("stripe", "POST", "/v1/customers", customer, event="step-19")
        return [first.status_code, second.status_code]

    assert await both() == [200, 429]
    customers, refunds = await stage.actions()
    assert (refunds["status"], refunds["retry"]) == ("confirmed", "never")
    assert (customers["status"], customers["cause"], customers["retry"]) == ("failed", "not_executed", "safe")
    assert await both() == [200, 200]
    paths = [write.target for write in stage.writes]
    assert paths == ["/v1/refunds", "/v1/customers", "/v1/customers"]
    assert stage.provider.executions() == 2


LOSSES: dict[str, dict[str, Any]] = {
    "a lost connection": {"kind": "drop_after_commit"},
    "half a head": {"kind": "half_head_after_commit"},
    "a 500": {"kind": "status_after_commit", "status": 500},
    "a 408": {"kind": "status_after_commit", "status": 408},
    "a 200 without its mark": {"kind": "unmarked_after_commit"},
    "a 200 cut short": {"kind": "truncate_after_commit"},
    "a 200 of garbage": {"kind": "garbage_after_commit"},
    "a 200 without the object": {"kind": "without_object_id_after_commit"},
    "a 200 with bytes after it": {"kind": "trailing_bytes_after_commit"},
    "a 200 before another": {"kind": "second_response_after_commit"},
    "a middlebox's 502": {"kind": "html_502", "commit": True},
    "a redirect": {"kind": "redirect", "commit": True},
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_23_what_nobody_knows_is_never_shown_as_a_success(stage: Stage, agent: Agent, loss: str) -> None:
    """https://github.com/juspay/hyperswitch/issues/13180"""
    stage.fault(path="/v1/refunds", method="POST", **LOSSES[loss])
    answer = await agent.refund(event="T-23")
    assert is_unknown(answer)
    assert (answer.status_code >= 400, answer.json()["status"]) == (True, 423)
    assert answer.headers["Content-Type"] == "application/json"
    assert 'details="outcome_unknown"' in answer.headers["Proxy-Status"]
    assert (answer.headers["Doubtless-Status"], answer.headers["Doubtless-Grade"]) == ("denied_unresolved", "unknown")
    assert is_unknown(await agent.refund(event="T-23"))
    assert (await stage.reconcile(told(answer)["action_id"]))["status"] == "confirmed"
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)


async def test_26_a_conflict_that_asks_to_be_retried_is_not_and_is_looked_up(stage: Stage, agent: Agent) -> None:
    """https://docs.stripe.com/api/errors: 409, with `Stripe-Should-Retry: true`"""
    marks = ((b"Stripe-Should-Retry", b"true"),)
    stage.fault("status_without_commit", status=409, headers=marks, path="/v1/refunds")
    answer = await agent.refund(event="T-26")
    assert is_unknown(answer)
    assert answer.headers["Stripe-Should-Retry"] == "false"
    seen = told(answer)
    assert (seen["cause"], seen["delivery"], seen["acceptance"]) == ("idempotent_conflict", "confirmed", "pending")
    assert seen["next_readback_at"] is not None
    assert is_unknown(await agent.refund(event="T-26"))
    assert (len(stage.writes), stage.provider.executions()) == (1, 0)


async def test_27_a_key_that_was_used_for_another_mail_is_for_a_person_to_judge(stage: Stage, agent: Agent) -> None:
    """https://resend.com/docs/dashboard/emails/idempotency-keys: 409, and the first body may have run."""
    theirs = {"Authorization": f"Bearer {RESEND_KEY}", "Idempotency-Key": "T-27:resend.email.send"}
    url = f"{stage.provider.url('resend')}/emails"
    assert (await stage.http.post(url, json=MAIL | {"html": "<p>Another.</p>"}, headers=theirs)).status_code == 200
    answer = await agent.mail(event="T-27")
    assert is_unknown(answer)
    assert (told(answer)["cause"], told(answer)["delivery"]) == ("key_reused", "confirmed")
    action = await stage.reconcile(told(answer)["action_id"])
    assert (action["status"], action["needs_operator"], action["next_readback_at"]) == ("denied_unresolved", True, None)
    assert is_unknown(await agent.mail(event="T-27"))
    assert len(stage.provider.emails()) == 1
