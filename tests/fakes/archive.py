"""An archive in memory."""

import errno
import os
from collections.abc import Sequence
from typing import Any

import msgspec


class ListArchive:
    """The Archive port. `refuses`: the disk is full."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.refuses = False

    async def append(self, lines: Sequence[bytes]) -> None:
        """See the port."""
        if self.refuses:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.lines += lines

    @property
    def actions(self) -> list[dict[str, Any]]:
        """What it holds, read."""
        return [msgspec.json.decode(line) for line in self.lines]
