"""A stand-in for each test, a clock that the test moves, and clients that show every byte."""

from collections.abc import AsyncIterator

import pytest
from standin_client import Client, Hands

from proxy.edges.standin import StandIn


@pytest.fixture
def hands() -> Hands:
    """A clock that stands still until a test moves it."""
    return Hands()


@pytest.fixture
async def standin(hands: Hands) -> AsyncIterator[StandIn]:
    """A stand-in that listens."""
    async with StandIn(clock=hands, token="f00ba4a2") as standin:
        yield standin


@pytest.fixture
async def stripe(standin: StandIn) -> AsyncIterator[Client]:
    """A client that speaks to Stripe with a test key."""
    client = Client(standin.port("stripe"), secret="sk_test_mine")
    yield client
    client.close()


@pytest.fixture
async def resend(standin: StandIn) -> AsyncIterator[Client]:
    """A client that speaks to Resend with a full-access key."""
    client = Client(standin.port("resend"), secret="re_full")
    yield client
    client.close()
