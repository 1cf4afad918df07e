"""Who may ask Stripe for what, in which world, and by what an answer shows that Stripe gave it."""

import base64

import pytest
from standin_client import Client

from proxy.edges.standin import StandIn


async def test_without_a_key_nothing_is_told_or_done(standin: StandIn, stripe: Client) -> None:
    stripe.secret = None
    answer = await stripe.post("/v1/customers", {})
    assert (answer.status, answer.error["type"]) == (401, "invalid_request_error")
    assert "request-id" in answer.headers
    assert standin.executions() == 0


@pytest.mark.parametrize("secret", ["nonsense", "pk_test_public", "sk_test_", "re_mail"])
async def test_a_key_of_another_make_is_no_key(stripe: Client, secret: str) -> None:
    stripe.secret = secret
    assert (await stripe.get("/v1/balance")).status == 401


async def test_basic_authentication_takes_the_key_as_the_user_name(stripe: Client) -> None:
    stripe.secret = None
    basic = {"Authorization": "Basic " + base64.b64encode(b"sk_live_mine:").decode()}
    assert (await stripe.get("/v1/balance", headers=basic)).json["livemode"] is True
    assert (await stripe.get("/v1/balance", headers={"Authorization": "Basic ???"})).status == 401


async def test_modes_and_accounts_are_worlds_apart(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(1, charge_id="ch_test")
    standin.seed_charge(2, charge_id="ch_live", mode="live")
    standin.seed_charge(3, charge_id="ch_connected", account="acct_2")
    assert (await stripe.get("/v1/charges/ch_test")).json["livemode"] is False
    assert (await stripe.get("/v1/charges/ch_live")).status == 404
    assert (await stripe.get("/v1/charges/ch_connected")).status == 404
    connected = {"Stripe-Account": "acct_2"}
    assert (await stripe.get("/v1/charges/ch_connected", headers=connected)).status == 200
    assert (await stripe.get("/v1/charges/ch_test", headers=connected)).status == 404
    stripe.secret = "rk_live_restricted"
    assert (await stripe.get("/v1/charges/ch_live")).json["livemode"] is True
    assert [(arrival.mode, arrival.account) for arrival in standin.journal][-2:] == [("test", "acct_2"), ("live", None)]


async def test_a_connected_accounts_events_name_it(standin: StandIn, stripe: Client) -> None:
    await stripe.post("/v1/customers", {}, headers={"Stripe-Account": "acct_2"})
    assert standin.events() == []
    assert standin.events(account="acct_2")[0]["account"] == "acct_2"


async def test_a_restricted_key_may_write_what_it_may_not_read(stripe: Client) -> None:
    stripe.secret = "rk_test_noread_1"
    assert (await stripe.post("/v1/customers", {})).status == 200
    assert (await stripe.get("/v1/customers")).status == 403


async def test_every_answer_bears_its_own_request_id_and_the_version_asked_for(
    standin: StandIn, stripe: Client
) -> None:
    answers = [
        await stripe.get("/v1/balance", headers={"Stripe-Version": "2024-06-20"}),
        await stripe.get("/v1/charges/ch_none"),
        await stripe.get("/v1/balance"),
    ]
    assert len({answer.headers["request-id"] for answer in answers}) == 3
    assert [answer.headers["request-id"] for answer in answers] == [arrival.request_id for arrival in standin.journal]
    assert [answer.headers["stripe-version"] for answer in answers][:1] == ["2024-06-20"]
