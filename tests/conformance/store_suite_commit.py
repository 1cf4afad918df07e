"""The one write: versions, commits that are sent twice, the ledger's sequence, the store's time."""

import asyncio

import pytest

from proxy.core.events import Noted
from proxy.core.records import Period, Reservation
from proxy.ports import Committed, Conflict, Exhausted, Forgotten, Stored
from tests.conformance.bench import Bench
from tests.fakes.actions import action_id, after, change, creation, make_action


def done(answer: Committed | Conflict | Exhausted) -> Committed:
    """Return the answer of a commit that must have been applied."""
    assert isinstance(answer, Committed)
    return answer


def in_the_way(answer: Committed | Conflict | Exhausted) -> tuple[str, str]:
    """Return who stood in the way of a commit, and by what."""
    assert isinstance(answer, Conflict)
    return answer.current.action_id, answer.via


class Commits:
    """What `commit` promises of one record."""

    async def test_what_is_created_is_read_as_it_was(self, bench: Bench) -> None:
        action = make_action(event_id="Zürich/№ 7 – ✓", payload="p", targets=("t+900000",), aliases=("a",))
        await bench.store.commit(creation(action))
        assert await bench.other.get(action.action_id) == Stored(action, 1)

    async def test_an_action_that_was_never_made_is_none(self, bench: Bench) -> None:
        assert await bench.store.get(action_id(1)) is None

    async def test_a_creation_is_refused_where_the_action_exists(self, bench: Bench) -> None:
        first = creation(make_action())
        await bench.store.commit(first)
        await bench.store.commit(change(first, after(first.action, Noted("ann", "seen"))))
        before = await bench.contents()

        answer = await bench.other.commit(creation(make_action()))

        assert isinstance(answer, Conflict)
        assert (answer.current.notes[0].text, answer.version, answer.via) == ("seen", 2, "version")
        assert await bench.contents() == before

    async def test_a_change_counts_the_version_up(self, bench: Bench) -> None:
        slip = creation(make_action())
        versions = []
        for n in range(4):
            versions.append(done(await bench.store.commit(slip)).version)
            slip = change(slip, after(slip.action, Noted("ann", str(n))))
        stored = await bench.other.get(action_id(1))
        assert versions == [1, 2, 3, 4]
        assert stored is not None
        assert (stored.version, len(stored.action.notes)) == (4, 3)

    async def test_a_writer_that_was_overtaken_writes_nothing_and_is_told_what_stands_there(self, bench: Bench) -> None:
        first = creation(make_action())
        await bench.store.commit(first)
        newer = after(first.action, Noted("ann", "newer"))
        await bench.store.commit(change(first, newer))
        before = await bench.contents()

        late = change(first, after(first.action, Noted("bob", "late")))
        answer = await bench.other.commit(late)

        assert isinstance(answer, Conflict)
        assert (answer.current, answer.version, answer.via) == (newer, 2, "version")
        assert await bench.contents() == before

    async def test_a_writer_that_is_ahead_of_the_record_writes_nothing(self, bench: Bench) -> None:
        first = creation(make_action())
        await bench.store.commit(first)
        assert in_the_way(await bench.store.commit(change(first, expected=7))) == (action_id(1), "version")

    async def test_of_twenty_writers_at_one_version_one_writes(self, bench: Bench) -> None:
        first = creation(make_action())
        await bench.store.commit(first)
        slips = [change(first, after(first.action, Noted("ann", str(n)))) for n in range(20)]
        stores = [bench.store, bench.other] * 10
        answers = await asyncio.gather(*(store.commit(slip) for store, slip in zip(stores, slips, strict=True)))

        won = [slip for slip, answer in zip(slips, answers, strict=True) if isinstance(answer, Committed)]
        assert len(won) == 1
        assert all(a.current == won[0].action for a in answers if isinstance(a, Conflict))
        assert await bench.store.get(action_id(1)) == Stored(won[0].action, 2)

    async def test_a_change_of_an_action_that_the_store_has_forgotten_is_no_write(self, bench: Bench) -> None:
        before = await bench.contents()
        with pytest.raises(Forgotten):
            await bench.store.commit(change(creation(make_action())))
        assert await bench.contents() == before

    # ── The same commit again ─────────────────────────────────────────────────────────────────────────────────────────

    async def test_a_commit_sent_twice_answers_the_same_and_is_applied_once(self, bench: Bench) -> None:
        room = (Reservation("refunds", Period.TOTAL, 10_000, 5400),)
        slip = creation(make_action(payload="p"), scope="s", lookups=(("payload", ("p",)),), reserve=room)
        first = await bench.store.commit(slip)
        await bench.pass_time(5)
        once = await bench.contents()

        assert await bench.other.commit(slip) == first
        assert await bench.contents() == once

    async def test_a_commit_sent_twice_at_once_is_applied_once(self, bench: Bench) -> None:
        slip = creation(make_action())
        answers = await asyncio.gather(*(store.commit(slip) for store in (bench.store, bench.other) * 5))
        assert answers == [answers[0]] * 10
        assert done(await bench.store.commit(change(slip))).sequence == done(answers[0]).sequence + 1

    async def test_a_commit_sent_again_after_five_later_ones_answers_as_it_did_then(self, bench: Bench) -> None:
        slips = [creation(make_action())]
        for n in range(6):
            slips.append(change(slips[-1], after(slips[-1].action, Noted("ann", str(n)))))
        answers = [await bench.store.commit(slip) for slip in slips]
        before = await bench.contents()

        assert await bench.other.commit(slips[0]) == answers[0]  # A creation,
        assert await bench.other.commit(slips[1]) == answers[1]  # and a change.
        assert await bench.contents() == before

    async def test_a_commit_too_old_to_be_remembered_is_a_conflict_and_no_second_write(self, bench: Bench) -> None:
        slips = [creation(make_action())]
        for n in range(20):
            slips.append(change(slips[-1], after(slips[-1].action, Noted("ann", str(n)))))
        for slip in slips:
            done(await bench.store.commit(slip))
        before = await bench.contents()

        assert in_the_way(await bench.store.commit(slips[0])) == (action_id(1), "version")
        assert in_the_way(await bench.store.commit(slips[1])) == (action_id(1), "version")
        assert await bench.contents() == before

    async def test_what_was_refused_is_not_remembered_as_done(self, bench: Bench) -> None:
        holder = creation(make_action(1), scope="s")
        await bench.store.commit(holder)
        slip = creation(make_action(2), scope="s")
        assert in_the_way(await bench.store.commit(slip)) == (action_id(1), "scope")
        assert in_the_way(await bench.store.commit(slip)) == (action_id(1), "scope")
        assert await bench.store.get(action_id(2)) is None

    # ── Sequence and time ─────────────────────────────────────────────────────────────────────────────────────────────

    async def test_the_sequence_counts_every_write_of_the_ledger_and_nothing_else(self, bench: Bench) -> None:
        first, second = creation(make_action(1), scope="s"), creation(make_action(2))
        sequence = done(await bench.store.commit(first)).sequence
        await bench.store.commit(creation(make_action(3), scope="s"))  # A conflict.
        await bench.store.commit(first)  # A repetition.
        assert done(await bench.other.commit(second)).sequence == sequence + 1
        assert done(await bench.store.commit(change(first))).sequence == sequence + 2

    async def test_the_time_told_is_the_stores(self, bench: Bench) -> None:
        slip = creation(make_action(), scope="s")
        earliest = await bench.now_ms()
        answers = [
            await bench.store.commit(slip),
            await bench.store.commit(creation(make_action(2), scope="s")),
            await bench.store.commit(creation(make_action(3), reserve=(Reservation("none", Period.DAY, 0, 1),))),
        ]
        told = [earliest, *(a.now_ms for a in answers), await bench.now_ms()]
        assert [type(a) for a in answers] == [Committed, Conflict, Exhausted]
        assert told == sorted(told)

    async def test_commits_of_one_moment_have_a_sequence_each(self, bench: Bench) -> None:
        slips = [creation(make_action(n), scope=f"s{n}") for n in range(1, 41)]
        answers = await asyncio.gather(*(bench.store.commit(slip) for slip in slips))
        assert len({done(a).sequence for a in answers}) == 40
