"""Every test here runs on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from tests.engine.rig import Pair, Rig
from tests.fakes.loop import VirtualLoop, virtual_loop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """pytest-asyncio's hook: the loops that tests of this folder run on."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """One ledger, one provider; replicas as the test makes them. Nothing may fail in their tasks unseen."""
    rig = Rig(virtual_loop().clock)
    yield rig
    failures = await rig.end()
    assert failures == []


@pytest.fixture(params=["on one replica", "on two replicas"])
def pair(request: pytest.FixtureRequest, rig: Rig) -> Pair:
    """Who gets the first request, and who the second."""
    first = rig.replica()
    return (first, first) if request.param == "on one replica" else (first, rig.replica())
