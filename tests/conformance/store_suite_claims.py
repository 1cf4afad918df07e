"""Claims: what a creation must not find (CONTRACT 2.3), looked up and made in the same step."""

import asyncio

from msgspec.structs import replace

from proxy.core.model import FOREVER_MS
from proxy.core.records import WAITED_FOR_MS, Projection, Slip
from proxy.ports import Committed, Conflict
from tests.conformance.bench import HOUR, MINUTE, Bench
from tests.conformance.store_suite_commit import done, in_the_way
from tests.fakes.actions import action_id, change, creation, make_action

BY_PAYLOAD = (("payload", ("p",)),)
EVERY_WAY = (("alias", ("a",)), ("payload", ("p",)), ("target", ("t",)))


def standing(until_ms: int, *, kind: str = "payload", digest: str = "p", unresolved: bool = False) -> Projection:
    """Return what follows from an action that others find under one claim until then."""
    return Projection(claims={(kind, digest): until_ms}, index=frozenset({"all"}), unresolved=unresolved)


def claiming(number: int, until_ms: int, *, unresolved: bool = False) -> Slip:
    """Return the creation of an action that stands under the payload claim `p`."""
    return creation(make_action(number), projection=standing(until_ms, unresolved=unresolved))


def asking(number: int, *lookups: tuple[str, tuple[str, ...]]) -> Slip:
    """Return the creation of an action that claims nothing, where the lookups find nothing."""
    return creation(make_action(number), projection=Projection(index=frozenset({"all"})), lookups=lookups)


def waited_for(number: int, *, by: str) -> Slip:
    """Return the creation of an action whose asker is known to be there by its owner alone."""
    return creation(
        make_action(number), projection=replace(standing(WAITED_FOR_MS, kind="target", digest="t"), owner=by)
    )


def at_target(number: int, instance: str) -> Slip:
    """Return the creation of an action at the same target that an instance would await; "": one that is not sent."""
    slip = asking(number, ("target", ("t",)))
    return replace(slip, after=replace(slip.after, owner=instance))


class Claims:
    """Scope, alias, payload and target."""

    async def test_one_scope_has_one_action(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), scope="s"))
        before = await bench.contents()
        assert in_the_way(await bench.other.commit(creation(make_action(2), scope="s"))) == (action_id(1), "scope")
        assert await bench.contents() == before

    async def test_a_live_claim_stands_in_the_way_and_names_its_action(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        for number, kind in enumerate(("alias", "payload", "target"), start=1):
            await bench.store.commit(creation(make_action(number), projection=standing(later, kind=kind, digest="x")))
        before = await bench.contents()
        for number, kind in enumerate(("alias", "payload", "target"), start=1):
            answer = await bench.other.commit(asking(9, (kind, ("x",))))
            assert in_the_way(answer) == (action_id(number), kind)
        assert await bench.contents() == before

    async def test_kinds_of_claims_are_worlds_apart(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        await bench.store.commit(creation(make_action(1), projection=standing(later, kind="target", digest="x")))
        done(await bench.store.commit(asking(2, ("alias", ("x",)), ("payload", ("x",)))))

    async def test_the_conflict_shows_the_action_as_it_has_become(self, bench: Bench) -> None:
        first = claiming(1, FOREVER_MS)
        await bench.store.commit(first)
        now = replace(first.action, needs_operator=True)
        await bench.store.commit(change(first, now, projection=first.after))
        answer = await bench.other.commit(asking(2, *BY_PAYLOAD))
        assert answer == Conflict(now, 2, answer.now_ms, "payload")

    async def test_lookups_are_made_in_their_order_and_the_scope_comes_first(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        await bench.store.commit(creation(make_action(1), scope="s", projection=Projection()))
        for number, (kind, (digest,)) in enumerate(EVERY_WAY, start=2):
            claim = standing(later, kind=kind, digest=digest)
            await bench.store.commit(creation(make_action(number), projection=claim))

        slip = asking(9, *EVERY_WAY)
        slips = [replace(slip, scope="s"), slip, asking(9, *EVERY_WAY[1:]), asking(9, *EVERY_WAY[2:])]
        found = [in_the_way(await bench.store.commit(slip)) for slip in slips]

        assert found == [(action_id(n), via) for n, via in enumerate(("scope", "alias", "payload", "target"), start=1)]

    async def test_a_change_may_look_too_and_nothing_stands_in_its_own_way(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        target = standing(later, kind="target", digest="x")
        first = creation(make_action(1), projection=target)
        await bench.store.commit(first)
        alone = change(first, projection=target, lookups=(("target", ("x",)),))
        done(await bench.store.commit(alone))
        await bench.store.commit(creation(make_action(2), projection=target))

        beside = change(alone, projection=target, lookups=(("target", ("x",)),))

        assert in_the_way(await bench.other.commit(beside)) == (action_id(2), "target")
        assert in_the_way(await bench.store.commit(asking(9, ("target", ("x",))))) == (action_id(1), "target")

    async def test_what_it_replaces_does_not_stand_in_the_way_of_a_new_run(self, bench: Bench) -> None:
        later = await bench.now_ms() + HOUR
        target = standing(later, kind="target", digest="x")
        await bench.store.commit(creation(make_action(1), scope="s", projection=target))
        looking = (("target", ("x",)),)
        run = creation(
            make_action(2), scope="s", replaces=action_id(1), replaces_version=1, projection=target, lookups=looking
        )
        done(await bench.store.commit(run))
        assert in_the_way(await bench.store.commit(asking(9, ("target", ("x",))))) == (action_id(1), "target")

    async def test_a_lookup_under_several_keys_finds_what_any_of_them_made(self, bench: Bench) -> None:
        await bench.store.commit(claiming(1, FOREVER_MS))
        await bench.store.commit(creation(make_action(2), projection=standing(FOREVER_MS, kind="alias", digest="a")))
        rotated = asking(9, ("payload", ("p-new", "p-middle", "p")))
        assert in_the_way(await bench.store.commit(rotated)) == (action_id(1), "payload")
        rotated = asking(9, ("alias", ("a-new", "a")))
        assert in_the_way(await bench.store.commit(rotated)) == (action_id(2), "alias")

    async def test_an_alias_names_the_first_action_for_good(self, bench: Bench) -> None:
        claim = Projection(claims={("alias", "a"): FOREVER_MS})
        await bench.store.commit(creation(make_action(1), projection=claim))
        done(await bench.store.commit(creation(make_action(2), projection=claim)))
        assert in_the_way(await bench.store.commit(asking(3, ("alias", ("a",))))) == (action_id(1), "alias")

    async def test_an_alias_may_come_later_and_go_again(self, bench: Bench) -> None:
        first = creation(make_action(1), projection=Projection())
        with_alias = change(first, projection=Projection(claims={("alias", "a"): FOREVER_MS}))
        without = change(with_alias, projection=Projection())
        await bench.store.commit(first)
        await bench.store.commit(with_alias)
        assert in_the_way(await bench.store.commit(asking(2, ("alias", ("a",))))) == (action_id(1), "alias")
        await bench.store.commit(without)
        done(await bench.store.commit(asking(2, ("alias", ("a",)))))

    async def test_an_action_does_not_drop_the_alias_of_another(self, bench: Bench) -> None:
        claim = Projection(claims={("alias", "a"): FOREVER_MS})
        second = creation(make_action(2), projection=claim)
        await bench.store.commit(creation(make_action(1), projection=claim))
        await bench.store.commit(second)
        await bench.store.commit(change(second, projection=Projection()))
        assert in_the_way(await bench.store.commit(asking(3, ("alias", ("a",))))) == (action_id(1), "alias")

    # ── Claims end ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def test_an_expired_claim_of_a_settled_action_lets_others_pass_and_is_pruned(self, bench: Bench) -> None:
        await bench.store.commit(claiming(1, await bench.now_ms() + MINUTE))
        await bench.store.commit(claiming(2, FOREVER_MS))
        assert in_the_way(await bench.store.commit(asking(3, *BY_PAYLOAD)))[0] == action_id(1)
        await bench.pass_time(MINUTE + 1)
        assert in_the_way(await bench.store.commit(asking(3, *BY_PAYLOAD)))[0] == action_id(2)

        await bench.store.commit(change(claiming(2, FOREVER_MS), projection=Projection()))
        assert await bench.claimants("payload", "p") == [action_id(1)]
        assert done(await bench.store.commit(asking(3, *BY_PAYLOAD))).stale is None
        assert await bench.claimants("payload", "p") == []

    async def test_an_expired_claim_of_an_unresolved_action_is_told_as_stale_and_stays(self, bench: Bench) -> None:
        first = claiming(1, await bench.now_ms() - MINUTE, unresolved=True)
        await bench.store.commit(first)
        assert done(await bench.store.commit(asking(2, *BY_PAYLOAD))).stale == action_id(1)
        assert done(await bench.store.commit(asking(3, *BY_PAYLOAD))).stale == action_id(1)

        await bench.store.commit(change(first, projection=standing(first.after.claims["payload", "p"])))
        assert done(await bench.store.commit(asking(4, *BY_PAYLOAD))).stale is None
        assert await bench.claimants("payload", "p") == []

    async def test_only_the_same_payload_is_told_as_stale(self, bench: Bench) -> None:
        past = await bench.now_ms() - MINUTE
        gone = standing(past, kind="target", digest="t", unresolved=True)
        await bench.store.commit(creation(make_action(1), projection=gone))
        assert done(await bench.store.commit(asking(2, ("target", ("t",))))).stale is None
        assert await bench.claimants("target", "t") == [action_id(1)]

    async def test_what_is_told_as_stale_is_told_again_when_the_commit_is_sent_again(self, bench: Bench) -> None:
        await bench.store.commit(claiming(1, await bench.now_ms() - MINUTE, unresolved=True))
        slip = asking(2, *BY_PAYLOAD)
        assert await bench.store.commit(slip) == await bench.other.commit(slip)
        assert done(await bench.store.commit(slip)).stale == action_id(1)

    async def test_a_claim_lives_until_its_moment_and_not_into_it(self, bench: Bench) -> None:
        await bench.store.commit(claiming(1, await bench.now_ms()))
        done(await bench.store.commit(asking(2, *BY_PAYLOAD)))

    async def test_a_refused_creation_prunes_nothing(self, bench: Bench) -> None:
        await bench.store.commit(claiming(1, await bench.now_ms() - MINUTE))
        await bench.store.commit(creation(make_action(2), projection=standing(FOREVER_MS, kind="target", digest="t")))
        before = await bench.contents()
        assert in_the_way(await bench.store.commit(asking(3, *EVERY_WAY))) == (action_id(2), "target")
        assert await bench.contents() == before

    async def test_an_action_moves_and_drops_its_own_claim(self, bench: Bench) -> None:
        now = await bench.now_ms()
        first = claiming(1, FOREVER_MS)
        shorter = change(first, projection=standing(now + MINUTE))
        await bench.store.commit(first)
        await bench.store.commit(shorter)
        assert in_the_way(await bench.store.commit(asking(2, *BY_PAYLOAD)))[0] == action_id(1)
        await bench.pass_time(MINUTE + 1)
        done(await bench.store.commit(asking(2, *BY_PAYLOAD)))

        again = change(shorter, projection=standing(FOREVER_MS))
        await bench.store.commit(again)
        assert in_the_way(await bench.store.commit(asking(3, *BY_PAYLOAD)))[0] == action_id(1)
        await bench.store.commit(change(again, projection=Projection()))
        done(await bench.store.commit(asking(3, *BY_PAYLOAD)))

    async def test_two_actions_under_one_claim_come_and_go_each_by_itself(self, bench: Bench) -> None:
        for kind, lookups in (("payload", BY_PAYLOAD), ("target", (("target", ("p",)),))):
            base = 10 if kind == "payload" else 20
            slips = [creation(make_action(base + n), projection=standing(FOREVER_MS, kind=kind)) for n in (1, 2)]
            for slip in slips:
                await bench.store.commit(slip)
            assert sorted(await bench.claimants(kind, "p")) == [action_id(base + 1), action_id(base + 2)]
            await bench.store.commit(change(slips[0], projection=Projection()))
            assert in_the_way(await bench.store.commit(asking(9, *lookups))) == (action_id(base + 2), kind)
            await bench.store.commit(change(slips[1], projection=Projection()))
            done(await bench.store.commit(asking(base + 5, *lookups)))

    # ── Elsewhere ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def test_what_is_waited_for_stands_only_in_the_way_of_another_instance(self, bench: Bench) -> None:
        await bench.store.commit(waited_for(1, by="i1"))
        before = await bench.contents()
        assert in_the_way(await bench.other.commit(at_target(2, "i2"))) == (action_id(1), "elsewhere")
        assert await bench.contents() == before
        done(await bench.other.commit(at_target(3, "")))
        done(await bench.store.commit(at_target(4, "i1")))
        assert await bench.claimants("target", "t") == [action_id(1)]

    async def test_it_stands_in_the_way_until_its_owner_has_shown_that_it_lives(self, bench: Bench) -> None:
        await bench.store.beat("i1", MINUTE)
        await bench.store.commit(waited_for(1, by="i1"))
        asked = await bench.now_ms()
        asking_on = replace(at_target(2, "i2"), alive_until_ms=asked + 2 * MINUTE)
        assert in_the_way(await bench.other.commit(asking_on)) == (action_id(1), "elsewhere")
        await bench.store.beat("i2", HOUR)
        assert in_the_way(await bench.other.commit(asking_on)) == (action_id(1), "elsewhere")
        await bench.store.beat("i1", HOUR)
        done(await bench.other.commit(asking_on))

    async def test_what_nobody_awaits_any_more_stands_there_no_longer(self, bench: Bench) -> None:
        first = waited_for(1, by="i1")
        await bench.store.commit(first)
        await bench.store.commit(change(first, projection=standing(WAITED_FOR_MS, kind="target", digest="t")))
        done(await bench.other.commit(at_target(2, "i2")))

    # ── All in one step ───────────────────────────────────────────────────────────────────────────────────────────────

    async def test_twenty_creations_with_twenty_keys_and_one_payload_are_one_action(self, bench: Bench) -> None:
        slips = [
            creation(
                make_action(n, payload="p", aliases=(f"a{n}",)),
                scope=f"s{n}",
                lookups=(("alias", (f"a{n}",)), *BY_PAYLOAD),
            )
            for n in range(1, 21)
        ]
        stores = [bench.store, bench.other] * 10
        answers = await asyncio.gather(*(store.commit(slip) for store, slip in zip(stores, slips, strict=True)))

        won = [slip for slip, answer in zip(slips, answers, strict=True) if isinstance(answer, Committed)]
        assert len(won) == 1
        lost = [in_the_way(answer) for answer in answers if not isinstance(answer, Committed)]
        assert lost == [(won[0].action.action_id, "payload")] * 19
