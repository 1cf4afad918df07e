"""The judge bites: for each thing that must not be, a story in which it is, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.chaos.judge import judge
from tests.chaos.run import bugs_in
from tests.chaos.story import Arrival, Errand, Evidence, Told, arrivals_of

KEY: Final = "errand-1:stripe.refund.create"
DONE: Final = Arrival(1_000, "stripe", KEY, "errand-1", True, 200, "re_1")
HELD: Final = {"provider": "stripe", "account": "test", "currency": "usd", "amount": 5400, "actions": 1}
TOLD: Final = Told("errand-1", 900, 1_100, "serve-1", "answered", 200, None, "never", "confirmed", "a1", "re_1")


def action(status: str = "confirmed", **fields: Any) -> dict[str, Any]:
    """Return an action as a list shows it."""
    of_it = {"action_id": "a1", "idempotency_key": KEY, "event_id": "errand-1", "status": status, "effect": "money"}
    amount = {
        "provider": "stripe",
        "account": "test",
        "currency": "usd",
        "amount": 5400,
        "route": "stripe.refund.create",
    }
    state = {"delivery": "confirmed", "acceptance": "accepted", "cause": None, "contradicted": False, "run": 1}
    return of_it | amount | state | {"created_at": "2026-12-01T00:00:01Z", "evidence": []} | fields


def case(
    arrivals: Sequence[Arrival] = (DONE,),
    actions: Sequence[Mapping[str, Any]] = (action(),),
    told: Sequence[Told] = (TOLD,),
    exposure: Sequence[Mapping[str, Any]] = (),
    limits: Sequence[Mapping[str, Any]] = (),
) -> Evidence:
    """Return one errand that went well, but for what is said."""
    return Evidence(arrivals, actions, [Errand("errand-1", "refund", "errand-1", list(told))], exposure, limits)


NOT_EXECUTED: Final = replace(DONE, executed=False, object_id=None)
REFUSED: Final = replace(TOLD, status=502, code="not_sent", retry="safe", says="failed", object_id=None)
UNKNOWN: Final = replace(TOLD, status=423, code="outcome_unknown", says="denied_unresolved", object_id=None)
LIMIT: Final = {"name": "refunds", "match": "stripe.refund.*", "consumed": 5400, "unknown": 0, "reserved": 0}
OTHER_KEY: Final = replace(DONE, key="errand-1:stripe.refund.create:2", object_id="re_2")

VIOLATIONS: Final = {
    "EXECUTED 2 TIMES": case([DONE, OTHER_KEY], [action(), action(action_id="a2", idempotency_key=OTHER_KEY.key)]),
    "WAS SENT AGAIN": case([replace(NOT_EXECUTED, status=500), DONE]),
    "HAS NO ACTION": case(actions=[], told=[]),
    "CONFIRMED, AND NOT EXECUTED": case([NOT_EXECUTED], told=[]),
    "CALLED FAILED, AND EXECUTED": case(actions=[action("failed")], told=[]),
    "CONTRADICTED": case(actions=[action(contradicted=True)]),
    "STILL IN FLIGHT": case([], [action("pending")], []),
    "NOT SETTLED": case(actions=[action("denied_unresolved")], told=[UNKNOWN], exposure=[HELD]),
    "NO SUCH OBJECT": case(told=[replace(TOLD, object_id="re_9")]),
    "200 WAS TOLD": case(told=[replace(TOLD, ended_ms=999)]),
    "502 NOT_SENT WAS TOLD": case(told=[TOLD, REFUSED]),
    "ONLY `SAFE` WAS TOLD": case(told=[replace(REFUSED, status=503, says=None, action_id=None)]),
    "NOBODY KNOWS IT": case(told=[TOLD, replace(UNKNOWN, action_id="a9")]),
    "EXPOSURE SHOWN": case([NOT_EXECUTED], [action("denied_unresolved")], [], [HELD | {"amount": 5399}]),
    "EXPOSURE COUNTS": case(exposure=[HELD | {"amount": 0}]),
    "LIMIT REFUNDS": case(limits=[LIMIT | {"consumed": 0}]),
}


@pytest.mark.parametrize("verdict", VIOLATIONS)
def test_what_must_not_be_is_found_and_its_story_told(verdict: str) -> None:
    [found] = judge(VIOLATIONS[verdict])
    assert verdict in found.upper()


WELL: Final = {
    "done once": case(limits=[LIMIT]),
    "sent again after a 429": case([replace(NOT_EXECUTED, status=429), DONE]),
    "unknown for ever, and never executed": case([NOT_EXECUTED], [action("denied_unresolved")], [UNKNOWN], [HELD]),
    "unknown, of an unpriced amount": case(
        [NOT_EXECUTED], [action("denied_unresolved", currency=None)], [], [HELD | {"currency": None, "amount": 0}]
    ),
    "refused before it was done": case(told=[replace(REFUSED, ended_ms=999), TOLD]),
    "the store away for another try": case(told=[TOLD, replace(REFUSED, status=503, says=None, action_id=None)]),
}


@pytest.mark.parametrize("story", WELL)
def test_what_may_be_is_no_violation(story: str) -> None:
    assert judge(WELL[story]) == []


def test_a_story_is_told_in_the_order_in_which_it_happened() -> None:
    [found] = judge(VIOLATIONS["EXECUTED 2 TIMES"])
    words = [line.split()[1] for line in found.splitlines()[1:]]
    assert words == ["agent", "provider", "provider", "agent", "store", "store"]


def test_the_journal_is_read_for_writes_alone() -> None:
    entry = {"arrived_ms": 1_000, "provider": "stripe", "key": KEY, "body": "charge=ch_errand-1&amount=5400"}
    entry |= {"executed": True, "status": 200, "object_id": "re_1", "fault": None}
    assert arrivals_of([entry | {"method": "POST"}, entry | {"method": "GET"}]) == [DONE]


def test_a_bug_is_known_by_the_log_and_a_warning_is_none() -> None:
    log = '{"event": "waiting", "level": "warning"}\n{"event": "a task failed", "level": "error"}\nTraceback (most'
    assert len(bugs_in(log)) == 2
