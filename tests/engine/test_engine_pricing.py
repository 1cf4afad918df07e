"""What a request does not carry is read: before dispatch for a limit, else as soon as the outcome is unknown."""

import pytest

from proxy.core.events import Resolved
from proxy.core.limits import Limit
from proxy.core.model import Amount, Status
from proxy.core.records import Period
from proxy.ports import ExposureRow
from tests.engine.asks import broken, refund, refunded
from tests.engine.provider import StripeRecord
from tests.engine.rig import Rig, body_of, code_of, message_of, shown, status_of
from tests.fakes.loop import passing
from tests.fakes.upstream import silence, unsent

UNPRICED = refund(currency=None)
FULL = refund(currency=None, amount=None)
ROOM = Limit("refunds", "stripe.refund.*", Period.DAY, amount=6000, currency="usd")


@pytest.fixture
def record(rig: Rig) -> StripeRecord:
    """Stripe's record, with the charge in it."""
    record = StripeRecord()
    record.charge()
    rig.upstream.reads = record
    return record


async def test_nothing_is_read_where_all_goes_well(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(refunded())

    await rig.replica().ask(UNPRICED)

    assert rig.upstream.read == []


async def test_what_becomes_unknown_is_priced_before_the_agent_hears_of_it(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(broken())
    replica = rig.replica()

    answer = await replica.ask(UNPRICED)

    assert (shown(answer)["amount"], shown(answer)["currency"]) == (5400, "usd")
    assert "54.00 USD" in message_of(answer)
    assert [call.request.target for call in rig.upstream.read] == ["/v1/charges/ch_1"]
    assert await replica.store.exposure() == [ExposureRow("stripe", "live", "usd", 5400, 1)]


async def test_a_full_refunds_amount_is_what_remains_of_the_charge(rig: Rig, record: StripeRecord) -> None:
    record.charge(amount_refunded=1400)
    rig.upstream.writes.append(broken())

    await rig.replica().ask(FULL)

    assert rig.only.amount == Amount(4000, "usd")


async def test_the_agent_waits_half_a_second_for_a_price_and_the_recording_to_its_end(
    rig: Rig, record: StripeRecord
) -> None:
    record.thinking = 2_000
    rig.upstream.writes.append(broken(thinking=1_000))
    replica = rig.replica()
    began_ms = rig.clock.monotonic_ms()

    answer = await replica.ask(UNPRICED)
    took_ms = rig.clock.monotonic_ms() - began_ms
    unpriced = await replica.store.exposure()
    await passing(2_000)

    assert (took_ms, shown(answer)["currency"]) == (1_500, None)
    assert unpriced == [ExposureRow("stripe", "live", None, 0, 1)]
    assert await replica.store.exposure() == [ExposureRow("stripe", "live", "usd", 5400, 1)]


@pytest.mark.parametrize("thinking_ms", [24_800, 100_000])
async def test_nobody_waits_for_a_price_past_the_answer_deadline(
    rig: Rig, record: StripeRecord, thinking_ms: int
) -> None:
    record.thinking = 2_000
    rig.upstream.writes.append(silence(thinking=thinking_ms))
    began_ms = rig.clock.monotonic_ms()

    answer = await rig.replica().ask(UNPRICED)
    took_ms = rig.clock.monotonic_ms() - began_ms
    await passing(3_000)

    assert (code_of(answer), took_ms) == ("outcome_unknown", 25_000)
    assert rig.only.amount == Amount(5400, "usd")


async def test_a_price_that_cannot_be_read_is_read_with_the_next_read_back(rig: Rig, record: StripeRecord) -> None:
    record.down = True
    rig.upstream.writes.append(broken())
    replica = rig.replica()
    await replica.ask(UNPRICED)
    unpriced = rig.only.amount
    record.down = False
    await passing(31_000)

    await replica.reconcile()

    assert (unpriced, rig.only.amount) == (Amount(5400), Amount(5400, "usd"))


async def test_a_price_that_the_store_does_not_take_changes_nothing_of_the_answer(
    rig: Rig, record: StripeRecord
) -> None:
    record.thinking = 100
    rig.upstream.writes.append(broken(thinking=50))
    replica = rig.replica()
    task = replica.start(UNPRICED)
    await passing(100)
    replica.store.down = True

    assert code_of(await task) == "outcome_unknown"
    assert rig.only.amount == Amount(5400)


async def test_the_read_key_reads_prices_too(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(broken())

    await rig.replica(read_keys={"stripe": {"live": "rk_live"}}).ask(UNPRICED)

    assert {call.credential for call in rig.upstream.read} == {"Bearer rk_live"}


async def test_under_a_limit_the_price_is_read_before_dispatch(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(refunded())
    replica = rig.replica(limits=(ROOM,))

    first = await replica.ask(UNPRICED)
    second = await replica.ask(refund("ticket-18", currency=None))

    assert [call.request.method for call in rig.upstream.calls] == ["GET", "POST", "GET"]
    assert body_of(first)["id"] == "re_1"
    assert (status_of(second), code_of(second)) == (403, "limit_exhausted")


@pytest.mark.parametrize("trouble", ["down", "refuses"])
async def test_under_a_limit_what_cannot_be_priced_is_refused_and_recorded(
    rig: Rig, record: StripeRecord, trouble: str
) -> None:
    setattr(record, trouble, 500)

    answer = await rig.replica(limits=(ROOM,)).ask(UNPRICED)

    assert (status_of(answer), code_of(answer)) == (403, "amount_undeterminable")
    assert rig.upstream.tried == []
    assert (rig.only.status, rig.only.grade.value) == (Status.FAILED, "denied")


async def test_under_a_limit_parameters_in_the_query_make_the_amount_undeterminable(
    rig: Rig, record: StripeRecord
) -> None:
    """A provider that takes parameters there too would move what the body does not say."""
    answer = await rig.replica(limits=(ROOM,)).ask(refund(amount=1, path="/v1/refunds?amount=5000000"))

    assert (status_of(answer), code_of(answer)) == (403, "amount_undeterminable")
    assert rig.upstream.calls == []


async def test_without_a_limit_parameters_in_the_query_are_sent_and_count_as_unpriced(
    rig: Rig, record: StripeRecord
) -> None:
    rig.upstream.writes.append(refunded())

    answer = await rig.replica().ask(refund(amount=1, path="/v1/refunds?amount=5000000"))

    assert (status_of(answer), rig.only.amount) == (200, Amount(5400, "usd"))  # As the answer says.


async def test_what_is_unknown_holds_its_room_until_it_is_settled(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(broken())
    replica = rig.replica(limits=(ROOM,))
    unknown = await replica.ask(refund("ticket-1"))
    refused = await replica.ask(refund("ticket-2"))
    failed = Resolved("ops", happened=False, text="checked")
    await replica.engine.applier.apply(str(shown(unknown)["action_id"]), failed)
    rig.upstream.writes.append(refunded())

    assert code_of(refused) == "limit_exhausted"
    assert body_of(await replica.ask(refund("ticket-2")))["id"] == "re_1"


async def test_what_was_not_sent_gives_its_room_back_and_must_ask_for_it_anew(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes += [unsent(), refunded()]
    replica = rig.replica(limits=(ROOM,))
    first = await replica.ask(refund("ticket-1"))
    second = await replica.ask(refund("ticket-2"))

    again = await replica.ask(refund("ticket-1"))

    assert [code_of(first), code_of(again)] == ["not_sent", "limit_exhausted"]
    assert body_of(second)["id"] == "re_1"
    assert len(rig.upstream.dispatched) == 1


async def test_what_is_settled_as_made_is_exposed_no_more_but_consumes_its_room(rig: Rig, record: StripeRecord) -> None:
    rig.upstream.writes.append(broken())
    replica = rig.replica(limits=(ROOM,))
    await replica.ask(refund("ticket-1"))
    held = await replica.store.exposure()
    record.made("ticket-1:stripe.refund.create")
    await passing(31_000)
    await replica.reconcile()

    assert held == [ExposureRow("stripe", "live", "usd", 5400, 1)]
    assert await replica.store.exposure() == []
    assert code_of(await replica.ask(refund("ticket-2"))) == "limit_exhausted"


async def test_twenty_at_once_never_exceed_a_limit_even_where_all_become_unknown(
    rig: Rig, record: StripeRecord
) -> None:
    rig.upstream.otherwise = silence(thinking=100)
    replicas = [rig.replica(limits=(ROOM,)), rig.replica(limits=(ROOM,))]

    tasks = [replicas[n % 2].start(refund(f"ticket-{n}", amount=600)) for n in range(20)]
    codes = [code_of(await task) for task in tasks]

    assert sorted(codes) == ["limit_exhausted"] * 10 + ["outcome_unknown"] * 10
    assert len(rig.upstream.dispatched) == 10
    assert await replicas[0].store.exposure() == [ExposureRow("stripe", "live", "usd", 6000, 10)]
