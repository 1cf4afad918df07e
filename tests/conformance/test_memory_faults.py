"""The fake's own means: what it does when it is told to fail. All else it does is the suite's."""

import pytest

from proxy.ports import Committed, StoreUnavailable
from tests.fakes.actions import action_id, change, creation, make_action
from tests.fakes.clock import ManualClock
from tests.fakes.store import MemoryStore, When


@pytest.mark.parametrize(("when", "versions"), [("before", [None, None]), ("after", [1, 1]), ("later", [None, 1])])
async def test_a_write_that_fails_was_not_made_was_made_or_is_made_later(
    when: When, versions: list[int | None]
) -> None:
    store, slip, seen = MemoryStore(ManualClock()), creation(make_action()), []
    store.fail_next("commit", when)

    with pytest.raises(StoreUnavailable):
        await store.commit(slip)
    for _ in range(2):
        stored = await store.get(action_id(1))
        seen.append(stored and stored.version)
        store.arrive()

    assert seen == versions
    answer = await store.commit(slip)
    assert isinstance(answer, Committed)
    assert answer.version == 1


async def test_faults_of_a_method_come_in_the_order_told_and_leave_the_others_alone() -> None:
    store = MemoryStore(ManualClock())
    store.fail_next("commit", "before", times=2)
    assert await store.get(action_id(1)) is None
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.commit(creation(make_action()))
    assert isinstance(await store.commit(creation(make_action())), Committed)
    assert store.asked == ["get", "commit", "commit", "commit"]


async def test_a_store_that_is_down_does_nothing_until_it_is_up_and_another_s_is_another_s() -> None:
    store = MemoryStore(ManualClock())
    other = MemoryStore(ManualClock(), store.ledger)
    store.down = True
    with pytest.raises(StoreUnavailable):
        await store.commit(creation(make_action()))
    assert isinstance(await other.commit(creation(make_action())), Committed)
    store.down = False
    assert await store.get(action_id(1)) is not None


async def test_a_store_may_forget_what_it_acknowledged() -> None:
    store, slip = MemoryStore(ManualClock()), creation(make_action())
    await store.commit(slip)
    snapshot = store.snapshot()
    newer = change(slip)
    await store.commit(newer)
    store.forget_since(snapshot)
    stored = await store.get(action_id(1))
    assert stored is not None
    assert stored.version == 1
    again = await store.commit(newer)
    assert isinstance(again, Committed)
    assert again.sequence == 2


def test_a_clock_does_not_go_back() -> None:
    clock = ManualClock(wall_ahead_ms=70)
    clock.advance_ms(5)
    assert clock.wall_ms() == clock.store_ms() + 70
    with pytest.raises(ValueError, match="back"):
        clock.advance_ms(-1)
