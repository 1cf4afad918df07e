"""What holds in every history of an action, whatever happens in whatever order: the promises, as properties."""

from collections.abc import Callable
from itertools import product
from typing import Final

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from proxy.core.events import ReadBack, Redispatched, Resolved, Rules, Unreadable
from proxy.core.lifecycle import may_be_sent_again
from proxy.core.model import (
    Acceptance,
    Action,
    Cause,
    DeliveryConfirmed,
    DeliveryFailed,
    DeliveryPending,
    Effect,
    NotDispatched,
    Proof,
    Source,
    Status,
)
from proxy.core.records import Bucket, project
from proxy.core.second import Asking, Verb, decide
from tests.core.histories import RULES, TALE, Letter, starts, walk

Tale = list[tuple[Letter, int]]
EVERY: Final = settings(derandomize=True, deadline=None, database=None, max_examples=200)
RULE: Final = st.sampled_from(RULES)
OF_THE_PROVIDER: Final = {Source.RESPONSE, Source.LATE_RESPONSE, Source.READ_BACK, Source.WEBHOOK, Source.REPLAY}


def proofs(action: Action) -> set[tuple[Source, Proof]]:
    return {(e.source, e.proof) for e in action.evidence}


REACHED: Final[dict[str, Callable[[Action], bool]]] = {
    "three dispatches": lambda a: len(a.dispatches) >= 3,
    "a refused action that was sent after all": lambda a: (
        len(a.dispatches) == 1 and a.dispatches[0].dispatch_id == "d1"
    ),
    "failed, and contradicted": lambda a: a.contradicted and a.status is Status.FAILED,
    "confirmed, and contradicted": lambda a: a.contradicted and a.status is Status.CONFIRMED,
    "a reused key, found": lambda a: a.cause is Cause.KEY_REUSED and len(a.evidence) >= 3,
    "read-backs used up": lambda a: a.readbacks >= 3 and a.needs_operator,
    "confirmed twice over": lambda a: a.duplicate_suspected and a.status is Status.CONFIRMED,
    "delivery confirmed while awaited": lambda a: a.awaited and isinstance(a.delivery, DeliveryConfirmed),
}


@pytest.mark.parametrize("end", REACHED)
def test_the_histories_do_get_to(end: str) -> None:
    def gets_there(drawn: tuple[Action, Tale, Rules]) -> bool:
        return any(REACHED[end](walked.after) for walked in walk(*drawn))

    unshrunk = settings(EVERY, max_examples=2000, phases=[Phase.generate])
    assert gets_there(find(st.tuples(starts(), TALE, RULE), gets_there, settings=unshrunk))


@EVERY
@given(starts(), TALE, RULE)
def test_no_history_sends_twice_unless_nothing_was_sent_or_executed(start: Action, tale: Tale, rules: Rules) -> None:
    for before, event, after, _ in walk(start, tale, rules):
        if len(after.dispatches) == len(before.dispatches):
            continue
        assert isinstance(event, Redispatched)
        assert not [e for e in before.evidence if e.proof is Proof.ACCEPTED]
        refused_by_us = isinstance(before.delivery, NotDispatched)
        assert refused_by_us or {e.proof for e in before.evidence} & {Proof.NOT_SENT, Proof.NOT_EXECUTED}
        assert refused_by_us or before.cause in (Cause.NOT_SENT, Cause.NOT_EXECUTED)


@EVERY
@given(starts(), TALE, RULE)
def test_no_history_answers_a_second_request_by_sending_while_it_may_have_happened(
    start: Action, tale: Tale, rules: Rules
) -> None:
    for _, _, after, now_ms in walk(start, tale, rules):
        may_have_happened = after.contradicted or after.status is not Status.FAILED
        for payload, credential, retry_of, readable in product((True, False), repeat=4):
            decision = decide(after, Asking(payload, credential, retry_of, now_ms, readable))
            sends = decision.verb in (Verb.SEND_AGAIN, Verb.NEW_RUN)
            assert not (sends and may_have_happened)
            assert not (decision.verb is Verb.SEND_AGAIN and not may_be_sent_again(after))
            assert not (decision.verb is Verb.NEW_RUN and after.over_at_ms(now_ms) is not None)
            assert credential or decision.verb not in (Verb.WAIT, Verb.REPLAY, Verb.READ)


@EVERY
@given(starts(), TALE, RULE)
def test_no_history_is_confirmed_without_the_providers_word_or_a_persons(
    start: Action, tale: Tale, rules: Rules
) -> None:
    for _, _, after, _ in walk(start, tale, rules):
        if after.status is Status.CONFIRMED:
            sources = {source for source, proof in proofs(after) if proof is Proof.ACCEPTED}
            assert sources & (OF_THE_PROVIDER | {Source.MANUAL})
            record = sources & {Source.READ_BACK, Source.WEBHOOK, Source.REPLAY}
            assert after.grade.value == ("confirmed" if record else "acknowledged")


@EVERY
@given(starts(), TALE, RULE)
def test_no_history_is_failed_without_a_proof_of_that_very_cause(start: Action, tale: Tale, rules: Rules) -> None:
    for _, _, after, _ in walk(start, tale, rules):
        if after.status is not Status.FAILED:
            continue
        provider = {proof for source, proof in proofs(after) if source in OF_THE_PROVIDER}
        match after.cause:
            case Cause.NOT_SENT:
                assert (Source.TRANSPORT, Proof.NOT_SENT) in proofs(after)
            case Cause.NOT_EXECUTED:
                assert Proof.NOT_EXECUTED in provider
            case Cause.REJECTED:
                assert Proof.REJECTED in provider
            case Cause.MANUAL:
                assert (Source.MANUAL, Proof.REJECTED) in proofs(after)
            case _:
                assert isinstance(after.delivery, NotDispatched)
                assert (after.cause, after.dispatches) == (Cause.LIMIT_EXHAUSTED, ())


@EVERY
@given(starts(), TALE, RULE)
def test_status_follows_from_the_axes_and_acceptance_waits_for_delivery(
    start: Action, tale: Tale, rules: Rules
) -> None:
    for _, _, after, _ in walk(start, tale, rules):
        open_ = Status.PENDING if after.awaited else Status.DENIED_UNRESOLVED
        follows = {
            DeliveryPending(): (open_, Acceptance.PENDING),
            DeliveryFailed(): (Status.FAILED, Acceptance.PENDING),
            NotDispatched(): (Status.FAILED, Acceptance.PENDING),
            DeliveryConfirmed(Acceptance.PENDING): (open_, Acceptance.PENDING),
            DeliveryConfirmed(Acceptance.ACCEPTED): (Status.CONFIRMED, Acceptance.ACCEPTED),
            DeliveryConfirmed(Acceptance.REJECTED): (Status.FAILED, Acceptance.REJECTED),
        }
        assert (after.status, after.acceptance) == follows[after.delivery]
        assert (after.cause is None) is (after.status in (Status.PENDING, Status.CONFIRMED))
        assert after.awaited is (after.status is Status.PENDING)


@EVERY
@given(starts(), TALE, RULE)
def test_what_is_recorded_is_never_taken_back(start: Action, tale: Tale, rules: Rules) -> None:
    sticky = ("was_unknown", "contradicted", "duplicate_suspected", "prior_execution")
    for before, event, after, _ in walk(start, tale, rules):
        assert after.evidence[: len(before.evidence)] == before.evidence
        assert after.notes[: len(before.notes)] == before.notes
        assert after.aliases[: len(before.aliases)] == before.aliases
        ids = [d.dispatch_id for d in before.dispatches]
        assert [d.dispatch_id for d in after.dispatches][: len(ids)] == ids
        assert after.identity == before.identity
        reached = isinstance(before.delivery, DeliveryConfirmed) and not isinstance(event, Redispatched)
        assert isinstance(after.delivery, DeliveryConfirmed) or not reached
        assert after.readbacks in (before.readbacks, before.readbacks + 1)
        for flag in sticky:
            assert getattr(after, flag) or not getattr(before, flag), (flag, event)


@EVERY
@given(starts(), TALE, RULE)
def test_what_is_settled_stays_as_it_is_unless_it_is_sent_again(start: Action, tale: Tale, rules: Rules) -> None:
    for before, event, after, _ in walk(start, tale, rules):
        if before.status in (Status.CONFIRMED, Status.FAILED) and not isinstance(event, Redispatched):
            assert (after.delivery, after.cause, after.settled_at_ms) == (
                before.delivery, before.cause, before.settled_at_ms,
            )  # fmt: skip
        if before.status is not Status.PENDING:
            assert after.status is not Status.PENDING or isinstance(event, Redispatched)


@EVERY
@given(starts(), TALE, RULE)
def test_what_is_unknown_is_asked_about_again_or_a_person_is_called(start: Action, tale: Tale, rules: Rules) -> None:
    for _, _, after, now_ms in walk(start, tale, rules):
        if after.unresolved:
            assert after.needs_operator or after.next_readback_ms is not None
            assert after.cause is not Cause.KEY_REUSED or (after.needs_operator and after.next_readback_ms is None)
            assert (after.was_unknown, after.unknown_since_ms is not None) == (True, True)
        else:
            assert (after.needs_operator, after.next_readback_ms) == (False, None)
        if after.next_readback_ms is not None:
            assert after.eligible_at_ms is not None
            assert after.next_readback_ms <= max(now_ms + rules.max_ms, after.eligible_at_ms)


@EVERY
@given(starts(), TALE, RULE)
def test_a_reused_key_is_settled_by_a_person_and_by_nothing_else(start: Action, tale: Tale, rules: Rules) -> None:
    for before, event, after, _ in walk(start, tale, rules):
        if before.cause is Cause.KEY_REUSED:
            assert after.cause is Cause.KEY_REUSED or isinstance(event, Resolved)
            assert after.grade.value in ("unknown", "acknowledged", "failed")


@EVERY
@given(starts(), TALE, RULE)
def test_only_a_scheduled_attempt_that_could_read_counts(start: Action, tale: Tale, rules: Rules) -> None:
    for before, event, after, _ in walk(start, tale, rules):
        if after.readbacks != before.readbacks:
            assert isinstance(event, ReadBack)
            assert event.scheduled
            assert not isinstance(event.finding, Unreadable)


@EVERY
@given(starts(), TALE, RULE)
def test_money_is_exposed_exactly_while_it_is_unknown_and_held_until_it_is_settled(
    start: Action, tale: Tale, rules: Rules
) -> None:
    for _, _, after, _ in walk(start, tale, rules):
        projected = project(after, rules)
        assert (projected.exposed is not None) is (after.unresolved and after.effect is Effect.MONEY)
        assert projected.unresolved is after.unresolved
        if projected.exposed is not None:
            priced = (after.amount.currency, after.amount.minor) if after.amount.priced else ("", 0)
            assert projected.exposed == ("stripe", "test", *priced)
        held = {
            Status.PENDING: Bucket.RESERVED,
            Status.DENIED_UNRESOLVED: Bucket.UNKNOWN,
            Status.CONFIRMED: Bucket.CONSUMED,
            Status.FAILED: Bucket.CONSUMED if after.contradicted else Bucket.RELEASED,
        }
        assert projected.bucket is held[after.status]


@EVERY
@given(starts(), TALE, RULE)
def test_what_is_open_is_found_by_the_next_request_of_its_payload_and_is_due_or_called_out(
    start: Action, tale: Tale, rules: Rules
) -> None:
    for _, _, after, now_ms in walk(start, tale, rules):
        projected = project(after, rules)
        if after.status is Status.PENDING or (after.unresolved and after.effect is Effect.MONEY):
            assert projected.claims["payload", "digest-p"] > now_ms + 365 * 86_400_000
        if after.unresolved and after.effect is Effect.MONEY:
            assert projected.claims["target", "digest-t"] > now_ms + 365 * 86_400_000
        if after.status is Status.PENDING and after.dispatches:
            assert after.dispatches[-1].ended_at_ms is None  # Or nobody would ever answer.
            assert (projected.due_ms is not None, projected.owner) == (True, "proxy-1")
        if after.status in (Status.CONFIRMED, Status.FAILED):
            assert (projected.due_ms, projected.owner) == (None, "")
