"""Every Store there is, asked the same questions."""

from collections.abc import Callable

import pytest

from tests.conformance.bench import MemoryBench
from tests.conformance.redis_bench import Benches, benches_on
from tests.conformance.server import Server
from tests.conformance.store_suite import StoreConformance


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
