"""`serve`: an instance with doors for agents (CONTRACT 5)."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from proxy.app.instance import CLOSE_S, Instance
from proxy.app.running import print_now
from proxy.config import Address, Config
from proxy.edges.agents import AgentServer, Handler, Limits, Ways
from proxy.edges.agents.reading import Buffered
from proxy.edges.upstream import UpstreamClient
from proxy.engine import Engine


class App(Instance):
    """One sidecar: proxy, reconciler, admin and health in one process."""

    def __init__(self, config: Config, say: Callable[[str], None] = print_now) -> None:
        super().__init__(config, say)

    async def open_doors(self, stack: contextlib.AsyncExitStack, engine: Engine, upstream: UpstreamClient) -> None:
        """Listen for agents: the proxy port, and those of providers."""
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
                own[provider] = self.at(name, address)

        async def drain() -> None:
            self._health.draining = True
            await engine.drain(config.deadlines.drain_ms)
            await asyncio.gather(*(server.close(CLOSE_S) for server in servers))

        stack.push_async_callback(drain)

    def base(self) -> str:
        """Return our address for agents; "" where there is none."""
        address = self.config.listen.proxy
        return f"http://{self.at('proxy', address)}" if address is not None else ""

    def greeting(self) -> Iterator[str]:
        """Say where agents find us, one line an SDK."""
        store, base = self.config.store, self.base()
        own = {
            n: self.at(f"providers.{n}", p.listen)
            for n, p in self.config.providers.items()
            if p.listen is not None and n in self._adapters
        }
        where = f" on {base}" if base else ""
        yield f"Doubtless is ready{where}, ledger {store.ledger}, store {store.url.shown}"
        ways = Ways(self._adapters, None, own)
        for name, adapter in self._adapters.items():
            for sdk, line in adapter.doc.provider.sdk_lines.items():
                if (base or "{base}" not in line) and (name in own or "{port}" not in line):
                    yield f"  {sdk:<26} {ways.line(line, base, name)}"
