"""`make chaos SECONDS=60 SEED=…`: half of the time before a provider that keeps idempotency keys, half before one that
knows none. Exits 1 with the story of each violation."""

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import run


def main() -> int:
    """Run both halves; the exit code."""
    asked = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    asked.add_argument("--seconds", type=float, default=60)
    asked.add_argument("--seed", type=int, default=None)
    asked.add_argument("--agents", type=int, default=12)
    given = asked.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    sys.stdout.write(
        f"chaos: seed {seed}, {given.seconds:g} s (again: make chaos SECONDS={given.seconds:g} SEED={seed})\n"
    )
    wrong = 0
    for idempotency in (True, False):
        with tempfile.TemporaryDirectory(prefix="dl-chaos-") as folder:
            halves = run(
                Path(folder), seconds=given.seconds / 2, seed=seed, idempotency=idempotency, agents=given.agents
            )
            result = asyncio.run(halves)
        sys.stdout.write("\n".join([*result.lines(), *result.violations, *result.bugs]) + "\n")
        sys.stdout.flush()
        wrong += len(result.violations) + len(result.bugs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
