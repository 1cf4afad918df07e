"""What a request is aimed at: however a model words it, and wherever a provider may read it (CONTRACT 2.3, rule 3)."""

import gzip

import pytest

from proxy.core.aims import MOST, aims, readings
from proxy.core.payload import Payload, read
from tests.core.pure_adapters import RESEND, STRIPE, route
from tests.core.pure_bodies import FORM, JSON, form, json_, parts
from tests.core.pure_http import headers

MAIL = b'{"from":"Acme <a@acme.example>","to":["b@x.example","c@x.example"],"subject":"Hello","html":"<p>1</p>"}'
AIMED = ("/from", "/to", "/subject")
MULTIPART = b"multipart/form-data; boundary=frontier"


def at(payload: Payload, of: tuple[str, ...]) -> list[bytes]:
    return aims(of, {}, {}, (payload,))


@pytest.mark.parametrize(
    "reworded",
    [
        MAIL.replace(b"<p>1</p>", b"<p>One</p>"),
        MAIL.replace(b'["b@x.example","c@x.example"]', b'["C@X.example"," b@x.example"]'),
        MAIL.replace(b'["b@x.example"', b'["Bob B. <b@x.example>"'),
        MAIL.replace(b"Acme <a@acme.example>", b"a@acme.example"),
        MAIL.replace(b'"Hello"', b'"HELLO "'),
    ],
    ids=["another body", "recipients in another order and case", "a recipient's name", "no name", "a subject's case"],
)
def test_rewording_does_not_change_what_is_aimed_at(reworded: bytes) -> None:
    assert at(json_(MAIL), AIMED) == at(json_(reworded), AIMED) != []


@pytest.mark.parametrize(
    "other",
    [
        MAIL.replace(b"b@x", b"d@x"),
        MAIL.replace(b"Hello", b"Goodbye"),
        MAIL.replace(b',"c@x.example"', b""),
        MAIL.replace(b"Acme <a@acme.example>", b"b@x.example"),
    ],
    ids=["another recipient", "another subject", "one recipient less", "another sender"],
)
def test_another_target_is_one(other: bytes) -> None:
    assert at(json_(MAIL), AIMED) != at(json_(other), AIMED)


def test_a_single_recipient_is_aimed_at_like_a_list_of_one() -> None:
    one, listed = json_(b'{"to":"b@x.example"}'), json_(b'{"to":["b@x.example"]}')

    assert at(one, ("/to",)) == at(listed, ("/to",)) == at(form(b"to[]=b@x.example"), ("/to",)) != []


def test_what_names_nothing_is_aimed_at_nothing_and_a_flood_at_a_few() -> None:
    assert at(json_(b'{"to":[],"from":null}'), ("/from", "/to")) == at(form(b"x=1"), ("/to",)) == []
    assert at(json_(b'{"to":"\\ud800"}'), ("/to",)) != []
    assert len(at(form(b"&".join(b"to=%d" % n for n in range(99))), ("/to",))) == MOST


def refund_aims(path: str, declared: bytes, body: bytes, **more: str) -> set[bytes]:
    """Return what a refund is aimed at, as a whole request."""
    of, match = route(STRIPE, "refund.create"), STRIPE.match("POST", path.partition("?")[0])
    sent = (*headers(**more), *(((b"Content-Type", declared),) if declared else ()))
    looked = readings(sent, path.partition("?")[2], read(sent, body))
    return {aim for target in of.targets for aim in aims(target.of, of.facts, match.parameters, looked)}


REFUND = b"charge=ch_1&amount=5400"


@pytest.mark.parametrize(
    ("path", "declared", "body"),
    [
        ("/v1/refunds", FORM, REFUND + b"&payment_intent=pi_1"),
        ("/v1/refunds", FORM, b"charge=ch_1&" + REFUND),
        ("/v1/refunds", FORM, b"charge=ch_x&" + REFUND),
        ("/v1/refunds?charge=ch_1", FORM, b"amount=5400"),
        ("/v1/refunds?charge=ch_1&amount=5400", b"", b""),
        ("/v1/refunds", b"", REFUND),
        ("/v1/refunds", b"text/plain", REFUND),
        ("/v1/refunds", JSON, b'{"charge":"x","charge":"ch_1"}'),
        ("/v1/refunds", JSON, b'{"charge":["CH_1"]}'),
        ("/v1/refunds", b"", b'{"charge":"ch_1"}'),
        ("/v1/refunds", MULTIPART, parts(("charge", b"ch_1"), ("amount", b"5400")).raw),
        ("/v1/charges/ch_1/refund", FORM, b"charge=ch_2"),
        ("/v1/charges/%63h_1/refunds", b"", b""),
    ],
)
def test_a_refund_is_aimed_at_its_charge_however_it_is_written(path: str, declared: bytes, body: bytes) -> None:
    plainly = refund_aims("/v1/refunds", FORM, REFUND)

    assert len(plainly) == 1
    assert plainly <= refund_aims(path, declared, body)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", " GZIP "])
def test_a_body_that_is_coded_is_aimed_where_its_text_is(coding: str) -> None:
    body = gzip.compress(REFUND)

    assert refund_aims("/v1/refunds", FORM, body, content_encoding=coding) == refund_aims("/v1/refunds", FORM, REFUND)
    assert refund_aims("/v1/refunds", FORM, body[:9], content_encoding=coding) == set()


def test_another_charge_is_another_target() -> None:
    assert not refund_aims("/v1/refunds", FORM, REFUND) & refund_aims("/v1/refunds", FORM, b"charge=ch_2")
    assert route(RESEND, "email.send").targets[0].of == AIMED
