"""What stands around a sidecar in tests: the stand-in as its provider, an agent, an operator, and who probes it."""

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from redis.asyncio import Redis

from proxy.core.model import Action
from proxy.edges.standin import Arrival, Fault, Kind, StandIn
from proxy.edges.store.codec import decode_record
from tests.app.line import PATIENCE_S, Heard, Line, request

SECRET: Final = "sk_test_" + "rig" * 8
RESEND_SECRET: Final = "re_full_access_rig"
TOKEN: Final = "the-operators-token"
VIEWER: Final = "the-viewers-token"
STATE_KEY: Final = "c3RhdGUta2V5LW9mLXRoZS1yaWctMzItYnl0ZXMtISE"
_numbers = itertools.count(1)


def settings(
    folder: Path, standin: StandIn, more: dict[str, str] | None = None, *, tls: bool = False
) -> dict[str, str]:
    """Return the environment of a sidecar on free ports, in a folder, before the stand-in. `more`: without prefix."""
    stripe = standin.url("stripe", tls=tls)
    tokens = [
        {"name": "ops", "role": "operator", "token": TOKEN},
        {"name": "eyes", "role": "viewer", "token": VIEWER},
    ]
    chosen = {
        "LISTEN__PROXY": "127.0.0.1:0",
        "LISTEN__ADMIN": "127.0.0.1:0",
        "LISTEN__HEALTH": "127.0.0.1:0",
        "STORE__URL": f"embedded:{folder}/store",
        "STORE__ALLOW_EPHEMERAL": "true",
        "STATE__SPOOL": f"{folder}/spool",
        "READBACK__FIRST": "1h",  # On demand only: a read-back of its own would stray into another test's journal.
        "PROVIDERS__STRIPE__UPSTREAM": stripe.replace("//127.0.0.1", "//localhost") if tls else stripe,
        "PROVIDERS__STRIPE__MIN_AGE": "0s",
        "PROVIDERS__STRIPE__LISTEN": "127.0.0.1:0",
        "PROVIDERS__RESEND__UPSTREAM": standin.url("resend"),
        "PROVIDERS__RESEND__MIN_AGE": "0s",
        "ADMIN__TOKENS": json.dumps(tokens),
    } | (more or {})
    places = {"{folder}": str(folder), "{stripe}": standin.url("stripe"), "{resend}": standin.url("resend")}
    return {f"DOUBTLESS_{name}": _placed(value, places) for name, value in chosen.items() if value != "(unset)"}


def _placed(text: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        text = text.replace(place, value)
    return text


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it holds. Raises TimeoutError where it never does."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            pass


async def reached(fault: Fault) -> None:
    """Return once a fault has met a request. Raises TimeoutError where none comes."""
    async with asyncio.timeout(PATIENCE_S):
        await fault.reached()


class Bench:
    """One stand-in, and whoever asks the sidecar before it. `ports`: proxy, admin, health, providers.<name>."""

    standin: StandIn
    folder: Path

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the sidecar that runs now."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        """The port of agents."""
        return self.ports["proxy"]

    # ── The agent ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def line(self, *, receive_bytes: int | None = None) -> Line:
        """Open a connection to the proxy."""
        return await Line.open(self.ports["proxy"], receive_bytes=receive_bytes)

    async def ask(self, method: str, target: str, *, head_only: bool = False, **more: Any) -> Heard:
        """Ask on a connection of its own, and close it in an orderly way."""
        async with await self.line() as line:
            return await line.ask(request(method, target, **more), head_only=head_only)

    def refund(
        self,
        charge: str,
        *,
        event: str | None = None,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        **fields: str,
    ) -> bytes:
        """Write the request for a refund of 54.00 of a charge."""
        own = {"Authorization": f"Bearer {SECRET}"}
        if event is not None:
            own["Doubtless-Event-Id"] = event
        if key is not None:
            own["Idempotency-Key"] = key
        form = {"charge": charge, "amount": "5400"} | fields
        return request("POST", "/stripe/v1/refunds", form=form, headers=own | (headers or {}))

    async def refunded(self, charge: str, **more: Any) -> Heard:
        """Ask for a refund on a connection of its own."""
        async with await self.line() as line:
            return await line.ask(self.refund(charge, **more))

    # ── The provider ──────────────────────────────────────────────────────────────────────────────────────────────────

    def charge(self) -> str:
        """Put a charge of its own at the provider; its ID."""
        return str(self.standin.seed_charge(20_000, "usd", charge_id=f"ch_{next(_numbers)}")["id"])

    def fault(self, kind: Kind | str, **fields: Any) -> Fault:
        """Arm a fault that meets the next refund, unless it says otherwise."""
        return self.standin.faults.add(Fault(Kind(kind), **({"method": "POST", "path": "/v1/refunds"} | fields)))

    @property
    def writes(self) -> list[Arrival]:
        """The writes that reached the provider."""
        return [arrival for arrival in self.standin.journal if arrival.method not in ("GET", "HEAD")]

    # ── The operator ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def admin(self, method: str, path: str, *, token: str | None = TOKEN, **more: Any) -> Heard:
        """Ask the admin API."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        async with await Line.open(self.ports["admin"]) as line:
            return await line.ask(request(method, f"/api/v1/{path}", headers=headers, **more))

    async def action(self, action_id: str) -> dict[str, Any]:
        """Return an action as the operator sees it."""
        heard = await self.admin("GET", f"actions/{action_id}")
        assert heard.status == 200, heard.body
        return dict(heard.json)

    async def actions(self, **chosen: str) -> list[dict[str, Any]]:
        """Return a list of actions."""
        query = "&".join(f"{name}={value}" for name, value in chosen.items())
        return list((await self.admin("GET", f"actions?{query}")).json["data"])

    async def settled(self, action_id: str, *status: str) -> dict[str, Any]:
        """Return the action once it is in one of the states: what is recorded late is asked for until it is there."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                action = await self.action(action_id)
                if action["status"] in status:
                    return action

    async def settled_soon(self, action_id: str, *status: str) -> dict[str, Any]:
        """Return the action once it is in one of the states, though the store may not answer before."""

        async def answers() -> bool:
            return (await self.admin("GET", f"actions/{action_id}")).status != 503

        await eventually(answers)
        return await self.settled(action_id, *status)

    async def reconcile(self, action_id: str) -> dict[str, Any]:
        """Ask the provider's record now."""
        return dict((await self.admin("POST", f"actions/{action_id}/reconcile")).json)

    async def record(self, action_id: str) -> Action:
        """Return the record itself, past every API: what stands in the store."""
        folder = self.folder / "store"
        noted = folder / "socket"
        where = noted.read_text("utf-8") if noted.exists() else f"{folder}/store.sock"
        async with Redis.from_url(f"unix://{quote(where)}") as client:
            raw = await client.hget("dl:{default}:actions", action_id)
        assert isinstance(raw, bytes)
        return decode_record(raw).action

    async def until_record(self, action_id: str, holds: Callable[[Action], bool]) -> None:
        """Return once it holds of the record."""

        async def stands() -> bool:
            return holds(await self.record(action_id))

        await eventually(stands)

    # ── Probes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def probe(self, path: str) -> Heard:
        """Ask the health port."""
        async with await Line.open(self.ports["health"]) as line:
            return await line.ask(request("GET", path))

    async def metric(self, name: str, **labels: str) -> float | None:
        """Return a sample's value; None where it is not exported."""
        return sample((await self.probe("/metrics")).body.decode(), name, **labels)

    async def until_metric(self, name: str, value: float, **labels: str) -> None:
        """Return once a sample has a value."""

        async def shows() -> bool:
            return await self.metric(name, **labels) == value

        await eventually(shows)

    async def until_ready_says(self, text: str) -> None:
        """Return once /readyz answers so."""

        async def says() -> bool:
            return (await self.probe("/readyz")).body.decode() == f"{text}\n"

        await eventually(says)


def sample(text: str, name: str, **labels: str) -> float | None:
    """Return the value of a sample of an exposition."""
    for line in text.splitlines():
        found = re.fullmatch(rf"doubtless_{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
            return float(found[2])
    return None


def event() -> str:
    """Return an event ID that no other test has."""
    return f"event-{next(_numbers)}"


@contextlib.asynccontextmanager
async def nothing_sent(bench: Bench) -> AsyncIterator[None]:
    """Nothing that happens here reaches the provider: not a request, not a connection."""
    requests, connections = len(bench.standin.journal), bench.standin.connections
    yield
    assert (len(bench.standin.journal), bench.standin.connections) == (requests, connections)
