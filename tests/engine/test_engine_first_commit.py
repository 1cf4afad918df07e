"""The first commit fails, or only its reply is lost: nothing is sent, and no record says otherwise for long."""

import asyncio

import pytest

from proxy.core.http import Unsent
from proxy.core.model import Cause, Status
from proxy.engine import Provided
from tests.engine.asks import broken, mail, mailed, refund, refunded
from tests.engine.rig import Rig, action_id_of, code_of, header_of, message_of, status_of
from tests.fakes.loop import passing, quiet
from tests.fakes.store import When
from tests.fakes.upstream import unsent

DAY_MS = 86_400_000


async def test_a_store_that_is_down_lets_nothing_out(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.down = True

    answer = await replica.ask(refund())

    assert (status_of(answer), code_of(answer), header_of(answer, "Doubtless-Retry")) == (
        503,
        "store_unavailable",
        "safe",
    )
    assert "nothing was sent" in message_of(answer)
    assert rig.upstream.calls == []


async def test_once_it_is_back_the_same_request_is_the_first_one(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.down = True
    await replica.ask(refund())
    replica.store.down = False
    await replica.reconcile()
    rig.upstream.writes.append(refunded())

    assert isinstance(await replica.ask(refund()), Provided)
    assert len(rig.actions) == len(rig.upstream.dispatched) == 1


async def test_a_reply_that_is_lost_once_is_asked_for_again_and_applied_once(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "after")
    rig.upstream.writes.append(refunded())

    answer = await replica.ask(refund())

    assert isinstance(answer, Provided)
    assert rig.ledger.records[answer.action_id].version == 2
    assert len(rig.upstream.dispatched) == 1


async def test_a_first_commit_whose_reply_is_lost_sends_nothing_and_is_told_apart_later(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "after", times=2)

    answer = await replica.ask(refund())
    said_pending = rig.only.status
    await replica.reconcile()

    assert (code_of(answer), said_pending) == ("store_unavailable", Status.PENDING)
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)
    assert rig.upstream.calls == []


async def test_what_was_told_apart_is_sent_by_the_next_request_under_the_same_key(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "after", times=2)
    await replica.ask(refund())
    await replica.reconcile()
    rig.upstream.writes.append(refunded())

    assert isinstance(await replica.ask(refund()), Provided)
    assert len(rig.only.dispatches) == 2
    assert [call.key for call in rig.upstream.dispatched] == ["ticket-17:stripe.refund.create"]


async def test_a_first_commit_that_arrives_when_nobody_waits_for_it_is_told_apart_too(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "later", times=2)
    await replica.ask(refund())
    replica.store.arrive()

    await replica.reconcile()

    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_first_commit_that_arrives_after_the_store_was_asked_about_it_is_told_apart_too(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "later", times=2)
    await replica.ask(refund())
    await replica.reconciler.unspool()
    replica.store.arrive()
    await passing(250)

    await replica.reconciler.unspool()

    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_first_commit_that_does_not_arrive_is_looked_for_less_and_less(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "before", times=2)
    await replica.ask(refund())
    replica.tasks.spawn(replica.reconciler.run(200), "reconciler")

    await passing(60_000)
    in_the_first_minute = replica.store.asked.count("get")
    await passing(60_000)

    assert in_the_first_minute < 10
    assert replica.store.asked.count("get") - in_the_first_minute <= 3


async def test_a_first_commit_that_never_arrived_is_not_looked_for_for_ever(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "before", times=2)
    await replica.ask(refund())
    await passing(DAY_MS)

    await replica.reconciler.unspool()

    assert len(replica.spool) == 0


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_further_dispatch_whose_commit_fails_is_not_sent_either(rig: Rig, when: When) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(unsent(Unsent.DNS))
    await replica.ask(refund())
    replica.store.fail_next("commit", when, times=2)

    answer = await replica.ask(refund())
    await replica.reconcile()

    assert code_of(answer) == "store_unavailable"
    assert rig.upstream.dispatched == []
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_second_request_that_found_it_in_flight_hears_that_it_was_not_sent(rig: Rig) -> None:
    first, second = rig.replica(), rig.replica()
    first.store.fail_next("commit", "after", times=2)
    await first.ask(refund())
    waiting = second.start(refund())
    await quiet()

    await first.reconcile()

    assert code_of(await waiting) == "not_sent"


async def test_on_its_own_replica_too_a_second_request_waits_until_that_is_told(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "after", times=2)
    replica.store.slow["commit"] = 100
    first = replica.start(refund())
    await passing(150)
    waiting = replica.start(refund())
    await first
    await quiet()

    await replica.reconcile()

    assert code_of(await waiting) == "not_sent"


async def test_an_agent_that_is_cut_off_during_the_first_commit_leaves_nothing_in_flight(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = 100
    task = replica.start(refund())
    await quiet()
    task.cancel()
    await asyncio.wait({task})
    await passing(200)

    await replica.reconcile()

    assert rig.upstream.calls == []
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_store_that_fails_between_first_commit_and_sending_leaves_nothing_in_flight(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(broken())
    stale = action_id_of(await replica.ask(mail()))
    await passing(2 * DAY_MS)
    replica.store.slow["commit"] = 10
    task = replica.start(mail())
    await passing(15)
    replica.store.down = True
    answer = await task
    replica.store.down = False
    await replica.reconcile()

    assert code_of(answer) == "store_unavailable"
    (doubled,) = [a for a in rig.actions if a.action_id != stale]
    assert (doubled.status, doubled.cause) == (Status.FAILED, Cause.NOT_SENT)
    assert len(rig.upstream.dispatched) == 1


@pytest.mark.parametrize("trouble", ["full", "broken"])
async def test_a_spool_that_could_take_nothing_lets_nothing_out(rig: Rig, trouble: str) -> None:
    replica = rig.replica()
    setattr(replica.spool, trouble, True)

    answer = await replica.ask(mail())
    setattr(replica.spool, trouble, False)
    rig.upstream.writes.append(mailed())

    assert (code_of(answer), rig.actions) == ("store_unavailable", [])
    assert isinstance(await replica.ask(mail()), Provided)
