"""What nothing needs any more goes from a real server too, and what must stay takes little room."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from proxy.core.records import Bucket, Period, Projection, Reservation, period_label
from proxy.edges.store.client import GRAVES
from proxy.ports import Retired
from tests.conformance.bench import DAY, HOUR, MINUTE
from tests.conformance.redis_bench import STONE, RedisBench
from tests.conformance.server import Server
from tests.conformance.store_suite_retiring import KEEP, SCOPES, first, leaving
from tests.fakes.actions import action_id, creation, make_action


@pytest.fixture(params=["redis", "valkey"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[RedisBench]:
    """A ledger on either server."""
    server: Server = request.getfixturevalue(f"{request.param}_server")
    bench = RedisBench(server.url)
    yield bench
    await bench.close()


async def test_the_graves_are_few_and_go_when_their_last_tombstone_is_over(bench: RedisBench) -> None:
    for number in range(1, 25):
        scope = f"s{number}"
        await bench.store.commit(first(number, Projection(settled=True), scope=scope))
        await bench.pass_time(KEEP)
        await bench.store.settled("i1", HOUR, KEEP, 1)
        assert await bench.store.retire([replace(leaving(number), scope=scope)], KEEP, SCOPES) == (action_id(number),)
        graves = [key async for key in bench.client.scan_iter(match=f"*{bench.ledger}*graves*")]
        assert 1 <= len(graves) <= GRAVES
    await bench.pass_time(SCOPES)
    await bench.store.settled("i1", HOUR, KEEP, 1)
    assert [key async for key in bench.client.scan_iter(match=f"*{bench.ledger}*graves*")] == []


async def test_where_no_grave_is_free_the_open_one_takes_more(bench: RedisBench) -> None:
    for number in range(1, 11):  # Each hour a grave has had its time, and nobody drops those that are over.
        slip = first(number, Projection(settled=True), scope=f"s{number}")
        await bench.store.commit(slip)
        await bench.pass_time(HOUR)
        left = await bench.store.retire([replace(leaving(number), scope=f"s{number}")], HOUR, 4 * HOUR)
        assert left == (action_id(number),)
        assert isinstance(await bench.store.commit(first(99, scope=f"s{number}")), Retired)
    graves = [key async for key in bench.client.scan_iter(match=f"*{bench.ledger}*graves*")]
    assert len(graves) == GRAVES


async def test_a_tombstone_takes_few_bytes_where_there_are_many(bench: RedisBench) -> None:
    many = 20_000
    for start in range(0, many, 2_000):
        numbers = range(start, start + 2_000)
        slips = [first(n, Projection(settled=True), scope=f"s{n}") for n in numbers]
        await asyncio.gather(*(bench.store.commit(slip) for slip in slips))
        old = [replace(leaving(n), scope=f"s{n}", aliases=()) for n in numbers]
        assert len(await bench.store.retire(old, 0, SCOPES)) == len(numbers)
    stones = 0
    async for _, row in bench.client.hscan_iter(bench.key("graves:1")):
        assert len(row) % STONE == 0
        stones += len(row) // STONE
    assert stones == many


async def test_what_a_limit_used_in_periods_long_over_goes_and_what_counts_stays(bench: RedisBench) -> None:
    for number, period in enumerate((Period.DAY, Period.MONTH, Period.TOTAL), start=1):
        used = Projection(bucket=Bucket.CONSUMED, settled=True)
        limit = Reservation(f"of|{period.value}", period, 100, 60)
        await bench.store.commit(creation(make_action(number), projection=used, reserve=(limit,)))
    old = {f"c|of|day|{label}": 1 for label in ("2020-01-01", "2024-02-29")} | {"c|of|month|2020-01": 1}
    await bench.client.hset(bench.key("limits"), mapping=old)
    for _ in range(3):
        await bench.store.settled("i1", HOUR, 40 * DAY, 1)
    left = {name.decode() for name in await bench.client.hkeys(bench.key("limits")) if name.startswith(b"c|")}
    now_ms = await bench.now_ms()
    assert left == {f"c|of|{period.value}|{period_label(period, now_ms)}" for period in Period}


async def test_an_instance_that_begins_clears_away_those_that_ended_long_ago(bench: RedisBench) -> None:
    for number in range(200):
        await bench.store.beat(f"old-{number}", MINUTE)
    await bench.pass_time(DAY + HOUR)
    await bench.store.beat("recent", MINUTE)
    await bench.pass_time(HOUR)
    await bench.store.beat("new", MINUTE)
    assert set(await bench.client.hkeys(bench.key("instances"))) == {b"recent", b"new"}
