"""Reworded retries that come early, or name the target in another way (CONTRACT 2.3, rule 3)."""

import pytest

from proxy.core.limits import Limit
from proxy.core.records import Period
from proxy.engine import Ask, Asker
from tests.engine.asks import broken, refunded, unnamed
from tests.engine.provider import StripeRecord
from tests.engine.rig import Pair, Rig, body_of, code_of
from tests.fakes.loop import passing, quiet


def reworded() -> Ask:
    return unnamed(2, amount=5399, reason="requested_by_customer")


@pytest.mark.parametrize(
    "again",
    [
        unnamed(2, payment_intent="pi_1"),
        unnamed(2, path="/v1/refunds?charge=ch_1", charge=None),
        unnamed(2, headers={"Content-Type": "text/plain"}),
        unnamed(2, path="/v1/charges/ch_1/refund", charge=None),
    ],
    ids=["its payment too", "in the query", "no form by its type", "in the path"],
)
async def test_a_charge_that_is_named_in_another_way_is_the_same_one(rig: Rig, pair: Pair, again: Ask) -> None:
    rig.upstream.writes.append(broken())
    await pair[0].ask(unnamed(1))

    assert code_of(await pair[1].ask(again)) == "suspected_duplicate"
    assert len(rig.upstream.dispatched) == 1


async def test_a_retry_comes_while_the_first_waits_to_be_told_of_others(rig: Rig) -> None:
    """That nobody waits for something else is being told, slowly; the first has no commit under way yet."""
    replica = rig.replica()
    rig.upstream.writes += [refunded("re_9", thinking=20_000), refunded("re_1", thinking=9_000)]
    gone, asker = Asker(), Asker()
    replica.start(unnamed(9, charge="ch_9"), gone)
    await quiet()
    replica.store.down = True
    gone.hang_up()
    await quiet()
    replica.store.down = False
    replica.store.slow["commit"] = 500
    task = replica.start(unnamed(1), asker)
    await passing(100)
    asker.hang_up()

    assert code_of(await replica.ask(reworded())) == "suspected_duplicate"
    assert len(rig.upstream.dispatched) == 2
    await task


async def test_a_retry_comes_while_the_amount_of_the_first_is_being_read(rig: Rig) -> None:
    record = rig.upstream.reads = StripeRecord(thinking=2_000)
    record.charge()
    replica = rig.replica(limits=(Limit("refunds", "stripe.refund.*", Period.DAY, amount=20_000, currency="usd"),))
    rig.upstream.writes.append(refunded("re_1", thinking=9_000))
    asker = Asker()
    task = replica.start(unnamed(1, currency=None), asker)
    await quiet()
    asker.hang_up()

    assert code_of(await replica.ask(reworded())) == "suspected_duplicate"
    assert len(rig.upstream.dispatched) == 1
    await task


async def test_what_comes_after_is_not_waited_for(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes += [refunded("re_1", thinking=900), refunded("re_2", 5399)]
    tasks = [replica.start(unnamed(1)), replica.start(reworded())]
    await passing(5_000)

    assert all(task.done() for task in tasks)
    assert len(rig.upstream.dispatched) == 2


async def test_what_was_refused_is_not_sent_again_beside_what_is_in_doubt(rig: Rig) -> None:
    """Its amount could not be read; reworded it was sent, and is unknown; then the first one is repeated."""
    limits = (Limit("refunds", "stripe.refund.*", Period.DAY, amount=20_000, currency="usd"),)
    replica = rig.replica(limits=limits)
    refused = await replica.ask(unnamed(1, currency=None))
    rig.upstream.writes.append(broken())
    await replica.ask(reworded())
    record = rig.upstream.reads = StripeRecord()
    record.charge()

    again = await replica.ask(unnamed(1, currency=None))

    assert (code_of(refused), code_of(again)) == ("amount_undeterminable", "suspected_duplicate")
    assert len(rig.upstream.dispatched) == 1


async def test_what_was_refused_is_sent_again_where_nothing_is_in_doubt(rig: Rig) -> None:
    limits = (Limit("refunds", "stripe.refund.*", Period.DAY, amount=20_000, currency="usd"),)
    replica = rig.replica(limits=limits)
    await replica.ask(unnamed(1, currency=None))
    record = rig.upstream.reads = StripeRecord()
    record.charge()
    rig.upstream.writes.append(refunded("re_1"))

    assert body_of(await replica.ask(unnamed(1, currency=None)))["id"] == "re_1"
    assert len(rig.actions) == len(rig.upstream.dispatched) == 1
