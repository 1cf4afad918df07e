"""New runs: an action has at most one successor in its scope, claimed in the same step."""

import asyncio

from msgspec.structs import replace

from proxy.core.events import Noted
from proxy.core.records import Slip
from proxy.ports import Committed
from tests.conformance.bench import Bench
from tests.conformance.store_suite_commit import done, in_the_way
from tests.fakes.actions import action_id, after, change, creation, make_action


def run(number: int, *, of: int, version: int = 1) -> Slip:
    """Return the creation of a new run in the scope `s`."""
    action = make_action(number)
    identity = replace(action.identity, run=2, retry_of=action_id(of))
    return creation(replace(action, identity=identity), scope="s", replaces=action_id(of), replaces_version=version)


class Runs:
    """What `replaces` promises."""

    async def test_a_new_run_takes_the_scope_of_the_one_it_replaces(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), scope="s"))
        done(await bench.store.commit(run(2, of=1)))
        assert await bench.store.find("scope", "s") == (action_id(2),)
        assert in_the_way(await bench.store.commit(creation(make_action(3), scope="s"))) == (action_id(2), "scope")

    async def test_a_new_run_of_an_action_that_has_changed_since_is_refused(self, bench: Bench) -> None:
        first = creation(make_action(1), scope="s")
        await bench.store.commit(first)
        await bench.store.commit(change(first, after(first.action, Noted("ann", "wait"))))
        before = await bench.contents()
        assert in_the_way(await bench.store.commit(run(2, of=1, version=1))) == (action_id(1), "scope")
        assert await bench.contents() == before
        done(await bench.store.commit(run(2, of=1, version=2)))

    async def test_a_new_run_of_a_run_that_was_replaced_is_refused_and_names_the_latest(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), scope="s"))
        await bench.store.commit(run(2, of=1))
        assert in_the_way(await bench.store.commit(run(3, of=1))) == (action_id(2), "scope")
        done(await bench.store.commit(run(3, of=2)))

    async def test_a_change_of_an_earlier_run_does_not_take_the_scope_back(self, bench: Bench) -> None:
        first = creation(make_action(1), scope="s")
        await bench.store.commit(first)
        await bench.store.commit(run(2, of=1))
        done(await bench.store.commit(change(first, after(first.action, Noted("ann", "late")), scope="s")))
        assert await bench.store.find("scope", "s") == (action_id(2),)

    async def test_of_ten_new_runs_at_once_one_is_made(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), scope="s"))
        slips = [run(n, of=1) for n in range(2, 12)]
        stores = [bench.store, bench.other] * 5
        answers = await asyncio.gather(*(store.commit(slip) for store, slip in zip(stores, slips, strict=True)))

        won = [slip for slip, answer in zip(slips, answers, strict=True) if isinstance(answer, Committed)]
        assert len(won) == 1
        lost = [in_the_way(answer) for answer in answers if not isinstance(answer, Committed)]
        assert lost == [(won[0].action.action_id, "scope")] * 9
        assert await bench.store.find("scope", "s") == (won[0].action.action_id,)
