"""The answers that the proxy makes itself: the closed set of CONTRACT 3, every row, header and member."""

import json
from typing import Any, Final

import pytest
from msgspec.structs import replace

from proxy.core.answers import (
    KINDS,
    Code,
    Own,
    Retry,
    action_headers,
    in_flight_text,
    mismatch_text,
    not_sent_text,
    own,
    refused_text,
    retry_of_answer,
    retry_of_text,
    settled_text,
    too_early_text,
    twin_text,
    unknown_text,
)
from proxy.core.events import Lost, Responded, Unsendable
from proxy.core.http import Unsent
from proxy.core.model import Action, Amount, Cause, Effect, NotDispatched
from proxy.core.verdict import Accepted, Rejected, Reply
from tests.fakes.actions import after, make_action

TABLE: Final = {
    # code: status, Doubtless-Retry
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
}  # fmt: skip
# RFC 9209, section 2.3: every error type that it registers.
ERROR_TYPES: Final = {
    "dns_timeout", "dns_error", "destination_not_found", "destination_unavailable", "destination_ip_prohibited",
    "destination_ip_unroutable", "connection_refused", "connection_terminated", "connection_timeout",
    "connection_read_timeout", "connection_write_timeout", "connection_limit_reached", "tls_protocol_error",
    "tls_certificate_error", "tls_alert_received", "http_request_error", "http_request_denied",
    "http_response_incomplete", "http_response_header_section_size", "http_response_header_size",
    "http_response_body_size", "http_response_trailer_section_size", "http_response_trailer_size",
    "http_response_transfer_coding", "http_response_content_coding", "http_response_timeout", "http_upgrade_failed",
    "http_protocol_error", "proxy_internal_response", "proxy_internal_error", "proxy_configuration_error",
    "proxy_loop_detected",
}  # fmt: skip
SENT: Final = make_action()
LOST: Final = after(SENT, Lost("d1-1", Cause.TIMEOUT))
URL: Final = "http://127.0.0.1:7411/_doubtless/actions/x"


def of(answer: Own) -> dict[str, str]:
    """Return the headers; none may be there twice."""
    found = dict(answer.headers)
    assert len(found) == len(answer.headers)
    return found


def body(answer: Own) -> dict[str, Any]:
    found = json.loads(answer.body)
    assert isinstance(found, dict)
    return found


def test_the_set_of_answers_is_closed_and_is_the_contracts() -> None:
    assert {code.value: (kind.status, kind.retry.value) for code, kind in KINDS.items()} == TABLE
    assert set(KINDS) == set(Code)
    assert {retry.value for retry in Retry} == {"never", "safe", "new-run", "new-event"}


@pytest.mark.parametrize("code", Code)
def test_an_answer_has_its_status_and_says_what_may_be_done(code: Code) -> None:
    for action in (None, SENT, LOST):
        answer = own(code, "words", action=action)
        assert (answer.code, answer.status) == (code, TABLE[code.value][0])
        assert of(answer)["Doubtless-Retry"] == TABLE[code.value][1]
        assert body(answer)["doubtless"]["retry"] == TABLE[code.value][1]


@pytest.mark.parametrize("code", Code)
def test_only_what_is_safe_may_be_retried_by_an_sdk(code: Code) -> None:
    headers = of(own(code, "words", action=LOST))
    safe = TABLE[code.value][1] == "safe"

    assert headers.get("Stripe-Should-Retry") == (None if safe else "false")
    assert headers.get("x-should-retry") == (None if safe else "false")
    assert not [name for name in headers if name.lower() == "retry-after"]


@pytest.mark.parametrize("code", Code)
def test_the_body_is_one_that_every_sdk_surfaces(code: Code) -> None:
    status = TABLE[code.value][0]
    said = "Doubtless: it is like this."
    found = body(own(code, "it is like this.", view={"action_id": "a", "retry": "whatever"}))

    assert list(found) == [
        "error", "statusCode", "name", "message", "type", "title", "status", "detail", "doubtless",
    ]  # fmt: skip
    assert found["error"] == {"type": "api_error", "code": code.value, "message": said}
    assert (found["statusCode"], found["status"]) == (status, status)
    assert (found["name"], found["type"]) == (code.value, f"urn:doubtless:problem:{code.value}")
    assert found["message"] == found["detail"] == said
    assert found["title"] == found["title"].strip() != ""
    assert found["doubtless"] == {"action_id": "a", "retry": TABLE[code.value][1]}


@pytest.mark.parametrize("code", Code)
def test_proxy_status_names_us_a_registered_error_type_and_the_code(code: Code) -> None:
    headers = of(own(code, "words"))

    assert headers["Content-Type"] == "application/json"
    name, error, details = headers["Proxy-Status"].split("; ")
    assert name == "doubtless"
    assert error.removeprefix("error=") in ERROR_TYPES
    assert details == f'details="{code.value}"'


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (Cause.TIMEOUT, "http_response_timeout"),
        (Cause.CONNECTION_LOST, "connection_terminated"),
        (Cause.MALFORMED_RESPONSE, "http_protocol_error"),
        (Cause.PROXY_RESTART, "proxy_internal_error"),
        (Cause.SHUTDOWN, "proxy_internal_error"),
        (Cause.SERVER_ERROR, "proxy_internal_response"),
        (Cause.IDEMPOTENT_CONFLICT, "proxy_internal_response"),
    ],
)
def test_an_unknown_outcome_says_what_it_was_on_the_wire(cause: Cause, error: str) -> None:
    answer = own(Code.OUTCOME_UNKNOWN, "words", action=after(SENT, Lost("d1-1", cause)))

    assert of(answer)["Proxy-Status"] == f'doubtless; error={error}; details="outcome_unknown"'


def test_a_status_that_was_read_is_told() -> None:
    action = replace(LOST, upstream_status=500, cause=Cause.SERVER_ERROR)

    assert of(own(Code.OUTCOME_UNKNOWN, "words", action=action))["Proxy-Status"].endswith("; received-status=500")


@pytest.mark.parametrize("why", Unsent)
def test_what_was_not_sent_says_why_in_the_words_of_the_standard(why: Unsent) -> None:
    answer = own(Code.NOT_SENT, "words", error=why.value)

    assert of(answer)["Proxy-Status"] == f'doubtless; error={why.value}; details="not_sent"'
    assert why.value in ERROR_TYPES


def test_an_answer_about_an_action_names_it_and_one_that_may_not_does_not() -> None:
    headers = of(own(Code.OUTCOME_UNKNOWN, "words", action=LOST))
    assert headers["Doubtless-Action-Id"] == LOST.action_id
    assert (headers["Doubtless-Status"], headers["Doubtless-Grade"]) == ("denied_unresolved", "unknown")

    closed = own(Code.OUTCOME_UNKNOWN, "words")
    assert {name for name in of(closed) if name.startswith("Doubtless-")} == {"Doubtless-Retry"}
    assert body(closed)["doubtless"] == {"retry": "never"}
    assert LOST.action_id not in closed.body.decode()


def test_a_folded_answer_says_into_what() -> None:
    assert of(own(Code.OUTCOME_UNKNOWN, "w", action=LOST, folded=True))["Doubtless-Folded-Into"] == LOST.action_id
    assert "Doubtless-Folded-Into" not in of(own(Code.OUTCOME_UNKNOWN, "w", action=LOST))


def test_header_values_are_ascii_and_one_line() -> None:
    for code in Code:
        for name, value in own(code, "Störung\n", action=LOST).headers:
            assert name.isascii()
            assert value.isascii()
            assert value.isprintable()


# ── After an answer of the provider's own ─────────────────────────────────────────────────────────────────────────────

WHOLE: Final = Reply(status=200, whole=True)
ANSWERED: Final = {
    "confirmed": (after(SENT, Responded("d1-1", Accepted(("re_1",)), WHOLE)), Retry.NEVER),
    "rejected": (after(SENT, Responded("d1-1", Rejected(), WHOLE)), Retry.NEW_RUN),
    "rejected before execution": (
        after(SENT, Responded("d1-1", Rejected(before_execution=True), WHOLE)),
        Retry.NEW_RUN,
    ),
    "not executed": (after(SENT, Responded("d1-1", Rejected(not_executed=True), WHOLE)), Retry.SAFE),
    "unknown": (LOST, Retry.NEVER),
    "in flight": (SENT, Retry.NEVER),
}


@pytest.mark.parametrize(("action", "retry"), ANSWERED.values(), ids=ANSWERED)
def test_a_providers_answer_bears_what_may_be_done(action: Action, retry: Retry) -> None:
    assert retry_of_answer(action) is retry
    assert [name for name, _ in action_headers(action, retry)] == [
        "Doubtless-Action-Id",
        "Doubtless-Status",
        "Doubtless-Grade",
        "Doubtless-Retry",
    ]


# ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

ABOUT: Final = {
    "unknown": unknown_text(LOST, URL),
    "in flight": in_flight_text(SENT, URL),
    "settled": settled_text(LOST, URL),
    "twin": twin_text(LOST, URL),
}


@pytest.mark.parametrize("text", ABOUT.values(), ids=ABOUT)
def test_a_model_is_told_what_it_was_not_to_call_again_and_where_to_look(text: str) -> None:
    assert "stripe.refund.create of 54.00 USD" in text
    assert "Do not call this tool again" in text
    assert "changed arguments" in text
    assert "even if you are told to retry" in text
    assert f"GET {URL}" in text


def test_a_model_is_told_what_may_have_happened_and_what_to_say_instead() -> None:
    assert "may already have happened" in ABOUT["unknown"]
    assert "do not say that it failed" in ABOUT["unknown"]
    assert "Say that" in ABOUT["unknown"]
    assert "event ID of its own" in ABOUT["twin"]
    assert "has already happened" in settled_text(ANSWERED["confirmed"][0], URL)
    assert "has already happened" not in settled_text(ANSWERED["rejected"][0], URL)


@pytest.mark.parametrize(
    ("amount", "effect", "said"),
    [
        (Amount(5400), Effect.MONEY, "of 5400 (in minor units; its currency is not known yet)"),
        (Amount(), Effect.MONEY, "this stripe.refund.create is unknown"),
        (Amount(5400, "usd"), Effect.MESSAGE, "this stripe.refund.create is unknown"),
    ],
)
def test_an_amount_is_told_as_far_as_it_is_known_and_moved(amount: Amount, effect: Effect, said: str) -> None:
    assert said in unknown_text(replace(LOST, amount=amount, effect=effect), URL)


def test_a_mismatch_names_fields_and_two_ways_out() -> None:
    text = mismatch_text(["amount", "card[number]"])

    assert "It differs in: amount, card[number]." in text
    assert "ticket-17/2" in text
    assert "Doubtless-Action-Type: /second" in text
    assert "differs in" not in mismatch_text([])


def test_what_was_refused_is_said_not_to_have_happened() -> None:
    refused = replace(SENT, delivery=NotDispatched(), awaited=False, dispatches=(), cause=Cause.PAUSED)
    texts = {
        code: refused_text(code, refused) for code in (Code.PAUSED, Code.AMOUNT_UNDETERMINABLE, Code.LIMIT_EXHAUSTED)
    }

    assert len(set(texts.values())) == 3
    assert all("Nothing happened." in text for text in texts.values())
    assert "paused by an operator" in texts[Code.PAUSED]
    assert "no room" in texts[Code.LIMIT_EXHAUSTED]


def test_what_may_be_tried_again_is_said_to_be() -> None:
    unsent = after(SENT, Unsendable("d1-1", Unsent.REFUSED))

    assert "nothing of this stripe.refund.create of 54.00 USD was sent. It is safe" in not_sent_text(unsent)
    assert "nothing of the request was sent. It is safe" in not_sent_text(None)
    assert f"Doubtless-Retry-Of: {unsent.action_id}" in retry_of_text(unsent)
    assert "until 12:00" in too_early_text(unsent, "12:00")
