"""Event IDs and what carries them, and whose an idempotency key is (CONTRACT 1, 2.3)."""

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
import stripe
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.identity import BadIdentity, event_id, event_id_of_url, is_sdk_made, named_event
from tests.core.pure_adapters import RESEND, STRIPE
from tests.core.pure_http import headers
from tests.core.pure_hypothesis import DETERMINED


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"t", "t"),
        (b"x" * 255, "x" * 255),
        (b"ticket 17/2", "ticket 17/2"),
        ("Störung-17 😀".encode(), "Störung-17 😀"),
        (b"caf\xe9", "café"),
        (b"a%20b", "a%20b"),
        (b" a ", " a "),
    ],
    ids=["one byte", "255 bytes", "a space", "UTF-8", "latin-1", "as is, not decoded", "as is, not trimmed"],
)
def test_an_event_id_is_taken_as_it_is(raw: bytes, text: str) -> None:
    assert event_id(raw) == text


@pytest.mark.parametrize(
    "raw",
    [b"", b"x" * 256, "é".encode() * 128, b"a\nb", b"a\x00", b"\x1f", b"a\x7f", b"\x85", "\x9f".encode(), b"\t"],
    ids=["none", "256 bytes", "256 bytes of 128 letters", "LF", "NUL", "US", "DEL", "C1 in latin-1", "C1", "TAB"],
)
def test_an_event_id_has_1_to_255_bytes_and_no_control_characters(raw: bytes) -> None:
    with pytest.raises(BadIdentity):
        event_id(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("ticket-17", "ticket-17"),
        ("ticket%2017%2F2", "ticket 17/2"),
        ("St%C3%B6rung", "Störung"),
        ("caf%E9", "café"),
        ("100%", "100%"),
        ("a+b", "a+b"),
        ("\udce9t\udce9", "été"),
        ("%61" * 255, "a" * 255),
    ],
    ids=["plain", "percent", "UTF-8", "latin-1", "a lone percent", "a plus", "raw bytes", "length is of the decoded"],
)
def test_an_event_id_of_a_url_is_percent_decoded(raw: str, text: str) -> None:
    assert event_id_of_url(raw) == text


@pytest.mark.parametrize("raw", ["", "%00", "a%0Ab", "%C2%85", "a" * 256])
def test_what_a_url_hides_by_percent_encoding_is_checked_too(raw: str) -> None:
    with pytest.raises(BadIdentity):
        event_id_of_url(raw)


CARRIERS = ("Doubtless-Event-Id", "X-Ticket", "ce", "baggage:doubtless.event_id")


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        (headers(doubtless_event_id="a"), "a"),
        (headers(X_TICKET="a"), "a"),
        (headers(x_ticket="b", doubtless_event_id="a"), "a"),
        (headers(ce_source="/tickets", ce_id="17"), "/tickets/17"),
        (headers(ce_id="17", ce_source="/tickets", x_ticket="b"), "b"),
        (headers(ce_id="17"), None),
        (headers(ce_source="/tickets"), None),
        (headers(baggage="a=1, doubtless.event_id=t%2017;prop=x ,b=2"), "t 17"),
        ((*headers(baggage="a=1"), *headers(baggage="doubtless.event_id=t")), "t"),
        (headers(baggage="xdoubtless.event_id=t"), None),
        (headers(baggage="a=doubtless.event_id=t"), None),
        (headers(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), None),
        ((), None),
    ],
)
def test_the_first_configured_carrier_names_the_event(sent: tuple[tuple[bytes, bytes], ...], named: str | None) -> None:
    assert named_event(sent, CARRIERS) == named


@pytest.mark.parametrize(
    "sent",
    [
        (*headers(x_ticket="a"), *headers(X_Ticket="a")),
        (*headers(ce_source="s", ce_id="1"), *headers(ce_id="2")),
        (*headers(ce_source="s", ce_id="1"), *headers(CE_Source="t")),
        headers(baggage="doubtless.event_id=a,doubtless.event_id=b"),
        (*headers(baggage="doubtless.event_id=a"), *headers(baggage="doubtless.event_id=a")),
        headers(x_ticket=""),
        headers(baggage="doubtless.event_id="),
    ],
    ids=["a header twice", "ce-id twice", "ce-source twice", "two members", "two headers", "empty", "an empty member"],
)
def test_a_carrier_that_names_two_events_or_none_is_refused(sent: tuple[tuple[bytes, bytes], ...]) -> None:
    with pytest.raises(BadIdentity):
        named_event(sent, CARRIERS)


@DETERMINED
@given(*[st.text("a/%2F", min_size=1, max_size=5)] * 4)
def test_two_cloud_events_never_read_the_same(source: str, ident: str, other_source: str, other_ident: str) -> None:
    one = named_event(headers(ce_source=source, ce_id=ident), ("ce",))
    other = named_event(headers(ce_source=other_source, ce_id=other_ident), ("ce",))

    assert (one == other) == ((source, ident) == (other_source, other_ident))


# ── Whose key is it? ──────────────────────────────────────────────────────────────────────────────────────────────────


class Catching(stripe.HTTPClient):
    """Answers every request of the SDK with an empty object, and keeps what it sent."""

    name = "catching"

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Mapping[str, str]] = []

    def request(self, method: str, url: str, headers: Any, post_data: Any = None, *, _usage: Any = None) -> Any:
        self.sent.append(dict(headers))
        return "{}", 200, {"Request-Id": "req_1"}

    def close(self) -> None:
        """Nothing is open."""


def test_what_stripe_python_makes_by_itself_is_no_developers_choice() -> None:
    caught = Catching()
    client = stripe.StripeClient("sk_test_made_up", http_client=caught)
    for _ in range(20):
        client.v1.refunds.create(params={"charge": "ch_1"})
    client.v1.refunds.create(params={"charge": "ch_1"}, options={"idempotency_key": "ticket-17"})
    keys = [sent["Idempotency-Key"] for sent in caught.sent]

    assert len(set(keys)) == 21
    assert [is_sdk_made(key, STRIPE.doc.key) for key in keys] == [True] * 20 + [False]


MADE = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


@pytest.mark.parametrize(
    "key",
    [
        str(MADE),
        str(MADE).upper(),
        MADE.hex,
        MADE.hex.upper(),
        f"{{{MADE}}}",
        MADE.urn,
        "a3f9b1c2-0000-ffff-9999-0123456789ab",
    ],
    ids=["plain", "upper case", "32 digits", "32 upper-case digits", "in braces", "as a URN", "of no version"],
)
def test_a_bare_uuid_in_any_spelling_is_made_by_an_sdk_whatever_the_provider(key: str) -> None:
    assert is_sdk_made(key, STRIPE.doc.key)
    assert is_sdk_made(key, RESEND.doc.key)
    assert is_sdk_made(key, None)


def test_what_stripe_node_makes_is_told_by_the_adapters_pattern() -> None:
    assert is_sdk_made(f"stripe-node-retry-{MADE}", STRIPE.doc.key)
    assert not is_sdk_made(f"stripe-node-retry-{MADE}", RESEND.doc.key)


@pytest.mark.parametrize(
    "key",
    ["ticket-17", f"ticket-{MADE}", f"{MADE}/2", f"{MADE}-1", str(MADE)[:-1], MADE.hex + "0", "g" * 32, "stripe-node"],
)
def test_any_other_key_is_a_developers_choice(key: str) -> None:
    assert not is_sdk_made(key, STRIPE.doc.key)
