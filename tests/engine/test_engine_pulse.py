"""A process that was stopped takes up what lay there: not what its agent gave up meanwhile (CONTRACT 2.3)."""

import pytest

from proxy.engine import Asker
from tests.engine.asks import refund, refunded, unnamed
from tests.engine.rig import Rig, body_of, code_of, header_of
from tests.fakes.loop import passing, quiet


async def stopped(rig: Rig, clock: str) -> None:
    """Let the time go on in which a replica's process stands still."""
    await passing(1_000)
    if clock == "wall":
        rig.clock.wall_ahead_ms += 5_000  # A machine asleep.
    else:
        rig.clock.advance_ms(5_000)


@pytest.mark.parametrize("clock", ["monotonic", "wall"])
async def test_what_its_agent_gave_up_while_the_process_was_stopped_is_not_sent(rig: Rig, clock: str) -> None:
    replica = rig.replica()
    replica.tasks.spawn(replica.engine.pulse.run(), "pulse")
    await stopped(rig, clock)
    asker = Asker()
    task = replica.start(unnamed(1), asker)
    await quiet()
    asker.hang_up()

    answer = await task

    assert (code_of(answer), header_of(answer, "Doubtless-Retry")) == ("overloaded", "safe")
    assert (rig.actions, rig.upstream.dispatched) == ([], [])


@pytest.mark.parametrize("clock", ["monotonic", "wall"])
async def test_what_its_agent_still_waits_for_is(rig: Rig, clock: str) -> None:
    replica = rig.replica()
    replica.tasks.spawn(replica.engine.pulse.run(), "pulse")
    await stopped(rig, clock)
    rig.upstream.writes.append(refunded("re_1"))

    assert body_of(await replica.ask(unnamed(1)))["id"] == "re_1"


async def test_so_is_what_has_an_event_whoever_waits_for_it(rig: Rig) -> None:
    replica = rig.replica()
    replica.tasks.spawn(replica.engine.pulse.run(), "pulse")
    await stopped(rig, "monotonic")
    rig.upstream.writes.append(refunded("re_1"))
    asker = Asker()
    asker.hang_up()

    assert body_of(await replica.ask(refund(), asker))["id"] == "re_1"


async def test_so_is_what_an_agent_that_hung_up_asked_of_a_process_that_was_not_stopped(rig: Rig) -> None:
    replica = rig.replica()
    replica.tasks.spawn(replica.engine.pulse.run(), "pulse")
    await passing(10_000)
    rig.upstream.writes.append(refunded("re_1"))
    asker = Asker()
    asker.hang_up()

    assert body_of(await replica.ask(unnamed(1), asker))["id"] == "re_1"
