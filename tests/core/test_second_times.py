"""CONTRACT 2.2 and 2.4: how long a rejection is replayed, when a new run may start, and what sending again keeps."""

import pytest
from msgspec.structs import replace

from proxy.core.events import Found, Noticed, Redispatched
from proxy.core.model import Action, Amount, NotDispatched
from proxy.core.second import Asking, Decision, Verb, decide
from tests.core.lives import (
    BEFORE_EXECUTION,
    D2,
    NOT_EXECUTED,
    RE_1,
    REJECTED,
    STATES,
    answer,
    axes,
    lost,
    read,
    says,
    unsent,
    whole,
)
from tests.fakes.actions import after, make_action, make_dispatch
from tests.fakes.clock import START_MS

HARVEST_END_MS = START_MS + 120_000


def ask(
    first: Action, now_ms: int, *, retry_of: bool = False, payload: bool = True, credential: bool = True
) -> Decision:
    return decide(first, Asking(payload, credential, retry_of, now_ms))


# ── A rejection before execution ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("age_ms", "verb"), [(0, Verb.REPLAY), (59_999, Verb.REPLAY), (60_000, Verb.NEW_RUN)])
def test_a_rejection_before_execution_is_replayed_for_sixty_seconds_then_a_new_run_starts(
    age_ms: int, verb: Verb
) -> None:
    first = after(make_action(), answer(BEFORE_EXECUTION, 400), now_ms=START_MS + 300)
    assert ask(first, START_MS + 300 + age_ms).verb is verb


def test_within_the_sixty_seconds_another_credential_gets_neither_the_rejection_nor_a_run() -> None:
    decision = ask(STATES["before_execution"], START_MS + 1, credential=False)
    assert (decision.code, decision.open) == ("credential_mismatch", False)


def test_within_the_sixty_seconds_another_payload_is_a_new_run_at_once() -> None:
    assert ask(STATES["before_execution"], START_MS + 1, payload=False).verb is Verb.NEW_RUN


def test_within_the_sixty_seconds_a_request_that_names_it_is_a_new_run_at_once() -> None:
    assert ask(STATES["before_execution"], START_MS + 1, retry_of=True).verb is Verb.NEW_RUN


def test_a_rejection_that_is_not_cited_as_before_execution_never_goes_to_a_new_run_by_itself() -> None:
    year_ms = 365 * 86_400_000
    assert ask(STATES["rejected"], START_MS + year_ms).verb is Verb.REPLAY
    assert ask(STATES["rejected"], START_MS + year_ms, payload=False).code == "retry_of_required"


# ── Too early ─────────────────────────────────────────────────────────────────────────────────────────────────────────

OPEN = {
    "by webhook": after(make_action(), lost(), Noticed(REJECTED, whole(200))),
    "by read-back": after(make_action(), lost(), read(Found(REJECTED))),
}


@pytest.mark.parametrize("settled", OPEN)
def test_a_new_run_never_starts_before_the_last_dispatch_is_over(settled: str) -> None:
    early = ask(OPEN[settled], HARVEST_END_MS - 1, retry_of=True)
    assert (early.verb, early.code, early.until_ms) == (Verb.REFUSE, "too_early", HARVEST_END_MS)
    assert ask(OPEN[settled], HARVEST_END_MS, retry_of=True) == Decision(Verb.NEW_RUN)


def test_a_new_run_that_a_person_allowed_never_starts_before_that_either() -> None:
    allowed = after(make_action(), lost(), says(False, allow_retry=True))
    assert ask(allowed, HARVEST_END_MS - 1).code == "too_early"
    assert ask(allowed, HARVEST_END_MS).verb is Verb.NEW_RUN


def test_too_early_tells_another_credential_no_more_than_that() -> None:
    assert not ask(OPEN["by webhook"], START_MS, retry_of=True, credential=False).open


@pytest.mark.parametrize("state", ["rejected", "not_executed", "before_execution"])
def test_a_dispatch_whose_whole_response_was_read_is_over(state: str) -> None:
    assert ask(STATES[state], START_MS + 1, retry_of=True).verb is Verb.NEW_RUN


def test_a_dispatch_of_which_nothing_was_sent_is_over() -> None:
    assert ask(STATES["not_sent"], START_MS, retry_of=True).verb is Verb.NEW_RUN


def test_what_was_never_dispatched_has_nothing_to_wait_for() -> None:
    assert ask(STATES["refused"], START_MS, retry_of=True).verb is Verb.NEW_RUN


def test_it_is_the_last_dispatch_that_must_be_over() -> None:
    first = after(make_action(), answer(NOT_EXECUTED, 429))
    first = after(first, Redispatched(make_dispatch(START_MS + 500_000, D2), first.amount, first.identity))
    first = after(first, lost(dispatch=D2), Noticed(REJECTED, whole(200)), now_ms=START_MS + 530_000)
    assert ask(first, START_MS + 540_000, retry_of=True).until_ms == START_MS + 620_000


# ── Sending again ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["not_sent", "not_executed"])
def test_sending_again_keeps_the_key_and_the_evidence_and_adds_a_dispatch(state: str) -> None:
    first = STATES[state]
    identity = replace(first.identity, payload="another")
    second = after(first, Redispatched(make_dispatch(START_MS + 9, D2), Amount(900, "usd"), identity))
    assert axes(second) == ("pending", "pending", "pending", "-")
    assert [d.dispatch_id for d in second.dispatches] == ["d1-1", D2]
    assert second.identity.idempotency_key == first.identity.idempotency_key
    assert (second.identity.payload, second.amount) == ("another", Amount(900, "usd"))
    assert second.evidence == first.evidence
    assert (second.settled_at_ms, second.settled_by, second.answer_kept, second.upstream_status) == (
        None, None, False, None,
    )  # fmt: skip


def test_what_is_sent_again_awaits_its_own_answer() -> None:
    first = STATES["not_executed"]
    second = after(first, Redispatched(make_dispatch(START_MS + 9, D2), first.amount, first.identity))
    assert after(second, answer(RE_1, dispatch=D2)).evidence[-1].source == "response"
    assert axes(after(second, lost(dispatch=D2)))[2:] == ("denied_unresolved", "timeout")
    assert after(second, lost()) == second
    assert after(second, unsent()) == second


def test_a_refused_action_that_gets_room_is_dispatched_like_a_first_one() -> None:
    second = after(
        STATES["refused"], Redispatched(make_dispatch(START_MS, D2), Amount(1, "usd"), make_action().identity)
    )
    assert not isinstance(second.delivery, NotDispatched)
    assert axes(after(second, answer(RE_1, dispatch=D2)))[2] == "confirmed"
