"""The sentences under the table of CONTRACT 2.1: replays, later runs, agents that hang up, late responses."""

from typing import Final

import pytest
from msgspec.structs import replace

from proxy.core.events import AskersGone, Delivered, Event, Folded, Found, Lost, Noticed, OwnerLost, Replayed
from proxy.core.lifecycle import step
from proxy.core.model import Action, Cause
from proxy.core.verdict import Unclear, Verdict
from tests.core.lives import (
    ALREADY_DONE,
    D1,
    D2,
    KEY_REUSED,
    MARKED_ERROR,
    NON_TERMINAL,
    NOT_EXECUTED,
    OWNER,
    RE_1,
    REJECTED,
    SERVER_ERROR,
    STATES,
    again,
    answer,
    at,
    axes,
    flags,
    lost,
    read,
    then,
    unsent,
    whole,
)
from tests.fakes.actions import RULES, after, make_action
from tests.fakes.clock import START_MS


def run_two() -> Action:
    """Return the second run of a scope, in flight."""
    first = make_action()
    return replace(first, identity=replace(first.identity, run=2, retry_of="action-before"))


# ── A provider's replay ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verdict", [RE_1, REJECTED, NON_TERMINAL, MARKED_ERROR], ids=lambda v: type(v).__name__)
def test_a_first_dispatch_answered_as_a_replay_is_flagged_as_executed_before(verdict: Verdict) -> None:
    assert after(make_action(), answer(verdict, replayed=True)).prior_execution


def test_a_replay_mark_on_an_answer_that_is_not_the_providers_means_nothing() -> None:
    assert not after(make_action(), answer(SERVER_ERROR, 502, replayed=True)).prior_execution


def test_a_later_dispatch_answered_as_a_replay_is_not_flagged_for_it_repeats_our_own() -> None:
    result = after(make_action(), answer(NOT_EXECUTED, 429))
    result = after(result, again(result), answer(RE_1, dispatch=D2, replayed=True))
    assert (result.status.value, result.prior_execution) == ("confirmed", False)


def test_a_replayed_5xx_stays_unknown() -> None:
    result = after(make_action(), answer(MARKED_ERROR, 500, replayed=True))
    assert axes(result) == ("confirmed", "pending", "denied_unresolved", "server_error")


# ── Already done ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_already_done_on_a_first_run_is_a_rejection_and_suspects_nobody() -> None:
    stepped = step(make_action(), answer(ALREADY_DONE, 400), at(), RULES)
    assert (axes(stepped.action)[2:], stepped.suspects) == (("failed", "rejected"), None)


def test_already_done_on_a_later_run_is_unknown_and_suspects_the_run_before() -> None:
    stepped = step(run_two(), answer(ALREADY_DONE, 400), at(), RULES)
    assert axes(stepped.action) == ("confirmed", "pending", "denied_unresolved", "unrecognised_response")
    assert stepped.suspects == "action-before"
    assert not stepped.action.answer_kept


def test_already_done_on_a_later_run_that_comes_late_settles_nothing_either() -> None:
    stepped = step(after(run_two(), lost()), answer(ALREADY_DONE, 400), at(), RULES)
    assert axes(stepped.action)[1:3] == ("pending", "denied_unresolved")
    assert stepped.suspects == "action-before"


def test_already_done_as_the_answer_to_a_replay_of_a_later_run_settles_nothing_either() -> None:
    replayed = Replayed(ALREADY_DONE, whole(400, replayed=True))
    stepped = step(after(run_two(), lost()), replayed, at(), RULES)
    assert axes(stepped.action)[1:3] == ("pending", "denied_unresolved")
    assert stepped.suspects == "action-before"


def test_nothing_else_on_a_later_run_suspects_the_run_before() -> None:
    events: list[Event] = [answer(REJECTED, 402), answer(RE_1), answer(NOT_EXECUTED, 429), lost(), unsent()]
    assert [step(run_two(), event, at(), RULES).suspects for event in events] == [None] * 5


# ── The agent ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ENDINGS: Final[dict[str, Event]] = {
    "accepted": answer(RE_1),
    "rejected": answer(REJECTED, 402),
    "not executed": answer(NOT_EXECUTED, 429),
    "server error": answer(MARKED_ERROR, 500),
    "timeout": lost(),
    "not sent": unsent(),
    "owner lost": OwnerLost(OWNER),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_agent_that_hangs_up_changes_nothing_of_the_outcome(ending: str) -> None:
    stayed, gone = after(make_action(), ENDINGS[ending]), after(make_action(), AskersGone(), ENDINGS[ending])
    assert (axes(gone), gone.grade, flags(gone) - {"askers_gone"}) == (axes(stayed), stayed.grade, flags(stayed))


@pytest.mark.parametrize("state", [name for name in STATES if name != "pending"])
def test_an_agent_that_hangs_up_afterwards_leaves_the_record_as_it_is(state: str) -> None:
    assert then(STATES[state], AskersGone()) == STATES[state]


def test_an_agent_that_comes_back_and_folds_is_an_asker_again() -> None:
    assert not after(make_action(), AskersGone(), Folded()).askers_gone


# ── Late responses ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (RE_1, ("confirmed", "accepted", "confirmed", "-")),
        (REJECTED, ("confirmed", "rejected", "failed", "rejected")),
        (NOT_EXECUTED, ("confirmed", "rejected", "failed", "not_executed")),
        (MARKED_ERROR, ("confirmed", "pending", "denied_unresolved", "timeout")),
        (SERVER_ERROR, ("pending", "pending", "denied_unresolved", "timeout")),
        (NON_TERMINAL, ("confirmed", "pending", "denied_unresolved", "non_terminal")),
        (KEY_REUSED, ("confirmed", "pending", "denied_unresolved", "key_reused")),
    ],
)
def test_a_late_response_is_evidence_like_any_other(verdict: Verdict, expected: tuple[str, ...]) -> None:
    result = after(make_action(), lost(), answer(verdict))
    assert axes(result) == expected
    assert result.evidence[-1].source == "late_response"
    assert result.unknown_cause is Cause.TIMEOUT


@pytest.mark.parametrize("verdict", [SERVER_ERROR, Unclear(Cause.UNRECOGNISED_RESPONSE)])
def test_a_late_response_that_proves_nothing_takes_back_nothing(verdict: Unclear) -> None:
    reached = after(make_action(), answer(MARKED_ERROR, 500))
    late = after(reached, answer(verdict, 502))
    assert axes(late) == axes(reached)
    assert flags(late) == flags(reached)


def test_a_response_that_was_accepted_late_is_not_provider_verified_but_can_be_shown_again() -> None:
    result = after(make_action(), lost(), answer(RE_1))
    assert (result.grade.value, result.answer_kept) == ("acknowledged", True)


def test_a_whole_response_ends_its_dispatch_and_one_cut_short_does_not() -> None:
    ended = after(make_action(), answer(MARKED_ERROR, 500), now_ms=START_MS + 7)
    cut = after(make_action(), replace(answer(MARKED_ERROR, 500), reply=replace(whole(500), whole=False)))
    assert ended.dispatches[-1].ended_at_ms == START_MS + 7
    assert cut.dispatches[-1].ended_at_ms is None


def test_a_dispatch_of_which_nothing_was_sent_is_over() -> None:
    assert after(make_action(), unsent()).over_at_ms(START_MS) is None


def test_what_is_not_clear_from_elsewhere_does_not_end_the_wait_for_the_answer() -> None:
    told = Noticed(Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("re_1",)), whole(200))
    waiting = after(make_action(), told)
    assert axes(waiting) == ("confirmed", "pending", "pending", "-")
    assert after(waiting, answer(RE_1)).evidence[-1].source == "response"


@pytest.mark.parametrize("event", [Lost(D1, Cause.TIMEOUT), OwnerLost(OWNER)], ids=["timeout", "owner lost"])
def test_silence_does_not_take_back_that_the_provider_has_it(event: Event) -> None:
    told = Noticed(Unclear(Cause.NON_TERMINAL, delivered=True), whole(200))
    assert axes(after(make_action(), told, event))[:3] == ("confirmed", "pending", "denied_unresolved")


@pytest.mark.parametrize("before", [(), (lost(),)], ids=["in flight", "unknown"])
def test_what_the_provider_has_is_not_failed_by_a_proof_that_it_was_not_sent(before: tuple[Event, ...]) -> None:
    told = Noticed(Unclear(Cause.SERVER_ERROR, delivered=True), whole(200))
    result = after(make_action(), *before, told, unsent())
    assert axes(result)[:3] == ("confirmed", "pending", "denied_unresolved")
    assert result.evidence[-1].proof == "not_sent"


def test_an_acceptance_of_a_dispatch_before_the_last_counts_too() -> None:
    result = after(make_action(), answer(NOT_EXECUTED, 429))
    result = after(result, again(result), answer(RE_1, dispatch=D1))
    assert axes(result)[2] == "confirmed"


@pytest.mark.parametrize("verdict", [REJECTED, NOT_EXECUTED, MARKED_ERROR, KEY_REUSED])
def test_nothing_less_of_a_dispatch_before_the_last_speaks_of_the_last(verdict: Verdict) -> None:
    result = after(make_action(), answer(NOT_EXECUTED, 429))
    sent_again = after(result, again(result))
    heard = after(sent_again, answer(verdict, 400, dispatch=D1))
    assert axes(heard) == ("pending", "pending", "pending", "-")
    assert len(heard.evidence) == len(sent_again.evidence) + 1


def test_an_answer_that_arrives_while_its_successor_is_in_flight_does_not_deliver_the_successor() -> None:
    result = after(make_action(), answer(NOT_EXECUTED, 429))
    assert after(result, again(result), Delivered(folded=False)).unanswered_first


def test_what_was_found_by_read_back_stands_when_the_dispatch_falls_silent() -> None:
    found = after(make_action(), lost(), read(Found(RE_1)))
    assert after(found, lost(Cause.CONNECTION_LOST)) == found
