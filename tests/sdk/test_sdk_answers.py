"""The other answers that the proxy makes itself, as each client hands them over (CONTRACT 3)."""

import asyncio
from functools import partial

import pytest

from proxy.edges.standin import StandIn
from tests.conformance.server import free_port, running, valkey_binary
from tests.sdk.clients import WRITE, Client, Wish, requests_resending
from tests.sdk.clients_node import ALL, each
from tests.sdk.fixtures import Staged
from tests.sdk.stage import Stage, environment, on_stage

SDKS = {"stripe-python", "StripeClient", "stripe-node", "resend-python", "resend-node"}
MAKES_A_KEY = ("stripe-python", "stripe-python-async", "StripeClient", "stripe-node", "openai-python")


@each()
async def test_other_contents_under_one_event_are_refused_and_told_without_values(stage: Stage, client: Client) -> None:
    await client.call(stage, Wish("T-1041"))
    told = await client.call(stage, Wish("T-1041", other=True))
    assert told.status == 422
    assert "another request was already made for this event" in (told.text or "")
    assert ("subject" if client.provider == "resend" else "amount") in (told.text or "")
    assert "1000" not in (told.text or "")
    assert "invoice" not in (told.text or "")
    assert (stage.asked, stage.statuses[-1], len(stage.writes)) == (2, 422, 1)


@each()
async def test_a_reworded_retry_without_an_event_is_taken_for_one_and_told_how_to_mean_it(
    stage: Stage, client: Client
) -> None:
    stage.fault("drop_after_commit", path=WRITE[client.provider])
    await client.call(stage)
    told = await client.call(stage, Wish(reworded=True))
    assert told.status == 423
    assert "this looks like" in (told.text or "")
    assert "an event ID of its own" in (told.text or "")
    assert stage.answers[-1]["Doubtless-Retry"] == "new-event"
    assert (stage.asked, len(stage.writes)) == (2, 1)


@each()
async def test_where_an_event_is_required_a_key_that_an_sdk_made_is_none(staged: Staged, client: Client) -> None:
    async with staged(EVENT__MISSING="require") as stage:
        told = await client.call(stage)
        assert told.status == 400
        assert "names no event" in (told.text or "")
        assert (stage.asked, stage.writes) == (1, [])
        if client.name in MAKES_A_KEY[:-1]:
            assert next(tap.requests[0] for tap in stage.taps if tap.requests)["Idempotency-Key"]

        assert (await client.call(stage, Wish("T-1041"))).text is None
        assert len(stage.writes) == 1


@each()
async def test_what_never_left_is_said_to_be_safe_and_executes_once_when_it_is_sent_again(
    stage: Stage, client: Client
) -> None:
    await stage.provider.shut(client.provider)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(client.call(stage))
        await stage.answered(1)
        await stage.provider.open(client.provider)
    told = call.result()
    assert (stage.statuses[0], stage.answers[0]["Doubtless-Retry"]) == (502, "safe")
    assert stage.answers[0]["Stripe-Should-Retry"] is None

    if client.resends:
        assert told.text is None, told
    else:
        assert told.status == 502
        assert "nothing of this" in (told.text or "")
        assert "safe to try again" in (told.text or "")
        assert (await client.call(stage)).text is None
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)
    (action,) = await stage.actions()
    assert (action["status"], len((await stage.action(action["action_id"]))["dispatches"]) > 1) == ("confirmed", True)


@each(client for client in ALL if not client.resends)
async def test_without_its_store_the_proxy_sends_nothing_and_says_so(provider: StandIn, client: Client) -> None:
    with running(valkey_binary()) as store:
        async with on_stage(provider, environment(provider, store.url)) as stage:
            store.stop()
            told = await client.call(stage)
            store.start()
        assert (told.status, stage.answers[0]["Doubtless-Retry"]) == (503, "safe")
        assert "nothing was sent" in (told.text or "")
        assert stage.writes == []


@each(client for client in ALL if client.name in SDKS)
async def test_a_path_that_names_no_provider_is_answered_with_the_line_to_write(staged: Staged, client: Client) -> None:
    own = free_port()
    async with staged(PROVIDERS__STRIPE__LISTEN=f"127.0.0.1:{own}") as stage:
        told = await client.call(stage, base=f"{stage.door.url}{'' if client.own_port else '/nowhere'}")
        lines = {
            "stripe-python": f'stripe.api_base = "{stage.door.url}/stripe"',
            "StripeClient": f'base_addresses={{"api": "{stage.door.url}/stripe"}}',
            "stripe-node": f'new Stripe(key, {{ host: "127.0.0.1", port: {own}, protocol: "http" }})',
            "resend-python": f"RESEND_API_URL={stage.door.url}/resend",
            "resend-node": f'new Resend(key, {{ baseUrl: "{stage.door.url}/resend" }})',
        }
        assert told.status == 404
        assert lines[client.name] in (told.text or "")
        assert (stage.asked, stage.writes) == (1, [])


async def test_urllib3_hides_the_message_of_a_safe_answer_unless_told_not_to(stage: Stage) -> None:
    """It is the one client here that does; README says `raise_on_status=False`. Nothing was sent: nothing is lost."""
    (client,) = (client for client in ALL if client.name == "requests-resending")
    await stage.provider.shut("stripe")
    told = await client.call(stage)
    assert (told.error, "Doubtless" in (told.text or "")) == ("RetryError", False)
    assert (stage.statuses, stage.writes) == ([502] * 3, [])

    outspoken = Client("outspoken", "stripe", partial(requests_resending, raise_on_status=False))
    told = await outspoken.call(stage)
    assert (told.status, "safe to try again" in (told.text or "")) == (502, True)


@pytest.mark.parametrize("client", [client for client in ALL if client.name == "stripe-python"])
async def test_no_answer_but_a_safe_one_can_be_retried_by_an_sdk(stage: Stage, client: Client) -> None:
    await client.call(stage, Wish("T-1041"))
    await client.call(stage, Wish("T-1041", other=True))
    stage.fault("drop_after_commit")
    await client.call(stage, Wish("T-1042"))
    assert stage.statuses == [200, 422, 423]
    for answer in stage.answers[1:]:
        assert (answer["Stripe-Should-Retry"], answer["x-should-retry"]) == ("false", "false")
        assert answer["Content-Type"] == "application/json"
