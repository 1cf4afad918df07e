"""CONTRACT 2.1, row by row: what each thing that can happen to a write becomes, and the grade of its receipt."""

from typing import Final

import pytest

from proxy.core.events import Event, OwnerLost, Refused, Unsendable
from proxy.core.http import Unsent
from proxy.core.model import Action, Amount, Cause, Grade
from proxy.core.verdict import Accepted, Unclear
from tests.core.lives import (
    ALREADY_DONE,
    BEFORE_EXECUTION,
    D1,
    KEY_REUSED,
    MARKED_ERROR,
    NON_TERMINAL,
    NOT_EXECUTED,
    OWNER,
    RE_1,
    REJECTED,
    SERVER_ERROR,
    answer,
    axes,
    lost,
    never_dispatched,
    says,
    then,
)
from tests.fakes.actions import after, make_action

UNKNOWN: Final = "denied_unresolved"

# what happened → the events, delivery, acceptance, status, cause, grade
ROWS: Final[dict[str, tuple[tuple[Event, ...], str, str, str, str, str]]] = {
    "no DNS": ((Unsendable(D1, Unsent.DNS),), "failed", "pending", "failed", "not_sent", "failed"),
    "refused": ((Unsendable(D1, Unsent.REFUSED),), "failed", "pending", "failed", "not_sent", "failed"),
    "connect timeout": ((Unsendable(D1, Unsent.TIMEOUT),), "failed", "pending", "failed", "not_sent", "failed"),
    "TLS": ((Unsendable(D1, Unsent.TLS),), "failed", "pending", "failed", "not_sent", "failed"),
    "certificate": ((Unsendable(D1, Unsent.CERTIFICATE),), "failed", "pending", "failed", "not_sent", "failed"),
    "stale connection": ((Unsendable(D1, Unsent.CLOSED),), "failed", "pending", "failed", "not_sent", "failed"),
    "send_before passed": ((Unsendable(D1, Unsent.SEND_BEFORE),), "failed", "pending", "failed", "not_sent", "failed"),
    "timeout": ((lost(Cause.TIMEOUT),), "pending", "pending", UNKNOWN, "timeout", "unknown"),
    "reset": ((lost(Cause.CONNECTION_LOST),), "pending", "pending", UNKNOWN, "connection_lost", "unknown"),
    "5xx with the mark": ((answer(MARKED_ERROR, 500),), "confirmed", "pending", UNKNOWN, "server_error", "unknown"),
    "5xx without it": ((answer(SERVER_ERROR, 502),), "pending", "pending", UNKNOWN, "server_error", "unknown"),
    "conflict": (
        (answer(Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True), 409),),
        "confirmed", "pending", UNKNOWN, "idempotent_conflict", "unknown",
    ),
    "key reused": ((answer(KEY_REUSED, 400),), "confirmed", "pending", UNKNOWN, "key_reused", "unknown"),
    "malformed 2xx": (
        (answer(Unclear(Cause.MALFORMED_RESPONSE, delivered=True)),),
        "confirmed", "pending", UNKNOWN, "malformed_response", "unknown",
    ),
    "2xx not terminal": ((answer(NON_TERMINAL, 202),), "confirmed", "pending", UNKNOWN, "non_terminal", "unknown"),
    "2xx": ((answer(RE_1),), "confirmed", "accepted", "confirmed", "-", "acknowledged"),
    "2xx in part": ((answer(Accepted(partial=True)),), "confirmed", "accepted", "confirmed", "-", "acknowledged"),
    "2xx that rejects": ((answer(REJECTED),), "confirmed", "rejected", "failed", "rejected", "failed"),
    "429": ((answer(NOT_EXECUTED, 429),), "confirmed", "rejected", "failed", "not_executed", "failed"),
    "definite 4xx": ((answer(REJECTED, 402),), "confirmed", "rejected", "failed", "rejected", "failed"),
    "4xx before execution": ((answer(BEFORE_EXECUTION, 400),), "confirmed", "rejected", "failed", "rejected", "failed"),
    "already done, run 1": ((answer(ALREADY_DONE, 400),), "confirmed", "rejected", "failed", "rejected", "failed"),
    "anything else": (
        (answer(Unclear(Cause.UNRECOGNISED_RESPONSE), 418),),
        "pending", "pending", UNKNOWN, "unrecognised_response", "unknown",
    ),
    "its owner died": ((OwnerLost(OWNER),), "pending", "pending", UNKNOWN, "proxy_restart", "unknown"),
    "drain ran out": ((lost(Cause.SHUTDOWN),), "pending", "pending", UNKNOWN, "shutdown", "unknown"),
    "a person: yes": ((lost(), says(True)), "confirmed", "accepted", "confirmed", "-", "acknowledged"),
    "a person: no, delivery pending": ((lost(), says(False)), "failed", "pending", "failed", "manual", "failed"),
    "a person: no, delivery confirmed": (
        (answer(MARKED_ERROR, 500), says(False)),
        "confirmed", "rejected", "failed", "manual", "failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_what_happens_to_a_write_becomes_what_the_contract_says(row: str) -> None:
    events, *expected, grade = ROWS[row]
    result = then(make_action(), *events)
    assert list(axes(result)) == expected
    assert result.grade == grade


@pytest.mark.parametrize(
    ("cause", "grade"),
    [
        (Cause.LIMIT_EXHAUSTED, Grade.REFUSED),
        (Cause.PAUSED, Grade.DENIED),
        (Cause.AMOUNT_UNDETERMINABLE, Grade.DENIED),
    ],
)
def test_what_may_not_be_sent_is_failed_undispatched_and_has_neither_axis(cause: Cause, grade: Grade) -> None:
    result = after(never_dispatched(), Refused(cause))
    assert axes(result) == ("none", "pending", "failed", cause.value)
    assert (result.grade, result.dispatches, result.evidence) == (grade, (), ())


UNKNOWNS: Final = [name for name, row in ROWS.items() if row[3] == UNKNOWN]
SETTLED: Final = [name for name in ROWS if name not in UNKNOWNS]


def _of(row: str) -> Action:
    return then(make_action(), *ROWS[row][0])


@pytest.mark.parametrize("row", UNKNOWNS)
def test_an_unknown_outcome_keeps_for_good_that_it_was_unknown_since_when_and_why(row: str) -> None:
    unknown = _of(row)
    settled = then(unknown, says(True), now_ms=unknown.unknown_since_ms + 1)  # type: ignore[operator]
    assert unknown.was_unknown
    assert unknown.unknown_cause == unknown.cause
    assert unknown.unknown_since_ms is not None
    assert (settled.was_unknown, settled.unknown_cause) == (True, unknown.cause)
    assert settled.unknown_since_ms == unknown.unknown_since_ms
    assert settled.cause is None


@pytest.mark.parametrize("row", UNKNOWNS)
def test_what_is_unknown_is_either_asked_about_again_or_a_person_is_called(row: str) -> None:
    result = _of(row)
    assert (result.next_readback_ms is not None) is (row != "key reused")
    assert result.needs_operator is (row == "key reused")
    assert result.settled_at_ms is None


@pytest.mark.parametrize("row", SETTLED)
def test_what_is_settled_names_its_moment_and_source_and_is_not_asked_about(row: str) -> None:
    result = _of(row)
    assert result.settled_at_ms is not None
    assert result.settled_by is not None
    assert result.settled_by.source == result.evidence[-1].source
    assert (result.next_readback_ms, result.needs_operator) == (None, False)
    assert (result.confirmed_at_ms is not None) is (result.status.value == "confirmed")


@pytest.mark.parametrize("row", ROWS)
def test_every_outcome_is_backed_by_evidence_of_the_dispatch_or_a_named_person(row: str) -> None:
    last = _of(row).evidence[-1]
    assert (last.dispatch_id, last.by) in ((D1, ""), ("", "ann"))
    assert last.evidence_id.startswith("ev_")


def test_a_response_leaves_its_status_digest_and_request_id_as_evidence() -> None:
    seen = after(make_action(), answer(RE_1)).evidence[-1]
    assert (seen.source, seen.proof, seen.upstream_status) == ("response", "accepted", 200)
    assert (seen.digest, seen.request_id, seen.object_ids) == ("sha256:1", "req_1", ("re_1",))


def test_what_was_not_sent_leaves_why_as_evidence() -> None:
    seen = after(make_action(), Unsendable(D1, Unsent.TLS)).evidence[-1]
    assert (seen.source, seen.proof, seen.detail) == ("transport", "not_sent", "tls_protocol_error")


@pytest.mark.parametrize("cause", Cause)
def test_no_failure_of_ours_after_a_byte_may_have_left_makes_an_action_failed(cause: Cause) -> None:
    result = after(make_action(), lost(cause))
    assert axes(result)[:3] == ("pending", "pending", "denied_unresolved")


def test_a_batch_accepted_in_part_counts_with_the_amounts_as_accepted() -> None:
    result = after(make_action(), answer(Accepted(partial=True, amount=Amount(1800, "usd"))))
    assert (result.partial, result.amount, result.over_reserved) == (True, Amount(1800, "usd"), False)


def test_an_amount_over_what_was_reserved_is_kept_and_flagged() -> None:
    result = after(make_action(), answer(Accepted(("re_1",), amount=Amount(5401, "usd"))))
    assert (result.status.value, result.amount, result.over_reserved) == ("confirmed", Amount(5401, "usd"), True)
