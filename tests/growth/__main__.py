"""`make bench-growth`: what the store's operations cost with 1,000 and with 1,000,000 stored actions.

Both ledgers are on one server. The small one is filled by the product's own commits, three a refund as the engine
makes them; the large one by copies of what such commits wrote (see loading.py), which are first held against the
original. Then each operation is asked of both in turn, in blocks, in one run: what else the machine does meanwhile
meets both. Shown are the median of a round trip and the server's own time a call (INFO commandstats), and their ratios.
A figure, not a test: nothing here fails for being slow.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import click

from proxy.core.records import Filter
from proxy.edges.adapter_files import load_all
from proxy.engine.retiring import MOST, Retirer
from tests.conformance.redis_bench import RedisBench
from tests.conformance.server import running, valkey_binary
from tests.fakes.loop import VirtualLoop
from tests.growth.loading import Copier, differing
from tests.growth.refund import Refunds, index_name

FEW: Final = 1_000
OPEN: Final = 64  # Unknown actions in either ledger.
ONCE: Final = 500
BLOCK: Final = 50
SPREAD_MS: Final = 90 * 86_400_000  # The actions were made over `state.keep`.
DAY_MS: Final = 86_400_000
Ask = Callable[[], Awaitable[object]]


class Stage:
    """One ledger with so many settled actions."""

    def __init__(self, url: str, refunds: Refunds, actions: int) -> None:
        self.bench = RedisBench(url)
        self.store = self.bench.store
        self.refunds = refunds
        self.actions = actions
        self.now_ms = 0
        self._next = actions + OPEN

    async def fill(self, copier: Copier | None) -> None:
        """Commit every action as the engine would, or write copies of one."""
        self.now_ms = await self.bench.now_ms()
        for start in range(0, self.actions, ONCE):
            numbers = range(start, min(start + ONCE, self.actions))
            if copier is not None:
                copies = [copier.copy(number, self._made_ms(number)) for number in numbers]
                await copier.load(self.bench, copies, self.now_ms)
                continue
            rows = [self.refunds.slips(number, self._made_ms(number)) for number in numbers]
            for step in range(len(rows[0])):
                await asyncio.gather(*(self.store.commit(row[step]) for row in rows))
        for number in range(self.actions, self.actions + OPEN):
            (slip,) = self.refunds.slips(number, self._made_ms(number), unknown=True)
            await self.store.commit(slip)

    def _made_ms(self, number: int) -> int:
        return self.now_ms - SPREAD_MS + SPREAD_MS * number // (self.actions + OPEN)

    def operations(self) -> dict[str, Callable[[], Iterator[Ask]]]:
        """Return what is measured, by name; each gives one block of calls."""
        middle = self.refunds.slips(self.actions // 2, self._made_ms(self.actions // 2))[-1]
        store, ident = self.store, middle.action.identity

        def again(ask: Ask) -> Callable[[], Iterator[Ask]]:
            return lambda: (ask for _ in range(BLOCK))

        return {
            "begin (creating commit)": lambda: self._begin(),
            "finish (settling commit)": lambda: self._finish(),
            "claim 64 that are due": again(lambda: store.claim_due(0, OPEN)),
            "get": again(lambda: store.get(ident.action_id)),
            "find by scope": again(lambda: store.find("scope", middle.scope or self._scope())),
            "find by key": again(lambda: store.find("key", index_name(middle.after, "key"))),
            "list, the newest 50": again(lambda: store.page(Filter(), None, 50)),
            "list from the middle": again(lambda: store.page(Filter(), ident.action_id, 50)),
            "list, status=confirmed": again(lambda: store.page(Filter(status="confirmed"), None, 50)),
            "list, status=unknown": again(lambda: store.page(Filter(status="unknown"), None, 50)),
            "list, one event": again(lambda: store.page(Filter(event_id=ident.event_id), None, 50)),
            "beat": again(lambda: store.beat("i1", 60_000)),
            "bury": again(lambda: store.bury("i2")),
            "look what may retire": again(lambda: store.settled("i1", 60_000, 2 * SPREAD_MS, MOST)),
        }

    def _scope(self) -> str:
        return self.refunds.slips(self.actions // 2, self._made_ms(self.actions // 2))[0].scope

    def _begin(self) -> Iterator[Ask]:
        self._begun = [self.refunds.slips(self._next + n, self.now_ms + n) for n in range(BLOCK)]
        self._next += BLOCK
        return (lambda slip=slips[0]: self.store.commit(slip) for slips in self._begun)  # type: ignore[misc]

    def _finish(self) -> Iterator[Ask]:
        return (lambda slip=slips[1]: self.store.commit(slip) for slips in self._begun)  # type: ignore[misc]

    async def used_bytes(self) -> int:
        """Return what the server's data takes."""
        return int((await self.bench.client.info("memory"))["used_memory"])

    async def server_us(self) -> tuple[int, int]:
        """Return the server's time in commands so far, in microseconds, and how many there were."""
        stats = await self.bench.client.info("commandstats")
        ours = [
            stats[f"cmdstat_{n}"]
            for n in ("evalsha", "hget", "hmget", "zrangebylex", "zrevrangebylex")
            if f"cmdstat_{n}" in stats
        ]
        return sum(int(s["usec"]) for s in ours), sum(int(s["calls"]) for s in ours)


async def measure(stages: list[Stage], rounds: int) -> None:
    """Ask every operation of each ledger in turn, and print the table."""
    names = list(stages[0].operations())
    took: dict[str, list[list[float]]] = {name: [[] for _ in stages] for name in names}
    served: dict[str, list[list[float]]] = {name: [[] for _ in stages] for name in names}
    for number in range(rounds):
        for name in names:
            order = list(enumerate(stages))
            for at, stage in order if number % 2 else reversed(order):
                before = await stage.server_us()
                asks = stage.operations()[name]()
                for ask in asks:
                    start = time.perf_counter()
                    await ask()
                    took[name][at].append((time.perf_counter() - start) * 1e6)
                after = await stage.server_us()
                served[name][at].append((after[0] - before[0]) / BLOCK)
    few, many = (f"{stage.actions:,}" for stage in stages)
    click.echo(f"{'µs a call, p50':<28}{few:>11}{many:>11}  ratio {'server ' + few:>16}{many:>11}  ratio")
    for name in names:
        one, other = (statistics.median(values) for values in took[name])
        own, others = (statistics.median(values) for values in served[name])
        click.echo(
            f"{name:<28}{one:>11.0f}{other:>11.0f}{other / one:>7.2f} {own:>16.1f}{others:>11.1f}{others / own:>7.2f}"
        )


async def tried(url: str, refunds: Refunds, bench: RedisBench) -> Copier:
    """Return what copies, once a copy is what real commits write."""
    made_ms = await bench.now_ms()
    original, other = RedisBench(url), RedisBench(url)
    copier = await Copier.of(original, refunds, made_ms)
    for slip in refunds.slips(1, made_ms):
        await other.store.commit(slip)
    differences = await differing(copier.copy(1, made_ms), other)
    assert differences == [], differences
    for scratch in (original, other):
        await scratch.client.delete(*[key async for key in scratch.client.scan_iter(match=f"*{scratch.ledger}*")])
        await scratch.close()
    return copier


async def retired(stage: Stage) -> float:
    """Retire everything that is settled; how many a second."""
    retirer = Retirer(
        stage.store, load_all({"stripe": None}), None, instance="i1", keep_ms=0, keep_scopes_ms=400 * DAY_MS
    )
    start, gone = time.perf_counter(), 0
    while count := await retirer.round():
        gone += count
    return gone / (time.perf_counter() - start)


async def main(refunds: Refunds, actions: int, rounds: int, binary: str) -> None:
    """Fill, measure, empty."""
    with running(binary, "--appendonly", "no") as server:
        few, many = (Stage(server.url, refunds, count) for count in (FEW, actions))
        copier = await tried(server.url, refunds, few.bench)
        await few.fill(None)
        empty = await many.used_bytes()
        await many.fill(copier)
        full = await many.used_bytes()
        click.echo(f"{actions:,} settled actions, {(full - empty) / actions:,.0f} bytes each")
        await measure([few, many], rounds)
        before = await many.bench.client.info("memory")
        rate = await retired(many)
        after = await many.used_bytes()
        left = (after - empty) / actions
        click.echo(f"retired {rate:,.0f} a second; {int(before['used_memory']) - after:,} bytes came free")
        click.echo(
            f"a tombstone (of a scope, and of a key where the agent sent one): {left / 2:,.1f} bytes; two each here"
        )
        for stage in (few, many):
            await stage.bench.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--server", default=valkey_binary(), help="a redis-server or valkey-server")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        recorded = runner.run(Refunds.recorded())
    asyncio.run(main(recorded, given.actions, given.rounds, given.server))
