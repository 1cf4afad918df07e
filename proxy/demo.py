"""The story of CONTRACT 7, really run: an agent, the stand-in provider, and Doubtless between them; then without it.

Nothing here is told that was not measured: both counts are of requests that the stand-in executed.
"""

import asyncio
import contextlib
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from proxy.app import App
from proxy.config import load
from proxy.edges import logs
from proxy.edges.clock import SystemClock
from proxy.edges.standin import Fault, Kind, Listener, StandIn

EVENT: Final = "T-1041"
CHARGE: Final = "ch_T1041"
PAID_MINOR: Final = 20_000  # The charge was 200.00; the ticket asks for 54.00 of it back.
REFUND_MINOR: Final = 5_400
KEY: Final = "sk_test_" + "demo" * 6
TOKEN: Final = "demo"  # noqa: S105  # Of a store that lives for a minute, on loopback.

Say = Callable[[str], None]


class StoryBroken(Exception):
    """The story did not go as it must always go."""


@dataclass(frozen=True)
class Heard:
    """What the agent got: `status` None where the connection was lost."""

    status: int | None
    body: dict[str, Any]


class Agent:
    """An agent with an ordinary HTTP client. Like an SDK called anew it makes a new key for every call."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._base = base

    async def refund(self, reason: str | None = None) -> Heard:
        """Ask for the refund of 54.00."""
        form = {"charge": CHARGE, "amount": str(REFUND_MINOR)} | ({"reason": reason} if reason else {})
        headers = {
            "Authorization": f"Bearer {KEY}",
            "Idempotency-Key": str(uuid.uuid4()),
            "Doubtless-Event-Id": EVENT,
        }
        try:
            async with self._session.post(f"{self._base}/v1/refunds", data=form, headers=headers) as answer:
                return Heard(answer.status, await answer.json(content_type=None))
        except aiohttp.ClientError:
            return Heard(None, {})

    async def insist(self) -> list[Heard]:
        """The script: the refund, and, as it was not seen to succeed, again, and again in other words."""
        return [await self.refund(), await self.refund(), await self.refund("requested_by_customer")]


@contextlib.asynccontextmanager
async def stand_in() -> AsyncIterator[StandIn]:
    """A stand-in with the charge on it, which loses its first answer."""
    clock = SystemClock()
    async with StandIn(clock=clock.wall_ms, listen=(Listener("stripe"), Listener("resend"))) as provider:
        provider.seed_charge(PAID_MINOR, "usd", charge_id=CHARGE)
        provider.faults.add(Fault(Kind.DROP_AFTER_COMMIT, provider="stripe", method="POST", path="/v1/refunds"))
        yield provider


@contextlib.asynccontextmanager
async def sidecar(folder: str, provider: StandIn, *, stay: bool) -> AsyncIterator[App]:
    """A sidecar of its own between agent and stand-in."""
    ports = {} if stay else {f"DOUBTLESS_LISTEN__{name}": "127.0.0.1:0" for name in ("PROXY", "ADMIN", "HEALTH")}
    config = load(
        None,
        {
            "DOUBTLESS_STORE__URL": f"embedded:{folder}/store",
            "DOUBTLESS_STORE__ALLOW_EPHEMERAL": "true",
            "DOUBTLESS_STATE__SPOOL": f"{folder}/spool",
            "DOUBTLESS_PROVIDERS__STRIPE__UPSTREAM": provider.url("stripe"),
            "DOUBTLESS_PROVIDERS__STRIPE__MIN_AGE": "0s",
            "DOUBTLESS_PROVIDERS__STRIPE__LISTEN": "127.0.0.1:7421" if stay else "",
            "DOUBTLESS_PROVIDERS__RESEND__UPSTREAM": provider.url("resend"),
            "DOUBTLESS_PROVIDERS__RESEND__MIN_AGE": "0s",
            "DOUBTLESS_ADMIN__TOKENS": f'[{{"name": "demo", "role": "operator", "token": "{TOKEN}"}}]',
            **ports,
        },
    )
    stopping = asyncio.Event()
    app = App(config, say=lambda _: None)
    running = asyncio.get_running_loop().create_task(app.run(stopping))
    try:
        ready = asyncio.get_running_loop().create_task(app.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()
        yield app
    finally:
        stopping.set()
        await running


class Operator:
    """Whoever looks at the admin port."""

    def __init__(self, session: aiohttp.ClientSession, app: App) -> None:
        self._session = session
        self._base = f"http://127.0.0.1:{app.ports['admin']}/api/v1"

    async def ask(self, method: str, path: str) -> dict[str, Any]:
        """Ask the admin API."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with self._session.request(method, f"{self._base}/{path}", headers=headers) as answer:
            body: dict[str, Any] = await answer.json()
            return body

    async def held(self) -> int:
        """Return what is held as unknown exposure, in minor units of USD."""
        rows = (await self.ask("GET", "exposure"))["data"]
        return sum(row["amount"] for row in rows if row["currency"] == "usd")


def _must(held: bool, promise: str) -> None:
    if not held:
        raise StoryBroken(promise)


async def with_us(agent: Agent, operator: Operator, provider: StandIn, say: Say) -> int:
    """Tell the story as it happens; how many refunds the provider executed."""
    say(f" 1 agent      refund 54.00 USD (ticket {EVENT})         key {EVENT}:stripe.refund.create")
    first = await agent.refund()
    executed = provider.refunds()
    _must(len(executed) == 1, "the provider executed the refund once")
    refund_id = executed[0]["id"]
    say(f" 2 stripe*    executed {refund_id} … and its answer is lost on the way back")
    _must(first.status == 423, "the agent is told 423")
    message = first.body["message"]
    say(f" 3 agent      is told 423: “{message[:76]}…”")
    action_id = first.body["doubtless"]["action_id"]
    held = await operator.held()
    _must(held == REFUND_MINOR, "5400 is held as unknown exposure")
    say(" 4 doubtless  UNKNOWN: not failed, never sent again by itself · 54.00 USD held")
    again = await agent.refund()
    _must(again.status == 423 and provider.executions() == 1, "the same request again sends nothing")
    say(" 5 agent      tries again anyway                        → 423, nothing was sent")
    reworded = await agent.refund("requested_by_customer")
    _must(reworded.status == 423 and provider.executions() == 1, "the same reworded sends nothing")
    say(" 6 agent      tries again in other words                → 423, nothing was sent")
    settled = await operator.ask("POST", f"actions/{action_id}/reconcile")
    _must(settled["status"] == "confirmed" and settled["grade"] == "confirmed", "the read-back confirms it")
    _must(settled["provider_object_id"] == refund_id, "the read-back names the refund")
    reads = sum(1 for arrival in provider.journal if arrival.method == "GET")
    say(f" 7 doubtless  asks Stripe's own record ({reads} GETs so far)   → found {refund_id}, by our key")
    _must(await operator.held() == 0, "the hold is released")
    say(" 8 doubtless  HAPPENED, verified · the 54.00 held is spent, nothing is held any more")
    posts = [arrival for arrival in provider.journal if arrival.method == "POST"]
    _must(len(posts) == 1, "the provider counts one POST")
    return len(provider.refunds())


async def without_us(session: aiohttp.ClientSession) -> tuple[int, list[Heard]]:
    """Run the same script straight at a stand-in of its own; how many refunds it executed."""
    async with stand_in() as provider:
        heard = await Agent(session, provider.url("stripe")).insist()
        return len(provider.refunds()), heard


async def demo(say: Say, *, stay: bool) -> None:
    """Run the demo. Raises StoryBroken: the product does not keep its promise."""
    logs.set_up("error", "console")
    with tempfile.TemporaryDirectory(prefix="doubtless-demo-") as folder:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            stand_in() as provider,
            sidecar(folder, provider, stay=stay) as app,
        ):
            say("A refund, a lost answer, and no double payment. A local stand-in, no real money.\n")
            base = f"http://127.0.0.1:{app.ports['proxy']}"
            operator = Operator(session, app)
            once = await with_us(Agent(session, f"{base}/stripe"), operator, provider, say)
            many, heard = await without_us(session)
            said = ", ".join("connection lost" if h.status is None else str(h.status) for h in heard)
            say(f"\n Stripe executed, with Doubtless     {once} refund, of one POST")
            say(f" Stripe executed, without it         {many} refunds (same script, run here too: {said})")
            _must(once == 1, "one refund with us")
            _must(many > once, "the same script, without us, refunds more than once")
            say("\n * a stand-in for Stripe that comes with Doubtless: `doubtless sandbox` runs it alone")
            if stay:
                await _stay(app, provider, say)


async def _stay(app: App, provider: StandIn, say: Say) -> None:
    """Stay up, so that one can look around."""
    admin = f"http://127.0.0.1:{app.ports['admin']}"
    say(f"\n Look around (Ctrl-C ends it):\n   export DOUBTLESS_ADMIN_URL={admin} DOUBTLESS_ADMIN_TOKEN={TOKEN}")
    say("   doubtless actions list\n   doubtless actions show <ACTION ID>")
    say(f"   curl -s http://127.0.0.1:{app.ports['health']}/metrics | grep doubtless_unknown")
    say(f'   curl -X POST {provider.url("stripe")}/_standin/faults -d \'{{"kind": "drop_after_commit"}}\'')
    await asyncio.Event().wait()
