"""The idempotency key: what it is made of, what becomes of it where a provider forbids that, where it is sent."""

import hashlib
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.core.facts import Key
from proxy.core.identity import (
    carries_key,
    content_index,
    event_index,
    fitted,
    idempotency_key,
    key_index,
    object_index,
    scope,
)
from tests.core.pure_adapters import HOST_ONLY, RESEND, STRIPE, key_of
from tests.core.pure_hypothesis import THOROUGH

STRIPE_KEY = key_of(STRIPE)


class Parts(NamedTuple):
    """What a key is made of."""

    event: str = "ticket-17"
    type_: str = "stripe.refund.create"
    run: int = 1
    account: str = "live"
    ledger: str = "default"

    def key(self) -> str:
        """Return the key."""
        return idempotency_key(
            event=self.event, type_=self.type_, run=self.run, account=self.account, ledger=self.ledger
        )


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        (Parts(), "ticket-17:stripe.refund.create"),
        (Parts(run=2), "ticket-17:stripe.refund.create:2"),
        (Parts(account="test/acct_1"), "ticket-17:stripe.refund.create#acct_1"),
        (Parts(ledger="team-a"), "ticket-17:stripe.refund.create@team-a"),
        (
            Parts(run=3, account="live/acct_1", ledger="team-a"),
            "ticket-17:stripe.refund.create:3#acct_1@team-a",
        ),
        (Parts(type_="stripe.customer.update/cus_1/x"), "ticket-17:stripe.customer.update/cus_1/x"),
        (Parts(event="a:b#c@d"), "a:b#c@d:stripe.refund.create"),
    ],
)
def test_a_key_is_event_type_run_connected_account_and_ledger_in_this_order(parts: Parts, key: str) -> None:
    assert parts.key() == key


EVENTS = st.text("ab:#@/.2", min_size=1, max_size=8)
TYPES = st.lists(st.sampled_from(["a.b", "a.c", "b.a", "2", "x"]), min_size=1, max_size=3).map("/".join)
PARTS = st.builds(
    Parts,
    event=EVENTS,
    type_=TYPES.map(lambda tail: f"stripe.{tail}"),
    run=st.integers(1, 12),
    account=st.sampled_from(["live", "live/a", "live/b", "live/a/b", "live/2"]),
    ledger=st.sampled_from(["default", "a", "b", "2", "a.b"]),
)


@THOROUGH
@given(PARTS, PARTS)
def test_two_keys_are_the_same_only_where_all_their_parts_are(one: Parts, other: Parts) -> None:
    assert (one.key() == other.key()) == (one == other)
    assert (fitted(one.key(), STRIPE_KEY) == fitted(other.key(), STRIPE_KEY)) == (one == other)


@THOROUGH
@given(EVENTS, TYPES, TYPES, st.integers(1, 30), st.integers(1, 30))
def test_two_action_types_of_one_event_never_collide(event: str, one: str, other: str, run: int, later: int) -> None:
    first = Parts(event, f"stripe.{one}", run).key()
    second = Parts(event, f"stripe.{other}", later).key()

    assert (first == second) == ((one, run) == (other, later))


# ── What a provider forbids ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["a:b.c", "a b:b.c", "x" * 255, "!~:#@/"])
def test_a_key_that_the_provider_takes_stays_as_it_is(key: str) -> None:
    assert fitted(key, STRIPE_KEY) == key


@pytest.mark.parametrize(
    "key",
    ["x" * 256, "Störung:b.c", "😀:b.c", " a:b.c", "a:b.c ", "caf\xe9" * 90, "a\udcff:b.c"],
    ids=["too long", "non-ASCII", "an emoji", "a space before", "a space after", "both", "bytes that are no text"],
)
def test_any_other_key_becomes_the_stated_unkeyed_hash_of_it(key: str) -> None:
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()

    assert fitted(key, STRIPE_KEY) == f"doubtless-{digest}"
    assert fitted(key, STRIPE_KEY) == fitted(key, STRIPE_KEY)
    assert len(fitted(key, STRIPE_KEY)) <= STRIPE_KEY.max_length


@pytest.mark.parametrize("length", [32, 36, 45, 64, 73])
def test_where_the_hash_is_too_long_as_well_as_many_of_its_digits_as_fit_stand(length: int) -> None:
    rule: Key = replace(STRIPE_KEY, max_length=length)
    key = "ticket-17:" + "x" * 80

    assert fitted(key, rule) == hashlib.sha256(key.encode()).hexdigest()[:length]
    assert fitted(key, rule) != fitted(key + "x", rule)


def test_a_key_of_length_74_still_bears_our_name() -> None:
    assert fitted("é", replace(STRIPE_KEY, max_length=74)).startswith("doubtless-")


# ── Where a key is sent ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("POST", "/v1/refunds", True),
        ("POST", "/v1/anything/at/all", True),
        ("DELETE", "/v1/customers/cus_1", False),
        ("PUT", "/v1/customers/cus_1", False),
        ("POST", "/v2/core/accounts", True),
        ("DELETE", "/v2/core/accounts/acct_1", True),
        ("POST", "/v1", False),
        ("POST", "/v3/refunds", False),
    ],
)
def test_stripe_documents_keys_for_v1_post_and_v2_post_and_delete(method: str, path: str, takes: bool) -> None:
    assert (carries_key(STRIPE, method, path) is not None) == takes


@pytest.mark.parametrize(
    ("method", "path", "takes"),
    [
        ("POST", "/emails", True),
        ("POST", "/emails/", True),
        ("POST", "/emails/batch", True),
        ("PATCH", "/emails/e_1", False),
        ("POST", "/emails/e_1/cancel", False),
        ("POST", "/domains", False),
        ("DELETE", "/domains/d_1", False),
    ],
)
def test_resend_documents_keys_for_its_two_sending_endpoints_alone(method: str, path: str, takes: bool) -> None:
    assert (carries_key(RESEND, method, path) is not None) == takes


def test_a_provider_without_facts_gets_no_key() -> None:
    assert carries_key(HOST_ONLY, "POST", "/v1/refunds") is None


# ── Where things are found again ──────────────────────────────────────────────────────────────────────────────────────


def test_a_scope_is_ledger_account_event_and_type_and_nothing_runs_together() -> None:
    scopes = [
        scope("default", "live", "e", "t"),
        scope("default", "test", "e", "t"),
        scope("other", "live", "e", "t"),
        scope("default", "live", "et", ""),
        scope("default", "live", "", "et"),
        scope("default", "live", "e", "t/2"),
        event_index("default", "e"),
        object_index("default", "stripe", "re_1"),
        object_index("default", "str", "ipere_1"),
        key_index("default", "stripe", "live", "e:t"),
        key_index("default", "stripe", "test", "e:t"),
        content_index("default", {"to": "a", "from": "b"}),
        content_index("default", {"to": "b", "from": "a"}),
        content_index("default", {}),
    ]

    assert len(set(scopes)) == len(scopes)
    assert content_index("default", {"a": "1", "b": "2"}) == content_index("default", {"b": "2", "a": "1"})
    assert scope("default", "live", "e\udcff", "t") != scope("default", "live", "e", "t")
