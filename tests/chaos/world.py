"""The processes of a run: the stand-in provider, one redis-server, and sidecars that share it. All on loopback."""

import asyncio
import json
import re
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.app.bench import STATE_KEY, TOKEN
from tests.app.served import Process
from tests.conformance.server import Server, free_port, running

SIDECARS: Final = 2
LEASE_MS: Final = 3_000
# A lease shorter than the product's, so that a run sees many of them lapse; all else is as it is installed.
SHORT_LEASE: Final = f"import proxy.app\nproxy.app.LEASE_MS, proxy.app.BEAT_MS = {LEASE_MS}, {LEASE_MS // 4}"
CONFIG: Final = """
[deadlines]
connect = "1s"
answer = "3s"
harvest = "6s"
drain = "2s"
[readback]
first = "1s"
max = "4s"
attempts = 40
[[limits]]
name = "refunds"
match = "stripe.refund.*"
amount = 1000000000
currency = "usd"
period = "total"
[[limits]]
name = "charges"
match = "stripe.charge.*"
amount = 1000000000
currency = "usd"
period = "total"
[log]
level = "info"
format = "json"
"""


class Sidecar:
    """One `doubtless serve`, which is killed and started again on the same ports and folder."""

    def __init__(self, name: str, folder: Path, more: Mapping[str, str]) -> None:
        self.name = name
        self.port, self.admin = free_port(), free_port()
        self._folder = folder
        self._env = {
            f"DOUBTLESS_{key}": value
            for key, value in {
                "LISTEN__PROXY": f"127.0.0.1:{self.port}",
                "LISTEN__ADMIN": f"127.0.0.1:{self.admin}",
                "LISTEN__HEALTH": "127.0.0.1:0",
                "PROVIDERS__STRIPE__LISTEN": "",
                "PROVIDERS__STRIPE__MIN_AGE": "0s",
                "PROVIDERS__RESEND__MIN_AGE": "0s",
                "STATE__KEY": f'["{STATE_KEY}"]',
                "STATE__SPOOL": f"{folder}/spool",
                "ADMIN__TOKENS": json.dumps([{"name": "ops", "role": "operator", "token": TOKEN}]),
                **more,
            }.items()
        }
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "doubtless.toml").write_text(CONFIG, "utf-8")
        self._process = Process(("serve", "--config", "doubtless.toml"), self._folder, self._env, code=SHORT_LEASE)
        await self._process.until_printed("probes and metrics")

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.tell(number)

    async def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        await self._process.end(signal.SIGKILL)

    async def tidy(self) -> None:
        """End it in any case."""
        if self._process is not None:
            await self._process.tidy()

    @property
    def log(self) -> str:
        """What it wrote to stderr, of all its lives."""
        return (self._folder / "stderr.log").read_text("utf-8")


class Provider:
    """`doubtless sandbox`: the stand-in, in a process of its own."""

    def __init__(self, folder: Path, *, idempotency: bool) -> None:
        self._folder = folder
        self._more = () if idempotency else ("--no-idempotency",)
        self._process: Process | None = None
        self._session: aiohttp.ClientSession | None = None
        self.urls: dict[str, str] = {}

    async def start(self) -> None:
        """Start it, and learn where it listens."""
        self._process = Process(("sandbox", "--stripe-port", "0", "--resend-port", "0", *self._more), self._folder, {})
        await self._process.until_printed("/_standin/journal")
        printed = "\n".join(self._process.printed)
        self.urls = dict(re.findall(r'providers\.(\w+)\.upstream = "([^"]+)"', printed))
        self._session = aiohttp.ClientSession()

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask its control interface."""
        assert self._session is not None
        async with self._session.request(method, f"{self.urls['stripe']}/_standin/{path}", json=body) as answer:
            said = await answer.json()
            assert answer.status == 200, said
            return said

    async def tidy(self) -> None:
        """End it in any case."""
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            await self._process.tidy()


class World:
    """All of them."""

    def __init__(self, store: Server, provider: Provider, sidecars: Sequence[Sidecar]) -> None:
        self.store = store
        self.provider = provider
        self.sidecars = sidecars

    @property
    def store_pid(self) -> int:
        """The process ID of redis-server."""
        info = self.store.tell("INFO", "server")
        return int(info.partition(b"process_id:")[2].partition(b"\r\n")[0])


@asynccontextmanager
async def world(folder: Path, *, idempotency: bool) -> AsyncIterator[World]:
    """Start everything, lend it, and end it."""
    with running(shutil.which("redis-server"), "--appendfsync", "always") as store:
        provider = Provider(folder / "provider", idempotency=idempotency)
        sidecars: list[Sidecar] = []
        try:
            await provider.start()
            upstreams = {f"PROVIDERS__{n.upper()}__UPSTREAM": url for n, url in provider.urls.items()}
            more = {"STORE__URL": store.url, **upstreams}
            # A hub is one more process on the same store: started here, and named to `mishaps` as the sidecars are.
            sidecars += [Sidecar(f"serve-{n}", folder / f"serve-{n}", more) for n in range(1, SIDECARS + 1)]
            await asyncio.gather(*(sidecar.start() for sidecar in sidecars))
            yield World(store, provider, sidecars)
        finally:
            await asyncio.gather(*(one.tidy() for one in (*sidecars, provider)))
