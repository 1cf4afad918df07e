"""The real App in the test's own event loop, before a stand-in."""

import asyncio
import ssl
from pathlib import Path
from typing import Self

from proxy.app import App
from proxy.config import Config, load
from proxy.edges.clock import SystemClock
from proxy.edges.standin import Listener, StandIn
from tests.app.bench import Bench, settings
from tests.app.line import PATIENCE_S


class Running:
    """An App that runs in this loop until it is stopped."""

    def __init__(self, config: Config) -> None:
        self.said: list[str] = []
        self.app = App(config, say=self.said.append)
        self._stopping = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self.app.run(self._stopping))

    async def ready(self) -> None:
        """Return once it is ready. Raises what it failed with."""
        ready = asyncio.get_running_loop().create_task(self.app.ready.wait())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()

    def begin_to_stop(self) -> None:
        """Say that it is to end, as a signal does."""
        self._stopping.set()

    async def stop(self) -> None:
        """Drain it and wait until it has ended."""
        self._stopping.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.shield(self._task)


class Rig(Bench):
    """One sidecar before one stand-in. `start` false: the test launches it. `standin`: another rig's, who rules it."""

    def __init__(
        self,
        folder: Path,
        more: dict[str, str] | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        start: bool = True,
        standin: StandIn | None = None,
    ) -> None:
        tls = () if ssl_context is None else (Listener("stripe", host="127.0.0.1", ssl=ssl_context),)
        listen = (Listener("stripe"), Listener("resend"), *tls)
        self.standin = standin or StandIn(clock=SystemClock().wall_ms, listen=listen)
        self._rules = standin is None
        self.folder = folder
        self.more = more or {}
        self._tls = ssl_context is not None
        self._started = start
        self.running: Running | None = None

    async def __aenter__(self) -> Self:
        if self._rules:
            await self.standin.start()
        try:
            if self._started:
                await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        finally:
            if self._rules:
                await self.standin.stop()

    def config(self) -> Config:
        """Return the configuration."""
        return load(None, settings(self.folder, self.standin, self.more, tls=self._tls))

    def launch(self) -> None:
        """Start the sidecar, and do not wait for it."""
        self.running = Running(self.config())

    async def ready(self) -> None:
        """Return once it is ready. Raises what it failed with."""
        assert self.running is not None
        await self.running.ready()

    async def start(self) -> None:
        """Start the sidecar, on the folder that is there."""
        self.launch()
        await self.ready()

    async def stop(self) -> None:
        """Stop the sidecar."""
        running, self.running = self.running, None
        if running is not None:
            await running.stop()

    async def has_health(self) -> bool:
        """Are there probes already? Lets the loop go on."""
        await asyncio.sleep(0)
        return "health" in self.ports

    @property
    def app(self) -> App:
        """The sidecar that runs now."""
        assert self.running is not None
        return self.running.app

    @property
    def ports(self) -> dict[str, int]:
        """See Bench."""
        return self.app.ports
