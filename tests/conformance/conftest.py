"""Servers for the whole session; the suite's assertions explain themselves like those of any test."""

import shutil
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.redis_bench import RedisBench
from tests.conformance.server import PATIENCE_S, Server, free_port, running, valkey_binary

pytest.register_assert_rewrite(*(f"tests.conformance.{p.stem}" for p in Path(__file__).parent.glob("store_suite*.py")))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """Debian's redis-server, or whatever else is on PATH."""
    with running(shutil.which("redis-server")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """The server that an embedded store runs."""
    with running(valkey_binary()) as server:
        yield server


@pytest.fixture(scope="session")
def cluster_server() -> Iterator[Server]:
    """A cluster of one node that owns every slot: it refuses commands whose keys have not one hash tag."""
    bus = ("--port", str(free_port()), "--cluster-port", str(free_port()))
    with running(valkey_binary(), "--bind", "127.0.0.1", "--cluster-enabled", "yes", *bus) as server:
        assert server.tell("CLUSTER", "ADDSLOTSRANGE", "0", "16383") == b"+OK\r\n"
        patience_until = time.monotonic() + PATIENCE_S
        while b"cluster_state:ok" not in server.tell("CLUSTER", "INFO"):  # It waits two seconds before it serves.
            assert time.monotonic() < patience_until
        yield server


@pytest.fixture
async def bench(server: Server) -> AsyncIterator[RedisBench]:
    """A ledger of its own on the module's `server`."""
    bench = RedisBench(server.url)
    yield bench
    await bench.close()
