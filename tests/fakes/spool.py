"""A Spool in memory, whose disk a test may fill or break."""

from proxy.ports import Observation, SpoolFull
from tests.fakes.fuse import Fuse


class MemorySpool:
    """The Spool port. `full` and `broken` are what a test makes of its disk."""

    def __init__(self) -> None:
        self.full = False
        self.broken = False
        self.kept: list[Observation] = []
        self.fuse = Fuse()

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, observation: Observation) -> None:
        """See the port."""
        self.fuse.touch("spool.add")
        self.check()
        self.kept.append(observation)

    def pending(self) -> list[Observation]:
        """See the port."""
        return list(self.kept)

    def taken(self, count: int) -> None:
        """See the port."""
        assert 0 <= count <= len(self.kept)
        if self.broken:
            raise OSError("the disk is gone")
        del self.kept[:count]

    def check(self) -> None:
        """See the port."""
        if self.full:
            raise SpoolFull("the spool is full")
        if self.broken:
            raise OSError("the disk is gone")
