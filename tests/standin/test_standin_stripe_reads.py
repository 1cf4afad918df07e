"""Stripe's reads (facts, section 3): the filters that exist and no others, cursors, events of thirty days."""

import pytest
from standin_client import DAY_MS, Client, Hands

from proxy.edges.standin import StandIn


async def refunds(standin: StandIn, count: int) -> list[str]:
    """Somebody else's refunds, the newest first."""
    standin.seed_charge(5400, charge_id="ch_1")
    return [standin.foreign_refund("ch_1", 1, key=f"theirs-{n}")["id"] for n in range(count)][::-1]


def ids(page: dict[str, list[dict[str, str]]]) -> list[str]:
    return [row["id"] for row in page["data"]]


async def test_a_list_shows_the_newest_ten_and_says_that_there_are_more(standin: StandIn, stripe: Client) -> None:
    made = await refunds(standin, 11)
    page = (await stripe.get("/v1/refunds")).json
    assert (page["object"], page["url"], ids(page), page["has_more"]) == ("list", "/v1/refunds", made[:10], True)


async def test_pages_follow_each_other_until_has_more_is_false(standin: StandIn, stripe: Client) -> None:
    made = await refunds(standin, 25)
    seen: list[str] = []
    target = "/v1/refunds?limit=10"
    while True:
        page = (await stripe.get(target)).json
        seen += ids(page)
        if not page["has_more"]:
            break
        target = f"/v1/refunds?limit=10&starting_after={seen[-1]}"
    assert seen == made


async def test_ending_before_shows_the_page_before(standin: StandIn, stripe: Client) -> None:
    made = await refunds(standin, 6)
    page = (await stripe.get(f"/v1/refunds?limit=2&ending_before={made[4]}")).json
    assert (ids(page), page["has_more"]) == (made[2:4], True)
    page = (await stripe.get(f"/v1/refunds?limit=10&ending_before={made[4]}")).json
    assert (ids(page), page["has_more"]) == (made[:4], False)


@pytest.mark.parametrize("limit", ["0", "101", "-1", "ten", ""])
async def test_a_limit_is_1_to_100(stripe: Client, limit: str) -> None:
    assert (await stripe.get(f"/v1/refunds?limit={limit}")).error["code"] == "parameter_invalid_integer"


async def test_a_cursor_that_does_not_exist_is_refused(stripe: Client) -> None:
    assert (await stripe.get("/v1/refunds?starting_after=re_1&ending_before=re_2")).status == 400
    wrong = await stripe.get("/v1/refunds?starting_after=re_none")
    assert (wrong.status, wrong.error["code"], wrong.error["param"]) == (400, "resource_missing", "starting_after")


@pytest.mark.parametrize(
    "target",
    [
        "/v1/refunds?metadata[a]=b",
        "/v1/refunds?idempotency_key=k",
        "/v1/events?idempotency_key=k",
        "/v1/events?request=req_1",
        "/v1/charges?status=succeeded",
        "/v1/payment_links?created=1",
        "/v1/balance_transactions?amount=1",
        "/v1/refunds/re_1?charge=ch_1",
        "/v1/refunds?created[near]=1",
    ],
)
async def test_a_filter_that_stripe_does_not_have_is_refused(stripe: Client, target: str) -> None:
    wrong = await stripe.get(target)
    assert (wrong.status, wrong.error["code"]) == (400, "parameter_unknown")


async def test_filters_keep_what_equals_them(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(100, charge_id="ch_1", customer="cus_1")
    standin.seed_charge(100, charge_id="ch_2", customer="cus_2", payment_intent="pi_2")
    standin.foreign_refund("ch_1")
    theirs = standin.foreign_refund("ch_2")
    assert ids((await stripe.get("/v1/charges?customer=cus_1")).json) == ["ch_1"]
    assert ids((await stripe.get("/v1/refunds?charge=ch_2")).json) == [theirs["id"]]
    assert ids((await stripe.get("/v1/refunds?payment_intent=pi_2")).json) == [theirs["id"]]
    assert ids((await stripe.get("/v1/charges/ch_2/refunds")).json) == [theirs["id"]]
    assert ids((await stripe.get("/v1/customers?email=nobody@example.com")).json) == []
    standin.seed("payout", "po_1", arrival_date=5)
    standin.seed("payment_link", "plink_1", active=True)
    standin.seed("checkout.session", "cs_1", customer_details={"email": "a@example.com"})
    for target, expected in (
        ("/v1/payouts?arrival_date[gte]=5", ["po_1"]),
        ("/v1/payouts?arrival_date[lt]=5", []),
        ("/v1/payment_links?active=true", ["plink_1"]),
        ("/v1/checkout/sessions?customer_details[email]=a@example.com", ["cs_1"]),
        ("/v1/checkout/sessions?customer_details[email]=b@example.com", []),
        ("/v1/events?delivery_success=false", []),
    ):
        assert ids((await stripe.get(target)).json) == expected


async def test_created_bounds_are_inclusive_and_exclusive_as_they_say(
    standin: StandIn, stripe: Client, hands: Hands
) -> None:
    standin.seed_charge(100, charge_id="ch_1")
    start = hands() // 1000
    made = []
    for _ in range(3):
        made.append(standin.foreign_refund("ch_1")["id"])
        hands.move(1000)
    for query, expected in (
        (f"created[gte]={start + 1}", made[1:]),
        (f"created[gt]={start + 1}", made[2:]),
        (f"created[lte]={start + 1}", made[:2]),
        (f"created[lt]={start + 1}", made[:1]),
        (f"created[gt]={start}&created[lt]={start + 2}", made[1:2]),
        (f"created={start + 1}", made[1:2]),
    ):
        assert ids((await stripe.get(f"/v1/refunds?{query}")).json) == expected[::-1]
    assert (await stripe.get("/v1/refunds?created[gte]=yesterday")).status == 400


async def test_events_are_found_by_type_by_wildcard_and_by_several_types(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(100, charge_id="ch_1")
    standin.foreign_refund("ch_1")
    await stripe.post("/v1/customers", {})
    for query, expected in (
        ("type=refund.created", ["refund.created"]),
        ("type=charge.*", ["charge.refunded"]),
        ("types[]=refund.created&types[]=customer.created", ["customer.created", "refund.created"]),
        ("types[0]=refund.created&types[1]=nothing.happened", ["refund.created"]),
        ("type=nothing.*", []),
    ):
        page = (await stripe.get(f"/v1/events?{query}")).json
        assert [event["type"] for event in page["data"]] == expected


async def test_type_and_types_exclude_each_other_and_twenty_types_are_enough(stripe: Client) -> None:
    assert (await stripe.get("/v1/events?type=a.b&types[]=a.c")).status == 400
    assert (await stripe.get("/v1/events?type[]=a.b")).status == 400
    twenty = "&".join(f"types[]=a.{n}" for n in range(20))
    assert (await stripe.get(f"/v1/events?{twenty}")).status == 200
    assert (await stripe.get(f"/v1/events?{twenty}&types[]=a.20")).status == 400


async def test_events_last_thirty_days(standin: StandIn, stripe: Client, hands: Hands) -> None:
    (created, event) = (await refunds(standin, 1), standin.events()[-1])
    hands.move(30 * DAY_MS - 1000)
    assert (await stripe.get(f"/v1/events/{event['id']}")).json == event
    hands.move(1000)
    assert (await stripe.get("/v1/events")).json["data"] == []
    assert (await stripe.get(f"/v1/events/{event['id']}")).status == 404
    assert ids((await stripe.get("/v1/refunds")).json) == created


async def test_an_event_shows_the_object_as_it_was_then(standin: StandIn, stripe: Client) -> None:
    await refunds(standin, 2)
    amounts = [event["data"]["object"]["amount_refunded"] for event in standin.events()[::2]]
    assert amounts == [1, 2]


async def test_expand_puts_the_object_in_the_place_of_its_id(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    made = await stripe.post("/v1/refunds", {"charge": "ch_1", "amount": "1", "expand[0]": "charge"})
    assert made.json["charge"]["amount_refunded"] == 1
    listed = (await stripe.get("/v1/refunds?expand[]=data.charge")).json
    assert listed["data"][0]["charge"]["id"] == "ch_1"
    assert standin.refunds()[0]["charge"] == "ch_1"


async def test_head_has_the_head_of_a_get_and_no_body(standin: StandIn, stripe: Client) -> None:
    standin.seed_charge(5400, charge_id="ch_1")
    shown = await stripe.get("/v1/charges/ch_1")
    head = await stripe.ask("HEAD", "/v1/charges/ch_1")
    assert (head.status, head.headers["content-length"]) == (200, str(len(shown.body)))
    assert (await stripe.get("/v1/account")).json["object"] == "account"  # The connection is still in step.
