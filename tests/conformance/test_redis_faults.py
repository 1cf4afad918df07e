"""A server that refuses, that stands still, or that turns out to be another one. On Redis and on Valkey."""

import shutil
from collections.abc import Iterator

import pytest

from proxy.edges.store.topology import SingleShard
from proxy.ports import StoreUnavailable
from tests.conformance.redis_bench import RedisBench
from tests.conformance.server import Server, running, valkey_binary
from tests.conformance.store_suite_commit import done
from tests.conformance.store_suite_limits import room
from tests.fakes.actions import action_id, change, creation, make_action


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that the test may ill-treat."""
    with running(shutil.which("redis-server") if request.param == "redis" else valkey_binary()) as server:
        yield server


async def test_a_primary_that_was_demoted_is_named_and_left_and_nothing_is_written(
    bench: RedisBench, server: Server
) -> None:
    class Watched(SingleShard):
        """Counts how often it was given up."""

        lost_times = 0

        async def lost(self) -> None:
            self.lost_times += 1
            await super().lost()

    shard = Watched(server.url)
    store = bench.instance(shard)
    first = creation(make_action(1))
    await store.commit(first)
    before = await bench.contents()

    server.tell("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(StoreUnavailable, match="a replica: it cannot be written"):
        await store.commit(change(first))
    assert await bench.contents() == before
    assert shard.lost_times == 2, "before it is asked once more, and after it has refused again"

    server.tell("REPLICAOF", "NO", "ONE")
    assert done(await store.commit(change(first))).version == 2


async def test_a_full_server_is_said_to_be_full_and_nothing_is_half_written(bench: RedisBench, server: Server) -> None:
    first = creation(make_action(1), scope="s", reserve=(room(60),))
    await bench.store.commit(first)
    before = await bench.contents()

    server.tell("CONFIG", "SET", "maxmemory", "1")
    for slip in (creation(make_action(2), scope="s2", reserve=(room(30),), keep={"request": b"x"}), change(first)):
        with pytest.raises(StoreUnavailable, match="memory is full"):
            await bench.store.commit(slip)
    assert await bench.contents() == before

    server.tell("CONFIG", "SET", "maxmemory", "0")
    assert done(await bench.store.commit(change(first))).version == 2


async def test_what_a_server_that_stood_still_executes_late_is_applied_once(bench: RedisBench, server: Server) -> None:
    store = bench.instance(SingleShard(server.url, answer_s=0.2))
    warm = done(await store.commit(creation(make_action(1))))
    slip = creation(make_action(2), scope="s", reserve=(room(60),))

    server.pause()
    with pytest.raises(StoreUnavailable, match="TimeoutError"):
        await store.commit(slip)
    server.resume()

    again = done(await store.commit(slip))
    assert (again.version, again.sequence) == (1, warm.sequence + 1)
    assert await bench.store.get(action_id(2)) is not None
    assert (await bench.store.limit_use([room(0)]))[0].reserved == 60
