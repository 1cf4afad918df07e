"""An owner that is lost: a survivor writes its actions off, and what it hears later is evidence (CONTRACT 2.4)."""

import asyncio

import pytest

from proxy.core.model import Cause, Source, Status
from proxy.engine import Provided
from tests.engine.asks import broken, invalid, refund, refunded
from tests.engine.provider import StripeRecord
from tests.engine.rig import Replica, Rig, body_of, code_of
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Script, silence

LEASE_MS, BEAT_MS, ROUND_MS, DEAD_MS = 10_000, 3_000, 200, 20_000


def running(replica: Replica) -> None:
    """Let its reconciler go round, and its heart beat."""
    replica.die()
    replica.tasks.spawn(replica.reconciler.beat(BEAT_MS), "heartbeat")
    replica.tasks.spawn(replica.reconciler.run(ROUND_MS), "reconciler")


async def test_a_live_owner_keeps_what_it_awaits(rig: Rig) -> None:
    owner, other = rig.replica(), rig.replica()
    running(owner)
    running(other)
    rig.upstream.writes.append(refunded(thinking=24_000))

    answer = await owner.ask(refund())

    assert isinstance(answer, Provided)
    assert rig.only.was_unknown is False


async def test_a_dead_owners_action_is_written_off_within_twenty_seconds(rig: Rig) -> None:
    owner, survivor = rig.replica(), rig.replica()
    running(survivor)
    rig.upstream.writes.append(silence(thinking=100_000))
    task = owner.start(refund())
    await passing(1_000)
    owner.die()
    owner.store.down = True

    await passing(DEAD_MS)

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.PROXY_RESTART)
    assert code_of(await survivor.ask(refund())) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1
    await task


async def test_several_survivors_write_it_off_once(rig: Rig) -> None:
    owner, *survivors = rig.replica(), rig.replica(), rig.replica(), rig.replica()
    rig.upstream.writes.append(silence(thinking=100_000))
    owner.start(refund())
    await quiet()
    owner.die()
    await passing(DEAD_MS)

    claimed = await asyncio.gather(*(survivor.reconciler.round() for survivor in survivors))

    assert sum(claimed) == 1
    assert [e.detail for e in rig.only.evidence] == ["proxy_restart"]


async def test_a_restarted_owner_writes_off_what_it_left_before_it_listens(rig: Rig) -> None:
    before, after = rig.replica(), rig.replica()
    rig.upstream.writes.append(silence(thinking=100_000))
    before.start(refund())
    await quiet()

    await after.store.bury(before.name)
    await after.reconcile()

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.PROXY_RESTART)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        (refunded(thinking=22_000), Status.CONFIRMED),
        (invalid(thinking=22_000), Status.FAILED),
        (broken(thinking=22_000), Status.DENIED_UNRESOLVED),
    ],
)
async def test_what_an_owner_that_only_slept_hears_is_late_evidence(rig: Rig, script: Script, status: Status) -> None:
    sleeper, survivor = rig.replica(), rig.replica()
    rig.upstream.writes.append(script)
    task = sleeper.start(refund())
    await quiet()
    sleeper.die()
    await passing(DEAD_MS)
    await survivor.reconcile()
    written_off = rig.only.cause

    await task

    assert written_off is Cause.PROXY_RESTART
    assert rig.only.status is status
    assert rig.only.evidence[-1].source is Source.LATE_RESPONSE
    assert (rig.only.was_unknown, rig.only.unknown_cause) == (True, Cause.PROXY_RESTART)


async def test_its_agent_gets_the_providers_answer_all_the_same(rig: Rig) -> None:
    sleeper, survivor = rig.replica(), rig.replica()
    rig.upstream.writes.append(refunded(thinking=22_000))
    task = sleeper.start(refund())
    await quiet()
    sleeper.die()
    await passing(DEAD_MS)
    await survivor.reconcile()

    assert body_of(await task)["id"] == "re_1"
    assert body_of(await survivor.ask(refund()))["id"] == "re_1"
    assert len(rig.upstream.dispatched) == 1


async def test_a_sleepers_proof_that_nothing_left_settles_what_was_written_off(rig: Rig) -> None:
    sleeper, survivor = rig.replica(connect_ms=60_000), rig.replica()
    rig.upstream.writes.append(refunded(connecting=24_000))
    task = sleeper.start(refund())
    await quiet()
    sleeper.die()
    await passing(DEAD_MS)
    await survivor.reconcile()
    gone = rig.only.cause
    rig.clock.wall_ahead_ms += 60_000

    assert code_of(await task) == "not_sent"
    assert (gone, rig.only.cause, rig.only.status) == (Cause.PROXY_RESTART, Cause.NOT_SENT, Status.FAILED)


async def test_what_was_written_off_is_priced_by_who_wrote_it_off(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    record.charge()
    owner, survivor = rig.replica(), rig.replica()
    rig.upstream.writes.append(silence(thinking=100_000))
    owner.start(refund(currency=None))
    await quiet()
    owner.die()
    await passing(DEAD_MS)

    await survivor.reconcile()

    assert (rig.only.amount.minor, rig.only.amount.currency) == (5400, "usd")
    assert rig.upstream.read[-1].credential == "Bearer sk_live_1"
    (row,) = await survivor.store.exposure()
    assert (row.provider, row.account, row.currency, row.amount, row.actions) == ("stripe", "live", "usd", 5400, 1)


async def test_a_heart_goes_on_beating_after_the_store_was_gone(rig: Rig) -> None:
    replica = rig.replica()
    running(replica)
    await quiet()
    replica.store.down = True
    await passing(60_000)
    lapsed = rig.ledger.instances[replica.name] < rig.clock.store_ms()
    replica.store.down = False
    await passing(BEAT_MS)

    assert lapsed
    assert rig.ledger.instances[replica.name] > rig.clock.store_ms()


@pytest.mark.parametrize("trouble", ["store", "disk"])
async def test_the_reconciler_goes_on_after_store_or_disk_were_gone(rig: Rig, trouble: str) -> None:
    replica = rig.replica()
    running(replica)
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.down = True
    answer = await task
    if trouble == "disk":
        replica.spool.broken, replica.store.down = True, False
    await passing(5_000)
    replica.spool.broken = replica.store.down = False
    await passing(5_000)

    assert isinstance(answer, Provided)
    assert (rig.only.status, len(replica.spool)) == (Status.CONFIRMED, 0)


async def test_a_live_owner_does_not_write_off_its_own_action_after_the_store_was_gone(rig: Rig) -> None:
    replica = rig.replica()
    running(replica)
    rig.upstream.writes.append(refunded(thinking=24_000))
    task = replica.start(refund())
    await passing(1_000)
    replica.store.down = True
    await passing(15_000)
    replica.store.down = False

    assert body_of(await task)["id"] == "re_1"
    assert (rig.only.status, rig.only.was_unknown) == (Status.CONFIRMED, False)


@pytest.mark.parametrize("first", [0, 1])
async def test_nor_does_anybody_else_who_was_without_the_store_too(rig: Rig, first: int) -> None:
    """All leases have lapsed; whoever finds the store first must not take the others for dead."""
    pair = (rig.replica(), rig.replica())
    for replica in pair:
        running(replica)
    rig.upstream.writes.append(refunded(thinking=24_000))
    task = pair[0].start(refund())
    await passing(1_000)
    for replica in pair:
        replica.store.down = True
    await passing(15_000)
    pair[first].store.down = False
    await passing(1_000)
    pair[1 - first].store.down = False

    assert body_of(await task)["id"] == "re_1"
    assert (rig.only.status, rig.only.was_unknown) == (Status.CONFIRMED, False)


async def test_what_its_first_claimant_could_not_write_off_is_written_off_within_twenty_seconds_all_the_same(
    rig: Rig,
) -> None:
    owner, survivor = rig.replica(), rig.replica()
    running(survivor)
    rig.upstream.writes.append(silence(thinking=100_000))
    owner.start(refund())
    await quiet()
    owner.die()
    survivor.store.fail_next("claim_due", "after")

    await passing(DEAD_MS)

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.PROXY_RESTART)


async def test_nor_does_it_after_the_process_had_been_stopped(rig: Rig) -> None:
    replica = rig.replica()
    running(replica)
    rig.upstream.writes.append(refunded(thinking=24_000))
    task = replica.start(refund())
    await passing(1_100)
    rig.clock.advance_ms(15_000)

    assert body_of(await task)["id"] == "re_1"
    assert (rig.only.status, rig.only.was_unknown) == (Status.CONFIRMED, False)


async def test_what_even_a_living_owner_lost_track_of_is_written_off_in_the_end(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    replica = rig.replica()
    running(replica)
    await quiet()
    replica.store.fail_next("commit", "after", times=2)
    await replica.ask(refund())
    replica.spool.kept.clear()
    await passing(80_000)
    before = rig.only.status

    await passing(20_000)

    assert (before, rig.only.status) == (Status.PENDING, Status.DENIED_UNRESOLVED)
    assert rig.only.cause is Cause.PROXY_RESTART


async def test_a_draining_owners_lease_ends_with_its_drain_and_changes_no_state_before(rig: Rig) -> None:
    owner, survivor = rig.replica(), rig.replica()
    running(owner)
    running(survivor)
    rig.upstream.writes.append(silence(thinking=100_000))
    task = owner.start(refund())
    await passing(1_000)

    await owner.reconciler.leave(15_000)
    await passing(14_000)
    before = rig.only.status
    await passing(2_000)

    assert before is Status.PENDING
    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.PROXY_RESTART)
    assert code_of(await task) == "outcome_unknown"
