"""A whole sidecar for each incident."""

import pytest

from tests.incidents.agent import Agent, agent_on
from tests.sdk.fixtures import provider, sdk_modules, stage, staged, store, store_process
from tests.sdk.stage import Stage

__all__ = ["provider", "sdk_modules", "stage", "staged", "store", "store_process"]


@pytest.fixture
def agent(stage: Stage) -> Agent:
    """An agent before it."""
    return agent_on(stage)
