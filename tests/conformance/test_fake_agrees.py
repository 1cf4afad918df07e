"""The fake and a real server are told the same, whatever it is, and must answer the same: there is one behaviour."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.core.model import FOREVER_MS
from proxy.core.records import NOTHING, Bucket, Filter, Period, Projection, Reservation, Slip
from proxy.core.retirement import Outcome, Retirement
from proxy.ports import Committed, Conflict, Exhausted, Forgotten, Retired
from tests.conformance.bench import HOUR, MINUTE, Bench, MemoryBench
from tests.conformance.redis_bench import Benches, RedisBench, benches_on
from tests.conformance.server import Server
from tests.fakes.actions import action_id, make_action

ACTIONS = range(1, 9)
KINDS = ("alias", "payload", "target")
STEP_MS = 90 * MINUTE  # And all else is an hour: nothing falls due in the very moment it is looked at.
LIMIT = Reservation("limit", Period.TOTAL, 20, 0)

ends = st.sampled_from([-HOUR, HOUR, FOREVER_MS])
projections = st.fixed_dictionaries(
    {
        "claims": st.dictionaries(st.tuples(st.sampled_from(KINDS), st.sampled_from("xy")), ends, max_size=3),
        "index": st.frozensets(st.sampled_from(["object:x", "key:x", "contradicted"]), max_size=2),
        "exposed": st.none() | st.tuples(st.just("p"), st.just("a"), st.sampled_from(["", "usd"]), st.integers(0, 9)),
        "bucket": st.sampled_from([b for b in Bucket if b is not Bucket.NONE]),
        "actual": st.none() | st.integers(0, 30),
        "due_ms": st.none() | st.sampled_from([-HOUR, HOUR]),
        "owner": st.sampled_from(["", "i1", "i2"]),
        "unresolved": st.booleans(),
        "settled": st.booleans(),
    }
)
rooms = st.builds(replace, st.just(LIMIT), amount=st.integers(0, 15), counts=st.booleans())
reservations = st.just(()) | st.tuples(rooms)
looked_up = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([("x",), ("y", "x")])), max_size=3)
operations = st.one_of(
    st.fixed_dictionaries(
        {
            "do": st.just("create"),
            "number": st.sampled_from(ACTIONS),
            "projection": projections,
            "scope": st.sampled_from(["", "s"]),
            "lookups": looked_up,
            "replaces": st.sampled_from([0, 0, 1, 2, 3]),
            "replaces_version": st.integers(1, 2),
            "reserve": reservations,
        }
    ),
    st.fixed_dictionaries(
        {
            "do": st.just("change"),
            "which": st.integers(0, 50),
            "projection": projections,
            "ahead": st.sampled_from([0, 0, 0, 1]),
            "lookups": st.just([]) | looked_up.map(lambda found: [(k, d) for k, d in found if k != "alias"]),
            "reserve": reservations,
            "keep": st.booleans(),
        }
    ),
    st.fixed_dictionaries({"do": st.just("again"), "which": st.integers(0, 50)}),
    st.fixed_dictionaries({"do": st.sampled_from(["claim", "pass", "retire"])}),
    st.fixed_dictionaries({"do": st.sampled_from(["beat", "bury"]), "instance": st.sampled_from(["i1", "i2"])}),
)


class Teller:
    """Tells one store what happens, in its own time, and notes what it answers."""

    def __init__(self, bench: Bench, start_ms: int, *, runs: bool) -> None:
        self.bench = bench
        self.start_ms = start_ms
        self.runs = runs  # Does its clock move when time passes, or is what is stored made older?
        self.passed_ms = 0
        self.slips: list[Slip] = []
        self.last: dict[int, Slip] = {}

    @property
    def now_ms(self) -> int:
        """What the store's clock shows, by and large."""
        return self.start_ms + (self.passed_ms if self.runs else 0)

    async def tell(self, op: dict[str, Any], number: int) -> object:
        """Carry out one operation; return what it answered, but for times."""
        match op["do"]:
            case "create" | "change":
                return await self.commit(self.slip(op, f"c{number}"))
            case "again":
                return await self.commit(self.slips[op["which"] % len(self.slips)], again=True) if self.slips else None
            case "claim":
                return sorted((s.action.action_id, s.version) for s in await self.bench.store.claim_due(HOUR, 100))
            case "pass":
                await self.pass_time()
            case "retire":
                return await self.retire()
            case "beat":
                return await self.bench.store.beat(op["instance"], HOUR) > 0
            case _:
                await self.bench.store.bury(op["instance"])
        return None

    def slip(self, op: dict[str, Any], commit_id: str) -> Slip:
        """Return the commit that the operation describes."""
        known = sorted(self.last) or [1]
        number = op["number"] if op["do"] == "create" else known[op["which"] % len(known)]
        action = make_action(number)
        told = dict(op["projection"])
        told["claims"] = {
            key: FOREVER_MS if key[0] == "alias" or end == FOREVER_MS else self.now_ms + end
            for key, end in told["claims"].items()
        }
        told["index"] = told["index"] | {"all", *(["status:pending"] if told["owner"] else [])}
        told["due_ms"] = None if told["due_ms"] is None else self.now_ms + told["due_ms"]
        base = Slip(commit_id, action, 0, NOTHING, Projection(**told), reserve=op["reserve"])
        if op["do"] == "create":
            named = action_id(op["replaces"]) if op["replaces"] else ""
            lookups, version = tuple(op["lookups"]), op["replaces_version"]
            return replace(base, scope=op["scope"], lookups=lookups, replaces=named, replaces_version=version)
        last = self.last.get(number)
        before, version = (last.after, last.expected + 1) if last is not None else (NOTHING, 1)
        kept = {"keep": {"request": b"\xff"}} if op["keep"] else {"drop": ("request",)}
        return replace(base, before=before, expected=version + op["ahead"], lookups=tuple(op["lookups"]), **kept)

    async def commit(self, slip: Slip, *, again: bool = False) -> object:
        """Commit, and note what was written."""
        try:
            answer = await self.bench.store.commit(slip)
        except Forgotten:
            return "forgotten"
        match answer:
            case Committed(version, _, sequence, stale):
                if not again:
                    self.slips.append(slip)
                    self.last[int(slip.action.action_id[-12:], 16)] = slip
                return version, sequence, stale
            case Conflict(current, version, _, via):
                return current.action_id, version, via
            case Exhausted(limit, available):
                return limit, available
            case Retired(outcome, via):
                return outcome, via

    async def retire(self) -> object:
        """Let leave what has been settled for an hour."""
        old = await self.bench.store.settled("i1", HOUR, HOUR, 100)
        leaving = []
        for stored in old:
            slip = self.last[int(stored.action.action_id[-12:], 16)]
            claims = slip.after.claims
            aliases = tuple(digest for kind, digest in claims if kind == "alias")
            others = tuple(key for key in claims if key[0] != "alias")
            told = (stored.action.action_id, stored.version, Outcome.HAPPENED, "s", aliases, others, slip.after.index)
            leaving.append(Retirement(*told))
        return sorted(s.action.action_id for s in old), sorted(await self.bench.store.retire(leaving, HOUR, 5 * HOUR))

    async def pass_time(self) -> None:
        """Let time pass; where what is stored is made older instead, so is what we know of it."""
        await self.bench.pass_time(STEP_MS)
        self.passed_ms += STEP_MS
        if not self.runs:
            for number, slip in self.last.items():
                claims = {k: u if u == FOREVER_MS else u - STEP_MS for k, u in slip.after.claims.items()}
                self.last[number] = replace(slip, after=replace(slip.after, claims=claims))

    async def sight(self) -> object:
        """Return everything that can be read, but for times."""
        store = self.bench.store
        ids = [action_id(n) for n in ACTIONS]
        return {
            "records": [await store.get(i) for i in ids],
            "kept": [await store.kept(i, "request") for i in ids],
            "scope": await store.find("scope", "s"),
            "index": [await store.find(kind, "x") for kind in ("object", "key")],
            "claims": [sorted(await self.bench.claimants(k, d)) for k in KINDS[1:] for d in "xy"],
            "exposure": await store.exposure(),
            "limit": await store.limit_use([LIMIT]),
            "page": await store.page(Filter(), None, 3),
            "due": await store.due_count(),
        }


@pytest.fixture
async def fresh(redis_server: Server) -> Benches:
    async for fresh in benches_on(redis_server):
        yield fresh


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(told=st.lists(operations, min_size=15, max_size=40))
async def test_whatever_they_are_told_both_answer_the_same(
    fresh: Callable[[], RedisBench], told: list[dict[str, Any]]
) -> None:
    memory, real = MemoryBench(), fresh()
    tellers = [
        Teller(memory, await memory.now_ms(), runs=True),
        Teller(real, await real.now_ms(), runs=False),
    ]
    for number, op in enumerate(told):
        answers = [await teller.tell(op, number) for teller in tellers]
        assert answers[0] == answers[1], op
    assert await tellers[0].sight() == await tellers[1].sight()
