"""What Stripe's answers to a dispatch become: CONTRACT 2.1, row by row."""

import gzip

import pytest

from proxy.core.http import Answered, Integrity
from proxy.core.model import Amount, Cause
from proxy.core.verdict import Accepted, Rejected, Unclear, Verdict, of_dispatch
from tests.core.pure_adapters import STRIPE, route
from tests.core.pure_http import REFUND, STRIPE_MARK, answered, stripe, stripe_error

REFUNDING = route(STRIPE, "refund.create")
DONE = Accepted(("re_1",), amount=Amount(5400, "usd"))
BEFORE = Rejected(before_execution=True)
NOT_EXECUTED = Rejected(not_executed=True)
CONFLICT = Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True)
REUSED = Unclear(Cause.KEY_REUSED, delivered=True)
MALFORMED = Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
UNKNOWN = Unclear(Cause.UNRECOGNISED_RESPONSE)
HTML = b"<html>Bad gateway</html>"


def judged(answer: Answered, type_: str = "refund.create", *, keyed: bool = True) -> Verdict:
    return of_dispatch(answer, STRIPE, route(STRIPE, type_), keyed=keyed)


def refund(**other: object) -> dict[str, object]:
    return REFUND | other


INVALID_REQUEST = stripe_error("invalid_request_error")
ROWS = {
    # 2xx
    "200 with the refund": (stripe(200, REFUND), DONE),
    "a refund that waits for the bank": (stripe(200, refund(status="pending")), DONE),
    "a refund that waits for the customer": (stripe(200, refund(status="requires_action")), DONE),
    "a refund created as failed": (stripe(200, refund(status="failed")), Rejected()),
    "a refund created as canceled": (stripe(200, refund(status="canceled")), Rejected()),
    "a refund of a status nobody has heard of": (stripe(200, refund(status="new")), DONE),
    "201": (stripe(201, REFUND), DONE),
    "the charge, as the oldest spelling answers": (stripe(200, {"id": "ch_1", "object": "charge"}), Accepted()),
    "an ID with half a surrogate pair": (stripe(200, refund(id="re_\ud800")), MALFORMED),
    "a charge without an ID": (stripe(200, {"object": "charge"}), MALFORMED),
    "another actual amount": (stripe(200, refund(amount=5300)), Accepted(("re_1",), amount=Amount(5300, "usd"))),
    "an amount nobody can read": (stripe(200, refund(amount=54.0)), Accepted(("re_1",))),
    "an amount of ten thousand digits": (
        stripe(200, b'{"id":"re_1","currency":"usd","amount":' + b"9" * 10_000 + b"}"),
        Accepted(("re_1",)),
    ),
    "a currency that is none": (stripe(200, refund(currency="dollars")), Accepted(("re_1",))),
    "an amount in krónur, with Stripe's two decimals": (
        stripe(200, refund(amount=50000, currency="isk")),
        Accepted(("re_1",), amount=Amount(500, "isk")),
    ),
    "cut short": (stripe(200, REFUND, integrity=Integrity.CUT), MALFORMED),
    "over the size bound": (stripe(200, b"", integrity=Integrity.TOO_LARGE), MALFORMED),
    "with trailing bytes": (stripe(200, REFUND, integrity=Integrity.TRAILING), MALFORMED),
    "with framing that is not HTTP's": (stripe(200, REFUND, integrity=Integrity.MALFORMED), MALFORMED),
    "garbage": (stripe(200, HTML), MALFORMED),
    "half of the JSON": (stripe(200, b'{"id": "re_1", "amou'), MALFORMED),
    "an empty body": (stripe(200, b""), MALFORMED),
    "204": (stripe(204, b""), MALFORMED),
    "without an ID": (stripe(200, {"object": "refund"}), MALFORMED),
    "with an empty ID": (stripe(200, refund(id="")), MALFORMED),
    "with an ID that is no text": (stripe(200, refund(id=7)), MALFORMED),
    "with two IDs": (stripe(200, b'{"id":"re_1","id":7}'), MALFORMED),
    "a list": (stripe(200, [REFUND]), MALFORMED),
    "200 without the mark": (answered(200, REFUND), UNKNOWN),
    "200 cut short without the mark": (answered(200, REFUND, integrity=Integrity.CUT), UNKNOWN),
    "200 before the upload ended": (answered(200, REFUND, STRIPE_MARK, upload_ended=False), UNKNOWN),
    # 5xx
    "500 with the mark": (stripe(500, stripe_error("api_error")), Unclear(Cause.SERVER_ERROR, delivered=True)),
    "502 without the mark": (answered(502, HTML), Unclear(Cause.SERVER_ERROR)),
    "503 cut short with the mark": (
        stripe(503, HTML, integrity=Integrity.CUT),
        Unclear(Cause.SERVER_ERROR, delivered=True),
    ),
    "504 before the upload ended": (answered(504, HTML, upload_ended=False), Unclear(Cause.SERVER_ERROR)),
    "599": (stripe(599, b""), Unclear(Cause.SERVER_ERROR, delivered=True)),
    # The key
    "409 while the first is under way": (
        stripe(409, stripe_error("idempotency_error", "idempotency_key_in_use")),
        CONFLICT,
    ),
    "409 of another kind, under our key": (stripe(409, INVALID_REQUEST), CONFLICT),
    "409 without the mark": (answered(409, INVALID_REQUEST), UNKNOWN),
    "400 for a key with other parameters": (stripe(400, stripe_error("idempotency_error")), REUSED),
    "404 for a key with other parameters": (stripe(404, stripe_error("idempotency_error")), REUSED),
    "400 for a reused key, without the mark": (answered(400, stripe_error("idempotency_error")), UNKNOWN),
    # Not executed
    "429 of the rate limiter": (stripe(429, stripe_error("invalid_request_error", "rate_limit")), NOT_EXECUTED),
    "429 of any error type": (stripe(429, stripe_error("rate_limit_error")), NOT_EXECUTED),
    "429 for a lock": (stripe(429, stripe_error("invalid_request_error", "lock_timeout")), UNKNOWN),
    "429 of something between": (answered(429, INVALID_REQUEST), UNKNOWN),
    "429 that says nothing": (stripe(429, b"slow down"), UNKNOWN),
    "401": (stripe(401, INVALID_REQUEST), NOT_EXECUTED),
    "401 of something between": (answered(401, INVALID_REQUEST), UNKNOWN),
    # Definite rejections
    "400 of validation": (stripe(400, stripe_error("invalid_request_error", "parameter_missing")), BEFORE),
    "403": (stripe(403, INVALID_REQUEST), BEFORE),
    "404": (stripe(404, stripe_error("invalid_request_error", "resource_missing")), BEFORE),
    "402 of the card": (stripe(402, stripe_error("card_error", "card_declined")), Rejected()),
    "402 of any other type": (stripe(402, stripe_error("invalid_request_error")), Rejected()),
    "400 already refunded": (
        stripe(400, stripe_error("invalid_request_error", "charge_already_refunded")),
        Rejected(already_done=True),
    ),
    "400 cut short": (stripe(400, INVALID_REQUEST, integrity=Integrity.CUT), UNKNOWN),
    "400 with trailing bytes": (stripe(400, INVALID_REQUEST, integrity=Integrity.TRAILING), UNKNOWN),
    "400 without the mark": (answered(400, INVALID_REQUEST), UNKNOWN),
    "400 before the upload ended": (answered(400, INVALID_REQUEST, STRIPE_MARK, upload_ended=False), UNKNOWN),
    "400 of an error type nobody has heard of": (stripe(400, stripe_error("api_error")), UNKNOWN),
    "400 without an error": (stripe(400, {}), UNKNOWN),
    "400 in HTML": (stripe(400, HTML), UNKNOWN),
    "402 in HTML": (stripe(402, HTML), UNKNOWN),
    # Anything else
    "408": (stripe(408, INVALID_REQUEST), UNKNOWN),
    "418": (stripe(418, INVALID_REQUEST), UNKNOWN),
    "301": (stripe(301, b""), UNKNOWN),
    "307": (stripe(307, REFUND), UNKNOWN),
    "304": (stripe(304, b""), UNKNOWN),
    "424": (stripe(424, stripe_error("api_error")), UNKNOWN),
    "425": (stripe(425, INVALID_REQUEST), UNKNOWN),
    "451": (stripe(451, INVALID_REQUEST), UNKNOWN),
    "199": (stripe(199, REFUND), UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "verdict"), ROWS.values(), ids=ROWS)
def test_stripes_answer_becomes(answer: Answered, verdict: Verdict) -> None:
    assert judged(answer) == verdict


def test_a_409_to_a_request_without_our_key_is_no_conflict_of_keys() -> None:
    assert judged(stripe(409, INVALID_REQUEST), "customer.delete", keyed=False) == UNKNOWN


def test_a_mark_counts_in_any_case_and_whatever_its_value() -> None:
    assert judged(answered(200, REFUND, (b"request-ID", b""))) == DONE


@pytest.mark.parametrize("status", ["requires_action", "requires_confirmation", "processing", "requires_capture"])
def test_a_payment_that_waits_is_accepted(status: str) -> None:
    intent = {"id": "pi_1", "object": "payment_intent", "amount": 100, "currency": "eur", "status": status}

    assert judged(stripe(200, intent), "payment_intent.create") == Accepted(("pi_1",), amount=Amount(100, "eur"))


def test_a_capture_moved_what_was_captured() -> None:
    charge = {"id": "ch_1", "object": "charge", "amount": 5400, "amount_captured": 2000, "currency": "usd"}
    intent = {"id": "pi_1", "object": "payment_intent", "amount": 5400, "amount_received": 3000, "currency": "usd"}

    assert judged(stripe(200, charge), "charge.capture") == Accepted(("ch_1",), amount=Amount(2000, "usd"))
    assert judged(stripe(200, intent), "payment_intent.capture") == Accepted(("pi_1",), amount=Amount(3000, "usd"))


def test_a_deletion_is_accepted_by_the_stub_that_is_left() -> None:
    stub = {"id": "cus_1", "object": "customer", "deleted": True}

    assert judged(stripe(200, stub), "customer.delete", keyed=False) == Accepted(("cus_1",))


CODED = {
    "gzip": ((b"Content-Encoding", b"gzip"), gzip.compress(str(REFUND).replace("'", '"').encode(), mtime=0), DONE),
    "x-gzip": ((b"content-encoding", b"X-GZIP"), gzip.compress(str(REFUND).replace("'", '"').encode(), mtime=0), DONE),
    "identity": ((b"content-encoding", b"identity"), str(REFUND).replace("'", '"').encode(), DONE),
    "gzip cut short": ((b"content-encoding", b"gzip"), gzip.compress(b'{"id":"re_1"}', mtime=0)[:-9], MALFORMED),
    "gzip with bytes after it": ((b"content-encoding", b"gzip"), gzip.compress(b'{"id":"re_1"}') + b"x", MALFORMED),
    "two gzip members": ((b"content-encoding", b"gzip"), gzip.compress(b'{"id":"re_1"}') * 2, MALFORMED),
    "no gzip at all": ((b"content-encoding", b"gzip"), b'{"id":"re_1"}', MALFORMED),
    "brotli": ((b"content-encoding", b"br"), b"\x0b\x02\x80{}\x03", MALFORMED),
    "a coding nobody has heard of": ((b"content-encoding", b"x"), b'{"id":"re_1"}', MALFORMED),
    "gzip twice": ((b"content-encoding", b"gzip, gzip"), gzip.compress(gzip.compress(b'{"id":"re_1"}')), MALFORMED),
}


@pytest.mark.parametrize(("coding", "body", "verdict"), CODED.values(), ids=CODED)
def test_a_coded_answer_is_judged_where_it_can_be_read(
    coding: tuple[bytes, bytes], body: bytes, verdict: Verdict
) -> None:
    assert judged(stripe(200, body, coding)) == verdict


def test_a_coded_rejection_that_cannot_be_read_is_unknown() -> None:
    assert judged(stripe(402, b"\x0b\x02\x80{}\x03", (b"Content-Encoding", b"br"))) == UNKNOWN
    assert judged(stripe(402, gzip.compress(b'{"error":{"type":"card_error"}}'), (b"content-encoding", b"gzip"))) == (
        Rejected()
    )


def test_a_body_that_inflates_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.core.verdict.DECODED_BYTES", 1000)
    bomb = gzip.compress(b'{"id":"re_1","pad":"' + b"0" * 100_000 + b'"}')

    assert judged(stripe(200, bomb, (b"Content-Encoding", b"gzip"))) == MALFORMED
