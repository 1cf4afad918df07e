"""Identifiers that count up: every run of a test has the same."""

import itertools


class CountingEntropy:
    """The Entropy port."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def action_id(self, now_ms: int) -> str:
        """See the port: the time, then a number instead of chance."""
        return f"{now_ms >> 16:08x}-{now_ms & 0xFFFF:04x}-7000-8000-{next(self._numbers):012x}"

    def token(self) -> str:
        """See the port."""
        return f"{next(self._numbers):016x}"
