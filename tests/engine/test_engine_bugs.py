"""Trouble at every call over a port: whatever fails, the world is told no lie, and nothing hangs.

Never `not_sent` once a byte counted, never a second dispatch of what may have been executed, never an action that stays
in flight when nobody waits for it.
"""

import pytest

from proxy.core.http import Unsent
from proxy.core.model import Cause, Status
from tests.engine import everywhere
from tests.engine.asks import refund
from tests.engine.everywhere import SCENARIOS, Trouble, lies_at_every_call
from tests.engine.rig import Rig
from tests.fakes.fuse import Bug
from tests.fakes.loop import quiet
from tests.fakes.upstream import Script, unsent


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "trouble",
    [
        everywhere.a_bug,
        everywhere.an_os_error,
        everywhere.the_store_fails_once,
        everywhere.the_store_goes,
        everywhere.the_handler_ends,
        everywhere.the_process_dies,
    ],
)
async def test_no_trouble_at_any_call_makes_a_lie_or_hangs(scenario: str, trouble: Trouble) -> None:
    assert await lies_at_every_call(scenario, trouble) == {}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_without_trouble_there_is_no_lie_either(scenario: str) -> None:
    assert (await everywhere.run(scenario)).lies == []


async def test_a_transport_that_sends_and_then_fails_leaves_the_outcome_unknown(rig: Rig) -> None:
    rig.upstream.writes.append(Script(Bug("after the last byte")))
    replica = rig.replica()

    await replica.ask(refund())
    failures = await rig.end()

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.CONNECTION_LOST)
    assert [type(f) for f in failures] == [Bug, Bug]  # Of the exchange, and of what carried it.
    replica.tasks.failures.clear()


async def test_a_transport_that_fails_before_it_sends_leaves_it_not_sent(rig: Rig) -> None:
    rig.upstream.writes.append(Script(Bug("never"), breaks_early=Bug("before the first byte")))
    replica = rig.replica()

    await replica.ask(refund())
    await rig.end()

    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)
    replica.tasks.failures.clear()


async def test_the_counter_outweighs_a_transport_that_says_nothing_left(rig: Rig) -> None:
    rig.upstream.writes.append(unsent(Unsent.CLOSED, connecting=10))
    replica = rig.replica()
    asking = replica.start(refund())
    await quiet()
    rig.upstream.calls[0].sending.left_bytes = 1
    await asking

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.CONNECTION_LOST)
