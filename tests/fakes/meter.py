"""A Meter that counts in words."""

from collections import Counter

from proxy.core.events import Moment
from proxy.core.model import Action
from tests.fakes.fuse import Fuse


class TallyMeter:
    """The Meter port: how often what happened, under one name each."""

    def __init__(self, fuse: Fuse | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self._fuse = fuse or Fuse()

    def _count(self, method: str, name: str) -> None:
        self._fuse.touch(f"meter.{method}")
        self.counts[name] += 1

    def action(self, action: Action) -> None:
        """See the port."""
        cause = f" {action.cause.value}" if action.cause is not None else ""
        self._count("action", f"action {action.status.value}{cause}")

    def blocked(self, action: Action) -> None:
        """See the port."""
        self._count("blocked", "blocked")

    def stored_answer(self, provider: str) -> None:
        """See the port."""
        self._count("stored_answer", "stored answer")

    def readback(self, provider: str, result: str) -> None:
        """See the port."""
        self._count("readback", f"read-back {result}")

    def settled(self, action: Action, moment: Moment) -> None:
        """See the port."""
        self._count("settled", f"settled {action.settled_by.source.value if action.settled_by else '?'}")

    def upstream(self, provider: str, seconds: float) -> None:
        """See the port."""
        self._count("upstream", "upstream")

    def late(self, provider: str) -> None:
        """See the port."""
        self._count("late", "late")
