"""Event IDs as README shows them: a call at a time, safe where calls run at once; and one for a whole process."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
import requests
import resend
import stripe

from tests.sdk.clients import EVENT_HEADER, PYTHON, ROUTE, WRITE, Client, Told, Wish, in_a_thread
from tests.sdk.clients_node import NEEDS, NODE, each, node
from tests.sdk.stage import RESEND_KEY, STRIPE_KEY, Stage

EVENT = "T-1041"
REFUND = Wish().refund()
MAIL = Wish().mail()
Way = Callable[[Stage], Any | Awaitable[Any]]


def stripe_header(stage: Stage) -> Any:
    stripe.api_key, stripe.api_base = STRIPE_KEY, f"{stage.door.url}/stripe"
    return stripe.Refund.create(**REFUND, headers={"Doubtless-Event-Id": EVENT})


def stripe_key(stage: Stage) -> Any:
    stripe.api_key, stripe.api_base = STRIPE_KEY, f"{stage.door.url}/stripe"
    return stripe.Refund.create(**REFUND, idempotency_key=EVENT)


def stripe_process(stage: Stage) -> Any:
    stripe.api_key, stripe.api_base = STRIPE_KEY, f"{stage.door.url}/e/{EVENT}/stripe"
    return stripe.Refund.create(**REFUND)


def client_header(stage: Stage) -> Any:
    client = stripe.StripeClient(STRIPE_KEY, base_addresses={"api": f"{stage.door.url}/stripe"})
    params: Any = REFUND
    return client.v1.refunds.create(params, {"headers": {"Doubtless-Event-Id": EVENT}})


def client_key(stage: Stage) -> Any:
    client = stripe.StripeClient(STRIPE_KEY, base_addresses={"api": f"{stage.door.url}/stripe"})
    params: Any = REFUND
    return client.v1.refunds.create(params, {"idempotency_key": EVENT})


def client_of_one_event(stage: Stage) -> Any:
    client = stripe.StripeClient(STRIPE_KEY, base_addresses={"api": f"{stage.door.url}/e/{EVENT}/stripe"})
    params: Any = REFUND
    return client.v1.refunds.create(params)


def resend_key(stage: Stage) -> Any:
    resend.api_key, resend.api_url = RESEND_KEY, f"{stage.door.url}/resend"
    params: Any = MAIL
    return resend.Emails.send(params, {"idempotency_key": EVENT})


def resend_process(stage: Stage) -> Any:
    resend.api_key, resend.api_url = RESEND_KEY, f"{stage.door.url}/e/{EVENT}/resend"
    params: Any = MAIL
    return resend.Emails.send(params)


def openai_options(stage: Stage) -> Any:
    with openai.OpenAI(api_key=RESEND_KEY, base_url=f"{stage.door.url}/resend") as client:
        with_event = client.with_options(default_headers={"Doubtless-Event-Id": EVENT})
        return with_event.post("/emails", body=MAIL, cast_to=object)


def requests_header(stage: Stage) -> Any:
    headers = {"Authorization": f"Bearer {STRIPE_KEY}", "Doubtless-Event-Id": EVENT}
    return requests.post(f"{stage.door.url}/stripe/v1/refunds", data=REFUND, headers=headers, timeout=30).json()


async def stripe_node_header(stage: Stage) -> Any:
    return await _stripe_node(stage, {"headers": {"Doubtless-Event-Id": EVENT}})


async def stripe_node_key(stage: Stage) -> Any:
    return await _stripe_node(stage, {"idempotencyKey": EVENT})


async def _stripe_node(stage: Stage, options: dict[str, Any]) -> Any:
    calls = [{"params": REFUND, "options": options}]
    return (await node("stripe", calls, host="127.0.0.1", port=stage.stripe_door.port))[0].made


async def resend_node_header(stage: Stage) -> Any:
    return await _resend_node({"headers": {"Doubtless-Event-Id": EVENT}}, base=f"{stage.door.url}/resend")


async def resend_node_key(stage: Stage) -> Any:
    return await _resend_node({"idempotencyKey": EVENT}, base=f"{stage.door.url}/resend")


async def resend_node_process(stage: Stage) -> Any:
    return await _resend_node({}, env={"RESEND_BASE_URL": f"{stage.door.url}/e/{EVENT}/resend"})


async def _resend_node(options: dict[str, Any], **where: Any) -> Any:
    return (await node("resend", [{"params": MAIL, "options": options}], **where))[0].made


IN_PYTHON = (
    *(stripe_header, stripe_key, stripe_process, client_header, client_key, client_of_one_event),
    *(resend_key, resend_process, openai_options, requests_header),
)
IN_NODE = (stripe_node_header, stripe_node_key, resend_node_header, resend_node_key, resend_node_process)
WAYS = [pytest.param(way, id=way.__name__) for way in IN_PYTHON]
WAYS += [pytest.param(way, id=way.__name__, marks=pytest.mark.needs(*NEEDS)) for way in IN_NODE]


async def use(way: Way, stage: Stage) -> Any:
    """Go one of the ways; the object that the library returned."""
    return await way(stage) if asyncio.iscoroutinefunction(way) else await in_a_thread(way, stage)


@pytest.mark.parametrize("way", WAYS)
async def test_a_line_that_readme_shows_names_the_event(stage: Stage, way: Way) -> None:
    made = await use(way, stage)
    (write,) = stage.writes
    assert made["id"] == write.object_id
    assert write.key == f"{EVENT}:{ROUTE[write.provider]}"
    assert not [name for name, _ in write.headers if name.lower().startswith(b"doubtless-")]
    (action,) = await stage.actions()
    assert (action["event_id"], action["explicit_event"]) == (EVENT, True)


# ── Calls at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


@each(PYTHON)
async def test_calls_at_once_keep_their_own_events(stage: Stage, client: Client) -> None:
    hold = stage.fault("hold_before_commit", path=WRITE[client.provider], times=None)
    events = [f"T-{number}" for number in range(4)]
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(client.call(stage, Wish(event))) for event in events]
        await stage.provider.journal.arrived(len(events))
        hold.release()
    assert_each_has_its_own(stage, client, events, [call.result() for call in calls])


@each(NODE)
async def test_calls_at_once_in_one_node_process_keep_their_own_events(stage: Stage, client: Client) -> None:
    hold = stage.fault("hold_before_commit", path=WRITE[client.provider], times=None)
    events = [f"T-{number}" for number in range(4)]
    wish = Wish.refund if client.provider == "stripe" else Wish.mail
    calls = [{"params": wish(Wish()), "options": {"headers": {EVENT_HEADER: event}}} for event in events]
    where: dict[str, Any] = {"host": "127.0.0.1", "port": stage.stripe_door.port, "base": f"{stage.door.url}/resend"}
    async with asyncio.TaskGroup() as group:
        called = group.create_task(node(client.provider, calls, **where))
        await stage.provider.journal.arrived(len(events))
        hold.release()
    assert_each_has_its_own(stage, client, events, called.result())


def assert_each_has_its_own(stage: Stage, client: Client, events: list[str], told: list[Told]) -> None:
    """Did each call get the object that was made under the key of its own event?"""
    made = {write.key: write.object_id for write in stage.writes}
    assert [one.object_id for one in told] == [made[f"{event}:{ROUTE[client.provider]}"] for event in events]
    assert len(stage.writes) == stage.provider.executions() == len(events)


async def test_twenty_calls_at_once_without_an_event_are_one_refund(stage: Stage) -> None:
    """Twenty threads of one agent, each with a key that the SDK made for it."""
    (client,) = (client for client in PYTHON if client.name == "StripeClient")
    hold = stage.fault("hold_before_commit", path=WRITE["stripe"], times=None)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(client.call(stage)) for _ in range(20)]
        await stage.door.asked(20)
        hold.release()
    assert len({call.result().object_id for call in calls}) == 1
    assert len({request["Idempotency-Key"] for request in stage.door.requests}) == 20
    assert (len(stage.writes), stage.provider.executions()) == (1, 1)


# ── One event for a whole process ─────────────────────────────────────────────────────────────────────────────────────

ONE_SHOT = """
import json, resend
print(json.dumps(resend.Emails.send(json.loads({mail!r}))["id"]))
"""


async def test_an_environment_variable_points_resend_python_here_with_the_event_of_the_process(stage: Stage) -> None:
    variables = {"RESEND_API_KEY": RESEND_KEY, "RESEND_API_URL": f"{stage.door.url}/e/job-7%2Fstep-2/resend"}
    script = ONE_SHOT.format(mail=json.dumps(MAIL))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, env={"PATH": os.environ["PATH"], **variables}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert json.loads(out) == stage.writes[0].object_id
    assert stage.writes[0].key == "job-7/step-2:resend.email.send"
