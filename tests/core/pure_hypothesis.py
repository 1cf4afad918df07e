"""How the properties of the pure core are searched: the same examples on every run."""

from typing import Final

from hypothesis import settings

DETERMINED: Final = settings(derandomize=True, deadline=None, database=None, max_examples=100)
THOROUGH: Final = settings(DETERMINED, max_examples=250)
