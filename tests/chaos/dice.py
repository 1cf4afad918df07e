"""Chance that can be had again: every choice comes from a seed, which is printed."""

from random import Random  # noqa: TID251  # Seeded here, and nowhere else.

__all__ = ["Random", "dice"]


def dice(seed: int, name: str) -> Random:
    """Return the dice of one who chooses: what the others choose, or how often, changes nothing of theirs."""
    return Random(f"{seed}:{name}")  # noqa: S311  # It chooses mishaps, not keys.
