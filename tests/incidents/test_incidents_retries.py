"""Incidents in which something repeated what had already happened. Each names its public report."""

import asyncio
import shutil
import uuid

import pytest

from proxy.edges.standin import StandIn
from tests.conformance.server import running
from tests.incidents.agent import Agent, agent_on, is_unknown, told
from tests.sdk.clients import Client as Library
from tests.sdk.clients import Wish, stripe_module
from tests.sdk.stage import Stage, environment, on_stage

CHARGE_50 = {"amount": "5000", "currency": "usd", "customer": "cus_1", "source": "tok_visa"}


async def test_1_a_mesh_that_repeats_a_payout_answered_503_does_not_pay_it_twice(stage: Stage, agent: Agent) -> None:
    """https://github.com/istio/istio/issues/50506"""
    stage.fault("status_after_commit", status=503, path="/v1/payouts")
    payout = {"amount": "700000", "currency": "usd"}
    first = await agent.send("stripe", "POST", "/v1/payouts", payout, key="mesh-1")
    again = await agent.send("stripe", "POST", "/v1/payouts", payout, key="mesh-1", x_envoy_attempt_count="2")
    assert is_unknown(first)
    assert is_unknown(again)
    assert told(again)["action_id"] == told(first)["action_id"]
    assert (told(first)["cause"], told(first)["delivery"], told(first)["upstream_status"]) == (
        "server_error",
        "confirmed",
        503,
    )
    assert (len(stage.writes), len(stage.provider.stripe_objects("payout"))) == (1, 1)
    blocked = await stage.metric(
        "doubtless_retries_blocked_total", provider="stripe", action_type="stripe.payout.create"
    )
    assert blocked == 1


async def test_2_an_agent_that_comes_back_with_a_fresh_key_does_not_charge_twice(stage: Stage, agent: Agent) -> None:
    """https://github.com/stripe/ai/issues/402: by CONTRACT 2.3 for requests that name no event of their own."""
    stage.fault("drop_after_commit", path="/v1/charges")
    first = await agent.send("stripe", "POST", "/v1/charges", CHARGE_50, key=str(uuid.uuid4()))
    again = await agent.send("stripe", "POST", "/v1/charges", CHARGE_50, key=str(uuid.uuid4()))
    reworded = CHARGE_50 | {"description": "second attempt"}
    other = await agent.send("stripe", "POST", "/v1/charges", reworded, key=str(uuid.uuid4()))
    assert is_unknown(first)
    assert is_unknown(again)
    assert (other.status_code, other.json()["error"]["code"]) == (423, "suspected_duplicate")
    assert {told(answer)["action_id"] for answer in (first, again, other)} == {told(first)["action_id"]}
    assert again.headers["Doubtless-Folded-Into"] == told(first)["action_id"]
    assert (len(stage.writes), await stage.held()) == (1, {"usd": 5000})


async def test_2_a_second_charge_that_is_meant_names_an_event_of_its_own(stage: Stage, agent: Agent) -> None:
    """https://github.com/stripe/ai/pull/419: the way to say that it is no retry."""
    stage.fault("drop_after_commit", path="/v1/charges")
    first = await agent.send("stripe", "POST", "/v1/charges", CHARGE_50, event="order-1")
    second = await agent.send("stripe", "POST", "/v1/charges", CHARGE_50, event="order-2")
    assert is_unknown(first)
    assert second.status_code == 200
    assert [write.key for write in stage.writes] == ["order-1:stripe.charge.create", "order-2:stripe.charge.create"]
    assert await stage.held() == {"usd": 5000}


async def test_4_a_crew_that_runs_a_task_again_gets_the_stored_answer(stage: Stage, agent: Agent) -> None:
    """https://github.com/crewAIInc/crewAI/issues/5802"""
    first = await agent.refund(event="task-3")
    again = await agent.refund(event="task-3")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)


async def test_15_two_requests_of_one_event_at_once_are_one_dispatch(stage: Stage, agent: Agent) -> None:
    """https://github.com/woocommerce/woocommerce-gateway-stripe/issues/489, #2477"""
    hold = stage.fault("hold_before_commit", path="/v1/refunds")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(agent.refund(event="order-17"))
        await hold.reached()
        impatient = await agent.refund(event="order-17", Prefer="wait=0")
        second = group.create_task(agent.refund(event="order-17"))
        await stage.door.asked(3)
        hold.release()
    assert (impatient.status_code, impatient.json()["error"]["code"]) == (423, "action_in_flight")
    assert impatient.headers["Preference-Applied"].startswith("wait")
    assert (first.result().status_code, second.result().status_code) == (200, 200)
    assert first.result().json() == second.result().json()
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)


@pytest.mark.needs("redis-server")
async def test_17_two_replicas_on_one_redis_send_one_event_once(provider: StandIn) -> None:
    """https://github.com/spree/spree/issues/9265"""
    with running(shutil.which("redis-server")) as redis:
        settings = environment(provider, redis.url)
        async with on_stage(provider, settings) as here, on_stage(provider, settings) as there:
            hold = here.fault("hold_before_commit", path="/v1/refunds")
            agents = [agent_on(here), agent_on(there)] * 3
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(agent.refund(event="order-17")) for agent in agents]
                await here.door.asked(3)
                await there.door.asked(3)
                hold.release()
            answers = [call.result() for call in calls]
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.json()["id"] for answer in answers}) == 1
            assert (len(here.writes), provider.executions()) == (1, 1)


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_24_a_write_on_a_kept_alive_connection_that_is_dropped_arrives_once(
    stage: Stage, agent: Agent, method: str
) -> None:
    """https://github.com/microsoft/aspire/issues/4631, https://github.com/kyma-project/kyma/issues/9069"""
    contact = (await agent.send("resend", "POST", "/contacts", {"email": "ada@example.com"})).json()
    stage.fault("drop_after_read", method=method)
    body = {"unsubscribed": True} if method == "PUT" else None
    answer = await agent.send("resend", method, f"/contacts/{contact['id']}", body, event="T-24")
    assert is_unknown(answer)
    assert [(write.method, write.nth) for write in stage.writes] == [("POST", 1), (method, 2)]


async def test_29_an_sdk_with_retries_of_its_own_asks_once(stage: Stage) -> None:
    """https://github.com/stripe/stripe-python: `max_network_retries` is 2, and other SDKs have the like."""
    stage.fault("drop_after_commit", path="/v1/refunds")
    answer = await Library("stripe-python", "stripe", stripe_module).call(stage, Wish())
    assert answer.status == 423
    assert (len(stage.door.requests), len(stage.writes), stage.provider.executions()) == (1, 1, 1)
