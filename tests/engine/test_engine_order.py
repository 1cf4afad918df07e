"""Commit, then send; commit, then answer (DESIGN 3)."""

from proxy.core.model import Status
from proxy.engine import Provided
from tests.engine.asks import refund, refunded
from tests.engine.rig import Rig, body_of, header_of
from tests.fakes.loop import passing, quiet


async def test_nothing_is_sent_before_the_first_commit_came_back(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = 100
    rig.upstream.writes.append(refunded())

    task = replica.start(refund())
    await quiet()
    before = (rig.only.status, len(rig.upstream.calls))
    await task

    assert before == (Status.PENDING, 0)
    assert len(rig.upstream.dispatched) == 1


async def test_the_answer_waits_for_the_second_commit(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded(thinking=50))
    task = replica.start(refund())
    await quiet()
    replica.store.slow_reply["commit"] = 100
    await passing(60)

    assert (rig.only.status, task.done()) == (Status.CONFIRMED, False)
    assert isinstance(await task, Provided)


async def test_the_store_is_asked_twice_before_the_answer_and_no_more(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded())

    answer = await replica.ask(refund())

    assert replica.store.asked == ["commit", "commit"]
    assert body_of(answer)["id"] == "re_1"
    assert header_of(answer, "Doubtless-Status") == "confirmed"


async def test_that_an_answer_arrived_is_recorded_after_it(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded())
    answer = await replica.ask(refund())
    before = rig.only.unanswered_first

    await replica.deliver(answer)

    assert (before, rig.only.unanswered_first) == (True, False)
    assert replica.store.asked == ["commit"] * 3


async def test_a_key_made_of_event_and_type_is_recorded_before_and_sent_in_place_of_the_agents_own(rig: Rig) -> None:
    replica = rig.replica()
    replica.store.slow_reply["commit"] = 100
    rig.upstream.writes.append(refunded())

    task = replica.start(refund(key="order-9"))
    await quiet()
    recorded = (rig.only.identity.idempotency_key, rig.only.identity.agent_key)
    await task

    assert recorded == ("ticket-17:stripe.refund.create", "order-9")
    (call,) = rig.upstream.dispatched
    assert call.key == "ticket-17:stripe.refund.create"
