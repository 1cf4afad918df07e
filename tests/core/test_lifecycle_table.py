"""The tables are whole: no state and no event is left out, and each state is what its column says."""

from typing import Final, get_args

import pytest

from proxy.core.events import Event, Finding, Noticed, ReadBack, Replayed, Responded
from proxy.core.model import Acceptance, Cause, Delivery, DeliveryConfirmed, Status
from proxy.core.verdict import Unclear, Verdict
from tests.core.lives import CONFIRMED, EVENTS, FAILED, OPEN, STATES, axes, flags

_HAPPENED: Final = [event(STATES["pending"]) for event in EVENTS.values()]

# state → delivery, acceptance, status, cause, grade, flags
STANDS: Final = {
    "pending": "pending pending pending - pending",
    "unknown": "pending pending denied_unresolved timeout unknown was_unknown due",
    "reached": "confirmed pending denied_unresolved server_error unknown was_unknown due",
    "key_reused": "confirmed pending denied_unresolved key_reused unknown was_unknown needs_operator",
    "by_response": "confirmed accepted confirmed - acknowledged answer_kept",
    "by_read_back": "confirmed accepted confirmed - confirmed was_unknown",
    "by_person": "confirmed accepted confirmed - acknowledged was_unknown",
    "confirmed_contradicted": "confirmed accepted confirmed - confirmed was_unknown contradicted",
    "not_sent": "failed pending failed not_sent failed",
    "not_executed": "confirmed rejected failed not_executed failed answer_kept",
    "before_execution": "confirmed rejected failed rejected failed answer_kept before_execution",
    "rejected": "confirmed rejected failed rejected failed answer_kept",
    "person_unsent": "failed pending failed manual failed was_unknown",
    "person_rejected": "confirmed rejected failed manual failed was_unknown",
    "refused": "none pending failed limit_exhausted refused",
    "failed_contradicted": "failed pending failed not_sent failed contradicted",
}


@pytest.mark.parametrize("state", STANDS)
def test_each_state_of_the_table_is_what_its_name_says(state: str) -> None:
    words = STANDS[state].split()
    action = STATES[state]
    assert [*axes(action), action.grade.value] == words[:5]
    assert flags(action) - {"unanswered_first"} == set(words[5:])
    assert action.unanswered_first


def test_the_tables_leave_no_state_out() -> None:
    assert {*OPEN, *CONFIRMED, *FAILED} == set(STATES) == set(STANDS)
    assert len(OPEN) + len(CONFIRMED) + len(FAILED) == len(STATES)


def test_the_states_leave_no_delivery_acceptance_or_status_out() -> None:
    deliveries = [action.delivery for action in STATES.values()]
    assert {type(delivery) for delivery in deliveries} == set(get_args(Delivery))
    assert {d.acceptance for d in deliveries if isinstance(d, DeliveryConfirmed)} == set(Acceptance)
    assert {action.status for action in STATES.values()} == set(Status)


def test_the_events_leave_no_class_out() -> None:
    assert {type(event) for event in _HAPPENED} == set(get_args(Event))
    assert len(get_args(Event)) == 16


def test_the_events_leave_no_finding_out() -> None:
    assert {type(event.finding) for event in _HAPPENED if isinstance(event, ReadBack)} == set(get_args(Finding))


@pytest.mark.parametrize("source", [Responded, Noticed, Replayed])
def test_the_events_leave_no_verdict_out(source: type[Responded | Noticed | Replayed]) -> None:
    heard = {type(event.verdict) for event in _HAPPENED if isinstance(event, source)}
    assert heard == set(get_args(Verdict))


def test_the_responses_leave_no_cause_of_an_unclear_answer_out() -> None:
    causes = {e.verdict.cause for e in _HAPPENED if isinstance(e, Responded) and isinstance(e.verdict, Unclear)}
    assert causes == {
        Cause.SERVER_ERROR,
        Cause.IDEMPOTENT_CONFLICT,
        Cause.KEY_REUSED,
        Cause.MALFORMED_RESPONSE,
        Cause.NON_TERMINAL,
        Cause.UNRECOGNISED_RESPONSE,
    }
