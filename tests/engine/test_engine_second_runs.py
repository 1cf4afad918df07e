"""New runs: asked for by `Doubtless-Retry-Of`, or allowed by a person (CONTRACT 2.2)."""

import pytest
from msgspec.structs import replace

from proxy.core.events import Resolved
from proxy.core.http import Integrity, Unsent
from proxy.core.limits import Limit
from proxy.core.model import Status
from proxy.core.records import Period
from tests.engine.asks import broken, invalid, limited, mail, refund, refunded, refused, unnamed
from tests.engine.rig import Pair, Rig, action_id_of, body_of, code_of, header_of, message_of, status_of
from tests.fakes.loop import passing
from tests.fakes.upstream import Script, answers, silence, unsent


async def declined(rig: Rig, pair: Pair) -> str:
    rig.upstream.writes.append(refused())
    return action_id_of(await pair[0].ask(refund()))


async def test_a_named_failure_is_run_anew_under_a_new_key_and_linked(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refunded())

    answer = await pair[1].ask(refund(retry_of=first))

    run = rig.action(answer)
    assert body_of(answer)["id"] == "re_1"
    assert (run.identity.run, run.identity.retry_of, run.identity.event_id) == (2, first, "ticket-17")
    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:2"


async def test_the_third_run_counts_on(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes += [refused(), refunded()]
    second = action_id_of(await pair[1].ask(refund(retry_of=first)))

    await pair[0].ask(refund(retry_of=second))

    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:3"


async def test_a_new_run_may_have_another_payload(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refunded(amount=91))

    assert body_of(await pair[1].ask(refund(amount=91, retry_of=first)))["amount"] == 91


async def test_the_name_is_never_sent_on(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refunded())
    await pair[1].ask(refund(retry_of=first))

    names = {name.lower() for call in rig.upstream.calls for name, _ in call.request.headers}
    assert not [name for name in names if name.startswith(b"doubtless-")]


async def test_ten_at_once_that_name_it_get_one_successor(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refunded(thinking=500))

    tasks = [replica.start(refund(retry_of=first)) for replica in pair * 5]

    assert {body_of(await task)["id"] for task in tasks} == {"re_1"}
    assert len(rig.actions) == 2
    assert len(rig.upstream.dispatched) == 2


async def test_whoever_names_an_older_run_makes_a_second_request_to_its_successor(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refunded())
    await pair[0].ask(refund(retry_of=first))

    again, other = [await pair[1].ask(refund(retry_of=first, amount=amount)) for amount in (5400, 91)]

    assert (body_of(again)["id"], header_of(again, "Idempotent-Replayed")) == ("re_1", "true")
    assert code_of(other) == "payload_mismatch"
    assert len(rig.upstream.dispatched) == 2


async def test_a_successor_that_failed_too_must_be_named_itself(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    rig.upstream.writes.append(refused())
    await pair[0].ask(refund(retry_of=first))

    answer = await pair[1].ask(refund(retry_of=first, amount=91))

    assert code_of(answer) == "retry_of_required"
    assert rig.actions[1].action_id in message_of(answer)


async def test_many_different_ones_that_name_an_older_run_send_its_unsent_successor_once(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refused())
    first = action_id_of(await pair[0].ask(unnamed(1)))
    rig.upstream.writes += [unsent(Unsent.DNS), refunded(thinking=500)]
    await pair[0].ask(unnamed(2, retry_of=first))

    asks = [unnamed(n, retry_of=first, amount=n) for n in range(10, 16)]
    tasks = [replica.start(ask) for replica, ask in zip(pair * 3, asks, strict=True)]
    answers_ = [await task for task in tasks]

    assert sorted(status_of(answer) for answer in answers_) == [200, *[422] * 5]
    assert len(rig.actions) == 2
    assert [call.key for call in rig.upstream.dispatched][1:] == [rig.actions[1].identity.idempotency_key]


async def test_a_request_without_an_event_may_name_it_and_is_run_under_the_same_event(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [refused(), refunded()]
    first = await pair[0].ask(unnamed(1))

    answer = await pair[1].ask(unnamed(2, amount=91, retry_of=action_id_of(first)))

    assert rig.action(answer).identity.event_id == rig.action(first).identity.event_id
    assert rig.action(answer).identity.run == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"retry_of": "01a13f6e-fa00-7000-8000-00000000ffff"},
        {"retry_of": ""},
        {"event": "ticket-18"},
        {"credential": "sk_test_1"},
        {"headers": {"Doubtless-Action-Type": "/second"}},
        {"path": "/v1/charges"},
    ],
)
async def test_a_name_of_nothing_or_of_another_scope_is_invalid(rig: Rig, pair: Pair, wrong: dict[str, str]) -> None:
    first = await declined(rig, pair)

    answer = await pair[1].ask(refund(**({"retry_of": first} | wrong)))  # type: ignore[arg-type]

    assert (status_of(answer), code_of(answer)) == (400, "retry_of_invalid")
    assert len(rig.upstream.dispatched) == 1


@pytest.mark.parametrize("script", [broken(), silence(thinking=1), refunded(thinking=5_000)])
async def test_a_name_of_what_is_unknown_or_in_flight_is_423(rig: Rig, pair: Pair, script: Script) -> None:
    rig.upstream.writes.append(script)
    task = pair[0].start(refund())
    await passing(100)
    first = rig.only.action_id

    answer = await pair[1].ask(refund(retry_of=first))

    assert status_of(answer) == 423
    assert len(rig.upstream.dispatched) == 1
    await task


async def test_a_name_of_what_is_confirmed_starts_no_run(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    first = action_id_of(await pair[0].ask(refund()))

    assert body_of(await pair[1].ask(refund(retry_of=first)))["id"] == "re_1"
    assert code_of(await pair[1].ask(refund(retry_of=first, amount=91))) == "payload_mismatch"
    assert len(rig.upstream.dispatched) == 1


async def test_a_name_of_what_a_person_called_failed_against_the_provider_is_423(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded(thinking=40_000))
    await pair[0].ask(refund())
    await resolved_failed(pair, rig.only.action_id)
    await passing(20_000)

    assert (rig.only.status, rig.only.contradicted) == (Status.FAILED, True)
    assert status_of(await pair[1].ask(refund(retry_of=rig.only.action_id))) == 423
    assert len(rig.upstream.dispatched) == 1


@pytest.mark.parametrize("script", [limited(), unsent(Unsent.DNS)])
async def test_what_executed_nothing_may_be_run_anew_by_name(rig: Rig, pair: Pair, script: Script) -> None:
    rig.upstream.writes += [script, refunded()]
    first = action_id_of(await pair[0].ask(refund()))

    await pair[1].ask(refund(retry_of=first))

    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:2"


async def test_a_new_run_never_starts_before_the_last_dispatch_is_over(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(silence(thinking=200_000))
    await pair[0].ask(refund())
    first = rig.only
    await resolved_failed(pair, first.action_id, allow_retry=True)

    early = [await pair[1].ask(refund()), await pair[1].ask(refund(retry_of=first.action_id))]
    await passing(first.dispatches[0].harvest_ms - rig.clock.store_ms() - 1)
    last_early = await pair[1].ask(refund())
    await passing(1)
    rig.upstream.writes.append(refunded())
    answer = await pair[1].ask(refund())

    assert [code_of(a) for a in (*early, last_early)] == ["too_early"] * 3
    assert {status_of(a) for a in early} == {409}
    assert "2026-10-15T12:02:00Z" in message_of(early[0])
    assert header_of(early[0], "Doubtless-Retry") == "new-run"
    assert body_of(answer)["id"] == "re_1"
    assert rig.actions[1].identity.retry_of == first.action_id


async def test_a_response_that_was_read_whole_ends_a_dispatch_at_once(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), refunded()]
    await pair[0].ask(refund())
    await resolved_failed(pair, rig.only.action_id, allow_retry=True)

    assert body_of(await pair[1].ask(refund()))["id"] == "re_1"


async def test_a_response_that_was_cut_short_does_not(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(answers(200, {"id": "re"}, integrity=Integrity.CUT))
    await pair[0].ask(refund())
    await resolved_failed(pair, rig.only.action_id, allow_retry=True)

    assert code_of(await pair[1].ask(refund())) == "too_early"


async def test_what_a_person_allows_is_the_next_request_without_a_name(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [broken(), refunded(amount=91)]
    await pair[0].ask(refund())
    await resolved_failed(pair, rig.only.action_id, allow_retry=True)

    answer = await pair[1].ask(refund(amount=91))

    assert rig.action(answer).identity.run == 2
    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:2"


async def test_a_run_that_a_crash_of_its_commit_left_unsent_is_found_by_the_next_one(rig: Rig, pair: Pair) -> None:
    first = await declined(rig, pair)
    pair[1].store.fail_next("commit", "after", times=2)
    lost = await pair[1].ask(refund(retry_of=first))
    await pair[1].reconcile()
    rig.upstream.writes.append(refunded())

    answer = await pair[0].ask(refund(retry_of=first))

    assert code_of(lost) == "store_unavailable"
    assert (rig.action(answer).identity.run, len(rig.action(answer).dispatches)) == (2, 2)


async def test_an_sdks_own_key_follows_its_event_to_the_latest_run(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [invalid(), refunded()]
    await pair[0].ask(unnamed(1))
    await passing(60_000)
    second = await pair[1].ask(unnamed(1))

    third = await pair[0].ask(unnamed(1))

    assert rig.action(second).identity.run == 2
    assert action_id_of(third) == action_id_of(second)
    assert len(rig.upstream.dispatched) == 2


async def test_a_new_run_that_a_limit_refuses_is_the_one_that_is_sent_later(rig: Rig) -> None:
    room = Limit("refunds", "stripe.refund.*", Period.DAY, amount=6000, currency="usd")
    replica = rig.replica(limits=(room,))
    rig.upstream.writes += [refused(), refunded("re_other")]
    first = action_id_of(await replica.ask(refund()))
    await replica.ask(refund("ticket-18"))
    turned_away = await replica.ask(refund(retry_of=first))
    rig.upstream.writes.append(refunded())
    roomier = rig.replica(limits=(replace(room, amount=60_000),))

    answer = await roomier.ask(refund(retry_of=first))

    assert code_of(turned_away) == "limit_exhausted"
    assert rig.action(answer).identity.run == 2
    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:2"


async def test_a_mail_that_was_refused_unread_is_run_anew_when_it_is_another(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(answers(422, {"statusCode": 422, "name": "validation_error", "message": "No."}))
    first = await pair[0].ask(mail("ticket-1"))
    rig.upstream.writes.append(answers(200, {"id": "3f2b1c00-0000-4000-8000-000000000001"}))

    answer = await pair[1].ask(mail("ticket-1", subject="Your invoice, again"))

    assert rig.action(answer).identity.retry_of == action_id_of(first)


async def resolved_failed(pair: Pair, action_id: str, *, allow_retry: bool = False) -> None:
    event = Resolved("ops", happened=False, text="not in the dashboard", allow_retry=allow_retry)
    await pair[0].engine.applier.apply(action_id, event)
