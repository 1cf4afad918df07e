"""Lists and indexes: what is found is what the records say, newest first, page by page."""

import pytest
from msgspec.structs import replace

from proxy.core import identity
from proxy.core.events import Lost, Resolved, Responded
from proxy.core.model import Action, Cause, DeliveryConfirmed, Effect, NotDispatched
from proxy.core.records import Filter, content_digests
from proxy.core.verdict import Accepted, Rejected, Reply
from tests.conformance.bench import Bench
from tests.fakes.actions import action_id, after, change, creation, make_action


async def listed(bench: Bench, chosen: Filter, limit: int = 200) -> list[int]:
    """Return the numbers of all actions that the filter takes, whatever pages they come in."""
    found: list[int] = []
    cursor = None
    while True:
        page = await bench.other.page(chosen, cursor, limit)
        rows = [int(stored.action.action_id[-12:], 16) for stored in page.rows]
        assert len(rows) <= limit
        assert not set(rows) & set(found), "no row comes twice"
        found += rows
        if (cursor := page.cursor) is None:
            return found


async def put(bench: Bench, first: Action, last: Action | None = None) -> Action:
    """Create the action and let it become the last."""
    slip = creation(first)
    await bench.store.commit(slip)
    if last is not None:
        await bench.store.commit(change(slip, last))
    return last or first


def lost(number: int, dispatch: str = "d{}-1") -> Lost:
    """Return the event that makes the action unknown."""
    return Lost(dispatch.format(number), Cause.TIMEOUT)


async def one_of_each(bench: Bench) -> None:
    """Fill the ledger with one action in every state there is."""
    a = {n: make_action(n, ledger=bench.ledger) for n in range(1, 10)}
    a[2] = replace(a[2], identity=replace(a[2].identity, provider="resend", account="default"), effect=Effect.MESSAGE)
    a[3] = make_action(
        3,
        ledger=bench.ledger,
        event_id="Zürich/№ 7",
        account="live/acct_1",
        action_type="stripe.refund.create/welcome",
    )
    accepted, rejected = Accepted(("re_1",)), Rejected()
    await put(bench, a[1])
    await put(bench, a[2], after(a[2], lost(2)))
    await put(bench, a[3], after(a[3], Responded("d3-1", accepted, Reply(status=200, whole=True))))
    await put(bench, a[4], after(a[4], Responded("d4-1", rejected, Reply(status=402, whole=True))))
    await put(bench, a[5], after(a[5], lost(5), Resolved("ann", happened=False, text="no")))
    contrary = Responded("d6-1", accepted, Reply(status=200, whole=True))
    await put(bench, a[6], after(a[6], lost(6), Resolved("ann", happened=False, text="no"), contrary))
    await put(bench, replace(a[7], awaited=False, delivery=NotDispatched(), cause=Cause.LIMIT_EXHAUSTED))
    await put(bench, a[8], replace(after(a[8], lost(8)), needs_operator=True))
    await put(bench, a[9], replace(after(a[9], lost(9)), delivery=DeliveryConfirmed()))


class Lists:
    """What `page` and `find` promise."""

    async def test_a_list_is_newest_first_and_whole(self, bench: Bench) -> None:
        actions = [await put(bench, make_action(n)) for n in (2, 5, 1, 4, 3)]
        page = await bench.other.page(Filter(), None, 50)
        assert [stored.action for stored in page.rows] == sorted(actions, key=lambda a: a.action_id, reverse=True)
        assert {stored.version for stored in page.rows} == {1}
        assert page.cursor is None

    async def test_an_empty_ledger_has_an_empty_list(self, bench: Bench) -> None:
        page = await bench.store.page(Filter(), None, 50)
        assert (page.rows, page.cursor) == ((), None)

    @pytest.mark.parametrize(
        ("chosen", "numbers"),
        [
            (Filter(), [9, 8, 7, 6, 5, 4, 3, 2, 1]),
            (Filter(status="pending"), [1]),
            (Filter(status="unknown"), [9, 8, 2]),
            (Filter(status="denied_unresolved"), [9, 8, 2]),
            (Filter(status="confirmed"), [3]),
            (Filter(status="failed"), [7, 6, 5, 4]),
            (Filter(grade="refused"), [7]),
            (Filter(grade="acknowledged"), [3]),
            (Filter(provider="resend"), [2]),
            (Filter(account="live/acct_1"), [3]),
            (Filter(action_type="stripe.refund.create"), [9, 8, 7, 6, 5, 4, 2, 1]),
            (Filter(action_type="stripe.refund.create/welcome"), [3]),
            (Filter(event_id="Zürich/№ 7"), [3]),
            (Filter(event_id="never"), []),
            (Filter(needs_operator=True), [8]),
            (Filter(needs_operator=False), [9, 7, 6, 5, 4, 3, 2, 1]),
            (Filter(contradicted=True), [6]),
            (Filter(status="unknown", provider="stripe"), [9, 8]),
            (Filter(status="unknown", needs_operator=True, event_id="ticket-8"), [8]),
            (Filter(status="confirmed", needs_operator=True), []),
        ],
        ids=lambda value: repr(value).removeprefix("Filter"),
    )
    async def test_every_field_of_a_filter_must_hold(self, bench: Bench, chosen: Filter, numbers: list[int]) -> None:
        await one_of_each(bench)
        assert await listed(bench, chosen) == numbers
        assert await listed(bench, chosen, limit=1) == numbers
        assert await listed(bench, chosen, limit=2) == numbers

    async def test_paging_has_no_doubles_and_no_gaps_while_others_are_added(self, bench: Bench) -> None:
        for number in range(100, 220):
            await put(bench, make_action(number))
        found: list[str] = []
        cursor, added = None, 300
        while True:
            page = await bench.store.page(Filter(), cursor, 17)
            rows = [stored.action.action_id for stored in page.rows]
            assert not set(rows) & set(found), "no row comes twice"
            found += rows
            if (cursor := page.cursor) is None:
                break
            await put(bench, make_action(added))  # As new ones are: newer than all.
            added += 1
        assert found == [action_id(n) for n in range(219, 99, -1)]

    async def test_a_rare_match_is_found_however_far_down(self, bench: Bench) -> None:
        for number in range(1, 131):
            await put(bench, make_action(number, provider="resend" if number in (1, 65) else "stripe"))
        assert await listed(bench, Filter(provider="resend"), limit=1) == [65, 1]
        assert await listed(bench, Filter(provider="resend"), limit=5) == [65, 1]

    async def test_what_is_settled_leaves_the_list_of_the_unknown(self, bench: Bench) -> None:
        first = creation(make_action(1))
        unknown = change(first, after(first.action, lost(1)))
        settled = change(unknown, after(unknown.action, Resolved("ann", happened=True, text="seen")))
        lists = []
        for slip in (first, unknown, settled):
            await bench.store.commit(slip)
            lists.append([await listed(bench, Filter(status=s)) for s in ("pending", "unknown", "confirmed")])
        assert lists == [[[1], [], []], [[], [1], []], [[], [], [1]]]

    async def test_an_action_is_found_by_event_key_object_and_content(self, bench: Bench) -> None:
        message = {"to": "d1", "subject": "d2"}
        first = make_action(1, event_id="Zürich/№ 7", content=(message, {"to": "d3"}))
        last = after(first, Responded("d1-1", Accepted(("re_1", "re_2")), Reply(status=200, whole=True)))
        await put(bench, first, last)
        await put(bench, make_action(2))

        by = {
            "event": [identity.event_index("default", "Zürich/№ 7")],
            "key": [identity.key_index("default", "stripe", "test", "Zürich/№ 7:stripe.refund.create")],
            "object": [identity.object_index("default", "stripe", o) for o in ("re_1", "re_2")],
            "content": sorted(content_digests(first)),
        }
        for kind, digests in by.items():
            for digest in digests:
                assert await bench.other.find(kind, digest) == (action_id(1),), kind
                assert await bench.other.find(kind, digest[:-1]) == (), "no part of a digest finds anything"

    async def test_all_actions_of_an_event_are_found_oldest_first(self, bench: Bench) -> None:
        for number in (3, 1, 2):
            await put(bench, make_action(number, event_id="ticket", action_type=f"stripe.refund.create/{number}"))
        found = await bench.store.find("event", identity.event_index("default", "ticket"))
        assert found == tuple(action_id(n) for n in (1, 2, 3))

    async def test_a_scope_is_found_by_its_digest_alone(self, bench: Bench) -> None:
        await bench.store.commit(creation(make_action(1), scope="s"))
        assert await bench.other.find("scope", "s") == (action_id(1),)
        assert await bench.other.find("scope", "t") == ()
        assert await bench.other.find("object", "s") == ()

    async def test_what_an_action_no_longer_names_no_longer_finds_it(self, bench: Bench) -> None:
        first = creation(make_action(1))
        named = change(first, replace(first.action, object_ids=("re_1",)))
        unnamed = change(named, first.action)
        digest = identity.object_index("default", "stripe", "re_1")
        found = []
        for slip in (first, named, unnamed):
            await bench.store.commit(slip)
            found.append(await bench.store.find("object", digest))
        assert found == [(), (action_id(1),), ()]
