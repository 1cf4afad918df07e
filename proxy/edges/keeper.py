"""The process that keeps the embedded store's server for as long as the product lives; it imports nothing of ours.

Why a process of its own: the server must end when the product is killed by SIGKILL, when nobody is left to say so.
What the kernel does tell, on Linux and macOS alike, is that the last writer of a pipe is gone. PR_SET_PDEATHSIG is
Linux only, follows the *thread* that forked, and is set after the fork, when the parent may be dead already. A watcher
beside the server would have to kill by a number that may belong to somebody else by then; the server's own parent
may not: a child keeps its number until it is waited for.

    python -I -S keeper.py LOCK_FD COMMAND…

Standard input is the pipe. A byte on it says that the server has answered: from then on it is started again when
it ends, were it by the OOM killer or by a service manager that signals the whole group while the product drains.
Before that the keeper ends as the server did. LOCK_FD is held by both: while the lock is held, one of them lives.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

PATIENCE_S = 10.0  # To end by itself; acknowledged writes are on the disk already, so SIGKILL loses none.
PAUSE_S = 0.5  # Between an end that was not asked for and the next start.


def main() -> int:
    """Keep the server; return its exit status."""
    lock, command = int(sys.argv[1]), sys.argv[2:]
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # We end with the pipe. SIG_IGN would be the server's too.
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    revive = False
    while True:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(lock,))  # noqa: S603 -- Our parent's words.
        while server.poll() is None:
            ready, _, _ = select.select([0, woken], [], [])
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 512)
            if 0 in ready:
                if not os.read(0, 512):
                    return end(server)
                revive = True
        said = os.read(0, 512) if select.select([0], [], [], PAUSE_S if revive else 0)[0] else None
        revive = revive or bool(said)
        if not revive or said == b"":
            return server.returncode & 0xFF


def end(server: "subprocess.Popen[bytes]") -> int:
    """End the server, by force where it does not end by itself; return its exit status."""
    server.terminate()
    try:
        return server.wait(PATIENCE_S) & 0xFF
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait() & 0xFF


if __name__ == "__main__":
    sys.exit(main())
