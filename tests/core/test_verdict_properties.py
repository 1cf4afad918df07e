"""Certainty is earned: no combination of status, mark, wholeness and body proves more than its rule says."""

import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.adapter import Adapter
from proxy.core.facts import Route
from proxy.core.http import Answered, Integrity
from proxy.core.model import Cause
from proxy.core.verdict import Accepted, Rejected, Unclear, of_dispatch, of_replay, reply_of
from tests.core.pure_adapters import HOST_ONLY, RESEND, SLACK, STRIPE
from tests.core.pure_http import MAIL_ID, REFUND, REPLAYED, RESEND_MARK, STRIPE_MARK, answered, resend_error
from tests.core.pure_hypothesis import DETERMINED

MARKS = {"stripe": STRIPE_MARK, "resend": RESEND_MARK, "slack": (b"X-Slack-Req-Id", b"1"), "acme": (b"x-none", b"1")}
NAMES = ["validation_error", "rate_limit_exceeded", "invalid_idempotent_request", "not_found", "nonsense"]
STRIPE_TYPES = ["invalid_request_error", "card_error", "api_error", "idempotency_error", "nonsense"]
STRIPE_CODES = [None, "lock_timeout", "charge_already_refunded", "rate_limit"]
BODIES = st.one_of(
    st.sampled_from([b"", b"<html>", b"{}", b"[]", b"null", b'{"id": "re_1"', b"\xff"]),
    st.sampled_from([REFUND, REFUND | {"status": "failed"}, {"ok": False}]),
    st.sampled_from([{"id": MAIL_ID}, {"data": [{"id": MAIL_ID}]}]),
    st.builds(
        lambda type_, code: {"error": {"type": type_, "code": code}},
        st.sampled_from(STRIPE_TYPES),
        st.sampled_from(STRIPE_CODES),
    ),
    st.builds(resend_error, st.integers(400, 499), st.sampled_from(NAMES)),
).map(lambda body: body if isinstance(body, bytes) else json.dumps(body).encode())


@st.composite
def judgements(draw: st.DrawFn) -> tuple[Adapter, Answered, bool]:
    """Return a provider, an answer that may have come from it, and whether our key was sent."""
    adapter = draw(st.sampled_from([STRIPE, RESEND, SLACK, HOST_ONLY]))
    marked = draw(st.booleans())
    further = [MARKS[adapter.name]] if marked else []
    further += [REPLAYED] if draw(st.booleans()) else []
    answer = answered(
        draw(st.one_of(st.integers(100, 599), st.sampled_from([200, 400, 401, 402, 404, 408, 409, 422, 425, 429]))),
        draw(BODIES),
        *further,
        integrity=draw(st.sampled_from([Integrity.WHOLE] * 4 + list(Integrity))),
        upload_ended=draw(st.sampled_from([True, True, True, False])),
    )
    return adapter, answer, draw(st.booleans())


def routes(adapter: Adapter) -> list[Route]:
    return [*adapter.doc.action, adapter.match("POST", "/v1/some/where").route]


def bears_mark(adapter: Adapter, answer: Answered) -> bool:
    if adapter is HOST_ONLY or MARKS[adapter.name] in answer.response.headers:
        return True
    body = answer.response.body
    return adapter is RESEND and (b'"statusCode"' in body or MAIL_ID.encode() in body)


@DETERMINED
@given(judgements(), st.data())
def test_nothing_is_certain_without_the_mark_a_whole_body_and_a_whole_upload(
    judgement: tuple[Adapter, Answered, bool], data: st.DataObject
) -> None:
    adapter, answer, keyed = judgement
    verdict = of_dispatch(answer, adapter, data.draw(st.sampled_from(routes(adapter))), keyed=keyed)

    if isinstance(verdict, Accepted | Rejected):
        assert answer.integrity is Integrity.WHOLE
        assert answer.upload_ended
        assert bears_mark(adapter, answer)
    else:
        assert verdict.cause in (
            Cause.SERVER_ERROR,
            Cause.MALFORMED_RESPONSE,
            Cause.UNRECOGNISED_RESPONSE,
            Cause.IDEMPOTENT_CONFLICT,
            Cause.KEY_REUSED,
            Cause.NON_TERMINAL,
        )
        assert not verdict.delivered or bears_mark(adapter, answer)


@DETERMINED
@given(judgements(), st.data())
def test_no_status_that_leaves_it_open_ever_rejects(
    judgement: tuple[Adapter, Answered, bool], data: st.DataObject
) -> None:
    adapter, answer, keyed = judgement
    status = answer.response.status
    verdict = of_dispatch(answer, adapter, data.draw(st.sampled_from(routes(adapter))), keyed=keyed)

    if status >= 500 or 300 <= status < 400 or status < 200 or status in (408, 409, 425):
        assert isinstance(verdict, Unclear)
    if isinstance(verdict, Accepted):
        assert 200 <= status < 300


@DETERMINED
@given(judgements())
def test_a_replay_rejects_only_what_it_repeats(judgement: tuple[Adapter, Answered, bool]) -> None:
    adapter, answer, _ = judgement
    route = adapter.match("POST", "/v1/refunds").route
    replayed, dispatched = of_replay(answer, adapter, route), of_dispatch(answer, adapter, route, keyed=True)

    if isinstance(replayed, Rejected):
        assert reply_of(answer, adapter).replayed
    if isinstance(replayed, Accepted | Rejected):
        assert replayed == dispatched
