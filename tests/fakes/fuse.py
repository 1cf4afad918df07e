"""Trouble at a chosen call over a port: an exception that no port allows for, unless a test says what else."""

from collections.abc import Callable


class Bug(Exception):
    """Nobody expects it: what a mistake of ours looks like from inside the engine."""


def bug(what: str) -> None:
    """Raise one."""
    raise Bug(what)


class Fuse:
    """Counts the calls that it is told of, and blows at one of them."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.blows_at: int | None = None  # Of `touched`, from 0.
        self.blown: str | None = None
        self.blow: Callable[[str], None] = bug
        self.lasts = False  # It blows at every call from then on.

    def touch(self, what: str) -> None:
        """Take note of a call; what follows is up to `blow`."""
        self.touched.append(what)
        if self.blows_at is None:
            return
        if len(self.touched) - 1 == self.blows_at:
            self.blown = what
        if self.blown is not None and (self.lasts or len(self.touched) - 1 == self.blows_at):
            self.blow(what)
