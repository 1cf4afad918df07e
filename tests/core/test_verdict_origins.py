"""Providers with few facts or none, rules of other shapes, and what an operator's replay proves (CONTRACT 2.1, 4)."""

import hashlib

import pytest
from msgspec.structs import replace

from proxy.core.adapter import Adapter
from proxy.core.facts import Mark
from proxy.core.http import Answered, Integrity, Response, Silence
from proxy.core.model import Amount, Cause
from proxy.core.payload import parse_json
from proxy.core.verdict import (
    DEFINITE_WITHOUT_FACTS,
    Accepted,
    Rejected,
    Reply,
    Unclear,
    Verdict,
    is_marked,
    of_dispatch,
    of_object,
    of_replay,
    of_silence,
    reply_of,
    tree_of,
)
from tests.core.pure_adapters import HOST_ONLY, RESEND, SLACK, STRIPE, THINGS, route
from tests.core.pure_http import REFUND, REPLAYED, STRIPE_MARK, answered, resend, resend_error, stripe, stripe_error

UNKNOWN = Unclear(Cause.UNRECOGNISED_RESPONSE)
MALFORMED = Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
SERVER_ERROR = Unclear(Cause.SERVER_ERROR)
REFUNDING = route(STRIPE, "refund.create")


@pytest.mark.parametrize(
    ("silence", "cause"),
    [
        (Silence(), Cause.CONNECTION_LOST),
        (Silence(timed_out=True), Cause.TIMEOUT),
        (Silence(garbled=True), Cause.UNRECOGNISED_RESPONSE),
        (Silence(timed_out=True, garbled=True), Cause.UNRECOGNISED_RESPONSE),
    ],
)
def test_silence_has_its_cause(silence: Silence, cause: Cause) -> None:
    assert of_silence(silence) is cause


# ── A provider is at least a host ─────────────────────────────────────────────────────────────────────────────────────


def of_host(answer: Answered) -> Verdict:
    match = HOST_ONLY.match("POST", "/v1/things")
    assert match.generic
    return of_dispatch(answer, HOST_ONLY, match.route, keyed=False)


@pytest.mark.parametrize("status", range(200, 600))
def test_without_facts_a_whole_answer_means_what_its_status_says(status: int) -> None:
    verdict = of_host(answered(status, {"id": "th_1"}))

    if status < 300:
        assert verdict == Accepted(("th_1",))
    elif status in (400, 401, 403, 404, 405, 410, 415, 422):
        assert verdict == Rejected()
    else:
        assert verdict == (SERVER_ERROR if status >= 500 else UNKNOWN)


def test_the_definite_statuses_are_those_of_the_contract() -> None:
    assert {400, 401, 403, 404, 405, 410, 415, 422} == DEFINITE_WITHOUT_FACTS


@pytest.mark.parametrize("integrity", [kind for kind in Integrity if kind is not Integrity.WHOLE])
def test_without_facts_what_is_not_whole_is_unknown(integrity: Integrity) -> None:
    assert of_host(answered(200, {}, integrity=integrity)) == MALFORMED
    assert of_host(answered(422, {}, integrity=integrity)) == UNKNOWN


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a":'])
def test_without_facts_a_rejection_that_is_no_json_is_unknown(body: bytes) -> None:
    assert of_host(answered(422, body)) == UNKNOWN


def test_without_facts_a_success_needs_no_id_but_must_be_what_it_says_it_is() -> None:
    assert of_host(answered(204, b"")) == Accepted()
    assert of_host(answered(200, {"deleted": True})) == Accepted()
    assert of_host(answered(200, b'{"id": "th_')) == MALFORMED
    assert of_host(Answered(Response(200, headers=((b"Content-Type", b"text/plain"),), body=b"ok"))) == Accepted()


def test_without_facts_an_answer_before_the_upload_ended_is_unknown() -> None:
    assert of_host(answered(200, {}, upload_ended=False)) == UNKNOWN
    assert of_host(answered(422, {}, upload_ended=False)) == UNKNOWN


# ── Rules of other shapes ─────────────────────────────────────────────────────────────────────────────────────────────

SLACK_MARK = (b"x-slack-req-id", b"1")


def of_slack(answer: Answered) -> Verdict:
    return of_dispatch(answer, SLACK, route(SLACK, "message.post"), keyed=False)


SOME, EVERY = (b"x-result", b"some"), (b"x-result", b"all")
PRICED = {"ok": True, "ts": "17.1", "currency": "EUR"}
SLACKS = {
    "ok": (answered(200, {"ok": True, "ts": "17.1"}, SLACK_MARK), Accepted(("17.1",))),
    "ok: false": (answered(200, {"ok": False, "error": "channel_not_found"}, SLACK_MARK), Rejected()),
    "an exception before a wider rule": (answered(200, {"ok": False, "error": "internal_error"}, SLACK_MARK), UNKNOWN),
    "ok: false without the mark": (answered(200, {"ok": False}), UNKNOWN),
    "ok: false, cut short": (answered(200, {"ok": False}, SLACK_MARK, integrity=Integrity.CUT), MALFORMED),
    "ok: 'false' is another value, but reads the same": (answered(200, {"ok": "false"}, SLACK_MARK), Rejected()),
    "a job that may still run": (
        answered(202, {"state": "queued", "ts": "17.1"}, SLACK_MARK),
        Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("17.1",)),
    ),
    "a job without an ID": (
        answered(202, {"state": "running"}, SLACK_MARK),
        Unclear(Cause.NON_TERMINAL, delivered=True),
    ),
    "a part, told by a header": (
        answered(207, PRICED | {"amount": "3.50"}, SLACK_MARK, SOME),
        Accepted(("17.1",), partial=True, amount=Amount(350, "eur")),
    ),
    "a part without an ID": (answered(207, {}, SLACK_MARK, SOME), MALFORMED),
    "the header with another value": (answered(207, {"ts": "17.1"}, SLACK_MARK, EVERY), Accepted(("17.1",))),
    "major units that the currency has not": (
        answered(200, PRICED | {"amount": "3.505"}, SLACK_MARK),
        Accepted(("17.1",)),
    ),
    "422 of a provider with a mark, by no rule": (answered(422, {}, SLACK_MARK), UNKNOWN),
    "503 whatever it says": (answered(503, {"ok": False}, SLACK_MARK), Unclear(Cause.SERVER_ERROR, delivered=True)),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "verdict"), SLACKS.values(), ids=SLACKS)
def test_an_adapters_rule_decides(answer: Answered, verdict: Verdict) -> None:
    assert of_slack(answer) == verdict


def test_a_rule_may_call_another_status_a_success() -> None:
    making = route(THINGS, "thing.make")

    assert of_dispatch(answered(409, {"code": "exists", "id": "th_1"}), THINGS, making, keyed=True) == Accepted(
        ("th_1",)
    )
    assert of_dispatch(answered(409, {"code": "exists"}), THINGS, making, keyed=True) == MALFORMED
    assert of_dispatch(answered(409, {"code": "other"}), THINGS, making, keyed=True) == UNKNOWN


@pytest.mark.parametrize(
    ("kind", "like", "unlike"),
    [
        ("string", ["", "a"], [1, None, {}, []]),
        ("integer", [0, -7, 10**30], ["1", 1.0, 1e2, True, None]),
        ("uuid", ["49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"], ["49a3999c", "", 1, None]),
        ("object", [{}, {"a": 1}], [[], "a", None]),
        ("array", [[], [1]], [{}, "a", None]),
    ],
)
def test_a_mark_may_be_a_shape(kind: str, like: list[object], unlike: list[object]) -> None:
    mark = Mark(source="a page", shapes=({"/a": kind, "/b": "string"},))
    adapter = Adapter(replace(HOST_ONLY.doc, mark=mark))

    def marked(body: object) -> bool:
        response = answered(200, body).response
        return is_marked(response, tree_of(response), adapter)

    assert all(marked({"a": value, "b": ""}) for value in like)
    assert not any(marked({"a": value, "b": ""}) for value in unlike)
    assert not any(marked({"a": value}) for value in like)
    assert not marked(b"<html>")


# ── An operator's replay ──────────────────────────────────────────────────────────────────────────────────────────────

DONE = Accepted(("re_1",), amount=Amount(5400, "usd"))
DECLINED = stripe_error("card_error", "card_declined")
REPLAYS = {
    "the first result, marked as such": (stripe(200, REFUND, REPLAYED), DONE),
    "a result of its own: it has happened now": (stripe(200, REFUND), DONE),
    "the first rejection, marked as such": (stripe(402, DECLINED, REPLAYED), Rejected()),
    "a rejection of its own": (stripe(402, DECLINED), UNKNOWN),
    "an object created as failed, marked": (stripe(200, REFUND | {"status": "failed"}, REPLAYED), Rejected()),
    "an object created as failed by the replay itself": (stripe(200, REFUND | {"status": "failed"}), UNKNOWN),
    "401": (stripe(401, stripe_error("invalid_request_error")), UNKNOWN),
    "429": (stripe(429, stripe_error("rate_limit_error")), UNKNOWN),
    "404": (stripe(404, stripe_error("invalid_request_error")), UNKNOWN),
    "a replayed 500": (
        stripe(500, stripe_error("api_error"), REPLAYED),
        Unclear(Cause.SERVER_ERROR, delivered=True),
    ),
    "a conflict": (stripe(409, stripe_error("idempotency_error")), Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True)),
    "the replay mark of something between": (answered(402, DECLINED, REPLAYED), UNKNOWN),
    "the replay mark with another value": (stripe(402, DECLINED, (b"Idempotent-Replayed", b"false")), UNKNOWN),
    "a result without the mark": (answered(200, REFUND, REPLAYED), UNKNOWN),
    "a result cut short": (stripe(200, REFUND, REPLAYED, integrity=Integrity.CUT), MALFORMED),
}


@pytest.mark.parametrize(("answer", "verdict"), REPLAYS.values(), ids=REPLAYS)
def test_a_replay_settles_by_a_result_or_by_the_first_rejection_alone(answer: Answered, verdict: Verdict) -> None:
    assert of_replay(answer, STRIPE, REFUNDING) == verdict


def test_where_a_provider_marks_no_replay_no_rejection_speaks_of_the_first() -> None:
    sending = route(RESEND, "email.send")

    assert of_replay(resend(422, resend_error(422, "validation_error")), RESEND, sending) == UNKNOWN


# ── The provider's own record, and what is kept of an answer ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "verdict"),
    [("succeeded", DONE), ("pending", DONE), ("failed", Rejected()), ("canceled", Rejected())],
)
def test_an_object_is_judged_by_the_same_terminal_rule(status: str, verdict: Verdict) -> None:
    answer = stripe(200, REFUND | {"status": status})

    assert of_dispatch(answer, STRIPE, REFUNDING, keyed=True) == verdict
    assert of_object(parse_json(answer.response.body), STRIPE, REFUNDING) == verdict


def test_what_is_kept_of_an_answer() -> None:
    answer = stripe(200, REFUND, REPLAYED)

    assert reply_of(answer, STRIPE) == Reply(
        status=200,
        request_id=STRIPE_MARK[1].decode(),
        digest=f"sha256:{hashlib.sha256(answer.response.body).hexdigest()}",
        whole=True,
        replayed=True,
    )


@pytest.mark.parametrize(
    ("integrity", "whole"),
    [
        (Integrity.WHOLE, True),
        (Integrity.TRAILING, True),
        (Integrity.CUT, False),
        (Integrity.TOO_LARGE, False),
        (Integrity.MALFORMED, False),
    ],
)
def test_a_response_is_over_when_its_end_was_seen(integrity: Integrity, whole: bool) -> None:
    assert reply_of(stripe(200, REFUND, integrity=integrity), STRIPE).whole == whole


def test_a_long_or_missing_request_id_is_kept_short_or_not_at_all() -> None:
    assert reply_of(answered(200, b"", (b"request-id", b"r" * 500)), STRIPE).request_id == "r" * 128
    assert reply_of(answered(200, b""), STRIPE).request_id == ""
    assert reply_of(resend(200, {}), RESEND).request_id == ""
    assert not reply_of(answered(200, b"", REPLAYED), HOST_ONLY).replayed
