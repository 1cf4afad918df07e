"""A model rewords, it does not repeat bytes: requests at the same target (CONTRACT 2.3, rule 3)."""

import asyncio

import pytest

from proxy.core.http import Unsent
from proxy.engine import Ask, Asker
from tests.engine.asks import broken, mail, refund, refunded, refused, unnamed
from tests.engine.rig import Pair, Rig, body_of, code_of, header_of, message_of, shown, status_of
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import unsent

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
WINDOW_MS = 20 * HOUR_MS


def reworded(number: int = 2, **rest: str) -> Ask:
    return unnamed(number, amount=5399, reason="requested_by_customer", **rest)


async def test_reworded_while_it_is_unknown_it_is_not_sent_but_named(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(reworded())

    assert (status_of(answer), code_of(answer)) == (423, "suspected_duplicate")
    assert header_of(answer, "Doubtless-Retry") == "new-event"
    assert header_of(answer, "Doubtless-Action-Id") == shown(answer)["action_id"] == rig.only.action_id
    assert len(rig.upstream.dispatched) == 1


async def test_another_credential_is_told_no_more_than_that(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(reworded(credential="sk_live_other"))

    assert (code_of(answer), list(shown(answer))) == ("suspected_duplicate", ["retry"])
    assert header_of(answer, "Doubtless-Action-Id") is None
    assert rig.only.action_id not in message_of(answer)


async def test_while_somebody_waits_for_it_another_refund_of_the_charge_is_another_action(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=900), refunded("re_2", 5399)]
    task = pair[0].start(unnamed(1))
    await quiet()

    assert body_of(await pair[1].ask(reworded()))["id"] == "re_2"
    await task


async def test_once_nobody_waits_for_it_it_is_a_reworded_retry(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = pair[0].start(unnamed(1), asker)
    await quiet()
    asker.hang_up()
    await quiet()

    assert code_of(await pair[1].ask(reworded())) == "suspected_duplicate"
    await task


async def test_a_dead_instance_has_no_asker_any_more(rig: Rig) -> None:
    """Its agent was cut off, and its framework asks the next replica, in other words, before the lease runs out."""
    dead, survivor = rig.replica(), rig.replica()
    survivor.die()
    survivor.tasks.spawn(survivor.reconciler.beat(3_000), "heartbeat")
    survivor.tasks.spawn(survivor.reconciler.run(200), "reconciler")
    dead.die()
    await dead.store.beat(dead.name, 10_000)
    rig.upstream.writes.append(refunded("re_1", thinking=100_000))
    dead.start(unnamed(1))
    await quiet()

    assert code_of(await survivor.ask(reworded())) == "suspected_duplicate"
    assert len(rig.upstream.dispatched) == 1


async def test_an_instance_tells_who_has_gone_before_it_shows_that_it_lives(rig: Rig, pair: Pair) -> None:
    owner, other = pair
    owner.die()
    rig.upstream.writes.append(refunded("re_1", thinking=20_000))
    asker = Asker()
    task = owner.start(unnamed(1), asker)
    await quiet()
    owner.store.down = True
    asker.hang_up()
    await quiet()
    owner.store.down = False
    again = other.start(reworded())
    await passing(1_000)
    owner.tasks.spawn(owner.reconciler.beat(3_000), "heartbeat")

    assert code_of(await again) == "suspected_duplicate"
    await task


async def test_a_reworded_retry_waits_for_the_first_commit_of_what_it_repeats(rig: Rig) -> None:
    """The store is slow: the agent has hung up and asks again before the first commit is through."""
    replica = rig.replica()
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = replica.start(unnamed(1), asker)
    again = replica.start(reworded())
    await asyncio.sleep(0)
    assert rig.actions == []
    asker.hang_up()

    assert code_of(await again) == "suspected_duplicate"
    await task


async def test_that_an_asker_has_gone_is_told_when_the_store_is_back(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = replica.start(unnamed(1), asker)
    await quiet()
    replica.store.down = True
    asker.hang_up()
    await quiet()
    down = await replica.ask(reworded())
    replica.store.down = False

    assert code_of(down) == "store_unavailable"
    assert code_of(await replica.ask(reworded())) == "suspected_duplicate"
    await task


async def test_an_asker_that_was_gone_before_it_was_sent_does_not_wait_for_it(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    asker.hang_up()
    task = pair[0].start(unnamed(1), asker)
    await quiet()

    assert code_of(await pair[1].ask(reworded())) == "suspected_duplicate"
    await task


async def test_a_retry_that_waits_for_it_is_somebody_who_waits(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=9_000), refunded("re_2", 5399)]
    asker = Asker()
    tasks = [pair[0].start(unnamed(1), asker)]
    await quiet()
    asker.hang_up()
    await quiet()
    tasks.append(pair[1].start(unnamed(2)))
    await quiet()

    assert body_of(await pair[0].ask(reworded(3)))["id"] == "re_2"
    for task in tasks:
        await task


async def test_a_retry_that_hung_up_too_leaves_nobody_who_waits(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    askers = [Asker(), Asker()]
    tasks = []
    for number, asker in enumerate(askers):
        tasks.append(pair[number].start(unnamed(number), asker))
        await quiet()
        asker.hang_up()
        await passing(500)

    assert code_of(await pair[0].ask(reworded(3))) == "suspected_duplicate"
    for task in tasks:
        await task


async def test_a_retry_that_waited_as_long_as_it_preferred_leaves_nobody_who_waits(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = pair[0].start(unnamed(1), asker)
    await quiet()
    asker.hang_up()
    await pair[1].ask(unnamed(2, wait_ms=100))
    await quiet()

    assert code_of(await pair[0].ask(reworded(3))) == "suspected_duplicate"
    await task


async def test_a_retry_that_was_turned_away_at_once_does_not_wait_for_it(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = pair[0].start(unnamed(1), asker)
    await quiet()
    asker.hang_up()
    await quiet()
    turned_away = await pair[1].ask(unnamed(2, credential="sk_live_other"))
    await quiet()

    assert code_of(turned_away) == "credential_mismatch"
    assert code_of(await pair[0].ask(reworded(3))) == "suspected_duplicate"
    await task


async def test_while_its_answer_was_not_seen_to_arrive_it_is_a_reworded_retry(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1"), refunded("re_2", 5399)]
    first = await pair[0].ask(unnamed(1))
    undelivered = await pair[1].ask(reworded(2))
    await pair[0].deliver(first)

    assert code_of(undelivered) == "suspected_duplicate"
    assert body_of(await pair[1].ask(reworded(3)))["id"] == "re_2"


async def test_what_was_unknown_has_twins_for_the_window_from_its_settlement(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=40_000), refunded("re_2", 5399)]
    await pair[0].ask(unnamed(1))
    await passing(15_000)
    await pair[0].deliver(await pair[0].ask(unnamed(1)))
    await passing(WINDOW_MS - 1_000)
    within = await pair[1].ask(reworded(2))
    await passing(1_000)

    assert code_of(within) == "suspected_duplicate"
    assert body_of(await pair[1].ask(reworded(3)))["id"] == "re_2"


@pytest.mark.parametrize("script", [refused(), unsent(Unsent.DNS)])
async def test_what_had_no_effect_and_was_never_in_doubt_has_no_twin(rig: Rig, pair: Pair, script: object) -> None:
    rig.upstream.writes += [script, refunded("re_2", 5399)]  # type: ignore[list-item]
    await pair[0].ask(unnamed(1))

    assert body_of(await pair[1].ask(reworded()))["id"] == "re_2"


async def test_a_message_to_the_same_people_is_a_twin_for_fifteen_minutes(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), broken()]
    await pair[0].ask(mail())
    await passing(15 * MINUTE_MS - 1_000)
    within = await pair[1].ask(mail(subject="Regarding your invoice"))
    await passing(1_000)

    after = await pair[1].ask(mail(subject="Regarding your invoice"))

    assert code_of(within) == "suspected_duplicate"
    assert (code_of(after), len(rig.upstream.dispatched)) == ("outcome_unknown", 2)


async def test_a_message_of_the_same_subject_is_a_twin_for_longer(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), broken()]
    await pair[0].ask(mail())
    await passing(WINDOW_MS - 1_000)
    within = await pair[1].ask(mail(text="Please find it attached."))
    await passing(1_000)

    after = await pair[1].ask(mail(text="Please find it attached."))

    assert code_of(within) == "suspected_duplicate"
    assert (code_of(after), len(rig.upstream.dispatched)) == ("outcome_unknown", 2)


async def test_the_order_and_case_of_recipients_make_no_other_target(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(mail(to=["b@y.com", "c@z.com"]))

    assert code_of(await pair[1].ask(mail(to=["C@z.com", "b@y.com"], subject="Again"))) == "suspected_duplicate"


@pytest.mark.parametrize(
    "other",
    [unnamed(2, charge="ch_2"), unnamed(2, credential="sk_test_1"), refund("ticket-18", amount=5399)],
    ids=["another charge", "another mode", "an event of its own"],
)
async def test_another_target_and_a_named_event_are_never_twins(rig: Rig, pair: Pair, other: Ask) -> None:
    rig.upstream.writes += [broken(), refunded("re_2")]
    await pair[0].ask(unnamed(1))

    assert body_of(await pair[1].ask(other))["id"] == "re_2"


async def test_where_twins_are_switched_off_the_rule_never_applies(rig: Rig) -> None:
    replica = rig.replica(twin=False)
    rig.upstream.writes += [broken(), refunded("re_2", 5399)]
    await replica.ask(unnamed(1))

    assert body_of(await replica.ask(reworded()))["id"] == "re_2"
    assert code_of(await replica.ask(unnamed(3))) == "outcome_unknown"


async def test_where_no_target_is_declared_the_rule_never_applies(rig: Rig, pair: Pair) -> None:
    rig.teach("stripe", refund_create={"targets": ()})
    rig.upstream.writes += [broken(), refunded("re_2", 5399)]
    await pair[0].ask(unnamed(1))

    assert body_of(await pair[1].ask(reworded()))["id"] == "re_2"
