"""What every instance of ours is made of: the store, engine and reconciler, pages for operators and probes."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from msgspec import structs

from proxy.app.ledger import Ledger
from proxy.app.parts import adapter_paths, engine_settings, limits_of, origins_of, types_of
from proxy.app.surroundings import look_around, token_path
from proxy.config import Address, Config
from proxy.core.checks import Check, Level
from proxy.edges import codings
from proxy.edges.adapter_files import load_all
from proxy.edges.admin import Admin, Tokens
from proxy.edges.archive import FileArchive
from proxy.edges.clock import SystemClock, SystemEntropy
from proxy.edges.files import private_folder, secret_text
from proxy.edges.health import Health
from proxy.edges.metrics import Metrics
from proxy.edges.sampler import Sampler
from proxy.edges.sites import site
from proxy.edges.spool import FileSpool
from proxy.edges.store.client import RedisStore
from proxy.edges.store.inspection import fingerprints
from proxy.edges.tasks import Tasks
from proxy.edges.upstream import UpstreamClient
from proxy.edges.vault import StateVault
from proxy.engine import Engine
from proxy.engine.retiring import Retirer
from proxy.reconciler import Reconciler

LEASE_MS: Final = 10_000
BEAT_MS: Final = 3_000
ROUND_MS: Final = 200
RETIRE_MS: Final = 60_000  # Each look is a write, if a small one; and sooner where actions are kept for minutes.
CLOSE_S: Final = 1.0
_log = structlog.get_logger(__name__)


class Instance:
    """One process on a ledger: it settles what is unknown, and shows it. A kind of instance adds its doors."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self.config = config
        self._say = say
        self._tasks = Tasks()
        self._loops = Tasks()  # What goes on for ever, apart from work that ends by itself.
        self._clock = SystemClock()
        self._instance = f"{socket.gethostname()[:40]}-{SystemEntropy().token()}"
        self._adapters = load_all(adapter_paths(config))
        self._metrics = Metrics(self._adapters, types_of(self._adapters))
        self._health = Health(self._metrics)
        self._token_path: Path | None = None
        self._warnings: list[str] = []
        self.ports: dict[str, int] = {}
        self.ready = asyncio.Event()

    # ── What a kind of instance adds ──────────────────────────────────────────────────────────────────────────────────

    async def open_doors(self, stack: contextlib.AsyncExitStack, engine: Engine, upstream: UpstreamClient) -> None:
        """Listen for those whom this kind serves. What the stack is given ends before engine and store do."""

    def base(self) -> str:
        """Return our address for agents; "" where there is none."""
        return ""

    def greeting(self) -> Iterator[str]:
        """Say what is ready, and where it is found."""
        raise NotImplementedError

    # ── From the first probe to the end ───────────────────────────────────────────────────────────────────────────────

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set, then drain. Raises Refused, EmbeddedError, OSError: it cannot start."""
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
        ledger = await Ledger.open(config, stack)
        vault = StateVault(ledger.keys)
        spool = FileSpool(config.state.spool)
        stack.callback(spool.close)
        stack.push_async_callback(ledger.shard.close)
        store = RedisStore(ledger.shard, config.store.ledger, self._clock, self._tasks, self._store_timed)
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
            settings=engine_settings(config, self._instance, LEASE_MS),
            decode=codings.undo,
        )
        stack.push_async_callback(self._end_tasks)
        reconciler = Reconciler(engine, vault, spool, self._tasks, self._instance)
        await ledger.first_beat(self._instance, LEASE_MS, fingerprints(vault), store, reconciler, spool, stopping)
        self._tell(ledger.checks)
        self._loops.spawn(self._look_around(), "checks")  # Beside the rest: a resolver may be slow.
        sampler = Sampler(store, self._metrics, self._adapters, limits_of(config), self._clock, spool)
        self._loops.spawn(reconciler.beat(BEAT_MS), "heartbeat")
        self._loops.spawn(reconciler.run(ROUND_MS), "reconciler")
        self._loops.spawn(sampler.run(), "sampler")
        self._loops.spawn(engine.pulse.run(), "pulse")
        every_ms = max(1_000, min(RETIRE_MS, config.state.keep_ms // 10))
        self._loops.spawn(self._retirer(store).run(every_ms), "retirer")
        if listen.admin is not None:
            admin = Admin(
                engine=engine,
                reconciler=reconciler,
                adapters=self._adapters,
                limits=limits_of(config),
                tokens=self._tokens(),
                proxy_base=self.base,
            )
            await stack.enter_async_context(self._site("admin", admin.application(), listen.admin))
        await self.open_doors(stack, engine, upstream)
        # Beside the drain of the doors, not before it: from the moment that probes say so nothing new is taken.
        stack.callback(lambda: self._tasks.spawn(reconciler.leave(config.deadlines.drain_ms), "leaving"))

    # ── What doctor would say ─────────────────────────────────────────────────────────────────────────────────────────

    async def _look_around(self) -> None:
        self._tell(await look_around(self.config))

    def _tell(self, checks: Iterable[Check]) -> None:
        """Say in the log what is not good; what is loud, in the greeting too."""
        for check in checks:
            if check.level is not Level.GOOD:
                tell = _log.error if check.level is Level.BAD else _log.warning
                tell(f"{check.what}: {check.level}", found=check.found, do=check.do)
            if check.loud:
                self._warnings.append(f"  WARNING: {check.what}: {check.found}. {check.do}")

    def _retirer(self, store: RedisStore) -> Retirer:
        state = self.config.state
        return Retirer(
            store,
            self._adapters,
            FileArchive(state.archive) if state.archive is not None else None,
            instance=self._instance,
            keep_ms=state.keep_ms,
            keep_scopes_ms=state.keep_scopes_ms,
        )

    def _store_timed(self, op: str, seconds: float) -> None:
        self._metrics.store_seconds.labels(op).observe(seconds)

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
            self._token_path = token_path(self.config)
            private_folder(self._token_path.parent)
            known = [("operator", True, secret_text(self._token_path))]
        return Tokens(known)

    def _greet(self) -> None:
        """Say where everything is."""
        listen = self.config.listen
        for line in (*self._warnings, *self.greeting()):
            self._say(line)
        if listen.admin is not None:
            token = f"   token: {self._token_path} (mode 0600)" if self._token_path is not None else ""
            self._say(f"  {'operators':<26} http://{self.at('admin', listen.admin)}{token}")
        if listen.health is not None:
            self._say(f"  {'probes and metrics':<26} http://{self.at('health', listen.health)}/readyz /metrics")

    def at(self, name: str, address: Address) -> str:
        """Return where a listener is: its port is the one that it got, where the configuration leaves it open."""
        return str(structs.replace(address, port=self.ports.get(name, address.port)))
