"""What is removed of an action is all that the store was ever told of it."""

import pytest

from proxy.core.model import FOREVER_MS
from proxy.core.records import project
from proxy.core.retirement import Outcome, retirement
from tests.core.lives import STATES
from tests.fakes.actions import RULES, make_action

SETTLED = [name for name, action in STATES.items() if project(action, RULES).settled]


@pytest.mark.parametrize("state", SETTLED)
def test_every_list_and_claim_that_a_settled_action_is_in_is_removed(state: str) -> None:
    action, projected = STATES[state], project(STATES[state], RULES)
    leaving = retirement(action, 7)
    assert (leaving.action_id, leaving.version) == (action.action_id, 7)
    assert leaving.index == projected.index
    removed = {*leaving.claims, *(("alias", alias) for alias in leaving.aliases)}
    assert set(projected.claims) <= removed


def test_claims_that_an_earlier_state_made_are_removed_too() -> None:
    action = make_action(payload="p", targets=("t", "u+900000"), aliases=("a", "b"))
    made = project(action, RULES)
    leaving = retirement(action, 1)
    assert {key for key, until in made.claims.items() if until == FOREVER_MS} <= {
        *leaving.claims,
        *(("alias", alias) for alias in leaving.aliases),
    }
    assert set(leaving.claims) == {("payload", "p"), ("target", "t"), ("target", "u")}


def test_a_tombstone_tells_whether_it_happened() -> None:
    told = {state: retirement(STATES[state], 1).outcome for state in SETTLED}
    assert {state for state, outcome in told.items() if outcome is Outcome.HAPPENED} == {
        "by_response",
        "by_read_back",
        "by_person",
    }
