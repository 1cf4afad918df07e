"""A sidecar for each module, as the module's SETTINGS have it, on the loop that the product runs on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import pytest_asyncio
import uvloop

from tests.app.rig import Rig

LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The product runs on uvloop where there is one; modules that speak of sockets run on both."""
    del config
    names = getattr(getattr(item, "module", None), "LOOPS", ("uvloop",))
    return {name: LOOPS[name] for name in names}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """The module's sidecar."""
    folder = tmp_path_factory.mktemp("rig")
    for name, text in getattr(request.module, "FILES", {}).items():
        (folder / name).write_text(text, "utf-8")
    async with Rig(folder, getattr(request.module, "SETTINGS", {})) as rig:
        yield rig


@pytest.fixture
def rig(shared: Rig) -> Rig:
    """The module's sidecar, before a stand-in that knows nothing yet."""
    shared.standin.reset()
    return shared
