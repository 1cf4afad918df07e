"""CONTRACT 3: every answer that the proxy makes itself, with its HTTP status and what may be done about it."""

import pytest

from proxy.core.answers import KINDS, Code, action_headers, own, retry_of_answer
from tests.core.lives import STATES

ROWS = {
    "outcome_unknown": (423, "never"),
    "action_in_flight": (423, "never"),
    "suspected_duplicate": (423, "new-event"),
    "already_settled": (423, "never"),
    "credential_mismatch": (423, "never"),
    "payload_mismatch": (422, "new-event"),
    "event_id_required": (400, "never"),
    "retry_of_invalid": (400, "never"),
    "bad_request": (400, "never"),
    "unknown_provider": (404, "never"),
    "retry_of_required": (409, "new-run"),
    "too_early": (409, "new-run"),
    "limit_exhausted": (403, "never"),
    "amount_undeterminable": (403, "never"),
    "egress_denied": (403, "never"),
    "paused": (403, "never"),
    "body_too_large": (413, "never"),
    "not_sent": (502, "safe"),
    "read_failed": (502, "safe"),
    "store_unavailable": (503, "safe"),
    "draining": (503, "safe"),
    "overloaded": (503, "safe"),
}


@pytest.mark.parametrize("code", ROWS)
def test_each_answer_has_the_status_and_the_advice_of_its_row(code: str) -> None:
    kind = KINDS[Code(code)]
    assert (kind.status, kind.retry.value) == ROWS[code]


def test_the_rows_leave_no_answer_out() -> None:
    assert set(ROWS) == {code.value for code in Code} == {code.value for code in KINDS}


@pytest.mark.parametrize("code", ROWS)
def test_every_answer_but_a_safe_one_tells_an_sdk_not_to_retry(code: str) -> None:
    headers = dict(own(Code(code), "why").headers)
    told = [headers.get("Stripe-Should-Retry"), headers.get("x-should-retry")]
    assert told == ([None, None] if ROWS[code][1] == "safe" else ["false", "false"])
    assert "Retry-After" not in headers
    assert headers["Doubtless-Retry"] == ROWS[code][1]


@pytest.mark.parametrize(
    ("state", "retry"),
    [
        ("by_response", "never"),
        ("by_read_back", "never"),
        ("unknown", "never"),
        ("rejected", "new-run"),
        ("before_execution", "new-run"),
        ("not_executed", "safe"),
    ],
)
def test_the_providers_own_answer_says_what_may_be_done_after_it(state: str, retry: str) -> None:
    assert retry_of_answer(STATES[state]).value == retry


@pytest.mark.parametrize(
    ("state", "status", "grade"),
    [
        ("unknown", "denied_unresolved", "unknown"),
        ("by_response", "confirmed", "acknowledged"),
        ("by_read_back", "confirmed", "confirmed"),
        ("rejected", "failed", "failed"),
        ("refused", "failed", "refused"),
    ],
)
def test_a_governed_writes_answer_names_the_action_its_status_and_grade(state: str, status: str, grade: str) -> None:
    action = STATES[state]
    headers = dict(action_headers(action, retry_of_answer(action)))
    assert headers["Doubtless-Action-Id"] == action.action_id
    assert (headers["Doubtless-Status"], headers["Doubtless-Grade"]) == (status, grade)
