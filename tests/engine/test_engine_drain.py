"""A process that is asked to stop: what is in flight finishes or is recorded, and every agent is answered first."""

import asyncio

import pytest

from proxy.core.limits import Limit
from proxy.core.model import Cause, Status
from proxy.core.records import Period
from proxy.engine import Provided
from tests.engine.asks import broken, invalid, refund, refunded, unnamed
from tests.engine.provider import StripeRecord
from tests.engine.rig import Replica, Rig, body_of, code_of, header_of, shown, status_of
from tests.fakes.loop import passing, quiet

DRAIN_MS = 20_000


def drain(replica: Replica, within_ms: int = DRAIN_MS) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(replica.engine.drain(within_ms))


async def test_it_takes_no_new_write(rig: Rig) -> None:
    replica = rig.replica()
    await replica.engine.drain(DRAIN_MS)

    answer = await replica.ask(refund())

    assert (status_of(answer), code_of(answer), header_of(answer, "Doubtless-Retry")) == (503, "draining", "safe")
    assert (rig.actions, rig.upstream.calls) == ([], [])


async def test_what_is_in_flight_finishes(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=5_000))
    task = replica.start(refund())
    await quiet()

    await replica.engine.drain(DRAIN_MS)

    assert rig.only.status is Status.CONFIRMED
    assert isinstance(await task, Provided)


async def test_with_nothing_in_flight_it_is_over_at_once(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded())
    await replica.ask(refund())
    began_ms = rig.clock.monotonic_ms()

    await replica.engine.drain(DRAIN_MS)

    assert rig.clock.monotonic_ms() == began_ms


async def test_what_is_left_when_time_runs_out_is_recorded_and_its_agents_are_answered(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50_000))
    tasks = [replica.start(refund()), replica.start(refund())]
    await quiet()

    await replica.engine.drain(3_000)
    recorded = (rig.only.status, rig.only.cause)
    await quiet()

    assert recorded == (Status.DENIED_UNRESOLVED, Cause.SHUTDOWN)
    assert all(task.done() for task in tasks)
    answers = [await task for task in tasks]
    assert [(code_of(a), shown(a)["cause"]) for a in answers] == [("outcome_unknown", "shutdown")] * 2
    assert replica.engine.in_flight == 0


async def test_what_had_not_begun_to_leave_is_not_sent_and_never_will_be(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(connecting=5_000))
    task = replica.start(refund())
    await quiet()

    await replica.engine.drain(3_000)
    await passing(10_000)

    assert code_of(await task) == "not_sent"
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)
    assert rig.upstream.dispatched == []


async def test_what_is_being_committed_for_the_first_time_is_in_flight_too(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = 1_000
    rig.upstream.writes.append(refunded(thinking=1_000))
    task = replica.start(refund())
    await quiet()

    await replica.engine.drain(DRAIN_MS)

    assert rig.only.status is Status.CONFIRMED
    assert isinstance(await task, Provided)


async def test_a_first_commit_that_comes_back_too_late_sends_nothing(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = 5_000
    task = replica.start(refund())
    await quiet()

    await replica.engine.drain(3_000)
    answer = await task
    await rig.replica(spool=replica.spool).reconcile()

    assert code_of(answer) == "draining"
    assert rig.upstream.calls == []
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_store_that_hangs_does_not_outlast_the_drain(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow["commit"] = 60_000
    tasks = [replica.start(refund()), replica.start(refund("ticket-18"))]
    await quiet()

    await replica.engine.drain(3_000)
    await quiet()

    assert [task.done() and code_of(task.result()) for task in tasks] == ["draining", "draining"]
    assert (rig.upstream.calls, len(replica.spool)) == ([], 2)


async def test_a_retry_whose_folding_hangs_is_told_too(rig: Rig, pair: tuple[Replica, Replica]) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))
    pair[1].store.slow_reply["commit"] = 60_000
    task = pair[1].start(unnamed(2))
    await quiet()

    await pair[1].engine.drain(3_000)
    await quiet()

    assert code_of(task.result()) == "draining"


async def test_what_is_still_being_priced_for_a_limit_is_refused_unsent(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord(thinking=2_000)
    record.charge()
    replica = rig.replica(limits=(Limit("refunds", "stripe.refund.*", Period.DAY, amount=9000, currency="usd"),))
    task = replica.start(refund(currency=None))
    await quiet()

    await replica.engine.drain(DRAIN_MS)

    assert code_of(await task) == "draining"
    assert (rig.actions, rig.upstream.tried) == ([], [])


@pytest.mark.parametrize("slow", ["slow", "slow_reply"])
async def test_an_answer_that_is_there_but_not_recorded_yet_is_not_lost(rig: Rig, slow: str) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=100))
    task = replica.start(refund())
    await quiet()
    getattr(replica.store, slow)["commit"] = 2_000
    await passing(200)

    await replica.engine.drain(1_000)

    assert rig.only.status is Status.CONFIRMED
    assert body_of(await task)["id"] == "re_1"
    assert isinstance(await rig.replica().ask(refund()), Provided)


async def test_what_was_unknown_already_keeps_its_cause(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50_000))
    await replica.ask(refund())

    await replica.engine.drain(3_000)

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.TIMEOUT)


async def test_a_late_answer_within_the_drain_settles(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=30_000))
    await replica.ask(refund())

    await replica.engine.drain(DRAIN_MS)

    assert rig.only.status is Status.CONFIRMED


async def test_with_the_store_gone_too_what_is_left_is_on_disk(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50_000))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True

    await replica.engine.drain(3_000)
    answer = await task
    await rig.replica(spool=replica.spool).reconcile()

    assert (code_of(answer), shown(answer)["cause"]) == ("outcome_unknown", "shutdown")
    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.SHUTDOWN)


async def test_an_agent_that_waits_for_another_replicas_action_is_answered_when_the_drain_ends(rig: Rig) -> None:
    owner, replica = rig.replica(), rig.replica()
    rig.upstream.writes.append(refunded(thinking=20_000))
    owner.start(refund())
    await quiet()
    task = replica.start(refund())
    await quiet()

    await replica.engine.drain(DRAIN_MS)
    await passing(300)

    assert task.done()
    assert code_of(await task) == "action_in_flight"
    assert rig.only.status is Status.PENDING


@pytest.mark.parametrize("script", [broken(thinking=100), invalid(thinking=100)])
async def test_other_answers_are_recorded_within_the_drain_as_ever(rig: Rig, script: object) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(script)  # type: ignore[arg-type]
    replica.start(refund())
    await quiet()

    await replica.engine.drain(DRAIN_MS)

    assert rig.only.status is not Status.PENDING
    assert rig.only.cause in (Cause.SERVER_ERROR, Cause.REJECTED)
