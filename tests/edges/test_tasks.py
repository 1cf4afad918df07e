"""Tasks are held until they end, reported once where they fail, drained and cancelled."""

import asyncio
import gc

import pytest
from structlog.testing import capture_logs

from proxy.edges.tasks import Tasks


async def wait_for(event: asyncio.Event) -> str:
    await event.wait()
    return "done"


async def fail() -> None:
    raise ValueError("sk_live_secret")


async def test_a_task_that_nobody_else_holds_is_not_collected() -> None:
    tasks, ends = Tasks(), asyncio.Event()
    seen: list[str] = []

    async def held() -> None:
        seen.append(await wait_for(ends))

    tasks.spawn(held(), "held")
    await asyncio.sleep(0)
    gc.collect()
    ends.set()

    assert await tasks.drain(5) == 0
    assert seen == ["done"]
    assert len(tasks) == 0


async def test_a_failure_is_logged_once_by_its_type_and_the_tasks_name_alone() -> None:
    tasks = Tasks()
    with capture_logs() as logs:
        tasks.spawn(fail(), "harvest")
        await tasks.drain(5)
        gc.collect()

    assert logs == [{"event": "a task failed", "task": "harvest", "error": "ValueError", "log_level": "error"}]


async def test_whoever_awaits_a_task_gets_its_result_and_its_failure() -> None:
    tasks, ends = Tasks(), asyncio.Event()
    ends.set()

    assert await tasks.spawn(wait_for(ends), "a") == "done"
    with pytest.raises(ValueError, match="sk_live"):
        await tasks.spawn(fail(), "b")


async def test_a_drain_waits_for_what_is_spawned_meanwhile() -> None:
    tasks, ends, seen = Tasks(), asyncio.Event(), []

    async def last() -> None:
        await asyncio.sleep(0)
        seen.append("last")

    async def first() -> None:
        await ends.wait()
        tasks.spawn(last(), "last")

    tasks.spawn(first(), "first")
    asyncio.get_running_loop().call_soon(ends.set)

    assert await tasks.drain(5) == 0
    assert seen == ["last"]


async def test_a_drain_that_runs_out_says_how_much_is_left() -> None:
    tasks, never = Tasks(), asyncio.Event()
    for name in "ab":
        tasks.spawn(wait_for(never), name)

    assert await tasks.drain(0) == 2
    assert await tasks.drain(0.001) == 2
    tasks.cancel()
    assert await tasks.drain(5) == 0


async def test_a_cancelled_task_is_no_failure() -> None:
    tasks = Tasks()
    with capture_logs() as logs:
        tasks.spawn(wait_for(asyncio.Event()), "a")
        await asyncio.sleep(0)
        tasks.cancel()
        await tasks.drain(5)

    assert (logs, len(tasks)) == ([], 0)


async def test_a_task_that_drains_does_not_wait_for_itself_nor_cancel_itself() -> None:
    tasks = Tasks()

    async def stop() -> int:
        tasks.cancel()
        return await tasks.drain(5)

    assert await tasks.spawn(stop(), "stop") == 0
