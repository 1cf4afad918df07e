"""Settled actions that leave, and the tombstones that stand in their place."""

import asyncio

from msgspec.structs import replace

from proxy.core.model import FOREVER_MS
from proxy.core.records import Filter, Projection, Slip
from proxy.core.retirement import Outcome, Retirement
from proxy.ports import Committed, Conflict, Retired
from tests.conformance.bench import DAY, HOUR, MINUTE, Bench
from tests.conformance.store_suite_commit import done
from tests.fakes.actions import action_id, change, creation, make_action

KEEP = 2 * DAY
SCOPES = 8 * DAY
LISTS = frozenset({"all", "event:e", "key:k"})
CLAIMS = {("alias", "a"): FOREVER_MS, ("payload", "p"): 1, ("target", "t"): 1}
SETTLED = Projection(index=LISTS, claims=CLAIMS, settled=True)
OPEN = Projection(index=LISTS, unresolved=True)


def first(number: int = 1, projection: Projection = SETTLED, **fields: object) -> Slip:
    """Return the creation of an action in the scope `s`; without a projection, of one that is settled at once."""
    return replace(creation(make_action(number), projection=projection, scope="s"), **fields)


def leaving(number: int = 1, version: int = 1, outcome: Outcome = Outcome.HAPPENED) -> Retirement:
    """Return what is to be removed of it."""
    return Retirement(
        action_id(number), version, outcome, "s", ("a",), (("payload", "p"), ("target", "t")), SETTLED.index
    )


async def old(bench: Bench) -> list[str]:
    """Ask what may leave."""
    return [s.action.action_id for s in await bench.store.settled("i1", MINUTE, KEEP, 100)]


async def gone(bench: Bench, *which: Retirement) -> list[str]:
    """Let them leave; the IDs of those that did."""
    return list(await bench.store.retire(which, KEEP, SCOPES))


class Retiring:
    """What `settled` and `retire` promise, and what `commit` answers afterwards."""

    async def test_what_is_settled_is_old_once_nothing_has_changed_it_for_long_enough(self, bench: Bench) -> None:
        await bench.store.commit(first(1))
        await bench.store.commit(first(2, scope="other"))
        await bench.pass_time(DAY)
        await bench.store.commit(change(first(1), projection=SETTLED))
        assert await old(bench) == []
        await bench.pass_time(DAY)
        assert await old(bench) == [action_id(2)]
        await bench.pass_time(DAY)
        assert await old(bench) == [action_id(2), action_id(1)]

    async def test_no_more_are_returned_than_asked(self, bench: Bench) -> None:
        for number in range(1, 6):
            await bench.store.commit(first(number, scope=f"s{number}"))
        await bench.pass_time(KEEP)
        assert len(await bench.store.settled("i1", MINUTE, KEEP, 3)) == 3

    async def test_what_is_open_is_never_old_whatever_it_was_before(self, bench: Bench) -> None:
        opened = change(first(1), projection=OPEN)
        for slip in (first(1), opened, first(2, OPEN, scope="other")):
            await bench.store.commit(slip)
        await bench.pass_time(10 * KEEP)
        assert await old(bench) == []
        assert await gone(bench, leaving(1, 2), leaving(2)) == []
        await bench.store.commit(change(opened, projection=SETTLED))
        await bench.pass_time(KEEP)
        assert await old(bench) == [action_id(1)]

    async def test_an_unresolved_action_stays_even_where_it_is_listed_as_settled(self, bench: Bench) -> None:
        await bench.store.commit(first(1, replace(SETTLED, unresolved=True)))
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving()) == []
        assert await bench.store.get(action_id(1)) is not None

    async def test_one_instance_at_a_time_is_told_until_its_lease_has_ended(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        assert await old(bench) == [action_id(1)]
        assert await bench.other.settled("i2", MINUTE, KEEP, 100) == []
        assert await old(bench) == [action_id(1)]
        await bench.pass_time(2 * MINUTE)
        assert len(await bench.other.settled("i2", MINUTE, KEEP, 100)) == 1
        assert await old(bench) == []

    async def test_what_leaves_leaves_nothing_but_its_tombstones(self, bench: Bench) -> None:
        kept = dict.fromkeys(("credential", "request", "response"), b"x")
        await bench.store.commit(first(1, replace(SETTLED, due_ms=await bench.now_ms() + HOUR), keep=kept))
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving()) == [action_id(1)]
        store = bench.other
        assert await store.get(action_id(1)) is None
        assert [await store.kept(action_id(1), name) for name in kept] == [None] * 3
        assert [await store.find(kind, digest) for kind, digest in (("event", "e"), ("key", "k"), ("scope", "s"))] == [
            ()
        ] * 3
        assert (await store.page(Filter(), None, 10)).rows == ()
        assert [await bench.claimants(kind, digest) for kind, digest in (("payload", "p"), ("target", "t"))] == [[], []]
        assert await store.claim_due(MINUTE, 10) == []
        assert await old(bench) == []

    async def test_only_its_own_claims_go(self, bench: Bench) -> None:
        await bench.store.commit(first(1))
        late = Projection(index=LISTS, claims={("payload", "p"): FOREVER_MS}, unresolved=True)
        await bench.pass_time(KEEP)
        await bench.store.commit(first(2, late, scope="other"))
        assert await gone(bench, leaving()) == [action_id(1)]
        assert await bench.claimants("payload", "p") == [action_id(2)]
        assert await bench.store.find("key", "k") == (action_id(2),)

    async def test_what_was_changed_since_it_was_read_stays(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        await bench.store.commit(change(first(), projection=SETTLED))
        assert await gone(bench, leaving(version=1), leaving(version=2), leaving(3)) == []
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving(version=1)) == []
        assert await gone(bench, leaving(version=2)) == [action_id(1)]

    async def test_what_leaves_twice_leaves_once(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving(), leaving()) == [action_id(1)]
        assert await gone(bench, leaving()) == []

    async def test_a_settled_twin_of_an_open_message_stays_for_as_long_as_that_is_open(self, bench: Bench) -> None:
        lists = SETTLED.index | {"content:m"}
        twin = first(2, Projection(index=lists, unresolved=True), scope="other")
        await bench.store.commit(first(1, replace(SETTLED, index=lists)))
        await bench.store.commit(twin)
        await bench.pass_time(KEEP)
        one = replace(leaving(), index=lists)
        assert await gone(bench, one) == []
        await bench.store.commit(change(twin, projection=Projection(index=lists, settled=True)))
        await bench.pass_time(KEEP)
        assert await gone(bench, one) == [action_id(1)]

    # ── Tombstones ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def test_a_scope_whose_action_has_left_is_settled_until_scopes_are_forgotten(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        await gone(bench, leaving(outcome=Outcome.DID_NOT))
        for passing in (0, SCOPES - KEEP - HOUR):
            await bench.pass_time(passing)
            answer = await bench.other.commit(first(2))
            assert isinstance(answer, Retired)
            assert (answer.outcome, answer.via) == (Outcome.DID_NOT, "scope")
            assert await bench.store.get(action_id(2)) is None
        done(await bench.store.commit(first(3, scope="another")))
        await bench.pass_time(2 * HOUR)
        done(await bench.store.commit(first(2)))

    async def test_a_key_of_the_agent_s_that_named_it_is_settled_too(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        await gone(bench, leaving())
        nowhere = replace(OPEN, index=frozenset())
        asked = (("alias", ("b", "a")), ("payload", ("p",)))
        answer = await bench.other.commit(first(2, nowhere, scope="auto", lookups=asked))
        assert isinstance(answer, Retired)
        assert (answer.outcome, answer.via) == (Outcome.HAPPENED, "alias")
        done(
            await bench.store.commit(first(2, nowhere, scope="auto", lookups=(("alias", ("b",)), ("payload", ("p",)))))
        )

    async def test_a_new_run_does_not_begin_after_one_that_has_left(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.pass_time(KEEP)
        await gone(bench, leaving())
        assert isinstance(await bench.store.commit(first(2, replaces=action_id(1), replaces_version=1)), Retired)

    async def test_an_earlier_run_leaves_the_scope_to_the_later_one(self, bench: Bench) -> None:
        await bench.store.commit(first())
        await bench.store.commit(first(2, OPEN, replaces=action_id(1), replaces_version=1))
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving()) == [action_id(1)]
        assert await bench.store.find("scope", "s") == (action_id(2),)
        answer = await bench.store.commit(first(3))
        assert isinstance(answer, Conflict)
        assert answer.current.action_id == action_id(2)

    async def test_an_earlier_run_that_stays_has_no_second_successor_once_the_later_has_left(
        self, bench: Bench
    ) -> None:
        await bench.store.commit(first())
        await bench.store.commit(first(2, replaces=action_id(1), replaces_version=1))
        await bench.pass_time(KEEP)
        assert await gone(bench, leaving(2)) == [action_id(2)]
        assert isinstance(await bench.store.commit(first(3, replaces=action_id(1), replaces_version=1)), Retired)

    async def test_scopes_that_left_over_years_are_each_remembered_for_their_own_time(self, bench: Bench) -> None:
        for number in range(1, 25):
            await bench.store.commit(first(number, Projection(settled=True), scope=f"s{number}"))
            await bench.pass_time(KEEP)
            assert await old(bench) == [action_id(number)]
            assert len(await gone(bench, replace(leaving(number), scope=f"s{number}", aliases=()))) == 1
            for earlier in range(max(1, number - 2), number + 1):  # Settled 2, 4 and 6 days ago.
                assert isinstance(await bench.store.commit(first(100, scope=f"s{earlier}")), Retired), (number, earlier)
        assert isinstance(await bench.store.commit(first(200, OPEN, scope="s1")), Committed)

    async def test_a_scope_can_live_and_leave_again_after_it_was_forgotten(self, bench: Bench) -> None:
        for number in (1, 2):
            done(await bench.store.commit(first(number)))
            await bench.pass_time(KEEP)
            assert await gone(bench, leaving(number)) == [action_id(number)]
            assert isinstance(await bench.store.commit(first(9)), Retired)
            await bench.pass_time(SCOPES)

    async def test_many_leave_at_once_and_each_scope_is_remembered(self, bench: Bench) -> None:
        numbers = range(1, 301)
        slips = [first(n, Projection(settled=True), scope=f"s{n}") for n in numbers]
        await asyncio.gather(*(bench.store.commit(slip) for slip in slips))
        await bench.pass_time(KEEP)
        left = await gone(bench, *(replace(leaving(n), scope=f"s{n}", aliases=()) for n in numbers))
        assert len(left) == 300
        answers = await asyncio.gather(*(bench.store.commit(first(1000 + n, scope=f"s{n}")) for n in numbers))
        assert {type(answer) for answer in answers} == {Retired}

    # ── What nothing looks up any more ────────────────────────────────────────────────────────────────────────────────

    async def test_whoever_claims_what_others_once_claimed_clears_some_of_it_away(self, bench: Bench) -> None:
        now = await bench.now_ms()
        over = Projection(claims={("target", "t"): now + HOUR}, settled=True)
        for number in range(1, 8):
            await bench.store.commit(first(number, replace(over, unresolved=number == 1), scope=""))
        await bench.pass_time(2 * HOUR)
        late = Projection(claims={("target", "t"): now + 9 * HOUR}, settled=True)
        await bench.store.commit(first(8, late, scope=""))
        assert await bench.claimants("target", "t") == [action_id(n) for n in (1, 5, 6, 7, 8)]
