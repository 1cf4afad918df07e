"""An event loop on which a process can stand still, or be gone, while time and everybody else go on.

Every callback of a process runs in a context that bears its gate. A paused process runs none until it goes on; a dead
one none ever again: no `finally`, no `except`, exactly like a process that was killed.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, Final

from tests.fakes.loop import VirtualLoop

GATE: Final[ContextVar["Gate | None"]] = ContextVar("gate", default=None)


class Gate:
    """Does a process run?"""

    def __init__(self) -> None:
        self.paused = False
        self.dead = False
        self._held: list[tuple[asyncio.Handle, Callable[..., object], tuple[Any, ...], Context]] = []

    @property
    def open(self) -> bool:
        """Does it run now?"""
        return not (self.paused or self.dead)

    def hold(
        self, handle: asyncio.Handle, call: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        """Keep a call until it goes on; one of a dead process is dropped."""
        if self.dead:
            handle.cancel()
        else:
            self._held.append((handle, call, args, context))

    def go_on(self) -> None:
        """Run again, with all that was held up, in order."""
        self.paused = False
        held, self._held = self._held, []
        for handle, call, args, context in held:
            if not handle.cancelled():
                asyncio.get_running_loop().call_soon(call, *args, context=context)


class CountedTask(asyncio.Task[Any]):
    """A task whose place in a set follows from the order of its making, not from where it lies in memory."""

    def __init__(self, number: int, *args: Any, **named: Any) -> None:
        self._number = number
        super().__init__(*args, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedLoop(VirtualLoop):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        numbers = itertools.count(1)

        def make(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **named: Any) -> CountedTask:
            return CountedTask(next(numbers), work, loop=loop, **named)

        self.set_task_factory(make)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """See the module."""
        gate = GATE.get() if context is None else context.get(GATE)
        if gate is None or gate.open:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        gate.hold(handle, callback, args, context or Context())
        return handle
