"""The second commit fails: what was seen goes to the spool, and is stepped again on whatever the store holds then."""

import pytest

from proxy.core.model import Cause, Grade, Source, Status
from proxy.engine import Ask, Provided
from tests.engine.asks import BASE, broken, mail, mailed, refund, refunded
from tests.engine.rig import Rig, action_id_of, body_of, code_of, header_of, shown
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import silence

CANCEL = Ask("resend", "POST", "/emails/49a3999c/cancel", mail("t-1").headers, b"", BASE)


async def test_the_agent_gets_the_providers_answer_although_the_store_is_gone(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True

    answer = await task

    assert body_of(answer)["id"] == "re_1"
    assert header_of(answer, "Doubtless-Status") == "confirmed"
    assert len(replica.spool) == 1


async def test_once_it_is_back_the_record_is_confirmed_and_the_stored_response_replayed(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    await task
    replica.store.down = False

    await replica.reconcile()
    again = await replica.ask(refund())

    assert (rig.only.status, rig.only.grade) == (Status.CONFIRMED, Grade.ACKNOWLEDGED)
    assert isinstance(again, Provided)
    assert (body_of(again)["id"], header_of(again, "Idempotent-Replayed")) == ("re_1", "true")
    assert (len(rig.upstream.dispatched), len(replica.spool)) == (1, 0)


async def test_what_another_replica_wrote_off_meanwhile_is_confirmed_through_late_evidence(rig: Rig) -> None:
    replica, survivor = rig.replica(), rig.replica()
    rig.upstream.writes.append(mailed(thinking=50))
    task = replica.start(CANCEL)
    await quiet()
    replica.store.down = True
    answer = await task
    replica.die()
    await passing(20_000)
    await survivor.reconcile()
    written_off = (rig.only.status, rig.only.cause, rig.only.tier.value)
    replica.store.down = False

    await replica.reconcile()

    assert written_off == (Status.DENIED_UNRESOLVED, Cause.PROXY_RESTART, "blind")
    assert isinstance(answer, Provided)
    assert rig.only.status is Status.CONFIRMED
    assert rig.only.settled_by is not None
    assert (rig.only.settled_by.source, rig.only.was_unknown) == (Source.LATE_RESPONSE, True)
    assert rig.only.unknown_cause is Cause.PROXY_RESTART
    assert isinstance(await survivor.ask(CANCEL), Provided)


async def test_a_lost_connection_is_spooled_as_what_it_was(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(silence(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    answer = await task
    replica.store.down = False
    await replica.reconcile()

    assert (code_of(answer), shown(answer)["cause"]) == ("outcome_unknown", "connection_lost")
    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.CONNECTION_LOST)


async def test_what_was_seen_in_an_order_is_taken_in_that_order(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=40_000))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    answer = await task
    await passing(20_000)
    spooled = len(replica.spool)
    replica.store.down = False
    await replica.reconcile()

    assert (code_of(answer), spooled) == ("outcome_unknown", 2)
    assert (rig.only.status, rig.only.unknown_cause) == (Status.CONFIRMED, Cause.TIMEOUT)
    assert [e.source for e in rig.only.evidence] == [Source.TRANSPORT, Source.LATE_RESPONSE]


@pytest.mark.parametrize("trouble", ["full", "broken"])
async def test_with_neither_store_nor_disk_the_outcome_is_unknown_and_never_failed(rig: Rig, trouble: str) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    setattr(replica.spool, trouble, True)

    answer = await task

    assert (code_of(answer), shown(answer)["status"]) == ("outcome_unknown", "denied_unresolved")
    assert header_of(answer, "Doubtless-Retry") == "never"


@pytest.mark.parametrize("trouble", ["full", "broken"])
async def test_what_neither_store_nor_disk_took_does_not_stay_in_flight_once_the_store_is_back(
    rig: Rig, trouble: str
) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    setattr(replica.spool, trouble, True)
    await task
    replica.store.down = False

    await replica.reconcile()

    assert rig.only.status is Status.CONFIRMED
    assert len(rig.upstream.dispatched) == 1


async def test_a_proof_of_nothing_sent_that_neither_took_does_not_stay_in_flight_either(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.fail_next("commit", "after", times=2)
    replica.store.slow["commit"] = 10
    task = replica.start(refund())
    await quiet()
    replica.spool.broken = True
    answer = await task
    await replica.reconcile()

    assert code_of(answer) == "store_unavailable"
    assert (rig.only.status, rig.only.cause) == (Status.FAILED, Cause.NOT_SENT)


async def test_a_slow_store_never_makes_the_agent_believe_that_nothing_was_sent(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(broken(thinking=24_900))
    task = replica.start(refund())
    await quiet()
    replica.store.slow["commit"] = 7_000
    replica.store.fail_next("get", "before", times=10)

    answer = await task

    assert code_of(answer) == "outcome_unknown"
    assert header_of(answer, "Doubtless-Retry") == "never"


async def test_an_observation_of_what_the_store_forgot_waits_and_holds_up_no_other(rig: Rig) -> None:
    replica = rig.replica()
    before = replica.store.snapshot()
    rig.upstream.writes += [refunded("re_1", thinking=50), refunded("re_2", thinking=50)]
    first = replica.start(refund("ticket-1"))
    await quiet()
    replica.store.down = True
    forgotten = action_id_of(await first)
    replica.store.down = False
    known = replica.store.snapshot()
    replica.store.forget_since(before)
    replica.live()
    second = replica.start(refund("ticket-2"))
    await quiet()
    replica.store.down = True
    await second
    replica.store.down = False

    await replica.reconciler.unspool()
    waiting = (rig.only.status, len(replica.spool))
    replica.store.forget_since(known)
    await passing(30_000)
    await replica.reconciler.unspool()

    assert waiting == (Status.CONFIRMED, 1)
    assert rig.action(forgotten).status is Status.CONFIRMED
    assert len(replica.spool) == 0
