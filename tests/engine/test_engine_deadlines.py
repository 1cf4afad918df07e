"""The answer deadline, the harvest end, and the last moment at which a first byte may leave (CONTRACT 2.1, 2.4)."""

import asyncio

import pytest

from proxy.core.model import Cause, Source, Status
from proxy.engine import Provided
from tests.engine.asks import broken, refund, refunded
from tests.engine.rig import Rig, body_of, code_of, header_of, shown
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import silence

ANSWER_MS, HARVEST_MS, SEND_MS = 25_000, 120_000, 10_000


async def test_at_the_answer_deadline_it_is_unknown_for_everyone(rig: Rig) -> None:
    owner, other = rig.replica(), rig.replica()
    rig.upstream.writes.append(refunded(thinking=40_000))
    first = owner.start(refund())
    await passing(5_000)
    waiting = [owner.start(refund()), other.start(refund())]
    began_ms = rig.clock.monotonic_ms() - 5_000

    answers = [await task for task in (first, *waiting)]

    assert [code_of(answer) for answer in answers] == ["outcome_unknown"] * 3
    assert {shown(answer)["cause"] for answer in answers} == {"timeout"}
    assert rig.clock.monotonic_ms() - began_ms < ANSWER_MS + 500
    assert len(rig.upstream.dispatched) == 1


async def test_the_listening_goes_on_and_a_late_answer_settles_it_and_is_kept(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=40_000))
    unknown = await replica.ask(refund())
    await passing(20_000)

    again = await replica.ask(refund())

    assert code_of(unknown) == "outcome_unknown"
    assert rig.only.settled_by is not None
    assert (rig.only.status, rig.only.settled_by.source) == (Status.CONFIRMED, Source.LATE_RESPONSE)
    assert (rig.only.was_unknown, rig.only.unknown_cause) == (True, Cause.TIMEOUT)
    assert (body_of(again)["id"], header_of(again, "Idempotent-Replayed")) == ("re_1", "true")
    assert replica.meter.counts["late"] == 1


async def test_a_late_failure_of_the_provider_changes_nothing_but_the_evidence(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(broken(thinking=40_000))
    await replica.ask(refund())
    before = rig.only

    await passing(20_000)

    after = rig.only
    assert [e.detail for e in after.evidence] == ["timeout", "server_error"]
    assert after.evidence[-1].source is Source.LATE_RESPONSE
    unmoved = ("status", "cause", "unknown_cause", "unknown_since_ms", "next_readback_ms", "answer_kept")
    assert [getattr(after, name) for name in unmoved] == [getattr(before, name) for name in unmoved]


async def test_at_the_harvest_end_the_listening_ends_and_nothing_more_is_heard(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=HARVEST_MS + 1))
    await replica.ask(refund())
    await passing(HARVEST_MS - ANSWER_MS - 1)
    (call,) = rig.upstream.dispatched
    before = (call.ended, replica.engine.in_flight)

    await passing(1)

    assert (before, (call.ended, replica.engine.in_flight)) == ((False, 1), (True, 0))
    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.TIMEOUT)


async def test_what_has_not_begun_to_leave_by_the_answer_deadline_never_does(rig: Rig) -> None:
    replica = rig.replica(connect_ms=60_000)
    gate = asyncio.Event()
    rig.upstream.writes.append(refunded(connecting=gate))
    began_ms = rig.clock.monotonic_ms()

    answer = await replica.ask(refund())
    took_ms = rig.clock.monotonic_ms() - began_ms
    gate.set()
    await passing(1_000)

    assert (code_of(answer), header_of(answer, "Doubtless-Retry"), took_ms) == ("not_sent", "safe", ANSWER_MS)
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)
    assert rig.upstream.tried[0].sending.abandoned
    assert rig.upstream.dispatched == []


async def test_a_first_byte_that_comes_too_late_does_not_leave(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(connecting=SEND_MS + 1))

    answer = await replica.ask(refund())

    assert (code_of(answer), shown(answer)["cause"]) == ("not_sent", "not_sent")
    assert rig.only.evidence[-1].detail == "connection_write_timeout"
    assert rig.upstream.dispatched == []


@pytest.mark.parametrize(("late_ms", "sent"), [(0, 1), (1, 0)])
async def test_the_last_moment_counts_from_when_the_commit_was_asked_for(rig: Rig, late_ms: int, sent: int) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = SEND_MS + late_ms
    rig.upstream.writes.append(refunded())
    task = replica.start(refund())
    await passing(SEND_MS - 1)
    del replica.store.slow_reply["commit"]

    await task

    assert len(rig.upstream.dispatched) == sent
    assert rig.only.status is (Status.CONFIRMED if sent else Status.FAILED)


async def test_a_machine_that_slept_in_between_sends_nothing_though_its_monotonic_clock_stood_still(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(connecting=10))
    task = replica.start(refund())
    await quiet()
    rig.clock.wall_ahead_ms += SEND_MS

    assert code_of(await task) == "not_sent"
    assert rig.upstream.dispatched == []


async def test_a_machine_whose_wall_clock_is_set_back_gains_no_time_by_that(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(connecting=SEND_MS + 1))
    task = replica.start(refund())
    await quiet()
    rig.clock.wall_ahead_ms -= 3_600_000

    assert code_of(await task) == "not_sent"
    assert rig.upstream.dispatched == []


async def test_a_process_that_was_stopped_in_between_sends_nothing_when_it_goes_on(rig: Rig) -> None:
    replica, survivor = rig.replica(), rig.replica()
    replica.store.slow_reply["commit"] = 100
    rig.upstream.writes.append(refunded())
    task = replica.start(refund())
    await quiet()
    replica.die()
    rig.clock.advance_ms(20_000)
    await survivor.reconcile()
    written_off = rig.only.cause
    await task

    assert rig.upstream.dispatched == []
    assert (written_off, rig.only.cause, rig.only.status) == (Cause.PROXY_RESTART, Cause.NOT_SENT, Status.FAILED)


async def test_a_commit_that_comes_back_after_the_answer_deadline_sends_nothing(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = ANSWER_MS + 1_000
    rig.upstream.writes.append(refunded())
    task = replica.start(refund())
    await passing(ANSWER_MS)
    del replica.store.slow_reply["commit"]

    assert code_of(await task) == "not_sent"
    assert rig.upstream.dispatched == []


async def test_no_first_byte_may_leave_after_the_harvest_end_however_long_connecting_may_take(rig: Rig) -> None:
    replica = rig.replica(connect_ms=300_000, harvest_ms=30_000)
    rig.upstream.writes.append(silence(thinking=10))
    await replica.ask(refund())

    (dispatch,) = rig.only.dispatches
    assert dispatch.send_before_ms == dispatch.harvest_ms == dispatch.dispatched_at_ms + 30_000


async def test_an_agent_that_hangs_up_changes_nothing(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=1_000))
    task = replica.start(refund())
    await quiet()
    task.cancel()
    await passing(2_000)

    assert rig.only.status is Status.CONFIRMED
    assert isinstance(await replica.ask(refund()), Provided)
