"""CONTRACT 2.3: until when an unnamed request is taken for an action of ours, and a reworded one for its twin.

Every action here was dispatched at 0 s, became unknown at 25 s where it did, and was settled at 100 s where it was.
"""

from typing import Final

import pytest
from msgspec.structs import replace

from proxy.core.events import AskersGone, Delivered, Event, Folded, Found, Refused, Rules
from proxy.core.model import FOREVER_MS, Action, Cause, Effect
from proxy.core.records import WAITED_FOR_MS, folds_until_ms, project, twin_until_ms
from tests.core.lives import (
    BEFORE_EXECUTION,
    D2,
    MARKED_ERROR,
    NOT_EXECUTED,
    RE_1,
    REJECTED,
    STATES,
    again,
    answer,
    lost,
    never_dispatched,
    read,
    says,
    unsent,
)
from tests.fakes.actions import RULES, after, make_action
from tests.fakes.clock import START_MS

HOURS_20: Final = 20 * 3_600_000
NEVER: Final = 0
FOR_EVER: Final = FOREVER_MS
FROM_UNKNOWN: Final = START_MS + 25_000 + HOURS_20
FROM_SETTLED: Final = START_MS + 100_000 + HOURS_20
TOLD: Final = Delivered(folded=False)
MONEY, MESSAGE = Effect.MONEY, Effect.MESSAGE


def lived(*events: Event, unknown: bool = False, effect: Effect = MONEY) -> Action:
    """Return an action: unknown from 25 s on where it was, and what happened at 100 s."""
    action = make_action(effect=effect)
    if unknown:
        action = after(action, lost(), now_ms=START_MS + 25_000)
    return after(action, *events, now_ms=START_MS + 100_000)


# what happened → until when the same payload is folded into it; until when the same target is its twin
WINDOWS: Final[dict[str, tuple[Action, int, int]]] = {
    "pending": (lived(), FOR_EVER, WAITED_FOR_MS),
    "pending, every asker gone": (lived(AskersGone()), FOR_EVER, FOR_EVER),
    "pending, an asker came back": (lived(AskersGone(), Folded()), FOR_EVER, WAITED_FOR_MS),
    "unresolved money": (lived(unknown=True), FOR_EVER, FOR_EVER),
    "unresolved money, told": (lived(TOLD, unknown=True), FOR_EVER, FOR_EVER),
    "unresolved message": (lived(unknown=True, effect=MESSAGE), FROM_UNKNOWN, FROM_UNKNOWN),
    "unresolved record": (lived(unknown=True, effect=Effect.RECORD), FROM_UNKNOWN, FROM_UNKNOWN),
    "unresolved message, server error": (lived(answer(MARKED_ERROR, 500), effect=MESSAGE), FROM_SETTLED, FROM_SETTLED),
    "confirmed, undelivered": (lived(answer(RE_1)), FROM_SETTLED, FROM_SETTLED),
    "confirmed, delivered": (lived(answer(RE_1), TOLD), NEVER, NEVER),
    "confirmed message, undelivered": (lived(answer(RE_1), effect=MESSAGE), FROM_SETTLED, FROM_SETTLED),
    "confirmed, once unknown, undelivered": (lived(read(Found(RE_1)), unknown=True), FROM_SETTLED, FROM_SETTLED),
    "confirmed, once unknown, delivered": (lived(answer(RE_1), TOLD, unknown=True), FROM_SETTLED, FROM_SETTLED),
    "confirmed by a person": (lived(says(True), unknown=True), FROM_SETTLED, FROM_SETTLED),
    "failed by a person": (lived(says(False), unknown=True), FROM_SETTLED, FROM_SETTLED),
    "failed by read-back": (lived(read(Found(REJECTED)), unknown=True), FROM_SETTLED, FROM_SETTLED),
    "not executed, once unknown": (lived(answer(NOT_EXECUTED, 429), unknown=True), FROM_SETTLED, FROM_SETTLED),
    "not sent, once unknown": (lived(unsent(), unknown=True), FROM_SETTLED, FROM_SETTLED),
    # What provably had no effect and was never in doubt cannot have been done twice: a reworded one goes through.
    "rejected, undelivered": (lived(answer(REJECTED, 402)), FROM_SETTLED, NEVER),
    "rejected, delivered": (lived(answer(REJECTED, 402), TOLD), NEVER, NEVER),
    "rejected before execution, undelivered": (lived(answer(BEFORE_EXECUTION, 400)), FROM_SETTLED, NEVER),
    "not executed, undelivered": (lived(answer(NOT_EXECUTED, 429)), FROM_SETTLED, NEVER),
    "not sent": (lived(unsent()), FROM_SETTLED, NEVER),
    "refused": (after(never_dispatched(), Refused(Cause.LIMIT_EXHAUSTED)), NEVER, NEVER),
}


@pytest.mark.parametrize("row", WINDOWS)
def test_the_same_payload_is_a_retry_until_its_window_ends(row: str) -> None:
    action, folds, _ = WINDOWS[row]
    assert folds_until_ms(action, RULES) == folds


@pytest.mark.parametrize("row", WINDOWS)
def test_the_same_target_is_a_twin_until_its_window_ends(row: str) -> None:
    action, _, twin = WINDOWS[row]
    assert twin_until_ms(action, RULES) == twin


@pytest.mark.parametrize("row", [name for name, (_, folds, _) in WINDOWS.items() if folds not in (NEVER, FOR_EVER)])
def test_the_window_is_the_configured_one(row: str) -> None:
    action, folds, _ = WINDOWS[row]
    assert folds_until_ms(action, Rules(scheduled=True, retry_window_ms=60_000)) == folds - HOURS_20 + 60_000


# ── Undelivered, while anyone who was folded lacks the answer ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("events", "undelivered"),
    [
        ((), True),
        ((TOLD,), False),
        ((Folded(), TOLD), True),
        ((Folded(), Delivered(folded=True)), False),
        ((Folded(), Folded(), Delivered(folded=True)), True),
        ((Folded(), Folded(), Delivered(folded=True), Delivered(folded=True)), False),
        ((TOLD, Folded()), True),
        ((Folded(), TOLD, Delivered(folded=True)), False),
        ((TOLD, TOLD), False),
        ((Delivered(folded=True), Folded()), True),
    ],
    ids=str,
)
def test_it_is_undelivered_while_any_request_folded_into_it_lacks_its_answer(
    events: tuple[Event, ...], *, undelivered: bool
) -> None:
    assert (folds_until_ms(lived(answer(RE_1), *events), RULES) > 0) is undelivered


def test_a_folded_request_that_got_the_answer_serves_the_first_asker_that_hung_up() -> None:
    action = lived(AskersGone(), Folded(), answer(RE_1), Delivered(folded=True))
    assert folds_until_ms(action, RULES) == NEVER


def test_sending_it_again_makes_it_undelivered_again() -> None:
    first = lived(answer(NOT_EXECUTED, 429), TOLD)
    second = after(after(first, again(first)), answer(RE_1, dispatch=D2))
    assert folds_until_ms(first, RULES) == NEVER
    assert folds_until_ms(second, RULES) > 0


# ── Targets ───────────────────────────────────────────────────────────────────────────────────────────────────────────

MINUTES_15: Final = 15 * 60_000
TARGETS: Final = ("subject-and-people", f"people-alone+{MINUTES_15}")


def claims_of(*events: Event, unknown: bool = False, effect: Effect = MESSAGE) -> dict[tuple[str, str], int]:
    action = make_action(effect=effect, targets=TARGETS)
    if unknown:
        action = after(action, lost(), now_ms=START_MS + 25_000)
    action = after(action, *events, now_ms=START_MS + 100_000)
    return {
        (kind, digest): until for (kind, digest), until in project(action, RULES).claims.items() if kind == "target"
    }


def test_a_target_with_a_time_of_its_own_claims_for_that_long_from_when_the_action_was_made() -> None:
    assert claims_of(unknown=True) == {
        ("target", "subject-and-people"): FROM_UNKNOWN,
        ("target", "people-alone"): START_MS + MINUTES_15,
    }


def test_a_target_with_a_time_of_its_own_ends_with_the_window_where_that_is_sooner() -> None:
    action = after(make_action(effect=MESSAGE, targets=TARGETS), answer(RE_1))
    claims = project(action, Rules(scheduled=True, retry_window_ms=60_000)).claims
    assert claims["target", "people-alone"] == START_MS + 60_000


def test_a_target_with_a_time_of_its_own_is_bounded_even_where_the_action_is_open_for_ever() -> None:
    assert claims_of(AskersGone())["target", "people-alone"] == START_MS + MINUTES_15
    assert claims_of(unknown=True, effect=MONEY)["target", "people-alone"] == START_MS + MINUTES_15


def test_a_target_is_not_claimed_where_the_action_has_no_twin() -> None:
    assert claims_of(answer(RE_1), TOLD) == {}


def test_a_target_is_claimed_for_those_who_ask_elsewhere_while_somebody_waits() -> None:
    assert set(claims_of().values()) == {WAITED_FOR_MS}


@pytest.mark.parametrize("row", ["confirmed_contradicted", "failed_contradicted"])
def test_a_contradicted_action_is_as_open_as_an_unknown_one_also_once_its_answer_arrived(row: str) -> None:
    action = after(STATES[row], Delivered(folded=False))
    assert (folds_until_ms(action, RULES), twin_until_ms(action, RULES)) == (FOREVER_MS, FOREVER_MS)


def test_a_contradicted_message_is_open_for_the_retry_window_alone() -> None:
    action = replace(STATES["failed_contradicted"], effect=Effect.MESSAGE, unanswered_first=False)
    assert 0 < folds_until_ms(action, RULES) < FOREVER_MS
