"""A process of one instance, until a signal ends it."""

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

from proxy.config import Config
from proxy.edges import logs


class Runs(Protocol):
    """An instance of some kind."""

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until `stopping` is set, then drain."""
        ...


def print_now(line: str) -> None:
    """Print a line, also where somebody waits for it at the other end of a pipe."""
    print(line, flush=True)  # noqa: T201  # What `serve` tells its user.


async def run(kind: Callable[[Config], Runs], config: Config) -> None:
    """Run an instance of that kind until a signal to stop. Raises what it cannot start with."""
    logs.set_up(config.log.level, config.log.format)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Nothing is read again yet; its default would end us without a drain.
    await kind(config).run(stopping)
