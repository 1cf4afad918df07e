"""What has been settled for `state.keep` leaves the store; its scope is answered all the same (CONTRACT 2.2)."""

import asyncio
from typing import Final

import pytest

from proxy.core.limits import Limit
from proxy.core.model import Status
from proxy.core.records import Period
from proxy.engine.retiring import MOST, TRACES_MOST, Retirer, parts
from proxy.ports import StoreUnavailable
from tests.conformance.store_suite_retiring import leaving
from tests.engine.asks import broken, invalid, mail, refund, refunded, refused, unnamed
from tests.engine.rig import Replica, Rig, action_id_of, code_of, header_of, message_of, shown, status_of
from tests.fakes.archive import ListArchive
from tests.fakes.loop import passing
from tests.fakes.upstream import answers

DAY_MS: Final = 86_400_000
KEEP_MS, SCOPES_MS = 90 * DAY_MS, 400 * DAY_MS


def retirer(replica: Replica, archive: ListArchive | None = None) -> Retirer:
    """Return what retires on the replica's store."""
    adapters = replica.engine.applier.adapters
    name = replica.name
    return Retirer(replica.store, adapters, archive, instance=name, keep_ms=KEEP_MS, keep_scopes_ms=SCOPES_MS)


async def test_a_settled_action_leaves_after_keep_and_not_before(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded())
    await replica.deliver(await replica.ask(refund()))
    rig.clock.advance_ms(KEEP_MS - 1)
    assert await retirer(replica).round() == 0
    rig.clock.advance_ms(1)
    assert await retirer(replica).round() == 1
    ledger = rig.ledger
    left = (ledger.records, ledger.scopes, ledger.aliases, ledger.claims, ledger.due, ledger.kept, ledger.settled)
    assert [dict(part) for part in left] == [{}] * len(left)
    assert {name: ids for name, ids in ledger.index.items() if ids} == {}


async def test_its_event_is_answered_as_settled_until_scopes_are_forgotten(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [refunded(), refunded()]
    await replica.deliver(await replica.ask(refund()))
    rig.clock.advance_ms(KEEP_MS)
    await retirer(replica).round()

    for again in (refund(), refund(amount=1)):
        answer = await replica.ask(again)
        assert (status_of(answer), code_of(answer)) == (423, "already_settled")
        assert header_of(answer, "Doubtless-Retry") == "never"
        assert "already asked for, and happened" in message_of(answer)
        assert shown(answer) == {"retry": "never"}, "nobody knows any more whose it was"
    assert len(rig.upstream.dispatched) == 1
    assert replica.meter.counts["blocked"] == 2

    rig.clock.advance_ms(SCOPES_MS - KEEP_MS + 1000)
    assert status_of(await replica.ask(refund())) == 200
    assert len(rig.upstream.dispatched) == 2


async def test_a_key_of_the_agent_s_is_remembered_as_long_as_the_scope(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [refunded(), refunded()]
    await replica.deliver(await replica.ask(unnamed(1)))
    rig.clock.advance_ms(KEEP_MS)
    await retirer(replica).round()
    assert code_of(await replica.ask(unnamed(1))) == "already_settled"
    assert status_of(await replica.ask(unnamed(2))) == 200, "tomorrow's run of a daily job is a new action"


async def test_what_did_not_happen_is_said_not_to_have_happened(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(invalid())
    await replica.ask(refund())
    rig.clock.advance_ms(KEEP_MS)
    await retirer(replica).round()
    assert "was settled as not having happened" in message_of(await replica.ask(refund()))


async def test_a_refused_action_leaves_too(rig: Rig) -> None:
    replica = rig.replica(limits=(Limit("l", "stripe.*", Period.DAY, amount=1, currency="usd"),))
    assert code_of(await replica.ask(refund())) == "limit_exhausted"
    rig.clock.advance_ms(KEEP_MS)
    assert await retirer(replica).round() == 1
    assert code_of(await replica.ask(refund())) == "already_settled"


async def test_an_unresolved_action_never_leaves(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(broken())
    await replica.ask(refund())
    rig.clock.advance_ms(10 * SCOPES_MS)
    assert await retirer(replica).round() == 0
    assert rig.only.status is Status.DENIED_UNRESOLVED
    assert code_of(await replica.ask(refund())) == "outcome_unknown"


async def test_a_named_retry_of_an_action_that_has_left_sends_nothing(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(invalid())
    first = action_id_of(await replica.ask(refund()))
    rig.clock.advance_ms(KEEP_MS)
    await retirer(replica).round()
    assert code_of(await replica.ask(refund(retry_of=first))) == "retry_of_invalid"
    assert len(rig.upstream.dispatched) == 1


async def test_a_later_run_is_recorded_though_the_run_that_it_casts_doubt_on_has_left(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [invalid(), refused(400, "invalid_request_error", "charge_already_refunded", thinking=500)]
    await replica.ask(refund())
    rig.clock.advance_ms(KEEP_MS)
    second = replica.start(refund())
    await passing(100)
    assert await retirer(replica).round() == 1
    assert code_of(await second) == "outcome_unknown"
    assert (rig.only.identity.run, rig.only.status) == (2, Status.DENIED_UNRESOLVED)
    assert len(replica.spool) + len(replica.engine.notebook.loose) == 0


# ── The archive ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_archive_has_each_action_with_its_evidence_before_it_leaves(rig: Rig) -> None:
    replica, archive = rig.replica(), ListArchive()
    rig.upstream.writes.append(answers(200, {"id": "re_1", "object": "refund", "note": "the-answers-secret"}))
    answer = await replica.ask(refund(reason="the-bodys-secret"))
    await replica.deliver(answer)
    rig.clock.advance_ms(KEEP_MS)
    assert await retirer(replica, archive).round() == 1
    (archived,) = archive.actions
    assert archived["action_id"] == action_id_of(answer)
    assert (archived["status"], archived["provider_object_id"], archived["amount"]) == ("confirmed", "re_1", 5400)
    assert [evidence["source"] for evidence in archived["evidence"]] == ["response"]
    assert len(archived["dispatches"]) == 1
    assert not any(secret in archive.lines[0] for secret in (b"bodys-secret", b"answers-secret", b"sk_live"))


async def test_what_the_archive_refuses_stays_in_the_store(rig: Rig) -> None:
    replica, archive = rig.replica(), ListArchive()
    rig.upstream.writes.append(refunded())
    await replica.ask(refund())
    rig.clock.advance_ms(KEEP_MS)
    archive.refuses = True
    with pytest.raises(OSError, match="No space"):
        await retirer(replica, archive).round()
    assert len(rig.actions) == 1
    archive.refuses = False
    assert await retirer(replica, archive).round() == 1


async def test_what_was_archived_and_not_removed_is_archived_again_and_never_lost(rig: Rig) -> None:
    replica, archive = rig.replica(), ListArchive()
    rig.upstream.writes.append(refunded())
    await replica.ask(refund())
    rig.clock.advance_ms(KEEP_MS)
    replica.store.fail_next("retire", "before")
    with pytest.raises(StoreUnavailable):
        await retirer(replica, archive).round()
    assert await retirer(replica, archive).round() == 1
    assert [action["event_id"] for action in archive.actions] == ["ticket-17", "ticket-17"]


# ── The loop ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_loop_retires_all_there_is_and_outlives_a_store_and_a_disk_that_fail(rig: Rig) -> None:
    replica, archive = rig.replica(), ListArchive()
    for number in range(2 * MOST + 1):
        rig.upstream.writes.append(refunded())
        await replica.ask(refund(f"ticket-{number}"))
    rig.clock.advance_ms(KEEP_MS)
    replica.store.fail_next("settled", "before")
    archive.refuses = True
    running = asyncio.get_running_loop().create_task(retirer(replica, archive).run(1_000))
    await passing(2_500)
    assert len(rig.actions) == 2 * MOST + 1
    archive.refuses = False
    await passing(1_500)
    assert rig.actions == []
    assert len(archive.lines) == 2 * MOST + 1
    running.cancel()


async def test_of_two_instances_one_at_a_time_retires(rig: Rig) -> None:
    one, other = rig.replica(), rig.replica()
    rig.upstream.writes.append(refunded())
    await one.ask(refund())
    rig.clock.advance_ms(KEEP_MS)
    archives = [ListArchive(), ListArchive()]
    rounds = [retirer(replica, archive).round() for replica, archive in zip((one, other), archives, strict=True)]
    assert sum(await asyncio.gather(*rounds)) == 1
    assert sum(len(archive.lines) for archive in archives) == 1


async def test_messages_leave_with_what_is_known_of_their_content(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(answers(200, {"id": "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}))
    await replica.ask(mail("ticket-1"))
    assert any(name.startswith("content:") for name in rig.ledger.index)
    rig.clock.advance_ms(KEEP_MS)
    await retirer(replica).round()
    assert {name: ids for name, ids in rig.ledger.index.items() if ids} == {}


def test_what_one_script_removes_is_bounded() -> None:
    many = [leaving(number) for number in range(1, 2_001)]
    split = parts(many)
    assert [one for part in split for one in part] == many
    assert all(sum(len(o.index) + len(o.claims) + len(o.aliases) for o in part) <= TRACES_MOST for part in split)
    assert parts([]) == []
