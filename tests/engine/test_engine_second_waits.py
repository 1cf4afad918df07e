"""A second request while the first is in flight, and while its outcome is unknown (CONTRACT 2.2)."""

import asyncio

import pytest
from msgspec.structs import replace

from proxy.core.events import Resolved
from proxy.core.facts import Means, Outcome
from proxy.core.http import Unsent
from proxy.core.model import Cause, Status
from proxy.engine import Answer, Asker, Provided
from tests.engine.asks import broken, invalid, limited, refund, refunded, refused
from tests.engine.rig import Pair, Replica, Rig, body_of, code_of, header_of, message_of, shown, status_of
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Script, answers, silence, unsent


async def in_flight(rig: Rig, first: Replica, script: Script) -> "asyncio.Task[Answer]":
    rig.upstream.writes.append(script)
    task = first.start(refund())
    await quiet()
    return task


async def test_it_waits_and_gets_the_first_ones_answer(rig: Rig, pair: Pair) -> None:
    task = await in_flight(rig, pair[0], refunded(thinking=3_000))

    second = await pair[1].ask(refund())
    first = await task

    assert isinstance(first, Provided)
    assert isinstance(second, Provided)
    assert second.response == first.response
    assert header_of(second, "Idempotent-Replayed") == "true"
    assert header_of(first, "Idempotent-Replayed") is None
    assert len(rig.upstream.dispatched) == 1


@pytest.mark.parametrize(
    ("script", "status"), [(invalid(thinking=900), 400), (limited(thinking=900), 429), (refused(thinking=900), 402)]
)
async def test_a_rejection_is_its_answer_too(rig: Rig, pair: Pair, script: Script, status: int) -> None:
    task = await in_flight(rig, pair[0], script)

    second = await pair[1].ask(refund())

    assert (status_of(second), status_of(await task)) == (status, status)
    assert len(rig.upstream.dispatched) == 1


async def test_that_nothing_was_sent_is_its_answer_too(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], unsent(Unsent.DNS, connecting=900))

    assert code_of(await pair[1].ask(refund())) == "not_sent"
    assert len(rig.upstream.tried) == 1


async def test_an_unknown_outcome_is_its_answer_too(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], silence(thinking=900))

    assert code_of(await pair[1].ask(refund())) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1


async def test_past_its_own_preference_it_hears_that_the_first_is_in_flight(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=10_000))
    began_ms = rig.clock.monotonic_ms()

    answer = await pair[1].ask(refund(wait_ms=2_000))

    assert (code_of(answer), header_of(answer, "Doubtless-Retry")) == ("action_in_flight", "never")
    assert rig.clock.monotonic_ms() - began_ms == 2_000
    assert rig.only.status is Status.PENDING


async def test_it_waits_no_longer_than_the_answer_deadline_whatever_it_prefers(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], silence(thinking=100_000))
    began_ms = rig.clock.monotonic_ms()

    answer = await pair[1].ask(refund(wait_ms=90_000))

    assert code_of(answer) == "outcome_unknown"
    assert rig.clock.monotonic_ms() - began_ms < 25_500


async def test_a_preference_is_of_no_account_on_the_first_request(rig: Rig) -> None:
    rig.upstream.writes.append(refunded(thinking=10_000))

    assert isinstance(await rig.replica().ask(refund(wait_ms=100)), Provided)


async def test_another_payload_is_refused_by_the_names_of_its_fields_alone(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=900))

    answer = await pair[1].ask(refund(amount=91, reason="fraudulent"))

    assert (status_of(answer), code_of(answer)) == (422, "payload_mismatch")
    assert header_of(answer, "Doubtless-Retry") == "new-event"
    assert "amount, reason" in message_of(answer)
    assert "fraudulent" not in message_of(answer)
    assert "91" not in message_of(answer)
    assert "5400" not in message_of(answer)
    assert "ticket-17/2" in message_of(answer)


async def test_another_path_is_another_payload(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=900))

    answer = await pair[1].ask(refund(path="/v1/refunds?expand[]=charge"))

    assert code_of(answer) == "payload_mismatch"


async def test_the_order_of_a_forms_fields_makes_no_other_payload(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=900))

    reordered = replace(refund(), body=b"currency=usd&amount=5400&charge=ch_1")

    assert isinstance(await pair[1].ask(reordered), Provided)


async def test_another_credential_gets_nothing_of_it(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=900))

    answer = await pair[1].ask(refund(credential="sk_live_other"))

    assert (code_of(answer), list(shown(answer))) == ("credential_mismatch", ["retry"])
    assert header_of(answer, "Doubtless-Action-Id") is None


async def test_another_mode_is_another_scope(rig: Rig, pair: Pair) -> None:
    await in_flight(rig, pair[0], refunded(thinking=900))
    rig.upstream.writes.append(refunded("re_test"))

    answer = await pair[1].ask(refund(credential="sk_test_1"))

    assert body_of(answer)["id"] == "re_test"


async def test_the_time_that_an_agent_waits_for_the_provider_is_told_apart(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded(thinking=3_000))
    askers = [Asker(), Asker()]
    tasks = [replica.start(refund(), asker) for replica, asker in zip(pair, askers, strict=True)]
    for task in tasks:
        await task

    assert askers[0].waited_ms == 3_000
    assert 3_000 <= askers[1].waited_ms <= 3_250  # Another replica's action is looked at four times a second.


async def test_one_that_hangs_up_leaves_the_others_waiting(rig: Rig, pair: Pair) -> None:
    task = await in_flight(rig, pair[0], refunded(thinking=900))
    asker = Asker()
    leaving, staying = pair[1].start(refund(), asker), pair[1].start(refund())
    await passing(100)
    asker.hang_up()

    assert isinstance(await staying, Provided)
    assert isinstance(await task, Provided)
    await leaving


async def test_while_the_outcome_is_unknown_nothing_is_sent(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())

    for ask in (refund(), refund(amount=91), refund(credential="sk_live_other")):
        assert code_of(await pair[1].ask(ask)) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1
    assert pair[1].meter.counts["blocked"] == 3


async def test_while_it_is_unknown_another_credential_learns_no_more_than_that(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())

    same, other = [await pair[1].ask(refund(credential=c)) for c in ("sk_live_1", "sk_live_other")]

    assert shown(same)["amount"] == 5400
    assert list(shown(other)) == ["retry"]
    assert "ticket-17" not in message_of(other)


async def test_a_contradicted_action_is_unknown_again(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded(thinking=40_000))
    await pair[0].ask(refund())
    await pair[0].engine.applier.apply(rig.only.action_id, Resolved("ops", happened=False, text="checked"))
    await passing(20_000)

    assert rig.only.contradicted
    for ask in (refund(), refund(amount=91)):
        assert code_of(await pair[1].ask(ask)) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1


async def test_an_answer_that_is_not_terminal_yet_is_replayed_to_the_same_request_only(rig: Rig, pair: Pair) -> None:
    rig.teach("stripe", Outcome(Means.NOT_TERMINAL, source="a test", status=(202,)))
    rig.upstream.writes.append(answers(202, {"id": "job_1", "object": "refund", "status": "queued"}))
    first = await pair[0].ask(refund())

    again = await pair[1].ask(refund())

    assert (rig.only.status, rig.only.cause) == (Status.DENIED_UNRESOLVED, Cause.NON_TERMINAL)
    assert isinstance(first, Provided)
    assert not first.delivers
    assert body_of(first) == body_of(again)
    assert header_of(again, "Idempotent-Replayed") == "true"
    for ask in (refund(amount=91), refund(credential="sk_live_other")):
        assert code_of(await pair[1].ask(ask)) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1
