"""Whatever happens to some actions, in whatever order: what the store adds up is the sum over its records."""

from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.core.events import (
    AskersGone,
    Delivered,
    Event,
    Folded,
    Found,
    Lost,
    Moment,
    Noted,
    OwnerLost,
    Priced,
    ReadBack,
    Redispatched,
    Refused,
    Resolved,
    Responded,
    Suspected,
    Unsendable,
)
from proxy.core.http import Unsent
from proxy.core.lifecycle import step
from proxy.core.model import Action, Amount, Cause, Effect
from proxy.core.records import Filter, Period, Reservation, Slip, project
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear
from proxy.ports import Committed, Conflict, ExposureRow
from tests.conformance.bench import Bench
from tests.fakes.actions import RULES, change, creation, make_action, make_dispatch
from tests.fakes.clock import START_MS

CAP = 2**53 - 1
START = {
    1: make_action(1),
    2: make_action(2, amount=Amount(2**53 - 1 - 10_000, "jpy"), account="live"),
    3: make_action(3, amount=Amount(None, "usd"), payload="p"),
    4: make_action(4, effect=Effect.MESSAGE, provider="resend", amount=Amount()),
}
WHOLE = Reply(status=200, whole=True)


def last(action: Action) -> str:
    """Return the last dispatch's ID."""
    return action.dispatches[-1].dispatch_id


def sent_again(action: Action, n: int) -> Redispatched:
    """Return a dispatch of another payload and amount."""
    identity = replace(action.identity, payload=f"p{n % 3}")
    return Redispatched(make_dispatch(START_MS, f"{last(action)}+"), Amount(n, "usd"), identity)


EVENTS: dict[str, Callable[[Action, int], Event]] = {
    "lost": lambda a, _: Lost(last(a), Cause.TIMEOUT),
    "unsent": lambda a, _: Unsendable(last(a), Unsent.REFUSED),
    "accepted": lambda a, n: Responded(last(a), Accepted((f"re_{n}",), amount=Amount(n, "usd")), WHOLE),
    "accepted without amount": lambda a, _: Responded(last(a), Accepted(), WHOLE),
    "rejected": lambda a, _: Responded(last(a), Rejected(), WHOLE),
    "not executed": lambda a, _: Responded(last(a), Rejected(not_executed=True), WHOLE),
    "unclear": lambda a, _: Responded(last(a), Unclear(Cause.SERVER_ERROR, delivered=True), WHOLE),
    "found": lambda _, n: ReadBack(Found(Accepted((f"re_{n}",), amount=Amount(n, "usd"))), scheduled=True),
    "found failed": lambda _, __: ReadBack(Found(Rejected()), scheduled=False),
    "happened": lambda _, __: Resolved("ann", happened=True, text="seen"),
    "did not happen": lambda _, __: Resolved("ann", happened=False, text="not seen"),
    "owner lost": lambda _, __: OwnerLost("proxy-1"),
    "priced": lambda _, n: Priced(Amount(n, "usd")),
    "refused": lambda _, __: Refused(Cause.PAUSED),
    "folded": lambda _, n: Folded(f"alias-{n}"),
    "delivered": lambda _, __: Delivered(folded=False),
    "askers gone": lambda _, __: AskersGone(),
    "suspected": lambda _, __: Suspected(),
    "noted": lambda _, __: Noted("ann", "hm"),
    "sent again": sent_again,
}
happenings = st.tuples(
    st.sampled_from(sorted(START)), st.sampled_from(sorted(EVENTS)), st.integers(0, 10_000), st.booleans()
)


class Model:
    """What the actions say, added up by hand."""

    def __init__(self) -> None:
        self.slips: dict[int, Slip] = {}
        self.holds: dict[int, tuple[str, int]] = {}  # Bucket and amount in the limit of amounts.

    def take(self, number: int, slip: Slip) -> None:
        """Note what was committed."""
        bucket = str(slip.after.bucket)
        had, amount = self.holds.get(number, ("", 0))
        if slip.reserve:
            had, amount = "reserved", slip.reserve[0].amount
        if bucket == "consumed" != had and slip.action.amount.minor is not None:
            amount = slip.action.amount.minor
        self.slips[number], self.holds[number] = slip, (bucket, amount)

    @property
    def actions(self) -> list[Action]:
        """The actions as they have become."""
        return [slip.action for slip in self.slips.values()]

    def exposure(self) -> list[ExposureRow]:
        """Sum what is unresolved."""
        amounts, counts = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        for action in self.actions:
            if action.unresolved and action.effect is Effect.MONEY:
                amount = action.amount if action.amount.priced else Amount()
                key = (action.identity.provider, action.identity.account, amount.currency or "")
                amounts[key] += amount.minor or 0
                counts[key] += 1
        return [ExposureRow(p, a, c or None, amounts[p, a, c], counts[p, a, c]) for p, a, c in sorted(counts)]

    def use(self) -> tuple[int, int, int]:
        """Sum what the limit of amounts is used for."""
        sums = Counter[str]()
        for bucket, amount in self.holds.values():
            sums[bucket] += amount
        return sums["consumed"], sums["reserved"], sums["unknown"]

    def ids(self, status: str) -> list[str]:
        """Return who has the status, newest first."""
        return sorted((a.action_id for a in self.actions if a.status.value == status), reverse=True)


def limits(action: Action) -> tuple[Reservation, Reservation]:
    """Return what an action asks of a limit of amounts and of one that counts."""
    return (
        Reservation("amounts", Period.TOTAL, CAP, min(action.amount.minor or 0, CAP // 8)),
        Reservation("actions", Period.TOTAL, 10_000, 1, counts=True),
    )


async def check(bench: Bench, model: Model) -> None:
    """Compare everything that is added up and listed with the records."""
    assert await bench.other.exposure() == model.exposure()
    amounts, actions = await bench.other.limit_use(limits(START[1]))
    assert (amounts.consumed, amounts.reserved, amounts.unknown) == model.use()
    buckets = Counter(bucket for bucket, _ in model.holds.values())
    assert (actions.consumed, actions.reserved, actions.unknown) == tuple(
        buckets[b] for b in ("consumed", "reserved", "unknown")
    )
    for status in ("pending", "denied_unresolved", "confirmed", "failed"):
        page = await bench.other.page(Filter(status=status), None, 50)
        assert [stored.action.action_id for stored in page.rows] == model.ids(status)
    for digest in ("p", "p0", "p1", "p2"):
        standing = [s.action.action_id for s in model.slips.values() if ("payload", digest) in s.after.claims]
        assert sorted(await bench.claimants("payload", digest)) == standing
    for slip in model.slips.values():
        stored = await bench.other.get(slip.action.action_id)
        assert stored is not None
        assert (stored.action, stored.version) == (slip.action, slip.expected + 1)


class Histories:
    """What indexes, exposure and limits promise together: they cannot drift from the records."""

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(history=st.lists(happenings, min_size=1, max_size=14))
    async def test_after_any_history_all_sums_and_lists_are_those_of_the_records(
        self, fresh: Callable[[], Bench], history: list[tuple[int, str, int, bool]]
    ) -> None:
        bench, model = fresh(), Model()
        for number, action in START.items():
            slip = creation(action, reserve=limits(action))
            assert isinstance(await bench.store.commit(slip), Committed)
            model.take(number, slip)
        await check(bench, model)
        for moment, (number, name, amount, repeated) in enumerate(history):
            before = model.slips[number]
            event = EVENTS[name](before.action, amount)
            action = step(before.action, event, Moment(START_MS + moment, f"{moment:016x}"), RULES).action
            if action == before.action:
                continue
            reserve = limits(action) if name == "sent again" else ()
            slip = change(before, action, projection=project(action, RULES), reserve=reserve)
            answer = await bench.store.commit(slip)
            assert isinstance(answer, Committed)
            model.take(number, slip)
            if repeated:
                assert await bench.other.commit(slip) == answer
                overtaken = await bench.other.commit(change(before, before.action))
                assert isinstance(overtaken, Conflict)
            await check(bench, model)
