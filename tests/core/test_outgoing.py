"""What passes through: all but hop-by-hop fields, our own, and the key; in order, case and bytes (CONTRACT 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.http import Headers
from proxy.core.outgoing import request_headers, response_headers
from tests.core.pure_hypothesis import DETERMINED

KEY = ("Idempotency-Key", "ticket-17:stripe.refund.create")
OURS = (b"Idempotency-Key", b"ticket-17:stripe.refund.create")
PLAIN: Headers = (
    (b"hOST", b"api.stripe.com"),
    (b"X-a", b"1"),
    (b"x-A", b"caf\xe9"),
    (b"Cookie", b""),
    (b"X-a", b"\xff "),
    (b"Via", b"1.1 other"),
    (b"Trailer-Of", b"x"),
)


def test_order_case_duplicates_and_bytes_stay() -> None:
    assert request_headers(PLAIN, b"", None) == PLAIN
    assert response_headers(PLAIN) == PLAIN


HOP_BY_HOP = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Transfer-Encoding",
    "Upgrade",
]


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_hop_by_hop_field_stays_on_its_hop(name: str) -> None:
    field = (name.encode(), b"x")

    assert field not in request_headers((*PLAIN, field), b"", None)
    assert response_headers((PLAIN[0], field, *PLAIN[1:])) == PLAIN
    assert response_headers(((name.lower().encode(), b"x"),)) == ()


def test_what_connection_names_stays_on_its_hop_too() -> None:
    named: Headers = (
        (b"Connection", b"close, X-Mine"),
        (b"x-mine", b"1"),
        (b"X-Yours", b"2"),
        (b"connection", b" x-yours ,"),
    )

    assert request_headers((*PLAIN, *named), b"", None) == PLAIN
    assert response_headers((*PLAIN, *named)) == PLAIN


@pytest.mark.parametrize("name", [b"Host", b"Authorization", b"Content-Length"])
def test_connection_cannot_take_away_what_the_request_needs(name: bytes) -> None:
    sent: Headers = ((b"Connection", name), (name, b"2"))

    assert request_headers(sent, b"xy", None) == ((name, b"2"),)


def test_connection_cannot_take_away_the_key() -> None:
    sent: Headers = ((b"Connection", b"Idempotency-Key"), (b"Idempotency-Key", b"agent"))

    assert request_headers(sent, b"", KEY) == (OURS,)


# ── The key ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_our_key_stands_where_the_agents_stood_and_is_spelled_as_it_was() -> None:
    sent: Headers = ((b"A", b"1"), (b"idempotency-KEY", b"agent"), (b"B", b"2"))

    assert request_headers(sent, b"", KEY) == ((b"A", b"1"), (b"idempotency-KEY", OURS[1]), (b"B", b"2"))


def test_our_key_stands_once_however_often_the_agents_stood() -> None:
    sent: Headers = ((b"Idempotency-Key", b"a"), (b"A", b"1"), (b"idempotency-key", b"b"))

    assert request_headers(sent, b"", KEY) == (OURS, (b"A", b"1"))


def test_our_key_comes_last_where_the_agent_sent_none() -> None:
    assert request_headers(PLAIN, b"", KEY) == (*PLAIN, OURS)


def test_where_the_provider_documents_no_key_none_is_added_and_the_agents_passes() -> None:
    sent: Headers = ((b"Idempotency-Key", b"agent"), (b"A", b"1"))

    assert request_headers(sent, b"", None) == sent
    assert request_headers(PLAIN, b"", None) == PLAIN


# ── Framing ───────────────────────────────────────────────────────────────────────────────────────────────────────────

FRAMED = {
    "a length stays where and as it stands": (
        ((b"A", b"1"), (b"content-LENGTH", b"3"), (b"B", b"2")),
        b"abc",
        ((b"A", b"1"), (b"content-LENGTH", b"3"), (b"B", b"2")),
    ),
    "a chunked body gets one length in its place": (
        ((b"A", b"1"), (b"Transfer-Encoding", b"chunked"), (b"B", b"2")),
        b"abc",
        ((b"A", b"1"), (b"Content-Length", b"3"), (b"B", b"2")),
    ),
    "a chunked body that is empty": (
        ((b"transfer-encoding", b"chunked"),),
        b"",
        ((b"Content-Length", b"0"),),
    ),
    "both framings become one": (
        ((b"Transfer-Encoding", b"chunked"), (b"A", b"1"), (b"Content-Length", b"9")),
        b"abc",
        ((b"Content-Length", b"3"), (b"A", b"1")),
    ),
    "an empty body with a length keeps it": (
        ((b"Content-Length", b"0"),),
        b"",
        ((b"Content-Length", b"0"),),
    ),
    "a DELETE without a body gets no framing": (((b"A", b"1"),), b"", ((b"A", b"1"),)),
    "Expect is not sent on": (((b"Expect", b"100-continue"), (b"A", b"1")), b"", ((b"A", b"1"),)),
}


@pytest.mark.parametrize(("sent", "body", "out"), FRAMED.values(), ids=FRAMED)
def test_a_body_is_framed_once_and_where_the_agent_framed_it(sent: Headers, body: bytes, out: Headers) -> None:
    assert request_headers(sent, body, None) == out


# ── Our own ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name",
    [
        b"Doubtless-Event-Id",
        b"doubtless-action-type",
        b"DOUBTLESS-RETRY-OF",
        b"Doubtless-Agent",
        b"Doubtless-Whatever-Comes",
    ],
)
def test_what_is_ours_is_for_nobody_else_in_either_direction(name: bytes) -> None:
    assert request_headers(((name, b"x"), *PLAIN), b"", None) == PLAIN
    assert response_headers(((name, b"x"), *PLAIN)) == PLAIN


def test_what_only_looks_like_ours_passes() -> None:
    sent: Headers = ((b"X-Doubtless-A", b"1"), (b"Doubtlessly", b"2"), (b"Prefer", b"return=minimal"))

    assert request_headers(sent, b"", None) == sent
    assert response_headers(sent) == sent


NAMES = st.sampled_from(
    [b"A", b"a", b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"Doubtless-A"]
)
VALUES = st.sampled_from([b"", b"a", b"close", b"5", b"chunked", b"host, a"])


@DETERMINED
@given(st.lists(st.tuples(NAMES | st.just(b"Idempotency-Key"), VALUES), max_size=8).map(tuple), st.booleans())
def test_nothing_is_reordered_or_invented(sent: Headers, keyed: bool) -> None:
    body = b"abc"
    out = request_headers(sent, body, KEY if keyed else None)
    low = [name.lower() for name, _ in out]

    assert low.count(b"content-length") == (1 if {b"content-length", b"transfer-encoding"} & _names(sent) else 0)
    assert low.count(b"idempotency-key") == (1 if keyed else sum(n.lower() == b"idempotency-key" for n, _ in sent))
    assert not {b"connection", b"transfer-encoding", b"expect", b"doubtless-a"} & set(low)
    kept = [pair for pair in out if pair[0].lower() in (b"a", b"host")]
    places = [[n for n, pair in enumerate(sent) if pair == one] for one in kept]
    assert all(places)
    assert [pair for pair in sent if pair[0].lower() == b"host"] == [p for p in kept if p[0].lower() == b"host"]


def _names(headers: Headers) -> set[bytes]:
    return {name.lower() for name, _ in headers}
