"""Waits that a drain cuts short, so that whoever waits is answered before the process ends."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Cutting:
    """Tasks in a stretch of work that may be cut short: of each, nothing was sent, and nothing will be."""

    def __init__(self) -> None:
        self._inside: set[asyncio.Task[Any]] = set()
        self._cut: set[asyncio.Task[Any]] = set()

    @contextmanager
    def off(self, with_: Exception) -> Iterator[None]:
        """Mark a stretch. Raises `with_` where it was cut short; a cancellation by anybody else stays one."""
        task = asyncio.current_task()
        assert task is not None
        self._inside.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._cut:
                raise
            task.uncancel()
            raise with_ from None
        finally:
            self._inside.discard(task)
            self._cut.discard(task)

    def cut(self) -> None:
        """Cut short whatever is in such a stretch now."""
        for task in self._inside - self._cut:
            self._cut.add(task)
            task.cancel()
