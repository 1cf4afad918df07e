"""All chance of a run: one generator, seeded by the run's number. Whoever draws, draws here, in the run's order."""

from collections.abc import Mapping, Sequence
from random import Random  # noqa: TID251  # Seeded: the same number tells the same story.
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Draws."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311  # Nothing here is a secret.

    def happens(self, share: float) -> bool:
        """Does something happen that happens in this share of all cases?"""
        return self._random.random() < share

    def between(self, least: int, most: int) -> int:
        """Return a whole number, either end included."""
        return self._random.randint(least, most)

    def of(self, things: Sequence[T]) -> T:
        """Return one of these."""
        return things[self._random.randrange(len(things))]

    def weighted(self, shares: Mapping[T, float]) -> T:
        """Return one of these, each as often as its share says."""
        left = self._random.random() * sum(shares.values())
        for thing, share in shares.items():
            left -= share
            if left < 0:
                return thing
        return next(reversed(shares))
