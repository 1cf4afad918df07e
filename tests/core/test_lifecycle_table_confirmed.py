"""The table, whole: everything that can happen to a confirmed action. Nothing moves it; contrary evidence marks it.

Each answer is written from CONTRACT 4: what stands against a settled state is appended and sets `contradicted`; what
became of an object after it existed is aftermath, never contrary. See `check` for how an answer is written.
"""

from typing import Final

import pytest

from tests.core.lives import CONFIRMED, EVENTS, check

SAME = "="
SEEN = "seen"
KEPT = "seen +answer_kept"
TOLD = "seen -unanswered_first"
CONTRARY = "seen +contradicted"
TWICE = "seen +duplicate_suspected"
KEPT_TWICE = "seen +answer_kept +duplicate_suspected"
PRIOR = "seen +prior_execution"
KEPT_PRIOR = "seen +answer_kept +prior_execution"

TABLE: Final = {
    # CONFIRMED                  by_response  by_read_back  by_person  contradicted
    "sent_again":                (SAME,     SAME,       SAME,       SAME),
    "refused":                   (SAME,     SAME,       SAME,       SAME),
    "not_sent":                  (SAME,     CONTRARY,   CONTRARY,   SAME),  # Whose answer was read was sent.
    "not_sent_of_another":       (SAME,     SAME,       SAME,       SAME),
    "timeout":                   (SAME,     SAME,       SAME,       SAME),
    "timeout_of_another":        (SAME,     SAME,       SAME,       SAME),
    "accepted":                  (SEEN,     KEPT,       KEPT,       KEPT),
    "accepted_another_object":   (TWICE,    KEPT_TWICE, KEPT_TWICE, KEPT_TWICE),
    "accepted_in_part":          (SEEN,     KEPT,       KEPT,       KEPT),
    "accepted_as_replay":        (PRIOR,    KEPT_PRIOR, KEPT_PRIOR, KEPT_PRIOR),
    "accepted_of_another":       (SAME,     SAME,       SAME,       SAME),
    "rejected":                  (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "rejected_before_execution": (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "not_executed":              (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "already_done":              (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "error_marked":              (SEEN,     SEEN,       SEEN,       SEEN),
    "error_replayed":            (PRIOR,    PRIOR,      PRIOR,      PRIOR),
    "error_unmarked":            (SEEN,     SEEN,       SEEN,       SEEN),
    "conflict":                  (SEEN,     SEEN,       SEEN,       SEEN),
    "malformed":                 (SEEN,     SEEN,       SEEN,       SEEN),
    "unrecognised":              (SEEN,     SEEN,       SEEN,       SEEN),
    "non_terminal":              (SEEN,     SEEN,       SEEN,       SEEN),
    "key_reused":                (SEEN,     SEEN,       SEEN,       SEEN),
    "found":                     (SEEN,     SEEN,       SEEN,       SEEN),
    "found_another_object":      (TWICE,    TWICE,      TWICE,      TWICE),
    "found_failed":              (SEEN,     SEEN,       CONTRARY,   SEEN),  # It had existed: aftermath.
    "found_several":             (TWICE,    TWICE,      TWICE,      TWICE),
    "candidates":                (SEEN,     SEEN,       SEEN,       SEEN),
    "absent":                    (SEEN,     SEEN,       SEEN,       SEEN),
    "absent_on_demand":          (SEEN,     SEEN,       SEEN,       SEEN),
    "unreadable":                (SEEN,     SEEN,       SEEN,       SEEN),
    "webhook_accepted":          (SEEN,     SEEN,       SEEN,       SEEN),
    "webhook_rejected":          (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "webhook_unclear":           (SEEN,     SEEN,       SEEN,       SEEN),
    "webhook_aftermath":         (SEEN,     SEEN,       SEEN,       SEEN),
    "replay_accepted":           (SEEN,     SEEN,       SEEN,       SEEN),
    "replay_rejected":           (CONTRARY, CONTRARY,   CONTRARY,   SEEN),
    "replay_unclear":            (SEEN,     SEEN,       SEEN,       SEEN),
    "person_yes":                (SAME,     SAME,       SAME,       SAME),
    "person_no":                 (SAME,     SAME,       SAME,       SAME),
    "person_no_retry":           (SAME,     SAME,       SAME,       SAME),
    "owner_lost":                (SAME,     SAME,       SAME,       SAME),
    "another_owner_lost":        (SAME,     SAME,       SAME,       SAME),
    "folded":                    (SEEN,     SEEN,       SEEN,       SEEN),
    "delivered":                 (TOLD,     TOLD,       TOLD,       TOLD),
    "delivered_folded":          (TOLD,     TOLD,       TOLD,       TOLD),
    "askers_gone":               (SAME,     SAME,       SAME,       SAME),
    "suspected":                 (TWICE,    TWICE,      TWICE,      TWICE),
    "priced":                    (SAME,     SAME,       SAME,       SAME),
    "noted":                     (SEEN,     SEEN,       SEEN,       SEEN),
}  # fmt: skip
PAIRS: Final = [
    (state, event, answer) for event, row in TABLE.items() for state, answer in zip(CONFIRMED, row, strict=True)
]


@pytest.mark.parametrize(("state", "event", "answer"), PAIRS, ids=[f"{s}-{e}" for s, e, _ in PAIRS])
def test_whatever_happens_to_a_confirmed_action_has_one_written_answer(state: str, event: str, answer: str) -> None:
    check(state, event, answer)


def test_the_table_of_confirmed_actions_leaves_no_event_out() -> None:
    assert tuple(TABLE) == tuple(EVENTS)
