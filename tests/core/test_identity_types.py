"""Action types and accounts: what operation a request is, of which object, for whom (CONTRACT 1, 3)."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.adapter import looks_like_identifier, normal_form
from proxy.core.facts import Account
from proxy.core.http import Headers
from proxy.core.identity import BadIdentity, account_of, action_type, suffix
from tests.core.pure_adapters import RESEND, STRIPE
from tests.core.pure_http import headers
from tests.core.pure_hypothesis import DETERMINED

REFUND = ("stripe.refund.create", ())


@pytest.mark.parametrize(
    ("method", "path", "route_type", "extension"),
    [
        ("POST", "/v1/refunds", *REFUND),
        ("POST", "/v1/charges/ch_1/refund", *REFUND),
        ("POST", "/v1/charges/ch_2/refunds", *REFUND),
        ("POST", "/v1/customers", "stripe.customer.create", ()),
        ("POST", "/v1/customers/cus_1", "stripe.customer.update", ("cus_1",)),
        ("DELETE", "/v1/customers/cus_1", "stripe.customer.delete", ("cus_1",)),
        ("POST", "/v1/payment_intents/pi_1/confirm", "stripe.payment_intent.confirm", ("pi_1",)),
        ("POST", "/v1/invoices/create_preview", "stripe.invoice.preview", ()),
        ("PUT", "/v1/customers/cus_1", "stripe.put./v1/customers/*", ("cus_1",)),
        ("POST", "/v1/coupons", "stripe.post./v1/coupons", ()),
        ("POST", "/v1/subscriptions/sub_1/items/si_2", "stripe.post./v1/subscriptions/*/items/*", ("sub_1", "si_2")),
        ("POST", "/v2/core/accounts", "stripe.post./v2/core/accounts", ()),
        ("POST", "/", "stripe.post./", ()),
        ("POST", "/v1/caf\udce9", "stripe.post./v1/caf_", ()),
        ("M-GET!", "/v1/a b", "stripe.m-get_./v1/a_b", ()),
    ],
)
def test_a_request_is_the_operation_that_its_path_names(
    method: str, path: str, route_type: str, extension: tuple[str, ...]
) -> None:
    match = STRIPE.match(method, path)

    assert (match.route_type, match.extension) == (route_type, extension)
    assert match.generic == ("./" in route_type)


SPELLINGS = [
    "/v1/refunds",
    "/v1/refunds/",
    "//v1//refunds",
    "/v1/./refunds",
    "/v1/charges/../refunds",
    "/../v1/refunds",
    "/v1/re%66unds",
    "/v1/%72%65%66%75%6e%64%73",
    "/v1/ref%75nds",
    "/v1/%2e/refunds",
    "/v1/x/%2E%2e/refunds",
    "/%76%31/refunds//",
]


@pytest.mark.parametrize("path", SPELLINGS)
def test_no_spelling_of_a_path_evades_its_route(path: str) -> None:
    assert STRIPE.match("POST", path).route_type == "stripe.refund.create"
    assert STRIPE.takes_key("POST", path) is not None


@pytest.mark.parametrize("path", ["/v1%2Frefunds", "/v1%2frefunds", "/v1/refunds%2F", "/v1/re%2566unds", "/V1/refunds"])
def test_what_is_another_path_at_the_provider_is_another_here(path: str) -> None:
    assert STRIPE.match("POST", path).generic


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("/", ()),
        ("", ()),
        ("/a/b", ("a", "b")),
        ("/a%2fb", ("a%2Fb",)),
        ("/a%7Eb%2D%5f%2E", ("a~b-_.",)),
        ("/a%", ("a%",)),
        ("/a%zz", ("a%zz",)),
        ("/%2525", ("%2525",)),
        ("/a/../..", ()),
        ("/a;b=1", ("a;b=1",)),
        ("/%C3%A9", ("%C3%A9",)),
    ],
)
def test_the_normal_form_decodes_unreserved_bytes_alone(path: str, segments: tuple[str, ...]) -> None:
    assert normal_form(path) == segments


@DETERMINED
@given(st.text("ab./%2eEfF~-1", max_size=20))
def test_a_normal_form_has_neither_empty_nor_dot_segments(path: str) -> None:
    assert not {"", ".", ".."} & set(normal_form(path))
    assert normal_form(path) == normal_form(f"//{path}/./x/..///")


@pytest.mark.parametrize("segment", ["ch_1", "42", "a@b.example", "a%20b", "urn:x", "x" * 33, "49a3999c-0ce1-4ea6"])
def test_what_looks_like_an_identifier_becomes_a_star(segment: str) -> None:
    assert looks_like_identifier(segment)
    assert STRIPE.match("POST", f"/v1/things/{segment}").route_type == "stripe.post./v1/things/*"


@pytest.mark.parametrize("segment", ["v1", "v2.1", "refunds", "create_preview", "x" * 32])
def test_a_word_or_a_version_of_the_api_stays(segment: str) -> None:
    assert not looks_like_identifier(segment)


# ── The type of an action ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "agents", "type_"),
    [
        ("/v1/refunds", None, "stripe.refund.create"),
        ("/v1/charges/ch_1/refund", None, "stripe.refund.create"),
        ("/v1/refunds", "/second", "stripe.refund.create/second"),
        ("/v1/customers/cus_1", None, "stripe.customer.update/cus_1"),
        ("/v1/customers/cus_1", "/address", "stripe.customer.update/cus_1/address"),
        ("/v1/things/th_1", "/x", "stripe.post./v1/things/*/th_1/x"),
        ("/v1/customers/a%40b:c", None, "stripe.customer.update/a_40b_c"),
        ("/v1/customers/\udcc3\udca9", None, "stripe.customer.update/__"),
        ("/v1/refunds", "/wel\xc3\xa9 #@:\t", "stripe.refund.create/wel_______"),
    ],
)
def test_a_type_is_the_routes_own_extended_by_the_object_and_by_the_agent(
    path: str, agents: str | None, type_: str
) -> None:
    assert action_type(STRIPE.match("POST", path), agents) == type_


def test_updating_two_customers_is_two_actions() -> None:
    one, other = (action_type(STRIPE.match("POST", f"/v1/customers/cus_{n}"), None) for n in (1, 2))

    assert one != other


@pytest.mark.parametrize("sent", ["/w", "/welcome", "/a/b", "/" + "x" * 99])
def test_an_agent_may_extend_the_type(sent: str) -> None:
    assert suffix(headers(doubtless_action_type=sent)) == sent


@pytest.mark.parametrize("sent", ["", "/", "welcome", "stripe.refund.create", " /welcome", "/" + "x" * 100])
def test_an_agent_may_do_nothing_but_extend_the_type(sent: str) -> None:
    with pytest.raises(BadIdentity):
        suffix(headers(Doubtless_Action_Type=sent))


def test_an_agent_extends_the_type_once_or_not_at_all() -> None:
    assert suffix(headers(x="y")) is None
    with pytest.raises(BadIdentity):
        suffix((*headers(doubtless_action_type="/a"), *headers(doubtless_action_type="/a")))


# ── The account ───────────────────────────────────────────────────────────────────────────────────────────────────────


def basic(user: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:".encode()).decode()


@pytest.mark.parametrize(
    ("sent", "account"),
    [
        (headers(authorization="Bearer sk_live_1"), "live"),
        (headers(authorization="bearer  sk_test_1 "), "test"),
        (headers(authorization="Bearer rk_live_1"), "live"),
        (headers(authorization="Bearer rk_test_1"), "test"),
        (headers(authorization=basic("sk_live_1")), "live"),
        (headers(Authorization=basic("rk_test_1"), stripe_account="acct_1"), "test/acct_1"),
        (headers(authorization="Bearer sk_live_1", Stripe_Account="acct_1"), "live/acct_1"),
        (headers(authorization="Bearer sk_live_1", stripe_context="a/b"), "live/a%2Fb"),
        (headers(authorization="Bearer sk_live_1", stripe_account="a@b:c#d"), "live/a%40b%3Ac%23d"),
        (headers(authorization="Bearer sk_org_1"), "default"),
        (headers(authorization="Bearer re_1"), "default"),
        (headers(authorization="Basic !!!"), "default"),
        (headers(authorization="Basic /////w=="), "default"),
        (headers(authorization="sk_live_1"), "default"),
        (headers(authorization=""), "default"),
        (headers(stripe_account="acct_1"), "default/acct_1"),
        ((), "default"),
    ],
)
def test_the_account_is_told_by_the_credential_and_the_connected_account(sent: Headers, account: str) -> None:
    assert account_of(sent, STRIPE.doc.account) == account


def test_two_connected_accounts_are_an_account_of_their_own() -> None:
    sent = (*headers(authorization="Bearer sk_live_1", stripe_account="a"), *headers(stripe_account="b"))

    assert account_of(sent, STRIPE.doc.account) == "live/a/b"


def test_where_the_adapter_tells_no_account_there_is_one() -> None:
    assert account_of(headers(authorization="Bearer re_live_1"), RESEND.doc.account) == "default"


def test_the_account_never_bears_the_secret() -> None:
    rule = Account(source="a page", modes={"any": ("*",)})

    assert account_of(headers(authorization="Bearer sk_live_secret"), rule) == "any"
