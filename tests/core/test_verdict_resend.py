"""What Resend's answers to a dispatch become: CONTRACT 2.1, and facts, section 5."""

import pytest

from proxy.core.http import Answered, Integrity
from proxy.core.model import Cause
from proxy.core.verdict import Accepted, Rejected, Unclear, Verdict, of_dispatch
from tests.core.pure_adapters import RESEND, route
from tests.core.pure_http import MAIL_ID, RESEND_MARK, answered, resend, resend_error

SENT = Accepted((MAIL_ID,))
OTHER_ID = "2f5a1f0e-9a7b-4c3d-8e1f-001122334455"
BEFORE = Rejected(before_execution=True)
NOT_EXECUTED = Rejected(not_executed=True)
MALFORMED = Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
UNKNOWN = Unclear(Cause.UNRECOGNISED_RESPONSE)


def judged(answer: Answered, type_: str = "email.send", *, keyed: bool = True) -> Verdict:
    return of_dispatch(answer, RESEND, route(RESEND, type_), keyed=keyed)


def error(status: int, name: str) -> Answered:
    return resend(status, resend_error(status, name))


ROWS = {
    "200 with the email's ID": (resend(200, {"id": MAIL_ID}), SENT),
    "200 whose mark is the ID alone": (answered(200, {"id": MAIL_ID}), SENT),
    "200 with an ID of another shape, without the header": (answered(200, {"id": "1"}), UNKNOWN),
    "200 without an ID": (resend(200, {"object": "email"}), MALFORMED),
    "200 cut short": (resend(200, {"id": MAIL_ID}, integrity=Integrity.CUT), MALFORMED),
    "200 cut short, without the header": (answered(200, {"id": MAIL_ID}, integrity=Integrity.CUT), UNKNOWN),
    "200 in HTML of something between": (answered(200, b"<html>Welcome</html>"), UNKNOWN),
    "500": (error(500, "application_error"), Unclear(Cause.SERVER_ERROR, delivered=True)),
    "500 whose mark is its shape": (
        answered(500, resend_error(500, "internal_server_error")),
        Unclear(Cause.SERVER_ERROR, delivered=True),
    ),
    "502 of something between": (answered(502, b"<html>"), Unclear(Cause.SERVER_ERROR)),
    "409 in flight": (
        error(409, "concurrent_idempotent_requests"),
        Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True),
    ),
    "409 other payload": (error(409, "invalid_idempotent_request"), Unclear(Cause.KEY_REUSED, delivered=True)),
    "409 of another kind": (error(409, "conflict"), UNKNOWN),
    "429 of the rate limit": (error(429, "rate_limit_exceeded"), NOT_EXECUTED),
    "429 of the daily quota": (error(429, "daily_quota_exceeded"), NOT_EXECUTED),
    "429 of the monthly quota": (error(429, "monthly_quota_exceeded"), NOT_EXECUTED),
    "429 of another kind": (error(429, "slow_down"), UNKNOWN),
    "429 of something between": (answered(429, {"message": "slow down"}), UNKNOWN),
    "401 without a key": (error(401, "missing_api_key"), NOT_EXECUTED),
    "401 for a restricted key": (error(401, "restricted_api_key"), NOT_EXECUTED),
    "401 of validation": (error(401, "validation_error"), BEFORE),
    "403": (error(403, "invalid_api_key"), BEFORE),
    "400 for our key": (error(400, "invalid_idempotency_key"), BEFORE),
    "404": (error(404, "not_found"), BEFORE),
    "405": (error(405, "method_not_allowed"), BEFORE),
    "422": (error(422, "missing_required_field"), BEFORE),
    "422 of a name nobody has heard of": (error(422, "new_rule"), UNKNOWN),
    "422 without a name": (resend(422, {"message": "no"}), UNKNOWN),
    "422 without the header, whose mark is its shape": (answered(422, resend_error(422, "validation_error")), BEFORE),
    "422 with a name, and a status in words": (
        answered(422, {"statusCode": "422", "name": "validation_error", "message": "no"}),
        UNKNOWN,
    ),
    "408": (error(408, "validation_error"), UNKNOWN),
    "451": (error(451, "security_error"), UNKNOWN),
    "302": (resend(302, b""), UNKNOWN),
}


@pytest.mark.parametrize(("answer", "verdict"), ROWS.values(), ids=ROWS)
def test_resends_answer_becomes(answer: Answered, verdict: Verdict) -> None:
    assert judged(answer) == verdict


def test_an_answer_before_the_upload_ended_is_unknown() -> None:
    early = answered(422, resend_error(422, "validation_error"), RESEND_MARK, upload_ended=False)

    assert judged(early) == UNKNOWN


BATCHES = {
    "all of it": ({"data": [{"id": MAIL_ID}, {"id": OTHER_ID}]}, Accepted((MAIL_ID, OTHER_ID))),
    "all of it, though permissive": ({"data": [{"id": MAIL_ID}], "errors": []}, SENT),
    "a part of it": (
        {"data": [{"id": MAIL_ID}], "errors": [{"index": 1, "message": "no"}]},
        Accepted((MAIL_ID,), partial=True),
    ),
    "nothing of it": ({"data": [], "errors": [{"index": 0, "message": "no"}]}, MALFORMED),
    "one without an ID": ({"data": [{"id": MAIL_ID}, {}]}, MALFORMED),
    "one whose ID is null": ({"data": [{"id": MAIL_ID}, {"id": None}]}, MALFORMED),
    "no list": ({"data": {"id": MAIL_ID}}, MALFORMED),
    "nothing at all": ({}, MALFORMED),
}


@pytest.mark.parametrize(("body", "verdict"), BATCHES.values(), ids=BATCHES)
def test_a_batch_is_accepted_by_the_ids_of_what_was_accepted(body: object, verdict: Verdict) -> None:
    assert judged(resend(200, body), "email.batch") == verdict


def test_writes_that_nobody_declared_are_judged_by_the_same_rules() -> None:
    generic = RESEND.match("POST", "/domains").route

    assert of_dispatch(resend(201, {"id": MAIL_ID}), RESEND, generic, keyed=False) == SENT
    assert of_dispatch(resend(200, {"deleted": True}), RESEND, generic, keyed=False) == Accepted()
    assert of_dispatch(error(422, "validation_error"), RESEND, generic, keyed=False) == BEFORE
