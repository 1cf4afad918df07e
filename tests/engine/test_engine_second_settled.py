"""A second request after the first was settled (CONTRACT 2.2)."""

import pytest
from msgspec.structs import replace

from proxy.core.events import Resolved
from proxy.core.http import Unsent
from proxy.core.limits import Limit
from proxy.core.model import Grade, Status
from proxy.core.records import Period
from proxy.engine import Provided
from tests.engine.asks import broken, invalid, limited, mail, refund, refunded, refused
from tests.engine.provider import StripeRecord
from tests.engine.rig import Pair, Rig, body_of, code_of, header_of, message_of, shown, status_of
from tests.fakes.loop import passing
from tests.fakes.upstream import Script, unsent

MINUTE_MS = 60_000


async def test_what_is_confirmed_is_replayed_and_nothing_is_sent(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    first = await pair[0].ask(refund())

    again = await pair[1].ask(refund())

    assert isinstance(first, Provided)
    assert isinstance(again, Provided)
    assert again.response == first.response
    assert (header_of(again, "Idempotent-Replayed"), header_of(again, "Doubtless-Retry")) == ("true", "never")
    assert len(rig.upstream.dispatched) == 1
    assert pair[1].meter.counts["stored answer"] == 1


async def test_another_payload_for_what_is_confirmed_is_a_mismatch(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(refund())

    answer = await pair[1].ask(refund(amount=91))

    assert (status_of(answer), code_of(answer)) == (422, "payload_mismatch")
    assert "amount" in message_of(answer)


async def test_the_stored_response_is_for_the_same_credential_only(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(refund())

    answer = await pair[1].ask(refund(credential="sk_live_other"))

    assert (code_of(answer), list(shown(answer))) == ("credential_mismatch", ["retry"])
    assert len(rig.upstream.dispatched) == 1


async def test_a_key_in_a_header_of_the_providers_own_is_a_credential_too(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(refunded())
    await pair[0].ask(refund(headers={"X-Api-Key": "alice"}))

    answer = await pair[1].ask(refund(headers={"X-Api-Key": "bob"}))

    assert code_of(answer) == "credential_mismatch"
    assert body_of(await pair[1].ask(refund(headers={"X-Api-Key": "alice"})))["id"] == "re_1"


async def test_credentials_that_are_said_to_be_equal_share_it(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [refunded("re_1"), refunded("re_2")]
    mine = await replica.ask(refund())
    theirs = await replica.ask(refund("ticket-18", credential="sk_live_other"))
    group = frozenset(rig.action(answer).identity.credential for answer in (mine, theirs))
    sharing = rig.replica(same_credentials={"stripe": (group,)})

    assert all(digest.startswith("sha256:") for digest in group)
    assert body_of(await sharing.ask(refund(credential="sk_live_other")))["id"] == "re_1"
    assert code_of(await sharing.ask(refund(credential="sk_live_third"))) == "credential_mismatch"


async def test_what_a_read_back_settled_is_answered_by_the_object_it_made(rig: Rig, pair: Pair) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())
    record.made(rig.only.identity.idempotency_key)
    await passing(MINUTE_MS)
    await pair[0].reconcile()

    answer = await pair[1].ask(refund())

    assert rig.only.status is Status.CONFIRMED
    assert (body_of(answer)["id"], header_of(answer, "Idempotent-Replayed")) == ("re_1", "true")
    assert rig.upstream.read[-1].request.target == "/v1/refunds/re_1"
    assert rig.upstream.read[-1].credential == "Bearer sk_live_1"
    assert len(rig.upstream.dispatched) == 1


async def test_where_the_object_cannot_be_read_it_hears_that_it_is_settled(rig: Rig, pair: Pair) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())
    record.made(rig.only.identity.idempotency_key)
    await passing(MINUTE_MS)
    await pair[0].reconcile()
    record.down = True

    answer = await pair[1].ask(refund())

    assert (code_of(answer), header_of(answer, "Doubtless-Retry")) == ("already_settled", "never")
    assert shown(answer)["status"] == "confirmed"


async def test_the_object_is_not_read_for_another_credential(rig: Rig, pair: Pair) -> None:
    record = rig.upstream.reads = StripeRecord()
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())
    record.made(rig.only.identity.idempotency_key)
    await passing(MINUTE_MS)
    await pair[0].reconcile()
    reads = len(rig.upstream.read)

    assert code_of(await pair[1].ask(refund(credential="sk_live_other"))) == "credential_mismatch"
    assert len(rig.upstream.read) == reads


async def test_what_a_person_settled_without_an_object_is_already_settled(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(mail("ticket-1"))
    await pair[0].engine.applier.apply(rig.only.action_id, Resolved("ops", happened=True, text="seen in the inbox"))

    answer = await pair[1].ask(mail("ticket-1"))

    assert (code_of(answer), len(rig.upstream.dispatched)) == ("already_settled", 1)


@pytest.mark.parametrize("script", [unsent(Unsent.DNS), limited()])
async def test_what_executed_nothing_is_sent_again_under_the_same_key(rig: Rig, pair: Pair, script: Script) -> None:
    rig.upstream.writes += [script, refunded()]
    first = await pair[0].ask(refund())

    again = await pair[1].ask(refund())

    assert header_of(first, "Doubtless-Retry") == "safe"
    assert (body_of(again)["id"], header_of(again, "Idempotent-Replayed")) == ("re_1", None)
    ids = [dispatch.dispatch_id for dispatch in rig.only.dispatches]
    assert len(set(ids)) == 2
    assert {call.key for call in rig.upstream.dispatched} == {"ticket-17:stripe.refund.create"}


async def test_it_may_be_sent_again_with_another_payload_which_is_then_the_one_compared(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [limited(), refunded(amount=91)]
    await pair[0].ask(refund())

    await pair[1].ask(refund(amount=91))

    assert rig.only.amount.minor == 91
    assert code_of(await pair[0].ask(refund())) == "payload_mismatch"
    assert body_of(await pair[0].ask(refund(amount=91)))["amount"] == 91
    assert len(rig.upstream.dispatched) == 2


async def test_it_may_be_sent_again_with_another_credential_which_is_then_the_one_compared(
    rig: Rig, pair: Pair
) -> None:
    rig.upstream.writes += [limited(), refunded()]
    await pair[0].ask(refund())

    await pair[1].ask(refund(credential="sk_live_other"))

    assert code_of(await pair[0].ask(refund())) == "credential_mismatch"
    assert rig.upstream.dispatched[-1].credential == "Bearer sk_live_other"


async def test_twenty_at_once_send_it_again_once(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [unsent(Unsent.DNS), refunded(thinking=500)]
    await pair[0].ask(refund())

    tasks = [replica.start(refund()) for replica in pair * 10]

    assert {body_of(await task)["id"] for task in tasks} == {"re_1"}
    assert len(rig.upstream.dispatched) == 1
    assert len(rig.only.dispatches) == 2


async def test_what_a_limit_refused_is_sent_under_the_same_key_once_there_is_room(rig: Rig) -> None:
    room = Limit("refunds", "stripe.refund.*", Period.DAY, amount=6000, currency="usd")
    replica = rig.replica(limits=(room,))
    rig.upstream.writes.append(refunded("re_1"))
    await replica.ask(refund("ticket-1"))
    refusal = await replica.ask(refund("ticket-2"))
    graded = rig.action(refusal).grade
    rig.upstream.writes.append(refunded("re_2"))
    roomier = rig.replica(limits=(replace(room, amount=60_000),))

    answer = await roomier.ask(refund("ticket-2"))

    assert (code_of(refusal), status_of(refusal)) == ("limit_exhausted", 403)
    assert graded is Grade.REFUSED
    assert (body_of(answer)["id"], rig.upstream.dispatched[-1].key) == ("re_2", "ticket-2:stripe.refund.create")


async def test_a_refusal_before_execution_is_replayed_for_a_minute_and_then_a_new_run(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [invalid(), refunded()]
    first = await pair[0].ask(refund())
    await passing(MINUTE_MS - 1_000)
    replayed = await pair[1].ask(refund())
    other = await pair[1].ask(refund(credential="sk_live_other"))
    await passing(1_000)

    answer = await pair[1].ask(refund())

    assert (status_of(first), status_of(replayed), code_of(other)) == (400, 400, "credential_mismatch")
    assert header_of(replayed, "Idempotent-Replayed") == "true"
    assert body_of(answer)["id"] == "re_1"
    assert [a.identity.run for a in rig.actions] == [1, 2]
    assert rig.actions[1].identity.retry_of == rig.actions[0].action_id
    assert rig.upstream.dispatched[-1].key == "ticket-17:stripe.refund.create:2"


async def test_another_payload_after_a_refusal_before_execution_is_a_new_run_at_once(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes += [invalid(), refunded()]
    await pair[0].ask(refund(amount=-1))

    answer = await pair[1].ask(refund())

    assert body_of(answer)["id"] == "re_1"
    assert [call.key for call in rig.upstream.dispatched][1] == "ticket-17:stripe.refund.create:2"


@pytest.mark.parametrize("amount", [5400, 91])
async def test_another_failure_must_be_asked_for_by_name(rig: Rig, pair: Pair, amount: int) -> None:
    rig.upstream.writes.append(refused())
    await pair[0].ask(refund())
    await passing(10 * MINUTE_MS)

    answer = await pair[1].ask(refund(amount=amount))

    if amount == 5400:
        assert (status_of(answer), header_of(answer, "Idempotent-Replayed")) == (402, "true")
    else:
        assert (status_of(answer), code_of(answer)) == (409, "retry_of_required")
        assert rig.only.action_id in message_of(answer)
    assert len(rig.upstream.dispatched) == 1


async def test_a_failure_by_a_persons_word_must_be_asked_for_by_name_too(rig: Rig, pair: Pair) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(refund())
    await pair[0].engine.applier.apply(rig.only.action_id, Resolved("ops", happened=False, text="not in the list"))

    answer = await pair[1].ask(refund())

    assert (code_of(answer), header_of(answer, "Doubtless-Retry")) == ("retry_of_required", "new-run")
    assert len(rig.upstream.dispatched) == 1
