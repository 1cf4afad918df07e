"""Limits: no reservation exceeds a cap, by any interleaving; facts may, and are told."""

import asyncio

import pytest
from msgspec.structs import replace

from proxy.core.records import Bucket, Period, Projection, Reservation, Slip
from proxy.ports import Committed, Exhausted, LimitUse
from tests.conformance.bench import DAY, Bench
from tests.conformance.store_suite_claims import BY_PAYLOAD
from tests.conformance.store_suite_commit import done
from tests.fakes.actions import action_id, change, creation, make_action

MOST = 2**53 - 1


def room(amount: int, *, cap: int = 100, name: str = "refunds", period: Period = Period.TOTAL) -> Reservation:
    """Return a reservation of so many minor units."""
    return Reservation(name, period, cap, amount)


def one(*, cap: int, name: str = "per day") -> Reservation:
    """Return a reservation of a limit that counts actions."""
    return Reservation(name, Period.TOTAL, cap, 1, counts=True)


def held(bucket: Bucket, actual: int | None = None) -> Projection:
    """Return what follows from an action whose amounts stand in the bucket."""
    return Projection(index=frozenset({"all"}), bucket=bucket, actual=actual)


def reserving(number: int, *reserve: Reservation) -> Slip:
    """Return the creation of a pending action that holds what it reserves."""
    return creation(make_action(number), projection=held(Bucket.RESERVED), reserve=reserve)


async def use(bench: Bench, limit: Reservation) -> tuple[int, int, int]:
    """Return what is consumed, reserved and unknown."""
    (row,) = await bench.other.limit_use([limit])
    assert row == LimitUse(limit.name, row.consumed, row.reserved, row.unknown)
    return row.consumed, row.reserved, row.unknown


async def put(bench: Bench, number: int, bucket: Bucket, *reserve: Reservation, actual: int | None = None) -> Slip:
    """Create an action and move what it holds."""
    slip = reserving(number, *reserve)
    done(await bench.store.commit(slip))
    moved = change(slip, projection=held(bucket, actual))
    done(await bench.store.commit(moved))
    return moved


class Limits:
    """What the moves between reserved, unknown, consumed and released promise."""

    async def test_no_interleaving_of_reservations_exceeds_a_cap(self, bench: Bench) -> None:
        slips = [reserving(n, room(10)) for n in range(1, 21)]
        stores = [bench.store, bench.other] * 10
        answers = await asyncio.gather(*(store.commit(slip) for store, slip in zip(stores, slips, strict=True)))

        assert sum(isinstance(answer, Committed) for answer in answers) == 10
        assert [a.available for a in answers if isinstance(a, Exhausted)] == [0] * 10
        assert await use(bench, room(0)) == (0, 100, 0)

    async def test_a_refusal_names_limit_and_room_and_writes_nothing_at_all(self, bench: Bench) -> None:
        await bench.store.commit(reserving(1, room(70)))
        before = await bench.contents()
        whole = creation(
            make_action(2, payload="p", aliases=("a",)),
            scope="s",
            lookups=BY_PAYLOAD,
            reserve=(room(31),),
            keep={"request": b"x"},
        )
        answer = await bench.store.commit(whole)
        assert answer == Exhausted("refunds", 30, answer.now_ms)
        assert await bench.contents() == before
        done(await bench.store.commit(replace(whole, reserve=(room(30),))))

    async def test_a_refused_reservation_prunes_no_claim(self, bench: Bench) -> None:
        past = Projection(claims={("payload", "p"): await bench.now_ms() - 1})
        await bench.store.commit(creation(make_action(1), projection=past))
        before = await bench.contents()
        answer = await bench.store.commit(creation(make_action(2), lookups=BY_PAYLOAD, reserve=(room(101),)))
        assert isinstance(answer, Exhausted)
        assert await bench.contents() == before

    async def test_every_limit_must_have_room(self, bench: Bench) -> None:
        wide, narrow = room(60, cap=1000, name="wide"), room(60, name="narrow")
        done(await bench.store.commit(reserving(1, wide, narrow)))
        for order in ((wide, narrow), (narrow, wide)):
            answer = await bench.store.commit(reserving(2, *order))
            assert answer == Exhausted("narrow", 40, answer.now_ms)
        assert await use(bench, wide) == (0, 60, 0)
        assert await use(bench, narrow) == (0, 60, 0)

    async def test_a_limit_may_count_actions(self, bench: Bench) -> None:
        for number in (1, 2, 3):
            await put(bench, number, Bucket.CONSUMED, one(cap=3), actual=999)
        answer = await bench.store.commit(reserving(4, one(cap=3)))
        assert answer == Exhausted("per day", 0, answer.now_ms)
        assert await use(bench, one(cap=3)) == (3, 0, 0)  # Not 999 each.

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ((Bucket.CONSUMED,), (40, 0, 0)),
            ((Bucket.RELEASED,), (0, 0, 0)),
            ((Bucket.UNKNOWN,), (0, 0, 40)),
            ((Bucket.UNKNOWN, Bucket.UNKNOWN), (0, 0, 40)),
            ((Bucket.UNKNOWN, Bucket.CONSUMED), (40, 0, 0)),
            ((Bucket.UNKNOWN, Bucket.RELEASED), (0, 0, 0)),
            ((Bucket.RELEASED, Bucket.CONSUMED), (40, 0, 0)),  # Evidence against a failure.
            ((Bucket.CONSUMED, Bucket.RELEASED, Bucket.CONSUMED), (40, 0, 0)),
        ],
        ids=lambda value: "-".join(str(v) for v in value),
    )
    async def test_an_amount_stands_in_one_bucket(
        self, bench: Bench, path: tuple[Bucket, ...], expected: tuple[int, int, int]
    ) -> None:
        slip = reserving(1, room(40))
        done(await bench.store.commit(slip))
        for bucket in path:
            slip = change(slip, projection=held(bucket))
            done(await bench.store.commit(slip))
        assert await use(bench, room(0)) == expected
        left = 100 - sum(expected)
        assert isinstance(await bench.store.commit(reserving(2, room(left + 1))), Exhausted)
        done(await bench.store.commit(reserving(2, room(left))))

    async def test_what_is_unknown_is_not_given_out_again(self, bench: Bench) -> None:
        await put(bench, 1, Bucket.UNKNOWN, room(100))
        answer = await bench.store.commit(reserving(2, room(1)))
        assert answer == Exhausted("refunds", 0, answer.now_ms)

    @pytest.mark.parametrize(("actual", "consumed"), [(150, 150), (7, 7), (0, 0), (None, 40)])
    async def test_what_was_really_moved_is_consumed_above_the_cap_too(
        self, bench: Bench, actual: int | None, consumed: int
    ) -> None:
        await put(bench, 1, Bucket.CONSUMED, room(40), actual=actual)
        assert await use(bench, room(0)) == (consumed, 0, 0)
        answer = await bench.store.commit(reserving(2, room(100)))
        available = max(0, 100 - consumed)
        assert answer == Exhausted("refunds", available, answer.now_ms) or available == 100

    async def test_what_was_really_moved_is_what_is_given_back(self, bench: Bench) -> None:
        slip = await put(bench, 1, Bucket.CONSUMED, room(40), actual=150)
        done(await bench.store.commit(change(slip, projection=held(Bucket.RELEASED))))
        assert await use(bench, room(0)) == (0, 0, 0)

    async def test_an_amount_of_nothing_moves_through_every_bucket(self, bench: Bench) -> None:
        slip = await put(bench, 1, Bucket.UNKNOWN, room(0), one(cap=5))
        for bucket in (Bucket.CONSUMED, Bucket.RELEASED, Bucket.CONSUMED):
            slip = change(slip, projection=held(bucket, actual=0))
            done(await bench.store.commit(slip))
        assert await use(bench, room(0)) == (0, 0, 0)
        assert await use(bench, one(cap=5)) == (1, 0, 0)

    async def test_the_largest_amounts_are_exact(self, bench: Bench) -> None:
        limit = room(MOST - 3, cap=MOST)
        slip = reserving(1, limit)
        done(await bench.store.commit(slip))
        answer = await bench.store.commit(reserving(2, room(4, cap=MOST)))
        assert answer == Exhausted("refunds", 3, answer.now_ms)
        done(await bench.store.commit(reserving(3, room(3, cap=MOST))))
        done(await bench.store.commit(change(slip, projection=held(Bucket.UNKNOWN))))
        assert await use(bench, limit) == (0, 3, MOST - 3)
        moved = change(change(slip), projection=held(Bucket.CONSUMED, actual=MOST))
        done(await bench.store.commit(moved))
        assert await use(bench, limit) == (MOST, 3, 0)

    async def test_a_cap_that_is_changed_later_releases_nothing(self, bench: Bench) -> None:
        await put(bench, 1, Bucket.UNKNOWN, room(80))
        answer = await bench.store.commit(reserving(2, room(1, cap=50)))
        assert answer == Exhausted("refunds", 0, answer.now_ms)
        answer = await bench.store.commit(reserving(2, room(21, cap=100)))
        assert answer == Exhausted("refunds", 20, answer.now_ms)
        done(await bench.store.commit(reserving(2, room(120, cap=200))))

    # ── Sent again ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def test_a_dispatch_after_a_release_asks_for_room_anew(self, bench: Bench) -> None:
        failed = await put(bench, 1, Bucket.RELEASED, room(60))
        again = change(failed, projection=held(Bucket.RESERVED), reserve=(room(70),))
        other = reserving(2, room(40))
        done(await bench.store.commit(other))
        before = await bench.contents()
        answer = await bench.store.commit(again)
        assert answer == Exhausted("refunds", 60, answer.now_ms)
        assert await bench.contents() == before

        done(await bench.store.commit(change(other, projection=held(Bucket.RELEASED))))
        done(await bench.store.commit(again))
        assert await use(bench, room(0)) == (0, 70, 0)

    async def test_what_was_released_does_not_come_back_unasked(self, bench: Bench) -> None:
        failed = await put(bench, 1, Bucket.RELEASED, room(60))
        done(await bench.store.commit(reserving(2, room(100))))
        done(await bench.store.commit(change(failed, projection=held(Bucket.RESERVED))))
        assert await use(bench, room(0)) == (0, 100, 0)

    async def test_a_reservation_replaces_what_the_action_held(self, bench: Bench) -> None:
        slip = reserving(1, room(60), one(cap=5))
        done(await bench.store.commit(slip))
        again = change(slip, projection=held(Bucket.RESERVED), reserve=(room(90),))
        done(await bench.store.commit(again))
        assert await use(bench, room(0)) == (0, 90, 0)
        assert await use(bench, one(cap=5)) == (0, 0, 0)
        done(await bench.store.commit(change(again, projection=held(Bucket.RELEASED))))
        assert await use(bench, room(0)) == (0, 0, 0)

    # ── Periods ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize(("period", "days"), [(Period.DAY, 1), (Period.MONTH, 32)])
    async def test_a_new_period_forgets_what_was_consumed_and_nothing_else(
        self, bench: Bench, period: Period, days: int
    ) -> None:
        await put(bench, 1, Bucket.CONSUMED, room(50, period=period))
        await put(bench, 2, Bucket.UNKNOWN, room(20, period=period))
        done(await bench.store.commit(reserving(3, room(10, period=period))))
        assert await use(bench, room(0, period=period)) == (50, 10, 20)

        await bench.pass_time(days * DAY)

        assert await use(bench, room(0, period=period)) == (0, 10, 20)
        answer = await bench.store.commit(reserving(4, room(71, period=period)))
        assert answer == Exhausted("refunds", 70, answer.now_ms)
        done(await bench.store.commit(reserving(4, room(70, period=period))))

    @pytest.mark.parametrize("period", [Period.DAY, Period.MONTH])
    async def test_what_is_settled_later_consumes_the_period_it_was_reserved_in(
        self, bench: Bench, period: Period
    ) -> None:
        slip = await put(bench, 1, Bucket.UNKNOWN, room(60, period=period))
        await bench.pass_time(32 * DAY)
        done(await bench.store.commit(change(slip, projection=held(Bucket.CONSUMED))))
        assert await use(bench, room(0, period=period)) == (0, 0, 0)
        done(await bench.store.commit(reserving(2, room(100, period=period))))

    async def test_a_total_has_no_new_period(self, bench: Bench) -> None:
        await put(bench, 1, Bucket.CONSUMED, room(60))
        await bench.pass_time(32 * DAY)
        assert await use(bench, room(0)) == (60, 0, 0)

    async def test_the_use_of_limits_is_told_in_the_order_asked(self, bench: Bench) -> None:
        await put(bench, 1, Bucket.CONSUMED, room(1, name="a"), room(2, name="b"))
        rows = await bench.store.limit_use([room(0, name="b"), room(0, name="never"), room(0, name="a")])
        assert [(row.name, row.consumed) for row in rows] == [("b", 2), ("never", 0), ("a", 1)]
        assert await bench.store.limit_use([]) == []
        assert await bench.store.get(action_id(1)) is not None
