"""A `Connection` header may not take away what an action is recorded by."""

import pytest

from tests.engine.asks import refund, refunded
from tests.engine.rig import Rig, code_of, status_of


@pytest.mark.parametrize("named", ["Stripe-Account", "close, stripe-context", "Idempotency-Key", "Stripe-Version"])
async def test_a_connection_header_that_names_what_identifies_the_request_is_refused(rig: Rig, named: str) -> None:
    answer = await rig.replica().ask(refund(headers={"Connection": named, "Stripe-Account": "acct_1"}))

    assert (status_of(answer), code_of(answer)) == (400, "bad_request")
    assert rig.upstream.calls == []


async def test_a_connection_header_that_names_a_hop_by_hop_field_drops_that_field(rig: Rig) -> None:
    rig.upstream.writes.append(refunded())

    answer = await rig.replica().ask(refund(headers={"Connection": "x-hop", "X-Hop": "1", "Stripe-Account": "acct_1"}))

    sent = {name.lower() for name, _ in rig.upstream.tried[0].request.headers}
    assert (status_of(answer), b"x-hop" in sent, b"stripe-account" in sent) == (200, False, True)
