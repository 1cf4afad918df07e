"""What was seen of an action while the store could not be written, until the store has taken it."""

from collections import deque
from typing import Final

from proxy.ports import Observation, Spool, SpoolFull

LOOSE_MOST: Final = 1024  # A spool that takes nothing lets nothing be dispatched either: these were in flight then.


class Notebook:
    """Observations on disk, and `loose` ones, which the disk refused: they live as long as this process."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self.loose: deque[Observation] = deque(maxlen=LOOSE_MOST)

    def note(self, observation: Observation) -> bool:
        """Keep an observation; False where it does not outlive this process."""
        try:
            self._spool.add(observation)
        except (SpoolFull, OSError):
            self.loose.append(observation)
            return False
        return True
