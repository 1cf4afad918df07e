"""`doubtless serve` in a process of its own, before a stand-in in the test: for signals, crashes, and its log."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from proxy.edges.clock import SystemClock
from proxy.edges.standin import Listener, StandIn
from tests.app.bench import Bench, settings
from tests.app.line import PATIENCE_S

ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = (sys.executable, "-c", "from proxy.cli import main; main()")
CONFIG: Final = '[log]\nlevel = "debug"\nformat = "json"\n'
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR")


def environ(more: dict[str, str]) -> dict[str, str]:
    """Return the environment of a command of ours: none of the developer's own settings, nor of a proxy's."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"PYTHONPATH": str(ROOT)} | more


class Process:
    """One `doubtless` that runs. What it prints is kept in files; only what we started is ever signalled."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, more: dict[str, str], *, code: str = "") -> None:
        """`code` runs before the command, in its process."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "stderr.log"
        with self._log.open("ab") as log:
            self._log_from = log.tell()
            self._process = subprocess.Popen(
                [*COMMAND[:-1], f"{code}\n{COMMAND[-1]}", *arguments],
                cwd=folder,
                env=environ(more),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.printed: list[str] = []

    @property
    def log(self) -> str:
        """What it wrote to stderr, so far."""
        return self._log.read_text("utf-8")[self._log_from :]

    async def until_printed(self, mark: str) -> None:
        """Return once a line with the mark was printed. Raises AssertionError where it ended first."""

        def read() -> bool:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self.printed.append(line.rstrip("\n"))
                if mark in line:
                    return True
            return False

        reading = asyncio.get_running_loop().run_in_executor(None, read)
        done, _ = await asyncio.wait({reading}, timeout=PATIENCE_S)
        if not done:
            self._process.kill()
        assert await reading, f"it ended, or was silent:\n{self.log}"
        assert done, f"it was silent:\n{self.log}"

    async def until_logged(self, holds: Callable[[str], bool]) -> None:
        """Return once its log is as it should be."""
        async with asyncio.timeout(PATIENCE_S):
            while not holds(self.log):
                await asyncio.to_thread(self._log.stat)

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to this process alone."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Wait until it has ended; its exit code, negative for a signal."""
        async with asyncio.timeout(PATIENCE_S):
            code = await asyncio.to_thread(self._process.wait, PATIENCE_S)
        if self._process.stdout is not None and not self._process.stdout.closed:
            self.printed += self._process.stdout.read().splitlines()
            self._process.stdout.close()
        return code

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        self.tell(number)
        return await self.ended()

    async def tidy(self) -> None:
        """End it in any case."""
        if self._process.poll() is None:
            self._process.kill()
        await self.ended()


class Served(Bench):
    """A sidecar in a process of its own. `code` runs in it before all. `standin`: another bench's, who rules it."""

    def __init__(
        self, folder: Path, more: dict[str, str] | None = None, *, code: str = "", standin: StandIn | None = None
    ) -> None:
        listen = (Listener("stripe"), Listener("resend"))
        self.standin = standin or StandIn(clock=SystemClock().wall_ms, listen=listen)
        self._rules = standin is None
        self.folder = folder
        self.more = more or {}
        self.code = code
        self.process: Process | None = None
        self._ports: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        if self._rules:
            await self.standin.start()
        try:
            await self.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if self.process is not None:
                await self.process.tidy()
        finally:
            if self._rules:
                await self.standin.stop()

    @property
    def ports(self) -> dict[str, int]:
        """See Bench."""
        return self._ports

    def launch(self, **more: str) -> Process:
        """Start `serve` on the folder, whatever runs there, and do not wait for it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "doubtless.toml").write_text(CONFIG, "utf-8")
        env = settings(self.folder, self.standin, self.more | more)
        return Process(("serve", "--config", "doubtless.toml"), self.folder, env, code=self.code)

    async def start(self, **more: str) -> Process:
        """Start it and wait until it is ready."""
        self.process = self.launch(**more)
        await self.process.until_printed("probes and metrics")
        self._ports = ports_of(self.process.printed)
        return self.process


def ports_of(printed: list[str]) -> dict[str, int]:
    """Read the greeting: it says where everything is."""
    text = "\n".join(printed)
    patterns = {
        "proxy": r"ready on http://127\.0\.0\.1:(\d+)",
        "admin": r"operators +http://127\.0\.0\.1:(\d+)",
        "health": r"probes and metrics +http://127\.0\.0\.1:(\d+)",
        "providers.stripe": r"port: (\d+)",
    }
    found = {name: re.search(pattern, text) for name, pattern in patterns.items()}
    return {name: int(match[1]) for name, match in found.items() if match is not None}
