"""Tasks that somebody holds: the event loop itself keeps only weak references to them (asyncio's documentation)."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

T = TypeVar("T")
_log = structlog.get_logger(__name__)


class Tasks:
    """The background work of one owner: spawned, reported where it fails, drained, cancelled."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run the work in a task that is held until it ends.

        An exception that it ends with is logged once, by its type alone: its text may hold what is secret. Whoever
        awaits the task gets it too.
        """
        task = asyncio.create_task(work, name=name)  # noqa: TID251 -- Here it is held.
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def drain(self, timeout_s: float) -> int:
        """Wait until all work has ended, work that is spawned meanwhile included; return how much has not in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self._waited_for and (left := deadline - loop.time()) > 0:
            await asyncio.wait(self._waited_for, timeout=left)
        return len(self._waited_for)

    def cancel(self) -> None:
        """Ask all work to end; `drain` waits until it has."""
        for task in self._waited_for:
            task.cancel()

    @property
    def _waited_for(self) -> set[asyncio.Task[Any]]:
        """All but the task that asks: it would wait for itself."""
        return self._running - {asyncio.current_task()}

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task failed", task=task.get_name(), error=type(error).__name__)
