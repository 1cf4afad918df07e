"""Builds each thing once, starts it in order, and drains it: the standalone sidecar.

Longer than 300 lines because the order of starting and stopping is one story.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from msgspec import structs
from redis.asyncio import Redis

from proxy.config import Address, Config, StoreKind, key_bytes
from proxy.core.adapter import Adapter
from proxy.core.limits import Limit
from proxy.core.records import Period
from proxy.edges import codings, logs
from proxy.edges.adapter_files import load_all
from proxy.edges.admin import Admin, Tokens
from proxy.edges.agents import AgentServer, Handler, Limits, Ways
from proxy.edges.agents.reading import Buffered
from proxy.edges.clock import SystemClock, SystemEntropy
from proxy.edges.embedded import Embedded
from proxy.edges.files import private_folder, secret_text
from proxy.edges.health import Health
from proxy.edges.metrics import Metrics
from proxy.edges.sampler import Sampler
from proxy.edges.sites import site
from proxy.edges.spool import FileSpool
from proxy.edges.store.client import RedisStore, connect
from proxy.edges.tasks import Tasks
from proxy.edges.upstream import Origin, UpstreamClient, tls_context
from proxy.edges.vault import StateVault
from proxy.engine import Engine, Settings
from proxy.ports import StoreUnavailable
from proxy.reconciler import Reconciler

LEASE_MS: Final = 10_000
BEAT_MS: Final = 3_000
ROUND_MS: Final = 200
CLOSE_S: Final = 1.0
_log = structlog.get_logger(__name__)


def engine_settings(config: Config, instance: str) -> Settings:
    """Say to the engine what the configuration says."""
    providers = config.providers
    return Settings(
        instance=instance,
        ledger=config.store.ledger,
        connect_ms=config.deadlines.connect_ms,
        answer_ms=config.deadlines.answer_ms,
        harvest_ms=config.deadlines.harvest_ms,
        lease_ms=LEASE_MS,
        retry_window_ms=config.event.retry_window_ms,
        twin=config.event.twin,
        derive=config.event.missing == "derive",
        event_headers=config.event.headers,
        readback_first_ms=config.readback.first_ms,
        readback_max_ms=config.readback.max_ms,
        readback_attempts=config.readback.attempts,
        min_age_ms={name: p.min_age_ms for name, p in providers.items() if p.min_age_ms is not None},
        same_credentials={
            name: tuple(frozenset(group) for group in p.same_credentials) for name, p in providers.items()
        },
        read_keys={
            name: {("" if account == "*" else account): key.reveal() for account, key in p.read_key.items()}
            for name, p in providers.items()
        },
        limits=limits_of(config),
    )


def limits_of(config: Config) -> tuple[Limit, ...]:
    """Return the configured limits as the core takes them."""
    return tuple(
        Limit(
            name=limit.name,
            match=limit.match,
            period=Period(limit.period),
            amount=limit.amount,
            currency=limit.currency,
            count=limit.count,
            provider=limit.provider or None,
            account=limit.account or None,
        )
        for limit in config.limits
    )


def origins_of(config: Config, adapters: Mapping[str, Adapter]) -> dict[str, Origin]:
    """Return where each provider is reached. Raises OSError: a CA file cannot be read."""
    out = {}
    for name, adapter in adapters.items():
        settings = config.providers[name]
        url = str(settings.upstream) if settings.upstream is not None else adapter.doc.provider.upstream
        tls = tls_context(settings.ca_file) if url.startswith("https:") else None
        out[name] = Origin.parse(url, tls)
    return out


def types_of(adapters: Mapping[str, Adapter]) -> list[tuple[str, str]]:
    """Return the action types that are known, with their providers."""
    routes = [(name, route) for name, adapter in adapters.items() for route in adapter.doc.action]
    return [(name, f"{name}.{route.type}") for name, route in routes if not route.harmless]


def print_now(line: str) -> None:
    """Print a line, also where somebody waits for it at the other end of a pipe."""
    print(line, flush=True)  # noqa: T201  # What `serve` tells its user.


class App:
    """One sidecar: proxy, reconciler, admin and health in one process."""

    def __init__(self, config: Config, say: Callable[[str], None] = print_now) -> None:
        self.config = config
        self._say = say
        self._tasks = Tasks()
        self._loops = Tasks()  # What goes on for ever, apart from work that ends by itself.
        self._clock = SystemClock()
        self._instance = f"{socket.gethostname()[:40]}-{SystemEntropy().token()}"
        self._adapters = load_all({name: provider.adapter for name, provider in config.providers.items()})
        self._metrics = Metrics(self._adapters, types_of(self._adapters))
        self._health = Health(self._metrics)
        self._embedded: Embedded | None = None
        self._token_path: Path | None = None
        self.ports: dict[str, int] = {}
        self.ready = asyncio.Event()

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set, then drain."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack, stopping)
            if not stopping.is_set():
                self._health.started = True
                self._greet()
                self.ready.set()
                await stopping.wait()
            self._health.draining = True

    async def _start(self, stack: contextlib.AsyncExitStack, stopping: asyncio.Event) -> None:
        config, listen = self.config, self.config.listen
        if listen.health is not None:
            await stack.enter_async_context(self._site("health", self._health.application(), listen.health))
        url, keys = await self._open_store(stack)
        vault = StateVault(keys)
        spool = FileSpool(config.state.spool)
        stack.callback(spool.close)
        client = connect(url)
        stack.push_async_callback(client.aclose)

        async def shard() -> Redis:
            return client

        store = RedisStore(shard, config.store.ledger, self._clock, self._tasks, self._store_timed)
        self._health.store_answers = lambda: store.answers
        upstream = UpstreamClient(
            origins_of(config, self._adapters),
            connect_timeout_ms=config.deadlines.connect_ms,
            response_bytes=config.bounds.response_bytes,
            clock=self._clock,
        )
        stack.push_async_callback(upstream.close)
        engine = Engine(
            store=store,
            upstream=upstream,
            clock=self._clock,
            entropy=SystemEntropy(),
            vault=vault,
            spool=spool,
            meter=self._metrics,
            tasks=self._tasks,
            adapters=self._adapters,
            settings=engine_settings(config, self._instance),
            decode=codings.undo,
        )
        stack.push_async_callback(self._end_tasks)
        reconciler = Reconciler(engine, vault, spool, self._tasks, self._instance)
        await self._first_beat(store, reconciler, spool, stopping)
        sampler = Sampler(store, self._metrics, self._adapters, limits_of(config), self._clock, spool)
        self._loops.spawn(engine.pulse.run(), "pulse")
        self._loops.spawn(reconciler.beat(BEAT_MS), "heartbeat")
        self._loops.spawn(reconciler.run(ROUND_MS), "reconciler")
        self._loops.spawn(sampler.run(), "sampler")
        if listen.admin is not None:
            admin = Admin(
                engine=engine,
                reconciler=reconciler,
                adapters=self._adapters,
                limits=limits_of(config),
                tokens=self._tokens(),
                proxy_base=self._base,
            )
            await stack.enter_async_context(self._site("admin", admin.application(), listen.admin))
        await self._listen_for_agents(stack, engine, upstream)

    # ── The store ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _open_store(self, stack: contextlib.AsyncExitStack) -> tuple[str, list[bytes]]:
        """Start or find the store; its URL, and the state keys."""
        url = self.config.store.url
        keys = [_state_key(secret.reveal()) for secret in self.config.state.key]
        if url.kind is not StoreKind.EMBEDDED:
            return url.address.reveal(), keys
        embedded = Embedded(url.folder, allow_ephemeral=self.config.store.allow_ephemeral)
        address = await embedded.start()
        stack.push_async_callback(embedded.stop)
        self._embedded = embedded
        return address, keys or [_state_key(embedded.state_key())]

    def _dead(self, spool: FileSpool) -> set[str]:
        """Return the instances that are dead for certain: what they held before us, by a lock, is ours."""
        previous = self._embedded.previous_instance if self._embedded is not None else None
        return {*spool.dead_instances, *([previous] if previous else [])}

    async def _first_beat(
        self, store: RedisStore, reconciler: Reconciler, spool: FileSpool, stopping: asyncio.Event
    ) -> None:
        """Wait until the store answers; then write off what the owner before us left in flight, before we listen."""
        while not stopping.is_set():
            try:
                await store.beat(self._instance, LEASE_MS)
                await reconciler.unspool()  # First: what the dead saw and wrote down is not unknown.
                for dead in self._dead(spool):
                    await store.bury(dead)
                while await reconciler.round():
                    pass
                spool.write_instance(self._instance)
                spool.forget_dead()
                if self._embedded is not None:
                    self._embedded.write_instance(self._instance)
            except StoreUnavailable as gone:
                _log.warning("waiting for the store", store=self.config.store.url.shown, why=str(gone)[:64])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), 1.0)
            else:
                return

    def _store_timed(self, op: str, seconds: float) -> None:
        self._metrics.store_seconds.labels(op).observe(seconds)

    # ── Listeners ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _listen_for_agents(
        self, stack: contextlib.AsyncExitStack, engine: Engine, upstream: UpstreamClient
    ) -> None:
        config = self.config
        limits = Limits(
            body_bytes=config.bounds.body_bytes,
            connections=config.bounds.connections,
            wait_ms=config.deadlines.answer_ms,
        )
        buffered = Buffered(config.bounds.buffered_bytes)
        own = {n: str(p.listen) for n, p in config.providers.items() if p.listen is not None and n in self._adapters}
        servers = []
        doors: list[tuple[str, str | None, Address | None]] = [("proxy", None, config.listen.proxy)]
        doors += [(f"providers.{n}", n, config.providers[n].listen) for n in own]
        for name, provider, address in doors:
            if address is None:
                continue
            handler = Handler(
                engine=engine,
                upstream=upstream,
                adapters=self._adapters,
                ways=Ways(self._adapters, provider, own),
                clock=self._clock,
                limits=limits,
                buffered=buffered,
                timed=self._metrics.proxy_seconds.observe,
            )
            server = AgentServer(handler, engine, limits)
            self.ports[name] = await server.listen(address.host, address.port)
            servers.append(server)
            if provider is not None:
                own[provider] = self._at(name, address)

        async def drain() -> None:
            self._health.draining = True
            await engine.drain(config.deadlines.drain_ms)
            await asyncio.gather(*(server.close(CLOSE_S) for server in servers))

        stack.push_async_callback(drain)

    @contextlib.asynccontextmanager
    async def _site(self, name: str, application: web.Application, address: Address) -> AsyncIterator[None]:
        async with site(application, address.host, address.port) as port:
            self.ports[name] = port
            yield

    async def _end_tasks(self) -> None:
        """End the loops at once; what was shown to have arrived is still recorded."""
        self._loops.cancel()
        await self._loops.drain(CLOSE_S)
        await self._tasks.drain(CLOSE_S)
        self._tasks.cancel()
        await self._tasks.drain(CLOSE_S)

    # ── Tokens and the greeting ───────────────────────────────────────────────────────────────────────────────────────

    def _tokens(self) -> Tokens:
        known = [
            (token.name, token.role == "operator", secret.reveal())
            for token in self.config.admin.tokens
            for secret in token.token
        ]
        if not known:
            folder = Path(self.config.store.url.folder or Path(self.config.state.spool).parent)
            private_folder(folder)
            self._token_path = folder / "admin.token"
            known = [("operator", True, secret_text(self._token_path))]
        return Tokens(known)

    def _at(self, name: str, address: Address) -> str:
        """Return where a listener is: its port is the one that it got, where the configuration leaves it open."""
        return str(structs.replace(address, port=self.ports.get(name, address.port)))

    def _base(self) -> str:
        """Return our address for agents; "" where there is none."""
        address = self.config.listen.proxy
        return f"http://{self._at('proxy', address)}" if address is not None else ""

    def _greet(self) -> None:
        """Say where everything is, one line an SDK."""
        listen, store = self.config.listen, self.config.store
        own = {
            n: self._at(f"providers.{n}", p.listen)
            for n, p in self.config.providers.items()
            if p.listen is not None and n in self._adapters
        }
        base = self._base()
        where = f" on {base}" if base else ""
        self._say(f"Doubtless is ready{where}, ledger {store.ledger}, store {store.url.shown}")
        ways = Ways(self._adapters, None, own)
        for name, adapter in self._adapters.items():
            for sdk, line in adapter.doc.provider.sdk_lines.items():
                if (base or "{base}" not in line) and (name in own or "{port}" not in line):
                    self._say(f"  {sdk:<26} {ways.line(line, base, name)}")
        if listen.admin is not None:
            token = f"   token: {self._token_path} (mode 0600)" if self._token_path is not None else ""
            self._say(f"  {'operators':<26} http://{self._at('admin', listen.admin)}{token}")
        if listen.health is not None:
            self._say(f"  {'probes and metrics':<26} http://{self._at('health', listen.health)}/readyz /metrics")


async def serve(config: Config) -> None:
    """Run a standalone sidecar until a signal to stop."""
    logs.set_up(config.log.level, config.log.format)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Nothing is read again yet; its default would end us without a drain.
    await App(config).run(stopping)


def _state_key(text: str) -> bytes:
    key = key_bytes(text)
    assert key is not None, "the configuration has checked it, and the embedded store made it"
    return key
