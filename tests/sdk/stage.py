"""A whole sidecar in this process, the stand-in provider behind it, and a tap before each of its doors.

Nothing is faked but the provider: the proxy, its store (a real server) and the sockets between them are the product's.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from proxy.app import App
from proxy.config import load
from proxy.edges.clock import SystemClock
from proxy.edges.standin import Fault, Kind, Listener, StandIn
from tests.sdk.tap import Message, Tap

STRIPE_KEY: Final = "sk_test_" + "51" * 12
RESEND_KEY: Final = "re_full_access"
TOKEN: Final = "operator"
STATE_KEY: Final = base64.urlsafe_b64encode(bytes(range(32))).decode().rstrip("=")
PATIENCE_S: Final = 30
CHARGE: Final = "ch_1"
PAID_MINOR: Final = 100_000


@asynccontextmanager
async def stand_in() -> AsyncIterator[StandIn]:
    """A stand-in on the machine's own clock, with a charge of 1000.00 USD on it."""
    async with StandIn(clock=SystemClock().wall_ms, listen=(Listener("stripe"), Listener("resend"))) as provider:
        provider.seed_charge(PAID_MINOR, "usd", charge_id=CHARGE)
        yield provider


@asynccontextmanager
async def sidecar(environ: dict[str, str]) -> AsyncIterator[App]:
    """A standalone sidecar, ready; drained at the end."""
    stopping = asyncio.Event()
    app = App(load(None, environ), say=lambda _: None)
    loop = asyncio.get_running_loop()
    running = loop.create_task(app.run(stopping))
    ready = loop.create_task(app.ready.wait())
    try:
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()
        yield app
    finally:
        stopping.set()
        await running


def environment(provider: StandIn, store_url: str, **more: str) -> dict[str, str]:
    """Return the configuration of a sidecar before this provider; `more` has the names of DOUBTLESS_ settings."""
    ports = dict.fromkeys(("PROXY", "ADMIN", "HEALTH"), "127.0.0.1:0")
    settings = {
        "STORE__URL": store_url,
        "STATE__KEY": json.dumps([STATE_KEY]),
        "PROVIDERS__STRIPE__UPSTREAM": provider.url("stripe"),
        "PROVIDERS__STRIPE__LISTEN": "127.0.0.1:0",
        "PROVIDERS__STRIPE__MIN_AGE": "0s",
        "PROVIDERS__RESEND__UPSTREAM": provider.url("resend"),
        "PROVIDERS__RESEND__MIN_AGE": "0s",
        "ADMIN__TOKENS": json.dumps([{"name": "ops", "role": "operator", "token": TOKEN}]),
        **{f"LISTEN__{name}": address for name, address in ports.items()},
    }
    return {f"DOUBTLESS_{name}": value for name, value in (settings | more).items()}


@dataclass
class Stage:
    """Provider, sidecar and taps, and the operator's view of them."""

    provider: StandIn
    app: App
    door: Tap
    stripe_door: Tap
    http: httpx.AsyncClient

    @property
    def taps(self) -> tuple[Tap, Tap]:
        """Both doors."""
        return self.door, self.stripe_door

    @property
    def asked(self) -> int:
        """How many requests the clients have sent to the proxy."""
        return sum(len(tap.requests) for tap in self.taps)

    @property
    def statuses(self) -> list[int]:
        """What the clients were answered, at whichever door."""
        return [status for tap in self.taps for status in tap.statuses]

    @property
    def answers(self) -> list[Message]:
        """The heads of what the clients were answered."""
        return [answer for tap in self.taps for answer in tap.answers]

    @property
    def writes(self) -> list[Any]:
        """What arrived at the provider that was no read."""
        return [arrival for arrival in self.provider.journal if arrival.method not in ("GET", "HEAD")]

    async def answered(self, count: int) -> None:
        """Return once the proxy has answered so many requests at one of its doors."""
        waits = [asyncio.ensure_future(tap.answered(count)) for tap in self.taps]  # noqa: TID251 -- Awaited below.
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def fault(self, kind: Kind | str, **fields: Any) -> Fault:
        """Arm a fault."""
        return self.provider.faults.add(Fault(Kind(kind), **fields))

    async def admin(self, method: str, path: str) -> Any:
        """Ask the admin API, and take nothing but a success."""
        url = f"http://127.0.0.1:{self.app.ports['admin']}/api/v1/{path}"
        answer = await self.http.request(method, url, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def actions(self, query: str = "") -> list[dict[str, Any]]:
        """Return the recorded actions, the newest first."""
        found: list[dict[str, Any]] = (await self.admin("GET", f"actions{query}"))["data"]
        return found

    async def action(self, action_id: str) -> dict[str, Any]:
        """Return an action, with its evidence."""
        found: dict[str, Any] = await self.admin("GET", f"actions/{action_id}")
        return found

    async def reconcile(self, action_id: str) -> dict[str, Any]:
        """Ask the provider's record now."""
        found: dict[str, Any] = await self.admin("POST", f"actions/{action_id}/reconcile")
        return found

    async def held(self) -> dict[str, int]:
        """Return the unknown exposure by currency, in minor units."""
        rows = (await self.admin("GET", "exposure"))["data"]
        return {row["currency"]: row["amount"] for row in rows if row["amount"]}

    async def metric(self, name: str, **labels: str) -> float | None:
        """Return a sample of the metrics; None where there is none."""
        text = (await self.http.get(f"http://127.0.0.1:{self.app.ports['health']}/metrics")).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    async def sampled(self, name: str, **labels: str) -> float:
        """Return a gauge of shared state, once it has been read from the store and is not 0."""
        async with asyncio.timeout(PATIENCE_S):
            while not (value := await self.metric(name, **labels)):
                pass
        return value


@asynccontextmanager
async def on_stage(provider: StandIn, environ: dict[str, str]) -> AsyncIterator[Stage]:
    """Put a sidecar before a provider. What the provider holds is let go before the sidecar drains."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(sidecar(environ))
        stack.callback(provider.faults.clear)
        door = await stack.enter_async_context(Tap(app.ports["proxy"]))
        stripe_door = await stack.enter_async_context(Tap(app.ports["providers.stripe"]))
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=30))
        yield Stage(provider, app, door, stripe_door, http)
