"""A read-back that a person asks for: when it may be made, and that it does not count (CONTRACT 4)."""

import pytest

from proxy.core.model import Status
from proxy.ports import Forgotten
from proxy.reconciler import Refused
from tests.engine.asks import broken, invalid, refund, refunded
from tests.engine.provider import StripeRecord
from tests.engine.rig import Rig
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Script

MIN_AGE_MS = 10_000


async def test_it_settles_what_the_record_shows_and_does_not_count(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    await passing(MIN_AGE_MS)
    before = await replica.reconciler.reconcile(rig.only.action_id)
    record.made(rig.only.identity.idempotency_key)

    after = await replica.reconciler.reconcile(rig.only.action_id)

    assert (before.action.status, after.action.status) == (Status.DENIED_UNRESOLVED, Status.CONFIRMED)
    assert after.action.readbacks == 0
    assert [a.scheduled for a in after.action.attempts] == [False, False]


async def test_it_leaves_the_schedule_as_it_is(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    due_ms = rig.only.next_readback_ms
    await passing(MIN_AGE_MS)

    for _ in range(20):
        await replica.reconciler.reconcile(rig.only.action_id)

    assert (rig.only.next_readback_ms, rig.only.needs_operator) == (due_ms, False)


async def test_it_is_too_early_while_the_action_is_in_flight(rig: Rig) -> None:
    rig.upstream.writes.append(refunded(thinking=5_000))
    replica = rig.replica()
    task = replica.start(refund())
    await quiet()

    with pytest.raises(Refused) as refused:
        await replica.reconciler.reconcile(rig.only.action_id)

    assert (refused.value.code, refused.value.until_ms) == ("too_early", rig.only.dispatches[0].answer_by_ms)
    await task


async def test_it_is_too_early_before_the_providers_minimum_age(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    await passing(MIN_AGE_MS - 1)

    with pytest.raises(Refused) as refused:
        await replica.reconciler.reconcile(rig.only.action_id)
    until_ms = rig.only.dispatches[0].dispatched_at_ms + MIN_AGE_MS

    assert (refused.value.code, refused.value.until_ms) == ("too_early", until_ms)
    assert rig.upstream.read == []


@pytest.mark.parametrize("script", [refunded(), invalid()])
async def test_it_is_refused_where_there_is_nothing_to_ask(rig: Rig, script: Script) -> None:
    rig.upstream.writes.append(script)
    replica = rig.replica()
    await replica.ask(refund())

    with pytest.raises(Refused) as refused:
        await replica.reconciler.reconcile(rig.only.action_id)

    assert refused.value.code == "already_settled"


async def test_an_action_that_nobody_knows_is_told_apart(rig: Rig) -> None:
    with pytest.raises(Forgotten):
        await rig.replica().reconciler.reconcile("01a13f6e-fa00-7000-8000-00000000ffff")


async def test_it_may_be_asked_for_after_the_last_attempt_where_a_read_key_is_set(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica(readback_attempts=1, read_keys={"stripe": {"": "rk_any"}})
    await replica.ask(refund())
    await passing(31_000)
    await replica.reconcile()
    exhausted = rig.only.needs_operator
    record.made(rig.only.identity.idempotency_key)

    after = await replica.reconciler.reconcile(rig.only.action_id)

    assert (exhausted, after.action.status) == (True, Status.CONFIRMED)
