"""A store that has forgotten a dispatch still holds the one before it, and that one's word is not this one's."""

import pytest

from proxy.engine import Provided
from tests.engine.asks import refund, refunded
from tests.engine.rig import Rig, code_of, header_of, status_of
from tests.fakes.loop import passing
from tests.fakes.upstream import Script, answers, silence, unsent

REFUND = refund(currency="usd")


@pytest.mark.parametrize("comes", [refunded(thinking=1_000), silence(thinking=1_000)], ids=["a 200", "nothing"])
async def test_what_was_sent_is_never_called_unsent_by_a_store_that_forgot_it(rig: Rig, comes: Script) -> None:
    replica = rig.replica()
    rig.upstream.writes.extend([unsent(), comes])
    assert code_of(await replica.ask(REFUND)) == "not_sent"
    before = replica.store.snapshot()
    again = replica.start(REFUND)
    await passing(500)
    replica.store.forget_since(before)
    answer = await again
    assert header_of(answer, "Doubtless-Retry") == "never"
    if isinstance(answer, Provided):
        assert status_of(answer) == 200
    else:
        assert code_of(answer) == "outcome_unknown"


async def test_at_the_deadline_it_is_unknown_although_the_store_says_that_it_was_never_sent(rig: Rig) -> None:
    replica = rig.replica()
    rig.upstream.writes.extend([unsent(), silence(thinking=90_000)])
    await replica.ask(REFUND)
    before = replica.store.snapshot()
    again = replica.start(REFUND)
    await passing(500)
    replica.store.forget_since(before)
    replica.store.slow["commit"] = 60_000  # What becomes of it is still on its way to the store.
    answer = await again
    assert code_of(answer) == "outcome_unknown"


async def test_its_price_is_not_taken_from_a_store_that_forgot_it(rig: Rig) -> None:
    replica = rig.replica()
    unpriced = refund(currency=None)
    rig.upstream.reads = lambda _: answers(200, {"object": "charge", "currency": "usd"})
    rig.upstream.writes.extend([unsent(), silence(thinking=1_000)])
    await replica.ask(unpriced)
    before = replica.store.snapshot()
    again = replica.start(unpriced)
    await passing(500)
    replica.store.forget_since(before)
    assert code_of(await again) == "outcome_unknown"
