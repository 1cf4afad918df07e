"""Incidents in which the process in the middle went away."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from proxy.edges.standin import Fault, Kind, StandIn
from tests.conformance.server import Server, free_port
from tests.incidents.agent import Agent, agent_on, is_unknown, told
from tests.sdk.stage import TOKEN, environment, on_stage

ROOT = Path(__file__).parents[2]
SERVE = "from proxy.cli import main; main()"
READY = b"Doubtless is ready"


@asynccontextmanager
async def serving(settings: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """`doubtless serve` as a process of its own, ready; it is killed at the end, if nobody did so before."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **settings}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, "serve", env=environ, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if line.startswith(READY):
                break
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_21_a_sidecar_killed_between_dispatch_and_answer_knows_that_it_does_not_know(
    provider: StandIn, tmp_path: Path
) -> None:
    """https://github.com/agentarea/agentarea/pull/320: a restart must not send again what was under way."""
    ports = {name: free_port() for name in ("PROXY", "ADMIN", "HEALTH")}
    settings = {
        "DOUBTLESS_STORE__URL": f"embedded:{tmp_path}/store",
        "DOUBTLESS_STORE__ALLOW_EPHEMERAL": "true",
        "DOUBTLESS_STATE__SPOOL": f"{tmp_path}/spool",
        "DOUBTLESS_PROVIDERS__STRIPE__UPSTREAM": provider.url("stripe"),
        "DOUBTLESS_PROVIDERS__STRIPE__LISTEN": "",
        "DOUBTLESS_PROVIDERS__STRIPE__MIN_AGE": "0s",
        "DOUBTLESS_ADMIN__TOKENS": json.dumps([{"name": "ops", "role": "operator", "token": TOKEN}]),
        **{f"DOUBTLESS_LISTEN__{name}": f"127.0.0.1:{port}" for name, port in ports.items()},
    }
    hold = provider.faults.add(Fault(Kind.HOLD_AFTER_COMMIT, path="/v1/refunds"))
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        agent = Agent(http, f"http://127.0.0.1:{ports['PROXY']}")

        async with serving(settings) as process, asyncio.TaskGroup() as group:
            asking = group.create_task(cut_off(agent))
            await hold.reached()
            process.kill()
            assert await asking

        async with serving(settings):
            api = f"http://127.0.0.1:{ports['ADMIN']}/api/v1/actions"
            operator = {"Authorization": f"Bearer {TOKEN}"}
            (action,) = (await http.get(api, headers=operator)).json()["data"]
            assert (action["status"], action["cause"]) == ("denied_unresolved", "proxy_restart")
            again = await agent.refund(event="T-21")
            assert is_unknown(again)
            assert told(again)["action_id"] == action["action_id"]
            assert [arrival.method for arrival in provider.journal if arrival.method != "GET"] == ["POST"]

            settled = (await http.post(f"{api}/{action['action_id']}/reconcile", headers=operator)).json()
            assert (settled["status"], settled["unknown_cause"]) == ("confirmed", "proxy_restart")
            assert (await agent.refund(event="T-21")).json()["id"] == settled["provider_object_id"]
        assert provider.executions() == 1


async def cut_off(agent: Agent) -> bool:
    """Ask for the refund; is the agent cut off?"""
    with pytest.raises(httpx.TransportError):
        await agent.refund(event="T-21")
    return True


async def test_34_a_restart_does_not_lose_what_is_held_and_the_record_releases_it(
    provider: StandIn, store: Server
) -> None:
    """https://github.com/own-pay/OwnPay/issues/185"""
    settings = environment(provider, store.url)
    async with on_stage(provider, settings) as before:
        before.fault("drop_after_commit", path="/v1/refunds")
        lost = await agent_on(before).refund(event="T-34")
        assert is_unknown(lost)
        assert await before.held() == {"usd": 5400}

    async with on_stage(provider, settings) as after:
        action_id = told(lost)["action_id"]
        assert await after.held() == {"usd": 5400}
        assert is_unknown(await agent_on(after).refund(event="T-34"))
        seen = await after.action(action_id)
        assert seen["status"] == "denied_unresolved"
        since = await after.sampled("doubtless_unknown_oldest_timestamp_seconds", provider="stripe")
        assert seen["unknown_since"].startswith(datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")[:19])
        settled = await after.reconcile(action_id)
        assert (settled["status"], await after.held()) == ("confirmed", {})
        assert (len(after.writes), provider.executions()) == (1, 1)
