"""The simulation finds bugs: each of these is made in the product on purpose, and found, and by what should find it."""

import pytest

from tests.simulation.bugs import BUGS, Bug
from tests.simulation.world import run

SEEDS_MOST = 1_000  # The first of those that are green without any bug.


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_found_by_what_must_hold(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.make(monkeypatch)
    found = next((one.broken for seed in range(1, SEEDS_MOST + 1) if (one := run(seed)).broken is not None), None)
    assert found is not None, f"{SEEDS_MOST} seeds, and nothing found"
    assert found.partition(":")[0] in bug.found_by
