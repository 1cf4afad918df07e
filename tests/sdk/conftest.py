"""A whole sidecar for each test, and the SDKs' module-wide settings put back after it."""

from collections.abc import Iterator

import pytest

from tests.sdk.clients_node import end_agent
from tests.sdk.fixtures import provider, sdk_modules, stage, staged, store, store_process

__all__ = ["provider", "sdk_modules", "stage", "staged", "store", "store_process"]


@pytest.fixture(autouse=True, scope="session")
def node_agent() -> Iterator[None]:
    """End the Node process that the tests share."""
    yield
    end_agent()
