"""Requests without an event ID: which of them are one action (CONTRACT 2.3, rules 1, 2 and 4)."""

import pytest

from proxy.core.events import Resolved
from proxy.core.http import Unsent
from proxy.core.model import Status
from proxy.engine import Asker, Provided
from tests.engine.asks import broken, invalid, limited, mail, refund, refunded, refused, unnamed
from tests.engine.rig import Pair, Rig, action_id_of, body_of, code_of, header_of, shown
from tests.fakes.loop import passing, quiet
from tests.fakes.upstream import Script, unsent

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
WINDOW_MS = 20 * HOUR_MS


async def test_twenty_at_once_with_twenty_keys_are_one_dispatch(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded(thinking=500))

    tasks = [pair[n % 2].start(unnamed(n)) for n in range(20)]
    answers = [await task for task in tasks]

    assert len(rig.upstream.dispatched) == len(rig.actions) == 1
    assert {body_of(answer)["id"] for answer in answers} == {"re_1"}
    folded = [answer for answer in answers if header_of(answer, "Doubtless-Folded-Into") == rig.only.action_id]
    assert len(folded) == rig.only.unanswered_folded == 19
    assert {header_of(answer, "Idempotent-Replayed") for answer in folded} == {"true"}


async def test_a_burst_is_one_dispatch_too_and_nobody_is_turned_away(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded(thinking=500))

    tasks = [pair[n % 2].start(unnamed(n)) for n in range(150)]

    assert {body_of(await task)["id"] for task in tasks} == {"re_1"}
    assert len(rig.upstream.dispatched) == 1
    assert rig.only.unanswered_folded == 149


async def test_the_same_sdk_key_is_the_same_action_without_folding(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(unnamed(1))

    again = await pair[1].ask(unnamed(1))

    assert (body_of(again)["id"], header_of(again, "Doubtless-Folded-Into")) == ("re_1", None)
    assert rig.only.unanswered_folded == 0


async def test_the_same_sdk_key_is_the_same_action_long_after_it_was_delivered(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].deliver(await pair[0].ask(unnamed(1)))
    await passing(30 * DAY_MS)

    assert body_of(await pair[1].ask(unnamed(1)))["id"] == "re_1"
    assert code_of(await pair[1].ask(unnamed(1, amount=91))) == "payload_mismatch"
    assert len(rig.upstream.dispatched) == 1


async def test_the_key_of_a_folded_request_names_the_action_from_then_on(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    first = await pair[0].ask(unnamed(1))
    await pair[1].deliver(await pair[1].ask(unnamed(2)))
    await pair[0].deliver(first)

    assert body_of(await pair[0].ask(unnamed(2)))["id"] == "re_1"
    assert code_of(await pair[0].ask(unnamed(2, amount=91))) == "payload_mismatch"


async def test_what_is_unknown_folds_and_is_answered_as_unknown(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(unnamed(2))

    assert code_of(answer) == "outcome_unknown"
    assert header_of(answer, "Doubtless-Folded-Into") == rig.only.action_id
    assert len(rig.upstream.dispatched) == 1


async def test_what_nobody_was_seen_to_get_folds_and_is_replayed(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(unnamed(1))
    await passing(WINDOW_MS - 1_000)

    answer = await pair[1].ask(unnamed(2))

    assert (body_of(answer)["id"], header_of(answer, "Idempotent-Replayed")) == ("re_1", "true")
    assert len(rig.upstream.dispatched) == 1


async def test_what_was_delivered_is_followed_by_a_new_action(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1"), refunded("re_2")]
    await pair[0].deliver(await pair[0].ask(unnamed(1)))

    answer = await pair[1].ask(unnamed(2))

    assert (body_of(answer)["id"], header_of(answer, "Idempotent-Replayed")) == ("re_2", None)
    assert len({a.identity.event_id for a in rig.actions}) == len({c.key for c in rig.upstream.dispatched}) == 2


async def test_tomorrows_run_of_a_daily_job_is_a_new_action_though_todays_answer_was_lost(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1"), refunded("re_2")]
    await pair[0].ask(unnamed(1))
    await passing(WINDOW_MS)

    assert body_of(await pair[1].ask(unnamed(2)))["id"] == "re_2"


async def test_it_is_not_delivered_while_a_folded_request_lacks_its_answer(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=500), refunded("re_2")]
    tasks = [pair[0].start(unnamed(1)), pair[1].start(unnamed(2))]
    first, second = [await task for task in tasks]
    await pair[0].deliver(first)

    third = await pair[1].ask(unnamed(3))
    for answer in (second, third):
        await pair[1].deliver(answer)
    fourth = await pair[0].ask(unnamed(4))

    assert [body_of(answer)["id"] for answer in (third, fourth)] == ["re_1", "re_2"]


async def test_a_first_asker_that_hung_up_is_answered_by_a_folded_one(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=500), refunded("re_2")]
    asker = Asker()
    task = pair[0].start(unnamed(1), asker)
    await quiet()
    asker.hang_up()
    await pair[1].deliver(await pair[1].ask(unnamed(2)))
    await task

    assert body_of(await pair[0].ask(unnamed(3)))["id"] == "re_2"


async def test_what_was_ever_unknown_folds_for_the_window_from_its_settlement_even_when_delivered(
    rig: Rig, pair: Pair
) -> None:
    rig.upstream.writes += [refunded("re_1", thinking=40_000), refunded("re_2")]
    await pair[0].ask(unnamed(1))
    await passing(15_000)
    await pair[0].deliver(await pair[0].ask(unnamed(2)))
    await passing(WINDOW_MS - 1_000)

    before = await pair[1].ask(unnamed(3))
    await pair[1].deliver(before)
    await passing(1_000)

    assert [body_of(answer)["id"] for answer in (before, await pair[1].ask(unnamed(4)))] == ["re_1", "re_2"]


async def test_unknown_money_folds_without_limit(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))
    await passing(60 * DAY_MS)

    assert code_of(await pair[1].ask(unnamed(2))) == "outcome_unknown"
    assert len(rig.upstream.dispatched) == 1


async def test_an_unknown_message_folds_for_the_window_and_then_its_double_is_suspected(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), broken()]
    first = action_id_of(await pair[0].ask(mail()))
    await passing(WINDOW_MS - 1_000)
    within = await pair[1].ask(mail())
    await passing(1_000)

    after = await pair[1].ask(mail())

    assert header_of(within, "Doubtless-Folded-Into") == first
    assert action_id_of(after) != first
    assert [a.duplicate_suspected for a in rig.actions] == [False, True]
    assert len(rig.upstream.dispatched) == 2


@pytest.mark.parametrize("script", [refused(), invalid()])
async def test_a_rejection_that_was_delivered_is_followed_by_a_new_action(rig: Rig, pair: Pair, script: Script) -> None:
    rig.upstream.writes += [script, refunded()]
    await pair[0].deliver(await pair[0].ask(unnamed(1)))

    assert body_of(await pair[1].ask(unnamed(2)))["id"] == "re_1"
    assert [a.identity.run for a in rig.actions] == [1, 1]


async def test_a_rejection_that_was_not_delivered_is_replayed(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refused())
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(unnamed(2))

    assert isinstance(answer, Provided)
    assert (answer.response.status, header_of(answer, "Doubtless-Folded-Into")) == (402, rig.only.action_id)


@pytest.mark.parametrize("script", [unsent(Unsent.DNS), limited()])
async def test_what_executed_nothing_is_sent_again_as_the_same_action(rig: Rig, pair: Pair, script: Script) -> None:
    rig.upstream.writes += [script, refunded()]
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(unnamed(2))

    assert (body_of(answer)["id"], len(rig.only.dispatches)) == ("re_1", 2)
    assert header_of(answer, "Doubtless-Folded-Into") == rig.only.action_id


async def test_one_without_an_event_folds_into_one_with_an_event(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund("ticket-17"))

    answer = await pair[1].ask(unnamed(1))

    assert (code_of(answer), shown(answer)["event_id"]) == ("outcome_unknown", "ticket-17")


async def test_intended_doubles_have_events_of_their_own(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), refunded("re_2")]
    await pair[0].ask(refund("ticket-17"))

    assert body_of(await pair[1].ask(refund("ticket-17/2")))["id"] == "re_2"


async def test_another_credential_that_folds_gets_nothing_of_it(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(unnamed(2, credential="sk_live_other"))

    assert code_of(answer) == "credential_mismatch"
    assert len(rig.upstream.dispatched) == 1


async def test_the_answer_to_a_further_dispatch_is_not_delivered_by_that_to_the_first(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [limited(), refunded("re_1", thinking=500)]
    first = await pair[0].ask(unnamed(1))
    task = pair[0].start(unnamed(1))
    await quiet()
    await pair[0].deliver(first)
    await task

    assert rig.only.status is Status.CONFIRMED
    assert body_of(await pair[1].ask(unnamed(2)))["id"] == "re_1"
    assert len(rig.upstream.dispatched) == 2


async def test_what_a_person_called_failed_folds_and_must_be_named(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))
    await pair[0].engine.applier.apply(rig.only.action_id, Resolved("ops", happened=False, text="checked"))

    assert code_of(await pair[1].ask(unnamed(2))) == "retry_of_required"
    assert len(rig.upstream.dispatched) == 1
