"""CONTRACT 4: what settles, what comes after, what stands against it; and what a person's word is."""

from typing import Final

import pytest

from proxy.core.events import Absent, Event, Found, Noticed, Priced, Replayed, Several
from proxy.core.model import Action, Amount, Cause, Source
from proxy.core.records import Bucket, project
from proxy.core.verdict import Accepted
from tests.core.lives import (
    BEFORE_EXECUTION,
    KEY_REUSED,
    MARKED_ERROR,
    NOT_EXECUTED,
    RE_1,
    RE_2,
    REJECTED,
    STATES,
    answer,
    axes,
    lost,
    never_dispatched,
    read,
    says,
    then,
    unsent,
    whole,
)
from tests.fakes.actions import RULES, after, make_action

UNKNOWN: Final = after(make_action(), lost())
BOUNCED: Final = Noticed(REJECTED, whole(200), aftermath=True)


# ── What settles ──────────────────────────────────────────────────────────────────────────────────────────────────────

BY_THE_PROVIDER: Final[dict[str, tuple[Event, Source]]] = {
    "read-back": (read(Found(RE_1)), Source.READ_BACK),
    "webhook": (Noticed(RE_1, whole(200)), Source.WEBHOOK),
    "replay": (Replayed(RE_1, whole(200, replayed=True)), Source.REPLAY),
}


@pytest.mark.parametrize("way", BY_THE_PROVIDER)
def test_the_providers_own_record_settles_at_the_highest_grade(way: str) -> None:
    event, source = BY_THE_PROVIDER[way]
    result = then(UNKNOWN, event)
    assert (result.status.value, result.grade.value, result.object_ids) == ("confirmed", "confirmed", ("re_1",))
    assert result.settled_by is not None
    assert result.settled_by.source is source


@pytest.mark.parametrize(
    "event", [read(Found(REJECTED)), Noticed(REJECTED, whole(200)), Replayed(REJECTED, whole(402, replayed=True))]
)
def test_found_as_failed_is_failed_and_its_hold_is_released(event: Event) -> None:
    result = then(UNKNOWN, event)
    assert axes(result) == ("confirmed", "rejected", "failed", "rejected")
    assert (project(result, RULES).bucket, project(result, RULES).exposed) == (Bucket.RELEASED, None)


def test_a_replay_that_proves_nothing_changes_nothing_but_the_evidence() -> None:
    result = then(UNKNOWN, Replayed(MARKED_ERROR, whole(500)))
    assert axes(result) == axes(UNKNOWN)
    assert result.evidence[:-1] == UNKNOWN.evidence
    assert result.evidence[-1].source == "replay"


def test_what_is_found_gives_the_amount_that_was_moved() -> None:
    result = then(UNKNOWN, read(Found(Accepted(("re_1",), amount=Amount(5000, "usd")))))
    assert (result.amount, result.over_reserved) == (Amount(5000, "usd"), False)


def test_a_price_read_later_fills_in_what_the_request_did_not_carry_and_only_that() -> None:
    unpriced = after(make_action(amount=Amount(5400)), lost())
    assert then(unpriced, Priced(Amount(5400, "usd"))).amount == Amount(5400, "usd")
    assert then(UNKNOWN, Priced(Amount(1, "eur"))) == UNKNOWN


# ── Aftermath ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["by_response", "by_read_back", "by_person"])
def test_what_becomes_of_an_object_after_it_existed_is_aftermath_and_never_contrary(state: str) -> None:
    result = then(STATES[state], BOUNCED)
    assert axes(result) == axes(STATES[state])
    assert (result.contradicted, result.grade) == (False, STATES[state].grade)
    assert (result.evidence[-1].proof, result.evidence[-1].source) == ("aftermath", "webhook")


def test_a_read_back_that_finds_it_failed_after_the_provider_confirmed_it_is_aftermath() -> None:
    result = then(STATES["by_response"], read(Found(REJECTED)))
    assert (result.status.value, result.contradicted, result.evidence[-1].proof) == ("confirmed", False, "aftermath")


def test_a_read_back_that_finds_it_failed_stands_against_a_persons_yes() -> None:
    result = then(STATES["by_person"], read(Found(REJECTED)))
    assert (result.status.value, result.contradicted) == ("confirmed", True)


def test_an_object_that_was_created_already_failed_is_failed() -> None:
    assert axes(then(UNKNOWN, read(Found(REJECTED))))[2:] == ("failed", "rejected")


# ── Contradicted ──────────────────────────────────────────────────────────────────────────────────────────────────────

AGAINST_FAILED: Final[dict[str, Event]] = {
    "a response": answer(RE_1),
    "read-back": read(Found(RE_1)),
    "several": read(Several(("re_1", "re_2"))),
    "webhook": Noticed(RE_1, whole(200)),
    "replay": Replayed(RE_1, whole(200, replayed=True)),
}
FAILED: Final = ("not_sent", "not_executed", "before_execution", "rejected", "person_unsent", "person_rejected")


@pytest.mark.parametrize("state", FAILED)
@pytest.mark.parametrize("evidence", AGAINST_FAILED)
def test_evidence_that_a_failed_action_happened_contradicts_it_and_moves_nothing(state: str, evidence: str) -> None:
    before = STATES[state]
    result = then(before, AGAINST_FAILED[evidence])
    assert (axes(result), result.contradicted) == (axes(before), True)
    assert len(result.evidence) == len(before.evidence) + 1


AGAINST_CONFIRMED: Final[dict[str, Event]] = {
    "a late rejection": answer(REJECTED, 402),
    "a late 'not executed'": answer(NOT_EXECUTED, 429),
    "webhook": Noticed(REJECTED, whole(200)),
    "replay": Replayed(REJECTED, whole(402, replayed=True)),
    "proof that nothing was sent": unsent(),
}


@pytest.mark.parametrize("state", ["by_read_back", "by_person"])
@pytest.mark.parametrize("evidence", AGAINST_CONFIRMED)
def test_evidence_that_a_confirmed_action_did_not_happen_contradicts_it(state: str, evidence: str) -> None:
    before = STATES[state]
    result = then(before, AGAINST_CONFIRMED[evidence])
    assert (axes(result), result.contradicted) == (axes(before), True)
    assert len(result.evidence) == len(before.evidence) + 1


@pytest.mark.parametrize("state", FAILED)
def test_what_is_contradicted_consumes_its_amount_and_is_first_in_the_queue(state: str) -> None:
    before, after_it = project(STATES[state], RULES), project(then(STATES[state], answer(RE_1)), RULES)
    assert (before.bucket, after_it.bucket, after_it.actual) == (Bucket.RELEASED, Bucket.CONSUMED, 5400)
    assert "contradicted" in after_it.index
    assert "contradicted" not in before.index


def test_what_is_contradicted_consumes_what_the_provider_says_was_moved_even_above_what_was_reserved() -> None:
    result = then(STATES["person_unsent"], read(Found(Accepted(("re_1",), amount=Amount(9900, "usd")))))
    assert (project(result, RULES).actual, result.over_reserved) == (9900, True)


def test_a_refused_action_whose_key_is_found_at_the_provider_is_contradicted() -> None:
    assert then(STATES["refused"], read(Found(RE_1))).contradicted


def test_contrary_evidence_is_never_forgotten() -> None:
    result = then(STATES["failed_contradicted"], read(Found(REJECTED)), read(Absent()), says(True))
    assert result.contradicted


def test_another_object_under_our_identity_is_a_suspected_duplicate() -> None:
    result = then(STATES["by_read_back"], Noticed(RE_2, whole(200)))
    assert (result.duplicate_suspected, result.contradicted, result.object_ids) == (True, False, ("re_1",))


# ── A person ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_persons_word_is_kept_with_the_name_the_text_and_the_reference() -> None:
    result = then(UNKNOWN, says(True, reference="re_7"))
    word = result.evidence[-1]
    assert (word.source, word.proof, word.by, word.text, word.reference) == (
        "manual", "accepted", "ann", "looked it up", "re_7",
    )  # fmt: skip
    assert result.settled_by is not None
    assert (result.settled_by.source, result.settled_by.by, result.object_ids) == ("manual", "ann", ("re_7",))


def test_a_persons_yes_is_acknowledged_and_a_persons_no_is_failed() -> None:
    assert then(UNKNOWN, says(True)).grade.value == "acknowledged"
    assert then(UNKNOWN, says(False)).grade.value == "failed"


@pytest.mark.parametrize("state", [name for name, action in STATES.items() if not action.unresolved])
def test_a_person_settles_only_what_is_unknown(state: str) -> None:
    assert then(STATES[state], says(True), says(False)) == STATES[state]


def test_what_a_reused_key_names_makes_a_persons_yes_no_provider_verified_fact() -> None:
    reused = after(make_action(), answer(KEY_REUSED, 400), read(Found(RE_1)), Noticed(RE_1, whole(200)))
    assert axes(reused)[2:] == ("denied_unresolved", "key_reused")
    assert then(reused, says(True)).grade.value == "acknowledged"


def test_a_rejection_keeps_whether_anything_ran() -> None:
    assert after(make_action(), answer(BEFORE_EXECUTION, 400)).before_execution
    assert not after(make_action(), answer(REJECTED, 402)).before_execution


def test_an_action_that_was_never_dispatched_hears_of_no_dispatch() -> None:
    waiting: Action = never_dispatched()
    assert then(waiting, answer(RE_1), lost(Cause.TIMEOUT), unsent()) == waiting
