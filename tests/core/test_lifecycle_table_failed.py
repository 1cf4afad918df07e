"""The table, whole: everything that can happen to a failed or refused action. Only a proof lets it be sent again.

Each answer is written from CONTRACT 2.2 and 4. See `check` for how an answer is written. Columns: provably not sent;
not executed; rejected before execution; rejected; a person's no, of an action whose delivery was pending, and of one
that had reached the provider; refused by us; and one that contrary evidence stands against.
"""

from typing import Final

import pytest

from tests.core.lives import EVENTS, FAILED, check

SAME = "="
SEEN = "seen"
KEPT = "seen +answer_kept"
TOLD = "seen -unanswered_first"
AGAINST = "seen +contradicted"
TWICE = "seen +duplicate_suspected"
BOTH = "seen +contradicted +duplicate_suspected"
PRIOR = "seen +prior_execution"
A_PRIOR = "seen +contradicted +prior_execution"
AGAIN = "pending pending pending -"
A_AGAIN = "pending pending pending - -answer_kept"

TABLE: Final = {
    #                             not_sent not_executed before   rejected person-  person+  refused  contradicted
    "sent_again":                (AGAIN,   A_AGAIN, SAME,    SAME,    SAME,    SAME,    AGAIN,   SAME),
    "refused":                   (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "not_sent":                  (SAME,    SAME,    SAME,    SAME,    SEEN,    SAME,    SAME,    SAME),
    "not_sent_of_another":       (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "timeout":                   (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "timeout_of_another":        (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "accepted":                  (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SAME,    SEEN),
    "accepted_another_object":   (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SAME,    SEEN),
    "accepted_in_part":          (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SAME,    SEEN),
    "accepted_as_replay":        (A_PRIOR, A_PRIOR, A_PRIOR, A_PRIOR, A_PRIOR, A_PRIOR, SAME,    PRIOR),
    "accepted_of_another":       (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "rejected":                  (KEPT,    SEEN,    SEEN,    SEEN,    KEPT,    KEPT,    SAME,    SEEN),
    "rejected_before_execution": (KEPT,    SEEN,    SEEN,    SEEN,    KEPT,    KEPT,    SAME,    SEEN),
    "not_executed":              (KEPT,    SEEN,    SEEN,    SEEN,    KEPT,    KEPT,    SAME,    SEEN),
    "already_done":              (KEPT,    SEEN,    SEEN,    SEEN,    KEPT,    KEPT,    SAME,    SEEN),
    # That the provider answered at all stands against a delivery that is said to have failed.
    "error_marked":              (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    SAME,    SEEN),
    "error_replayed":            (A_PRIOR, PRIOR,   PRIOR,   PRIOR,   A_PRIOR, PRIOR,   SAME,    PRIOR),
    "error_unmarked":            (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SAME,    SEEN),
    "conflict":                  (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    SAME,    SEEN),
    "malformed":                 (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    SAME,    SEEN),
    "unrecognised":              (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SAME,    SEEN),
    "non_terminal":              (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    SAME,    SEEN),
    "key_reused":                (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    SAME,    SEEN),
    "found":                     (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SEEN),
    "found_another_object":      (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SEEN),
    "found_failed":              (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "found_several":             (BOTH,    BOTH,    BOTH,    BOTH,    BOTH,    BOTH,    BOTH,    TWICE),
    "candidates":                (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "absent":                    (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "absent_on_demand":          (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "unreadable":                (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "webhook_accepted":          (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SEEN),
    "webhook_rejected":          (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "webhook_unclear":           (AGAINST, SEEN,    SEEN,    SEEN,    AGAINST, SEEN,    AGAINST, SEEN),
    "webhook_aftermath":         (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "replay_accepted":           (AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, AGAINST, SEEN),
    "replay_rejected":           (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "replay_unclear":            (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "person_yes":                (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "person_no":                 (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "person_no_retry":           (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "owner_lost":                (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "another_owner_lost":        (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "folded":                    (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
    "delivered":                 (TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD),
    "delivered_folded":          (TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD,    TOLD),
    "askers_gone":               (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "suspected":                 (TWICE,   TWICE,   TWICE,   TWICE,   TWICE,   TWICE,   TWICE,   TWICE),
    "priced":                    (SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME,    SAME),
    "noted":                     (SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN,    SEEN),
}  # fmt: skip
PAIRS: Final = [
    (state, event, answer) for event, row in TABLE.items() for state, answer in zip(FAILED, row, strict=True)
]


@pytest.mark.parametrize(("state", "event", "answer"), PAIRS, ids=[f"{s}-{e}" for s, e, _ in PAIRS])
def test_whatever_happens_to_a_failed_action_has_one_written_answer(state: str, event: str, answer: str) -> None:
    check(state, event, answer)


def test_the_table_of_failed_actions_leaves_no_event_out() -> None:
    assert tuple(TABLE) == tuple(EVENTS)
