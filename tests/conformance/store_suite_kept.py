"""Sealed values beside a record: bytes in, the same bytes out."""

from tests.conformance.bench import Bench
from tests.conformance.store_suite_commit import done
from tests.conformance.store_suite_limits import room
from tests.fakes.actions import action_id, change, creation, make_action

EVERY_BYTE = bytes(range(256)) * 3
SIX_MEGABYTES = EVERY_BYTE * (6_000_000 // len(EVERY_BYTE) + 1)


class Kept:
    """What `keep`, `drop` and `kept` promise."""

    async def test_what_is_kept_is_read_byte_for_byte(self, bench: Bench) -> None:
        values = {"request": EVERY_BYTE, "response": b"\x00\r\n$5\r\n\xff", "nothing": b""}
        done(await bench.store.commit(creation(make_action(1), keep=values)))
        assert {name: await bench.other.kept(action_id(1), name) for name in values} == values

    async def test_what_was_never_kept_is_none(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), keep={"request": b"x"}))
        assert await bench.store.kept(action_id(1), "response") is None
        assert await bench.store.kept(action_id(2), "request") is None

    async def test_values_come_change_and_go_with_later_commits(self, bench: Bench) -> None:
        first = creation(make_action(1), keep={"request": b"one", "response": b"r"})
        second = change(first, keep={"request": b"two"})
        third = change(second, drop=("request", "never"))
        read = []
        for slip in (first, second, third):
            done(await bench.store.commit(slip))
            read.append([await bench.other.kept(action_id(1), name) for name in ("request", "response")])
        assert read == [[b"one", b"r"], [b"two", b"r"], [None, b"r"]]

    async def test_a_commit_that_is_refused_keeps_and_drops_nothing(self, bench: Bench) -> None:
        first = creation(make_action(1), keep={"request": b"one"})
        await bench.store.commit(first)
        await bench.store.commit(change(first, expected=9, keep={"request": b"two"}, drop=("request",)))
        await bench.store.commit(creation(make_action(2), reserve=(room(101),), keep={"request": b"two"}))
        assert await bench.store.kept(action_id(1), "request") == b"one"
        assert await bench.store.kept(action_id(2), "request") is None

    async def test_a_value_of_six_megabytes_survives(self, bench: Bench) -> None:
        done(await bench.store.commit(creation(make_action(1), keep={"response": SIX_MEGABYTES})))
        kept = await bench.other.kept(action_id(1), "response")
        assert kept == SIX_MEGABYTES
