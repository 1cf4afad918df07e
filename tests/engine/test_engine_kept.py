"""What is kept beside a record is sealed, and dropped as early as may be (CONTRACT 4, DESIGN 3)."""

from collections.abc import Iterator

import pytest

from proxy.core.limits import Limit
from proxy.core.model import Status
from proxy.core.records import Period
from tests.engine.asks import broken, invalid, refund, refunded, unnamed
from tests.engine.provider import StripeRecord
from tests.engine.rig import Rig, body_of, code_of, status_of
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Script, answers
from tests.fakes.vault import PlainVault

SECRETS = ("sk_live_1", "the-bodys-secret", "the-answers-secret")


def everything(rig: Rig) -> Iterator[bytes]:
    """Yield all bytes and texts that the store holds."""
    ledger = rig.ledger
    yield from (record.raw for record in ledger.records.values())
    yield from ledger.kept.values()
    yield repr((ledger.scopes, ledger.aliases, ledger.claims, ledger.index, ledger.exposed, ledger.used)).encode()


def names(rig: Rig) -> list[str]:
    """Return the names of what is kept."""
    return sorted(name for _, name in rig.ledger.kept)


async def test_neither_credential_nor_body_nor_answer_can_be_read_in_the_store(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [
        answers(200, {"id": "re_1", "object": "refund", "note": "the-answers-secret"}),
        broken(),
    ]
    for event in ("ticket-1", "ticket-2"):
        await replica.ask(refund(event, reason="the-bodys-secret"))

    held = list(everything(rig))

    assert names(rig) == ["credential", "request", "response"]
    assert [secret for secret in SECRETS if any(secret.encode() in data for data in held)] == []


async def test_nor_can_they_in_the_spool(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(answers(200, {"id": "re_1", "note": "the-answers-secret"}, thinking=50))
    task = replica.start(refund(reason="the-bodys-secret"))
    await quiet()
    replica.store.down = True
    await task

    (observation,) = replica.spool.kept
    spooled = observation.event + (observation.response or b"")
    assert observation.response is not None
    assert [secret for secret in SECRETS if secret.encode() in spooled] == []


async def test_the_kept_request_bears_no_credential(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(broken())
    await replica.ask(refund(reason="the-bodys-secret"))
    action_id = rig.only.action_id

    opened = replica.vault.open(rig.ledger.kept[action_id, "request"], f"{action_id}:request")

    assert opened is not None
    assert b"the-bodys-secret" in opened
    assert b"sk_live_1" not in opened
    assert b"ticket-17:stripe.refund.create" in opened


@pytest.mark.parametrize(("script", "left"), [(refunded(), ["response"]), (invalid(), ["response"])])
async def test_once_it_is_settled_credential_and_request_are_dropped(rig: Rig, script: Script, left: list[str]) -> None:
    rig.upstream.writes.append(script)

    await rig.replica().ask(refund())

    assert names(rig) == left


async def test_while_it_is_in_flight_or_unknown_they_are_kept(rig: Rig) -> None:
    rig.upstream.writes.append(broken(thinking=100))
    replica = rig.replica()
    task = replica.start(refund())
    await quiet()
    in_flight = names(rig)
    await task

    assert in_flight == names(rig) == ["credential", "request"]


async def test_once_a_read_back_settled_it_they_are_dropped(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(refund())
    record.made(rig.only.identity.idempotency_key)
    await passing(31_000)

    await replica.reconcile()

    assert (rig.only.status, names(rig)) == (Status.CONFIRMED, [])


async def test_after_the_last_attempt_the_credential_is_dropped_and_the_request_stays_for_a_replay(rig: Rig) -> None:
    rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    replica = rig.replica(readback_attempts=2)
    await replica.ask(refund())
    kept = []
    for _ in range(2):
        await passing(61_000)
        await replica.reconcile()
        kept.append(names(rig))

    assert rig.only.needs_operator
    assert kept == [["credential", "request"], ["request"]]


async def test_a_further_dispatch_keeps_them_anew(rig: Rig) -> None:
    rig.upstream.writes += [answers(429, {"error": {"type": "rate_limit_error"}}), broken()]
    replica = rig.replica()
    await replica.ask(refund())
    before = names(rig)
    await replica.ask(refund(credential="sk_live_other"))

    assert (before, names(rig)) == (["response"], ["credential", "request", "response"])
    action_id = rig.only.action_id
    opened = replica.vault.open(rig.ledger.kept[action_id, "credential"], f"{action_id}:credential")
    assert b"sk_live_other" in (opened or b"")


async def test_a_large_body_is_not_kept(rig: Rig) -> None:
    rig.upstream.writes.append(broken())

    await rig.replica(kept_body_bytes=10).ask(refund())

    assert names(rig) == ["credential"]


async def test_nothing_is_kept_of_what_was_refused(rig: Rig) -> None:
    room = Limit("refunds", "stripe.refund.*", Period.DAY, amount=1, currency="usd")

    assert code_of(await rig.replica(limits=(room,)).ask(refund())) == "limit_exhausted"
    assert names(rig) == []


async def test_a_key_that_is_still_read_opens_everything(rig: Rig) -> None:
    rig.upstream.writes += [refunded(), broken()]
    old = rig.replica(vault=PlainVault("old"))
    await old.ask(refund("ticket-1", charge="ch_9"))
    await old.ask(unnamed(1))
    rotated = rig.replica(vault=PlainVault("new", "old"))

    assert body_of(await rotated.ask(refund("ticket-1", charge="ch_9")))["id"] == "re_1"
    for ask in (unnamed(1), unnamed(2), unnamed(3, amount=91)):
        assert status_of(await rotated.ask(ask)) == 423
    assert len(rig.upstream.dispatched) == 2


async def test_a_key_that_was_taken_away_leaves_a_clear_answer_and_sends_nothing(rig: Rig) -> None:
    rig.upstream.writes += [refunded(), broken()]
    old = rig.replica(vault=PlainVault("old"))
    await old.ask(refund("ticket-1"))
    await old.ask(refund("ticket-2"))
    new = rig.replica(vault=PlainVault("new"))

    answers_ = [await new.ask(refund(event)) for event in ("ticket-1", "ticket-2")]

    assert [code_of(answer) for answer in answers_] == ["payload_mismatch", "outcome_unknown"]
    assert len(rig.upstream.dispatched) == 2


@pytest.mark.parametrize(("script", "code"), [(refunded(), "already_settled"), (invalid(), "retry_of_required")])
async def test_a_stored_answer_that_cannot_be_opened_leaves_a_clear_answer(rig: Rig, script: Script, code: str) -> None:
    rig.upstream.writes.append(script)
    replica = rig.replica()
    await replica.ask(refund())
    rig.ledger.kept[rig.only.action_id, "response"] = b"sealed by a key that nobody has"

    assert code_of(await replica.ask(refund())) == code
    assert len(rig.upstream.dispatched) == 1
