"""The archive: actions that have left the store, one JSON line each, in a file that others may move away."""

import asyncio
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from proxy.edges.files import private, sync, sync_folder


class FileArchive:
    """Appends to `state.archive`. The file is opened anew each time, so that logrotate may move it (no signal needed).

    Several processes may share it: each append holds the kernel's lock on the file.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()

    async def append(self, lines: Sequence[bytes]) -> None:
        """See the port."""
        await asyncio.to_thread(self._append, b"".join(line + b"\n" for line in lines))

    def _append(self, data: bytes) -> None:
        fd = private(str(self._path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # A crash cut the last line short; ours is none of it.
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(fd, rest) :]
                sync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
            if not size:
                sync_folder(self._path.parent)
        finally:
            os.close(fd)
