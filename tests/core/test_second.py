"""CONTRACT 2.2, row by row: what a second request in the same scope gets, read on the scope's latest run."""

from itertools import product
from typing import Final

import pytest
from msgspec.structs import replace

from proxy.core.events import Found, Noticed, Refused
from proxy.core.model import Action, Cause, Status
from proxy.core.second import Asking, Decision, Verb, decide
from tests.core.lives import (
    BEFORE_EXECUTION,
    NON_TERMINAL,
    NOW_MS,
    RE_1,
    REJECTED,
    STATES,
    answer,
    never_dispatched,
    read,
    says,
    then,
    whole,
)
from tests.fakes.actions import after, make_action

UNKNOWN: Final = STATES["unknown"]

FIRST: Final[dict[str, Action]] = {
    "pending": STATES["pending"],
    "confirmed, response stored": STATES["by_response"],
    "confirmed late, response stored": after(UNKNOWN, answer(RE_1)),
    "confirmed by read-back": STATES["by_read_back"],
    "confirmed by webhook": then(UNKNOWN, Noticed(RE_1, whole(200))),
    "confirmed by a person": STATES["by_person"],
    "unresolved, delivery pending": UNKNOWN,
    "unresolved, delivery confirmed": STATES["reached"],
    "unresolved, key reused": STATES["key_reused"],
    "unresolved, not terminal": after(make_action(), answer(NON_TERMINAL, 202)),
    "unresolved, not terminal, late": after(UNKNOWN, answer(NON_TERMINAL, 202)),
    "not sent": STATES["not_sent"],
    "not executed": STATES["not_executed"],
    "refused: limit": STATES["refused"],
    "refused: paused": after(never_dispatched(), Refused(Cause.PAUSED)),
    "refused: amount": after(never_dispatched(), Refused(Cause.AMOUNT_UNDETERMINABLE)),
    "rejected before execution": STATES["before_execution"],
    "rejected otherwise (402)": STATES["rejected"],
    "rejected late": after(UNKNOWN, answer(REJECTED, 402)),
    "failed by read-back": then(UNKNOWN, read(Found(REJECTED))),
    "failed by webhook": then(UNKNOWN, Noticed(REJECTED, whole(200))),
    "failed by a person": STATES["person_unsent"],
    "failed by a person, delivered": STATES["person_rejected"],
    "failed by a person, retry allowed": then(UNKNOWN, says(False, allow_retry=True)),
    "contradicted, failed": STATES["failed_contradicted"],
    "contradicted, confirmed": STATES["confirmed_contradicted"],
}

WAIT, REPLAY, READ, AGAIN, RUN = "wait", "replay", "read", "send_again", "new_run"
UNSURE, IN_FLIGHT, SETTLED = "outcome_unknown", "action_in_flight", "already_settled"
OTHERS, MISMATCH, BY_NAME = "credential_mismatch", "payload_mismatch", "retry_of_required"

# first → same payload; same payload, other credential; other payload; other payload and credential;
# and, naming it in `Doubtless-Retry-Of`: same payload, other payload.
ROWS: Final = {
    "pending":                           (WAIT,    OTHERS,  MISMATCH, MISMATCH, IN_FLIGHT, IN_FLIGHT),
    "confirmed, response stored":        (REPLAY,  OTHERS,  MISMATCH, MISMATCH, REPLAY,    MISMATCH),
    "confirmed late, response stored":   (REPLAY,  OTHERS,  MISMATCH, MISMATCH, REPLAY,    MISMATCH),
    "confirmed by read-back":            (SETTLED, SETTLED, MISMATCH, MISMATCH, SETTLED,   MISMATCH),
    "confirmed by webhook":              (SETTLED, SETTLED, MISMATCH, MISMATCH, SETTLED,   MISMATCH),
    "confirmed by a person":             (SETTLED, SETTLED, MISMATCH, MISMATCH, SETTLED,   MISMATCH),
    "unresolved, delivery pending":      (UNSURE,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "unresolved, delivery confirmed":    (UNSURE,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "unresolved, key reused":            (UNSURE,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "unresolved, not terminal":          (REPLAY,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "unresolved, not terminal, late":    (REPLAY,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "not sent":                          (AGAIN,   AGAIN,   AGAIN,    AGAIN,    RUN,       RUN),
    "not executed":                      (AGAIN,   AGAIN,   AGAIN,    AGAIN,    RUN,       RUN),
    "refused: limit":                    (AGAIN,   AGAIN,   AGAIN,    AGAIN,    RUN,       RUN),
    "refused: paused":                   (AGAIN,   AGAIN,   AGAIN,    AGAIN,    RUN,       RUN),
    "refused: amount":                   (AGAIN,   AGAIN,   AGAIN,    AGAIN,    RUN,       RUN),
    "rejected before execution":         (RUN,     RUN,     RUN,      RUN,      RUN,       RUN),  # 60 s later.
    "rejected otherwise (402)":          (REPLAY,  OTHERS,  BY_NAME,  BY_NAME,  RUN,       RUN),
    "rejected late":                     (REPLAY,  OTHERS,  BY_NAME,  BY_NAME,  RUN,       RUN),
    "failed by read-back":               (BY_NAME, BY_NAME, BY_NAME,  BY_NAME,  RUN,       RUN),
    "failed by webhook":                 (BY_NAME, BY_NAME, BY_NAME,  BY_NAME,  RUN,       RUN),
    "failed by a person":                (BY_NAME, BY_NAME, BY_NAME,  BY_NAME,  RUN,       RUN),
    "failed by a person, delivered":     (BY_NAME, BY_NAME, BY_NAME,  BY_NAME,  RUN,       RUN),
    "failed by a person, retry allowed": (RUN,     RUN,     RUN,      RUN,      RUN,       RUN),
    "contradicted, failed":              (UNSURE,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
    "contradicted, confirmed":           (UNSURE,  UNSURE,  UNSURE,   UNSURE,   UNSURE,    UNSURE),
}  # fmt: skip
SAME, OTHER = True, False
COLUMNS: Final = (  # payload, credential, names it in Doubtless-Retry-Of
    (SAME, SAME, False),
    (SAME, OTHER, False),
    (OTHER, SAME, False),
    (OTHER, OTHER, False),
    (SAME, SAME, True),
    (OTHER, SAME, True),
)


def ask(
    first: Action,
    *,
    payload: bool = SAME,
    credential: bool = SAME,
    retry_of: bool = False,
    now_ms: int = NOW_MS,
    readable: bool = False,
) -> Decision:
    """Return what a second request gets."""
    return decide(first, Asking(payload, credential, retry_of, now_ms, readable))


def told(decision: Decision) -> str:
    """Return the verb, or what a refusal says."""
    return decision.verb.value if decision.code is None else decision.code.value


@pytest.mark.parametrize(("first", "column"), list(product(ROWS, range(len(COLUMNS)))))
def test_a_second_request_gets_what_its_row_says(first: str, column: int) -> None:
    payload, credential, retry_of = COLUMNS[column]
    decision = ask(FIRST[first], payload=payload, credential=credential, retry_of=retry_of)
    assert told(decision) == ROWS[first][column]
    assert (decision.verb is Verb.REFUSE) is (decision.code is not None)


def test_the_rows_leave_no_first_action_out() -> None:
    assert tuple(ROWS) == tuple(FIRST)
    assert {action.status for action in FIRST.values()} == set(Status)


ASKINGS: Final = list(product((SAME, OTHER), (SAME, OTHER), (True, False), (True, False)))


@pytest.mark.parametrize("first", FIRST)
def test_nothing_is_sent_while_the_first_is_open_confirmed_or_contradicted(first: str) -> None:
    action = FIRST[first]
    decisions = [ask(action, payload=p, credential=c, retry_of=r, readable=o) for p, c, r, o in ASKINGS]
    sends = {d.verb for d in decisions} & {Verb.SEND_AGAIN, Verb.NEW_RUN}
    assert not sends or (action.status is Status.FAILED and not action.contradicted)


@pytest.mark.parametrize("first", FIRST)
def test_nothing_of_the_first_but_code_and_message_is_told_to_another_credential(first: str) -> None:
    for payload, _, retry_of, readable in ASKINGS:
        decision = ask(FIRST[first], payload=payload, credential=OTHER, retry_of=retry_of, readable=readable)
        assert decision.verb in (Verb.REFUSE, Verb.SEND_AGAIN, Verb.NEW_RUN)
        assert decision.open is (decision.verb is not Verb.REFUSE)


@pytest.mark.parametrize("first", FIRST)
def test_a_refusal_names_the_first_action_to_the_same_credential(first: str) -> None:
    assert all(ask(FIRST[first], payload=p, retry_of=r, readable=o).open for p, _, r, o in ASKINGS)


@pytest.mark.parametrize("first", [name for name in FIRST if ROWS[name][0] == SETTLED])
def test_what_was_settled_without_a_response_is_read_where_the_object_has_its_shape(first: str) -> None:
    named = replace(FIRST[first], object_ids=("re_1",))
    nameless = replace(FIRST[first], object_ids=())
    assert told(ask(named, readable=True)) == "read"
    assert told(ask(named, readable=True, credential=OTHER)) == "credential_mismatch"
    assert told(ask(named, readable=True, payload=OTHER)) == "payload_mismatch"
    assert told(ask(nameless, readable=True)) == "already_settled"


def test_a_stored_response_goes_before_the_object_read() -> None:
    assert told(ask(FIRST["confirmed, response stored"], readable=True)) == "replay"


def test_an_unresolved_action_whose_response_is_of_no_use_is_not_replayed() -> None:
    assert told(ask(replace(STATES["reached"], answer_kept=True))) == "outcome_unknown"


def test_a_failure_whose_rejection_was_not_stored_asks_to_be_named() -> None:
    assert told(ask(replace(STATES["rejected"], answer_kept=False))) == "retry_of_required"


def test_a_rejection_before_execution_that_was_not_stored_goes_to_a_new_run_at_once() -> None:
    unkept = replace(answer(BEFORE_EXECUTION, 400), kept=False)
    assert told(ask(after(make_action(), unkept), now_ms=NOW_MS - 129_000)) == "new_run"
