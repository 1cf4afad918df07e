"""CONTRACT 4: when the provider's record is asked, how often, and when a person is called instead."""

from typing import Final

import pytest

from proxy.core.events import Absent, Candidates, Event, Finding, Found, ReadBack, Rules, Several, Unreadable
from proxy.core.model import Action, Cause
from proxy.core.verdict import Unclear
from tests.core.lives import KEY_REUSED, MARKED_ERROR, NON_TERMINAL, RE_1, answer, axes, lost, read, then
from tests.fakes.actions import RULES, after, make_action
from tests.fakes.clock import START_MS

SECOND: Final = 1000
DAY: Final = 86_400_000
BLIND: Final = Rules(scheduled=False)
PARTIAL: Final = Rules(scheduled=False, by_object=True)
UNREADABLE: Final = Unreadable("status_500")


def unknown(*, rules: Rules = RULES, now_ms: int = START_MS) -> Action:
    return after(make_action(), lost(), rules=rules, now_ms=now_ms)


def asked(action: Action, finding: Finding, *, rules: Rules = RULES, most: int = 100) -> tuple[Action, list[int]]:
    """Ask the record whenever it is due; the action when nothing is due any more, and the seconds between."""
    gaps: list[int] = []
    now_ms = action.unknown_since_ms or 0
    while action.next_readback_ms is not None and len(gaps) < most:
        gaps.append((action.next_readback_ms - now_ms) // SECOND)
        now_ms = action.next_readback_ms
        action = after(action, ReadBack(finding, scheduled=True), now_ms=now_ms, rules=rules)
    return action, gaps


# ── When ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_read_backs_come_first_after_thirty_seconds_then_double_to_an_hour_twelve_in_all() -> None:
    done, gaps = asked(unknown(now_ms=START_MS + 25_000), Absent())
    assert gaps == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600]
    assert done.readbacks == 12


def test_each_number_can_be_another_for_an_action_type() -> None:
    rules = Rules(scheduled=True, first_ms=5_000, max_ms=20_000, attempts=5)
    done, gaps = asked(unknown(rules=rules), Absent(), rules=rules)
    assert gaps == [5, 10, 20, 20, 20]
    assert done.readbacks == 5


def test_after_the_last_attempt_it_stays_unresolved_and_a_person_is_called() -> None:
    done, _ = asked(unknown(), Absent())
    assert axes(done) == ("pending", "pending", "denied_unresolved", "timeout")
    assert (done.needs_operator, done.next_readback_ms) == (True, None)


def test_a_person_is_not_called_while_attempts_are_left() -> None:
    eleventh, _ = asked(unknown(), Absent(), most=11)
    assert (eleventh.readbacks, eleventh.needs_operator) == (11, False)


def test_unresolved_lasts_for_ever_if_need_be() -> None:
    done, _ = asked(unknown(), Absent())
    later = after(done, read(Absent(), scheduled=False), now_ms=START_MS + 400 * DAY)
    assert (later.status.value, later.needs_operator) == ("denied_unresolved", True)


def test_a_find_after_the_last_attempt_still_settles_and_needs_no_person_any_more() -> None:
    done, _ = asked(unknown(), Absent())
    found = after(done, read(Found(RE_1), scheduled=False), now_ms=START_MS + 2 * DAY)
    assert (found.status.value, found.grade.value, found.needs_operator) == ("confirmed", "confirmed", False)


@pytest.mark.parametrize(("min_age_s", "due_s"), [(0, 30), (20, 30), (300, 300)])
def test_nothing_is_asked_before_the_minimum_age_of_the_action_type(min_age_s: int, due_s: int) -> None:
    result = unknown(rules=Rules(scheduled=True, min_age_ms=min_age_s * SECOND))
    assert result.eligible_at_ms == START_MS + min_age_s * SECOND
    assert result.next_readback_ms == START_MS + due_s * SECOND


def test_the_minimum_age_counts_from_the_dispatch_and_the_first_wait_from_not_knowing() -> None:
    result = unknown(rules=Rules(scheduled=True, min_age_ms=40_000), now_ms=START_MS + 25_000)
    assert result.eligible_at_ms == START_MS + 40_000
    assert result.next_readback_ms == START_MS + 55_000


# ── What counts ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_attempts_that_could_not_read_back_off_but_do_not_count() -> None:
    result, gaps = asked(unknown(), UNREADABLE, most=15)
    assert gaps == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 3600, 3600, 3600, 3600, 3600]
    assert (result.readbacks, result.needs_operator) == (0, False)


def test_attempts_that_could_not_read_are_bounded_by_the_providers_look_back() -> None:
    rules = Rules(scheduled=True, look_back_ms=DAY)
    done, gaps = asked(unknown(rules=rules), UNREADABLE, rules=rules)
    assert sum(gaps) * SECOND > DAY
    assert sum(gaps[:-1]) * SECOND <= DAY
    assert (done.status.value, done.needs_operator, done.readbacks) == ("denied_unresolved", True, 0)


def test_an_hour_in_which_nothing_could_be_read_costs_none_of_the_twelve_attempts() -> None:
    hindered, _ = asked(unknown(), UNREADABLE, most=4)
    done, gaps = asked(hindered, Absent())
    assert (len(gaps), done.readbacks) == (12, 12)


def test_an_attempt_on_demand_does_not_count_and_moves_no_schedule() -> None:
    before = unknown()
    result = before
    for _ in range(20):
        result = then(result, read(Absent(), scheduled=False))
    assert (result.readbacks, result.next_readback_ms) == (0, before.next_readback_ms)
    assert [a.scheduled for a in result.attempts] == [False] * 20


@pytest.mark.parametrize("came", ["in time", "late"])
def test_read_backs_of_a_job_do_not_count_before_it_must_have_ended(came: str) -> None:
    rules = Rules(scheduled=True, settle_within_ms=600_000)
    events: tuple[Event, ...] = (
        (answer(NON_TERMINAL, 202),) if came == "in time" else (lost(), answer(NON_TERMINAL, 202))
    )
    result = after(make_action(), *events, rules=rules)
    running, _ = asked(result, Absent(), rules=rules, most=4)  # 30 + 60 + 120 + 240 s: the job may still be running.
    ended, _ = asked(running, Absent(), rules=rules, most=1)
    assert (running.readbacks, ended.readbacks) == (0, 1)


def test_the_time_of_a_job_is_no_excuse_for_an_outcome_that_is_unknown_otherwise() -> None:
    rules = Rules(scheduled=True, settle_within_ms=600_000)
    assert asked(unknown(rules=rules), Absent(), rules=rules, most=1)[0].readbacks == 1


def test_a_job_that_is_unclear_shows_its_first_asker_the_providers_own_answer_again() -> None:
    assert after(make_action(), answer(NON_TERMINAL, 202)).answer_kept


# ── A person at once ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rules", "event"),
    [(BLIND, lost()), (PARTIAL, lost()), (BLIND, answer(NON_TERMINAL, 202)), (RULES, answer(KEY_REUSED, 400))],
    ids=["blind", "partial without an object", "blind, though an object is known", "key reused"],
)
def test_where_nothing_can_be_read_a_person_is_called_at_once(rules: Rules, event: Event) -> None:
    result = after(make_action(), event, rules=rules)
    assert (result.needs_operator, result.next_readback_ms) == (True, None)


def test_a_partial_type_is_asked_about_once_its_object_is_known() -> None:
    result = after(make_action(), answer(NON_TERMINAL, 202), rules=PARTIAL)
    assert (result.needs_operator, result.next_readback_ms) == (False, START_MS + 30_000)


def test_a_partial_type_whose_object_becomes_known_late_is_asked_about_from_then() -> None:
    cut = Unclear(Cause.MALFORMED_RESPONSE, delivered=True, object_ids=("re_1",))
    result = after(after(make_action(), lost(), rules=PARTIAL), answer(cut), rules=PARTIAL, now_ms=START_MS + 40_000)
    assert (result.needs_operator, result.next_readback_ms) == (False, START_MS + 70_000)


def test_a_blind_type_stays_with_the_person_whatever_comes_late() -> None:
    result = then(after(make_action(), lost(), rules=BLIND), answer(NON_TERMINAL, 202), rules=BLIND)
    assert (result.needs_operator, result.next_readback_ms) == (True, None)


def test_a_read_back_that_was_under_way_does_not_put_a_reused_key_back_into_the_queue() -> None:
    result = after(make_action(), lost(), answer(KEY_REUSED, 400), read(Absent()))
    assert (result.needs_operator, result.next_readback_ms) == (True, None)


# ── What a finding does ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_candidate_never_settles() -> None:
    before = unknown()
    done, gaps = asked(before, Candidates(("re_8",)))
    assert axes(done) == ("pending", "pending", "denied_unresolved", "timeout")
    assert (len(gaps), done.needs_operator, done.object_ids, done.evidence) == (12, True, (), before.evidence)
    assert {a.candidates for a in done.attempts} == {("re_8",)}


@pytest.mark.parametrize("finding", [Candidates(("re_8",)), Absent(), UNREADABLE], ids=lambda f: type(f).__name__)
def test_what_is_not_found_changes_nothing_but_the_attempt_log(finding: Finding) -> None:
    before = unknown()
    result = then(before, read(finding, scheduled=False))
    assert result.attempts[-1].result == type(finding).__name__.lower()
    assert (axes(result), result.evidence, result.amount) == (axes(before), before.evidence, before.amount)


def test_more_than_one_object_of_ours_is_a_suspected_duplicate_for_a_person() -> None:
    result = then(unknown(), read(Several(("re_1", "re_2"))))
    assert (result.status.value, result.duplicate_suspected, result.needs_operator) == ("denied_unresolved", True, True)
    assert result.evidence[-1].object_ids == ("re_1", "re_2")


def test_the_attempt_log_is_bounded_and_the_count_is_exact() -> None:
    rules = Rules(scheduled=True, attempts=100)
    result, _ = asked(unknown(rules=rules), Absent(), rules=rules)
    assert (len(result.attempts), result.readbacks) == (64, 100)


@pytest.mark.parametrize("event", [lost(), answer(MARKED_ERROR, 500)], ids=["timeout", "server error"])
def test_nothing_is_due_of_an_action_that_is_settled(event: Event) -> None:
    settled = after(make_action(), event, read(Found(RE_1)))
    assert then(settled, read(Absent())).next_readback_ms is None
