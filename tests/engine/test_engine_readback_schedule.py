"""When the provider's record is asked about what is unknown, and what counts (CONTRACT 4)."""

import pytest

from proxy.core.model import Cause, Source, Status
from tests.engine.asks import BASE, broken, invalid, mail, refund, refunded, refused
from tests.engine.provider import StripeRecord
from tests.engine.rig import Replica, Rig, code_of
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import silence

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def running(replica: Replica, every_ms: int = SECOND_MS) -> None:
    replica.tasks.spawn(replica.reconciler.run(every_ms), "reconciler")


def asked_after_s(rig: Rig) -> list[int]:
    """Return how long after it became unknown each attempt was made, in seconds."""
    since_ms = rig.only.unknown_since_ms or 0
    return [round((attempt.at_ms - since_ms) / 1000) for attempt in rig.only.attempts]


async def test_the_first_comes_after_half_a_minute_and_the_pauses_double_up_to_an_hour(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    running(replica, 5 * SECOND_MS)
    await replica.ask(refund())

    await passing(7 * HOUR_MS)

    pauses = [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600]
    times = asked_after_s(rig)
    assert all(abs(pause - (b - a)) <= 6 for pause, a, b in zip(pauses, [0, *times[:-1]], times, strict=True)), times


async def test_after_the_last_attempt_it_is_for_a_person_for_ever(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica(readback_attempts=3)
    running(replica, HOUR_MS)
    await replica.ask(refund())
    before = rig.only.needs_operator

    await passing(30 * DAY_MS)

    assert (before, rig.only.needs_operator, rig.only.next_readback_ms) == (False, True, None)
    assert (rig.only.status, rig.only.readbacks, len(rig.only.attempts)) == (Status.DENIED_UNRESOLVED, 3, 3)


async def test_it_is_found_by_our_key_and_settled(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    running(replica)
    await replica.ask(refund())
    record.made("somebody:elses")
    await passing(40 * SECOND_MS)
    not_ours = rig.only.status
    record.made(rig.only.identity.idempotency_key)

    await passing(70 * SECOND_MS)

    assert (not_ours, rig.only.status) == (Status.DENIED_UNRESOLVED, Status.CONFIRMED)
    assert rig.only.settled_by is not None
    assert (rig.only.settled_by.source, rig.only.object_ids) == (Source.READ_BACK, ("re_1",))
    assert replica.meter.counts["settled read_back"] == 1


@pytest.mark.parametrize("trouble", ["down", "refuses"])
async def test_what_could_not_be_read_backs_off_and_does_not_count(rig: Rig, trouble: str) -> None:
    record = rig.upstream.reads = StripeRecord()
    setattr(record, trouble, 500)
    rig.upstream.writes.append(broken())
    replica = rig.replica(readback_attempts=2)
    running(replica, 2 * SECOND_MS)
    await replica.ask(refund())

    await passing(8 * MINUTE_MS)
    unread = (rig.only.readbacks, {a.result for a in rig.only.attempts}, len(rig.only.attempts))
    setattr(record, trouble, None)
    await passing(2 * HOUR_MS)

    assert unread == (0, {"unreadable"}, 4)
    assert (rig.only.readbacks, rig.only.needs_operator) == (2, True)


async def test_it_is_bounded_by_how_far_the_providers_record_goes_back(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord(down=True)
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    running(replica, HOUR_MS)
    await replica.ask(refund())

    await passing(31 * DAY_MS)

    assert record.down
    assert (rig.only.readbacks, rig.only.needs_operator, rig.only.next_readback_ms) == (0, True, None)


async def test_it_never_comes_before_the_providers_minimum_age(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica(min_age_ms={"stripe": 90 * SECOND_MS})
    running(replica)
    await replica.ask(refund())

    await passing(100 * SECOND_MS)

    assert asked_after_s(rig)[0] in (90, 91)


async def test_what_can_be_read_by_nothing_of_ours_is_for_a_person_at_once(rig: Rig) -> None:
    rig.upstream.writes.append(silence())
    replica = rig.replica()
    running(replica, MINUTE_MS)
    ask = mail("t-1")
    await replica.ask(type(ask)("resend", "POST", "/emails/49a3999c/cancel", ask.headers, b"", BASE))

    await passing(DAY_MS)

    assert (rig.only.tier.value, rig.only.needs_operator, rig.only.attempts) == ("blind", True, ())
    assert rig.upstream.read == []


async def test_a_key_that_was_used_for_something_else_is_for_a_person_at_once_and_never_asked_about(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(refused(400, "idempotency_error", ""))
    replica = rig.replica()
    running(replica, MINUTE_MS)
    await replica.ask(refund())

    await passing(DAY_MS)

    assert (rig.only.cause, rig.only.needs_operator, rig.only.attempts) == (Cause.KEY_REUSED, True, ())


@pytest.mark.parametrize("script", [refunded(), invalid()])
async def test_what_is_settled_is_not_asked_about(rig: Rig, script: object) -> None:
    rig.upstream.writes.append(script)  # type: ignore[arg-type]
    replica = rig.replica()
    running(replica, MINUTE_MS)
    await replica.ask(refund())

    await passing(DAY_MS)

    assert rig.upstream.read == []


async def test_two_reconcilers_ask_about_it_once(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord(thinking=5_000)
    rig.upstream.writes.append(broken())
    replicas = [rig.replica(), rig.replica()]
    for replica in replicas:
        running(replica)
    await replicas[0].ask(refund())

    await passing(80 * SECOND_MS)

    assert (rig.only.readbacks, len(rig.only.attempts)) == (1, 1)


async def test_what_a_dead_reconciler_had_claimed_is_asked_about_by_another(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord(thinking=5_000)
    rig.upstream.writes.append(broken())
    dead, other = rig.replica(), rig.replica()
    await dead.ask(refund())
    await passing(31 * SECOND_MS)
    await dead.reconciler.round()
    await dead.tasks.end()
    running(other)

    await passing(100 * SECOND_MS)

    assert rig.only.readbacks == 1


async def test_an_answer_that_comes_while_the_record_is_asked_holds(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord(thinking=5_000)
    rig.upstream.writes.append(refunded(thinking=58_000))
    replica = rig.replica()
    running(replica)
    answer = await replica.ask(refund())

    await passing(60 * SECOND_MS)

    assert code_of(answer) == "outcome_unknown"
    assert rig.only.settled_by is not None
    assert rig.only.settled_by.source is Source.LATE_RESPONSE
    assert (rig.only.contradicted, rig.only.attempts[-1].result) == (False, "absent")
    await quiet()
