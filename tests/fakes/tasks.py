"""A Spawner that holds its tasks and what they failed of, for a test to see."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.fakes.fuse import Fuse

T = TypeVar("T")


class HeldTasks:
    """The Spawner port."""

    def __init__(self, fuse: Fuse | None = None) -> None:
        self.running: set[asyncio.Task[Any]] = set()
        self.failures: list[BaseException] = []
        self._fuse = fuse or Fuse()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """See the port."""
        try:
            self._fuse.touch(f"spawn {name}")
        except BaseException:
            work.close()
            raise
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def end(self) -> None:
        """Cancel what still runs, and wait until it has ended: the process is over."""
        for task in self.running:
            task.cancel()
        if self.running:
            await asyncio.wait(self.running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.failures.append(failure)
