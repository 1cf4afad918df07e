"""A short run: processes are killed and stopped under load, and nothing is repeated, lost, or called what it is not."""

import asyncio
from pathlib import Path

import pytest

from tests.chaos.run import run

SECONDS, SEED, AGENTS = 5, 3, 6


@pytest.mark.needs("redis-server")
async def test_nothing_is_repeated_and_nothing_lost(tmp_path: Path) -> None:
    halves = [(name, name == "keeps-keys") for name in ("keeps-keys", "hides-nothing")]
    runs = [run(tmp_path / name, seconds=SECONDS, seed=SEED, idempotency=i, agents=AGENTS) for name, i in halves]

    for result in await asyncio.gather(*runs):
        assert result.violations + result.bugs == [], "\n".join(result.lines())
        assert sum(arrival.executed for arrival in result.evidence.arrivals) > 0
        assert {"sidecar killed", "sidecar stopped"} & set(result.mishaps), "a run without mishaps shows nothing"
