"""The queue of what is due, and the leases of those who await an answer."""

import asyncio

from proxy.core.model import FOREVER_MS
from proxy.core.records import Projection, Slip
from tests.conformance.bench import HOUR, MINUTE, Bench
from tests.conformance.store_suite_commit import done
from tests.fakes.actions import action_id, change, creation, make_action

MANY = 100


def due(number: int, due_ms: int | None, *, owner: str = "", owned_until_ms: int = FOREVER_MS) -> Slip:
    """Return the creation of an action that is due then: unresolved, or awaited by its owner."""
    projection = Projection(
        index=frozenset({"all", "status:pending" if owner else "status:denied_unresolved"}),
        due_ms=due_ms,
        owner=owner,
        owned_until_ms=owned_until_ms if owner else 0,
        unresolved=not owner,
    )
    return creation(make_action(number), projection=projection)


async def claimed(bench: Bench, most: int = MANY) -> list[str]:
    """Claim what is due for a minute and return the IDs."""
    return [stored.action.action_id for stored in await bench.store.claim_due(MINUTE, most)]


class Queue:
    """What `claim_due`, `beat` and `bury` promise."""

    async def test_what_is_due_is_claimed_with_its_record_and_version(self, bench: Bench) -> None:
        slip = due(1, await bench.now_ms() - 1)
        await bench.store.commit(slip)
        moved = change(slip, projection=slip.after)
        await bench.store.commit(moved)
        (stored,) = await bench.other.claim_due(MINUTE, MANY)
        assert (stored.action, stored.version) == (moved.action, 2)

    async def test_what_is_claimed_is_left_alone_for_the_lease_and_then_due_again(self, bench: Bench) -> None:
        await bench.store.commit(due(1, await bench.now_ms() - 1))
        assert await claimed(bench) == [action_id(1)]
        assert await claimed(bench) == []
        assert await bench.other.claim_due(MINUTE, MANY) == []
        await bench.pass_time(MINUTE)
        assert await claimed(bench) == [action_id(1)]

    async def test_two_claimers_at_once_share_what_is_due(self, bench: Bench) -> None:
        past = await bench.now_ms() - 1
        for number in range(1, 31):
            await bench.store.commit(due(number, past))
        stores = [bench.store, bench.other] * 3
        parts = await asyncio.gather(*(store.claim_due(MINUTE, 7) for store in stores))
        ids = [stored.action.action_id for part in parts for stored in part]
        assert sorted(ids) == [action_id(n) for n in range(1, 31)]

    async def test_no_more_are_claimed_than_asked_and_the_longest_due_come_first(self, bench: Bench) -> None:
        slips = [due(number, None) for number in range(1, 5)]
        for slip in slips:
            await bench.store.commit(slip)
        now = await bench.now_ms()
        for slip, ahead_ms in zip(slips, (4 * HOUR, 2 * HOUR, 3 * HOUR, 5 * HOUR), strict=True):
            await bench.store.commit(change(slip, projection=Projection(due_ms=now + ahead_ms, unresolved=True)))
        await bench.pass_time(4 * HOUR + MINUTE)
        assert await claimed(bench, most=2) == [action_id(2), action_id(3)]
        assert await claimed(bench, most=2) == [action_id(1)]

    async def test_what_is_due_later_is_not_claimed_before(self, bench: Bench) -> None:
        await bench.store.commit(due(1, await bench.now_ms() + HOUR))
        assert await claimed(bench) == []
        await bench.pass_time(HOUR)
        assert await claimed(bench) == [action_id(1)]

    async def test_what_is_never_due_is_never_claimed(self, bench: Bench) -> None:
        await bench.store.commit(due(1, None))
        await bench.pass_time(HOUR)
        assert await claimed(bench) == []

    async def test_a_commit_moves_an_action_in_the_queue_and_takes_it_out(self, bench: Bench) -> None:
        now = await bench.now_ms()
        first = due(1, now - 1)
        later = change(first, projection=Projection(due_ms=now + HOUR, unresolved=True))
        out = change(later, projection=Projection())
        await bench.store.commit(first)
        await bench.store.commit(later)
        assert await claimed(bench) == []
        await bench.pass_time(HOUR)
        assert await claimed(bench) == [action_id(1)]
        await bench.store.commit(out)
        await bench.pass_time(HOUR)
        assert await claimed(bench) == []

    async def test_a_commit_that_is_refused_leaves_the_queue_as_it_was(self, bench: Bench) -> None:
        first = due(1, await bench.now_ms() + HOUR)
        await bench.store.commit(first)
        await bench.store.commit(change(first, projection=first.after))
        await bench.other.commit(change(first, projection=Projection(due_ms=0, unresolved=True)))
        assert await claimed(bench) == []

    async def test_what_is_due_now_is_counted(self, bench: Bench) -> None:
        now = await bench.now_ms()
        for number, due_ms in enumerate((now - HOUR, now - 1, now + HOUR, None), start=1):
            await bench.store.commit(due(number, due_ms))
        await bench.pass_time(MINUTE)
        assert await bench.store.due_count() == 2
        await claimed(bench, most=1)
        assert await bench.store.due_count() == 1

    # ── Owners ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def test_an_action_that_a_living_instance_awaits_is_not_claimed(self, bench: Bench) -> None:
        await bench.store.beat("i1", HOUR)
        await bench.store.commit(due(1, await bench.now_ms() - 1, owner="i1"))
        assert await claimed(bench) == []
        assert await bench.other.claim_due(MINUTE, MANY) == []

    async def test_an_action_whose_owner_s_lease_has_ended_is_claimed(self, bench: Bench) -> None:
        await bench.store.beat("i1", HOUR)
        await bench.store.commit(due(1, await bench.now_ms() - 1, owner="i1"))
        assert await claimed(bench) == []
        await bench.pass_time(HOUR + 1)
        assert await claimed(bench) == [action_id(1)]

    async def test_an_action_whose_owner_never_told_of_itself_is_claimed(self, bench: Bench) -> None:
        await bench.store.commit(due(1, await bench.now_ms() - 1, owner="i1"))
        assert await claimed(bench) == [action_id(1)]

    async def test_an_action_that_even_a_living_owner_must_have_lost_track_of_is_claimed(self, bench: Bench) -> None:
        await bench.store.beat("i1", HOUR)
        now_ms = await bench.now_ms()
        await bench.store.commit(due(1, now_ms - 1, owner="i1", owned_until_ms=now_ms - 1))
        await bench.store.commit(due(2, now_ms - 1, owner="i1", owned_until_ms=now_ms + HOUR))
        assert await claimed(bench) == [action_id(1)]

    async def test_what_a_dead_owner_awaited_is_soon_due_again_where_its_claimant_does_not_see_to_it(
        self, bench: Bench
    ) -> None:
        past = await bench.now_ms() - 1
        await bench.store.commit(due(1, past, owner="i1"))
        await bench.store.commit(due(2, past))
        assert await claimed(bench) == [action_id(1), action_id(2)]
        assert await claimed(bench) == []
        await bench.pass_time(3_000)
        assert await claimed(bench) == [action_id(1)]

    async def test_an_instance_that_beats_keeps_its_actions(self, bench: Bench) -> None:
        await bench.store.commit(due(1, await bench.now_ms() - 1, owner="i1"))
        for _ in range(4):
            await bench.store.beat("i1", HOUR)
            assert await claimed(bench) == []
            await bench.pass_time(HOUR - MINUTE)
        assert await claimed(bench) == []
        await bench.pass_time(2 * MINUTE)
        assert await claimed(bench) == [action_id(1)]

    async def test_a_lease_is_the_instance_s_own(self, bench: Bench) -> None:
        past = await bench.now_ms() - 1
        await bench.store.beat("i1", HOUR)
        await bench.store.beat("i2", 3 * HOUR)
        for number, owner in enumerate(("i1", "i2"), start=1):
            await bench.store.commit(due(number, past, owner=owner))
        await bench.pass_time(2 * HOUR)
        assert await claimed(bench) == [action_id(1)]

    async def test_what_a_buried_instance_awaited_is_due_at_once_and_nothing_else(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        for instance in ("i1", "i2"):
            await bench.store.beat(instance, HOUR)
        for number, owner in enumerate(("i1", "i2", "", "i1"), start=1):
            await bench.store.commit(due(number, later, owner=owner))
        await bench.other.bury("i1")
        assert sorted(await claimed(bench)) == [action_id(1), action_id(4)]

    async def test_a_lease_of_nothing_buries(self, bench: Bench) -> None:
        await bench.store.beat("i1", HOUR)
        await bench.store.commit(due(1, await bench.now_ms() + HOUR, owner="i1"))
        await bench.store.beat("i1", 0)
        assert await claimed(bench) == [action_id(1)]

    async def test_an_instance_that_was_buried_may_live_on(self, bench: Bench) -> None:
        await bench.store.bury("i1")
        await bench.store.beat("i1", HOUR)
        await bench.store.commit(due(1, await bench.now_ms() - 1, owner="i1"))
        assert await claimed(bench) == []

    async def test_what_the_living_await_does_not_stand_before_what_is_due(self, bench: Bench) -> None:
        past = await bench.now_ms() - HOUR
        await bench.store.beat("i1", HOUR)
        for number in range(1, 31):
            await bench.store.commit(due(number, past, owner="i1"))
        await bench.store.commit(due(50, past))
        assert await claimed(bench, most=1) == [action_id(50)]

    async def test_a_settled_action_is_its_owner_s_no_more(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        first = due(1, later, owner="i1")
        await bench.store.commit(first)
        await bench.store.commit(change(first, projection=Projection(due_ms=later, unresolved=True)))
        await bench.store.bury("i1")
        assert await claimed(bench) == []

    async def test_a_beat_tells_the_stores_time(self, bench: Bench) -> None:
        earliest = await bench.now_ms()
        told = await bench.store.beat("i1", HOUR)
        assert earliest <= told <= await bench.now_ms()
        assert done(await bench.store.commit(due(1, None))).now_ms >= told
