"""What a request says: facts that reads ask with, targets, messages, and what equal payloads share."""

import pytest

from proxy.core.identity import content, credential, facts, message_field, payload_text
from proxy.core.payload import Payload, read
from tests.core.pure_adapters import RESEND, SLACK, STRIPE, route
from tests.core.pure_bodies import form, json_, parts
from tests.core.pure_http import headers


def asked(path: str, payload: Payload) -> dict[str, str]:
    return facts(payload, STRIPE.match("POST", path))


@pytest.mark.parametrize(
    ("path", "payload", "known"),
    [
        ("/v1/refunds", form(b"charge=ch_1&amount=5400"), {"charge": "ch_1"}),
        ("/v1/refunds", form(b"payment_intent=pi_1"), {"payment_intent": "pi_1"}),
        ("/v1/refunds", form(b""), {}),
        ("/v1/charges/ch_1/refund", form(b"amount=5400"), {"charge": "ch_1"}),
        ("/v1/charges/ch_1/refund", form(b"charge=ch_2"), {"charge": "ch_1"}),
        ("/v1/charges/%63h_1/refund", form(b""), {"charge": "ch_1"}),
        ("/v1/charges/a%40b%2Fc/refund", form(b""), {"charge": "a@b/c"}),
        ("/v1/charges/ch_1%FF/refund", form(b""), {}),
        ("/v1/refunds", form(b"charge=ch_1&charge=ch_2"), {}),
        ("/v1/refunds", form(b"charge=%FF"), {}),
        ("/v1/refunds", form(b"charge=" + b"c" * 256), {}),
        ("/v1/refunds", json_(b'{"charge":"ch_1"}'), {"charge": "ch_1"}),
        ("/v1/refunds", json_(b'{"charge":"\\ud800"}'), {}),
        ("/v1/refunds", json_(b'{"charge":{"id":"ch_1"}}'), {}),
        ("/v1/refunds", read((), b"charge=ch_1"), {}),
    ],
    ids=[
        "a field",
        "another field",
        "nothing",
        "the path",
        "the path before the body",
        "the path, decoded",
        "the path, decoded where it is reserved",
        "a path that is no text",
        "a field twice",
        "a field that is no text",
        "a field too long for an identifier",
        "a field of JSON",
        "half a surrogate pair",
        "no scalar",
        "a body that cannot be read",
    ],
)
def test_facts_are_what_the_path_and_the_declared_fields_say_for_certain(
    path: str, payload: Payload, known: dict[str, str]
) -> None:
    assert asked(path, payload) == known


MAIL = b'{"from":"Acme <a@acme.example>","to":["b@x.example","c@x.example"],"subject":"Hello","html":"<p>1</p>"}'


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SEND, BATCH = route(RESEND, "email.send"), route(RESEND, "email.batch")


def test_a_message_is_compared_by_every_field_that_it_has() -> None:
    (message,) = content(json_(MAIL), SEND)

    assert set(message) == {"from", "to", "subject", "html"}
    assert message["to"] != content(json_(MAIL.replace(b"b@x", b"d@x")), SEND)[0]["to"]
    assert message["to"] != content(json_(MAIL.replace(b'"c@x.example"', b'"b@x.example"')), SEND)[0]["to"]


def test_a_single_address_is_a_list_of_one() -> None:
    assert content(json_(b'{"to":"a"}'), SEND) == content(json_(b'{"to":["a"]}'), SEND)
    assert message_field("a") == message_field(["a"])
    assert message_field("a") != message_field([["a"]])


def test_a_batch_is_every_message_of_its_list() -> None:
    assert content(json_(b'[{"to":"a"},{"to":"b"},{"to":"a"}]'), BATCH) == [
        {"to": message_field("a")},
        {"to": message_field("b")},
        {"to": message_field("a")},
    ]


@pytest.mark.parametrize(
    "payload",
    [
        json_(b'{"to":"a","to":"b"}'),
        json_(b'[{"to":"a"}]'),
        json_(b'"to"'),
        json_(b"{}"),
        form(b"to=a"),
        parts(("to", b"a")),
        read((), b'{"to":"a"}'),
    ],
    ids=["a field twice", "a list", "a string", "nothing", "a form", "multipart", "bytes"],
)
def test_a_message_that_cannot_be_read_for_certain_is_compared_with_nothing(payload: Payload) -> None:
    assert content(payload, SEND) == []


def test_a_batch_with_one_unreadable_message_is_compared_with_nothing() -> None:
    assert content(json_(b'[{"to":"a"},"b"]'), BATCH) == []
    assert content(json_(b'[{"to":"a"},{"to":"a","to":"b"}]'), BATCH) == []


def test_where_the_adapter_declares_no_content_nothing_is_compared() -> None:
    assert content(json_(b'{"text":"a"}'), route(SLACK, "message.post")) == []


# ── What equal payloads share ─────────────────────────────────────────────────────────────────────────────────────────

BASE = {
    "method": "POST",
    "target": "/v1/refunds?a=1",
    "account": "live",
    "counted": ((b"X-Mode", b"strict"),),
    "body": b"form\0",
}


def text(**other: object) -> bytes:
    return payload_text(**(BASE | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"method": "PUT"},
        {"target": "/v1/refunds"},
        {"target": "/v1/refunds?a=%31"},
        {"target": "/v1//refunds?a=1"},
        {"account": "test"},
        {"account": "live/acct_1"},
        {"counted": ()},
        {"counted": ((b"X-Mode", b"loose"),)},
        {"body": b"form\0a"},
        {"method": "POS", "target": "T/v1/refunds?a=1"},
    ],
)
def test_method_raw_target_account_counted_headers_and_body_make_a_payload(other: dict[str, object]) -> None:
    assert text(**other) != text()


def test_the_case_of_a_counted_header_does_not_matter_and_raw_bytes_do_not_fail() -> None:
    assert text(counted=((b"x-mode", b"strict"),)) == text()
    assert text(target="/v1/caf\udce9") != text(target="/v1/caf\u00e9")


def test_a_credential_is_the_raw_header_and_every_one_of_them() -> None:
    assert credential(headers(Authorization="Bearer a")) == b"Bearer a"
    assert credential((*headers(authorization="Bearer a"), *headers(Authorization="Basic b"))) == b"Bearer a\nBasic b"
    assert credential(headers(x="y")) == b""


@pytest.mark.parametrize("name", ["X_Api_Key", "Api_Key", "apikey", "X_Auth_Token", "Cookie", "X_Secret", "DD_API_KEY"])
def test_a_header_that_carries_a_key_is_part_of_the_credential(name: str) -> None:
    mine, other = headers(**{name: "a"}), headers(**{name: "b"})

    assert credential(mine) != credential(other)
    assert credential(mine) == credential(headers(**{name.lower(): "a"}))


def test_what_carries_no_key_is_none_of_it() -> None:
    plain = headers(Idempotency_Key="k", Stripe_Account="acct_1", Content_Type="t", Accept="a", Doubtless_Event_Id="e")

    assert credential(plain) == b""
