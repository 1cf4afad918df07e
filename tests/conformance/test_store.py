"""Every Store there is, asked the same questions."""

import itertools
import os
from collections.abc import AsyncIterator, Callable

import pytest

from tests.conformance.bench import MemoryBench
from tests.conformance.redis_bench import RedisBench
from tests.conformance.server import Server
from tests.conformance.store_suite import StoreConformance

Benches = AsyncIterator[Callable[[], RedisBench]]
_ledgers = itertools.count(1)


async def benches_on(server: Server) -> Benches:
    """Yield what makes a bench of a new ledger, and close them all."""
    made: list[RedisBench] = []

    def fresh() -> RedisBench:
        made.append(RedisBench(server.url, f"suite-{os.getpid()}-{next(_ledgers)}"))
        return made[-1]

    yield fresh
    for bench in made:
        await bench.close()


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def fresh(self) -> Callable[[], MemoryBench]:
        return MemoryBench


class TestRedis(StoreConformance):
    @pytest.fixture
    async def fresh(self, redis_server: Server) -> Benches:
        async for fresh in benches_on(redis_server):
            yield fresh


class TestValkey(StoreConformance):
    @pytest.fixture
    async def fresh(self, valkey_server: Server) -> Benches:
        async for fresh in benches_on(valkey_server):
            yield fresh


class TestValkeyCluster(StoreConformance):
    @pytest.fixture
    async def fresh(self, cluster_server: Server) -> Benches:
        async for fresh in benches_on(cluster_server):
            yield fresh
