"""The folder of an embedded store: who owns it, what it keeps, and who may write its append-only file.

Two locks tell what numbers of processes cannot. `owner.lock` is held by the product: who gets it knows that the owner
before is dead. `server.lock` is held by the server and its keeper: who gets it knows that no server has the folder.
"""

import base64
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from proxy.edges.files import lock, private_folder, write_whole
from proxy.edges.filesystem import FORGETS
from proxy.edges.keeper import PATIENCE_S

SOCKET_PATH_MAX: Final = 100  # sun_path is 104 bytes on macOS and 108 on Linux, with a zero at the end.
_SOCKET: Final = "store.sock"
_ORPHAN_ENDS_S: Final = 2 * PATIENCE_S
_log = structlog.get_logger(__name__)


class EmbeddedError(Exception):
    """The embedded store cannot be had; the text is one sentence for a person."""


class FolderRefused(EmbeddedError):
    """The folder is in use, forgets, or cannot be used: the configuration has to change."""


class ServerFailed(EmbeddedError):
    """The server did not start, or did not end."""


def socket_of(folder: Path) -> Path:
    """Return where the server of a folder listens, if it runs."""
    noted = folder.absolute() / "socket"
    return Path(os.fsdecode(noted.read_bytes())) if noted.exists() else noted.with_name(_SOCKET)


class Folder:
    """A folder that is ours from `take` to `leave`.

    `previous_instance` is what the owner before wrote by `write_instance`; that process is dead.
    """

    def __init__(self, path: Path, *, allow_ephemeral: bool, filesystem: Callable[[Path], str]) -> None:
        self.path = path
        self.previous_instance: str | None = None
        self._allow_ephemeral = allow_ephemeral
        self._filesystem = filesystem
        self._owner_lock: int | None = None

    def take(self) -> None:
        """Make the folder ours. Raises FolderRefused, where nothing is changed but that the folder is there."""
        kind = self._filesystem(self.path)
        if kind in FORGETS and not self._allow_ephemeral:
            raise FolderRefused(
                f"The store's folder {self.path} is on {kind}, which forgets acknowledged records: let store.url name "
                "one on a disk that lasts (in a container: a volume), or set store.allow_ephemeral = true to risk it."
            )
        try:
            private_folder(self.path)
            self._owner_lock = lock(self.path / "owner.lock")
            instance = self.path / "instance"
            self.previous_instance = instance.read_text("utf-8") if instance.exists() else None
        except OSError as error:
            raise FolderRefused(f"The store's folder {self.path} cannot be used: {error.strerror}.") from error
        if self._owner_lock is None:
            raise FolderRefused(
                f"The store's folder {self.path} is in use by another process of doubtless: stop that one, or let "
                "store.url name another folder."
            )

    def leave(self) -> None:
        """Let others have the folder."""
        if self._owner_lock is not None:
            os.close(self._owner_lock)
            self._owner_lock = None

    @property
    def ours(self) -> bool:
        """Do we hold the folder?"""
        return self._owner_lock is not None

    def write_instance(self, instance: str) -> None:
        """Say who owns the folder now, for the owner after us."""
        self._must_be_ours()
        write_whole(self.path / "instance", instance.encode())

    def secret(self, name: str) -> str:
        """Return the text of a file of 32 random bytes in base64url, mode 0600; made where it is absent."""
        self._must_be_ours()
        path = self.path / name
        if not path.exists():
            write_whole(path, base64.urlsafe_b64encode(secrets.token_bytes(32)) + b"\n")
        elif path.stat().st_mode & 0o077:
            path.chmod(0o600)
        return path.read_text("ascii").strip()

    def choose_socket(self) -> Path:
        """Return where the server listens: in the folder; where that path is too long, in a private one made for it.

        `socket` in the folder says then where that is, for whoever has to end an orphan.
        """
        self.forget_socket()
        if len(os.fsencode(self.path / _SOCKET)) <= SOCKET_PATH_MAX:
            return self.path / _SOCKET
        elsewhere = Path(tempfile.mkdtemp(prefix="doubtless-")) / _SOCKET
        write_whole(self.path / "socket", os.fsencode(elsewhere))
        _log.info("the path of the store's folder is too long for a socket: it is elsewhere", socket=str(elsewhere))
        return elsewhere

    def forget_socket(self) -> None:
        """Remove the socket of a server that is gone, wherever it was."""
        path = self._socket()
        path.unlink(missing_ok=True)
        if path.parent != self.path:
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        (self.path / "socket").unlink(missing_ok=True)

    def server_lock(self) -> int:
        """Return the lock that says that no server has the folder; one that a dead owner left is ended before.

        Its keeper is ending it already, unless that was killed too. So it is asked, then told, then killed.

        Raises:
            ServerFailed: it does not end, or cannot be told from a stranger's process.
        """
        deadline = time.monotonic() + _ORPHAN_ENDS_S
        steps = iter((self._ask_orphan, lambda: self._signal_orphan(signal.SIGTERM)))
        while (held := lock(self.path / "server.lock")) is None:
            next(steps, lambda: None)()
            if time.monotonic() > deadline:
                self._signal_orphan(signal.SIGKILL)
            if time.monotonic() > deadline + 1:
                raise ServerFailed(
                    f"A server that a dead process left has the store's folder {self.path} and does not end: end it by "
                    "hand; its process ID is in server.pid."
                )
            time.sleep(0.05)
        return held

    def _ask_orphan(self) -> None:
        _log.warning("a server that a dead process left has the store's folder: it is ended and replaced")
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1)
            line.connect(str(self._socket()))
            line.sendall(b"SHUTDOWN NOSAVE\r\n")
            line.recv(64)

    def _signal_orphan(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError, ValueError):
            process = int((self.path / "server.pid").read_text("ascii"))
            if self._works_here(process):
                os.kill(process, number)

    def _works_here(self, process: int) -> bool:
        """Is that number the server's still? By its working directory, or its title, which names its socket."""
        place = Path("/proc") / str(process) / "cwd"
        if place.exists():
            return place.resolve() == self.path.resolve()
        ask = ["ps", "-o", "command=", "-p", str(process)]
        title = subprocess.run(ask, capture_output=True, text=True, check=False)  # noqa: S603 -- Fixed words, a number.
        return str(self._socket()) in title.stdout

    def _socket(self) -> Path:
        return socket_of(self.path)

    def _must_be_ours(self) -> None:
        assert self.ours, "the folder is another's until it is taken"
