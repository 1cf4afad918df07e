"""Run the simulation: `python -m tests.simulation --seeds N --from S`, or one with its story: `--seed S --trace`."""

import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import click

from tests.simulation.world import run

CHUNK = 20


@click.command()
@click.option("--seeds", default=2000, help="How many.")
@click.option("--from", "first", default=1, help="The first.")
@click.option("--seed", type=int, help="Only this one.")
@click.option("--trace", is_flag=True, help="Tell its story.")
@click.option("--forgets", is_flag=True, help="With a store that loses what it had acknowledged.")
@click.option("--jobs", default=os.cpu_count() or 1, help="At once.")
def main(seeds: int, first: int, seed: int | None, trace: bool, forgets: bool, jobs: int) -> None:
    """Run seeds; 1 where an invariant was broken, with the command that replays it."""
    if seed is not None:
        one = run(seed, click.echo if trace else None, forgets=forgets)
        click.echo(f"seed {seed}: {one.broken or 'all held'}; digest {one.digest}")
        sys.exit(one.broken is not None)
    again = " --forgets" if forgets else ""
    began, tally, broken = time.monotonic(), Counter[str](), 0
    with ProcessPoolExecutor(jobs) as pool:
        for one in pool.map(partial(run, forgets=forgets), range(first, first + seeds), chunksize=CHUNK):
            tally.update(dict.fromkeys(one.tally, 1))
            if one.broken is not None:
                broken += 1
                click.echo(f"{one.broken}\n  replay: python -m tests.simulation --seed {one.seed} --trace{again}")
    took = time.monotonic() - began
    click.echo("\n".join(f"{count:7} runs  {name}" for name, count in sorted(tally.items())))
    click.echo(f"{seeds} seeds in {took:.0f} s, {seeds / took:.0f} a second; {broken} broken")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
