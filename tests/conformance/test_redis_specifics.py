"""What only a store behind a wire can do: lose a reply, forget a script, restart. On Redis and on Valkey."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from datetime import date
from importlib import resources
from pathlib import Path

import pytest
from redis.asyncio import Redis

from proxy.core.records import Period, Projection, period_label
from proxy.edges.clock import SystemClock
from proxy.edges.store.client import RedisStore
from proxy.edges.store.topology import SingleShard
from proxy.ports import Committed, StoreUnavailable
from tests.conformance.bench import DAY, HOUR
from tests.conformance.redis_bench import RedisBench
from tests.conformance.relay import Relay, relaying
from tests.conformance.server import PATIENCE_S, Server, running, valkey_binary
from tests.conformance.store_suite_commit import done
from tests.conformance.store_suite_limits import room
from tests.conformance.store_suite_queue import due
from tests.fakes.actions import action_id, change, creation, make_action

SCRIPTS = {p.name: p.read_text() for p in resources.files("proxy.edges.store").iterdir() if p.name.endswith(".lua")}


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> Server:
    """Either server."""
    found: Server = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
async def relay(server: Server, tmp_path: Path) -> AsyncIterator[Relay]:
    async with relaying(server.socket, str(tmp_path / "r")) as relay:
        yield relay


@pytest.fixture
def store(bench: RedisBench, relay: Relay) -> RedisStore:
    """The bench's ledger, behind the relay."""
    return bench.instance(SingleShard(relay.url, answer_s=5.0))


async def calls(client: Redis, command: str) -> int:
    """Return how often the server has carried out a command."""
    stats = await client.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


# ── A reply that is lost ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_lost_reply_is_said_and_the_commit_sent_again_answers_and_is_applied_once(
    bench: RedisBench, relay: Relay, store: RedisStore
) -> None:
    warm = done(await store.commit(creation(make_action(1))))
    slip = creation(make_action(2), scope="s", reserve=(room(60),))
    before = await calls(bench.client, "evalsha")

    relay.lose_next_reply()
    with pytest.raises(StoreUnavailable):
        await store.commit(slip)

    assert await calls(bench.client, "evalsha") == before + 1, "the client repeats nothing by itself"
    assert await bench.store.get(action_id(2)) is not None, "it was applied all the same"
    again = done(await store.commit(slip))
    assert (again.version, again.sequence) == (1, warm.sequence + 1)
    assert (await bench.store.limit_use([room(0)]))[0].reserved == 60


async def test_a_read_whose_reply_is_lost_is_not_repeated(bench: RedisBench, relay: Relay, store: RedisStore) -> None:
    await store.get(action_id(1))
    before = await calls(bench.client, "hget")
    relay.lose_next_reply()
    with pytest.raises(StoreUnavailable):
        await store.get(action_id(1))
    assert await calls(bench.client, "hget") == before + 1
    assert await store.get(action_id(1)) is None


async def test_a_lost_reply_fails_everybody_whose_command_travelled_along(relay: Relay, store: RedisStore) -> None:
    await store.get(action_id(1))
    relay.lose_next_reply()
    asked = [store.commit(creation(make_action(n))) for n in range(1, 6)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 5


async def test_a_reply_that_comes_too_late_is_not_taken_for_the_next_one(bench: RedisBench, relay: Relay) -> None:
    store = bench.instance(SingleShard(relay.url, answer_s=0.2))
    first, second = creation(make_action(1)), creation(make_action(2))
    await store.get(action_id(1))
    relay.hold_next_reply()
    with pytest.raises(StoreUnavailable):
        await store.commit(first)
    relay.release()
    await store.commit(second)
    stored = await store.get(action_id(2))
    assert stored is not None
    assert stored.action == second.action


async def test_a_repeated_commit_does_not_turn_the_clock_back(bench: RedisBench, server: Server) -> None:
    class Heard(SystemClock):
        """Remembers what it was told."""

        def heard(self, store_ms: int, asked_monotonic_ms: int) -> None:
            told.append(store_ms)
            super().heard(store_ms, asked_monotonic_ms)

    told: list[int] = []
    store = bench.instance(SingleShard(server.url), Heard())
    slip = creation(make_action())
    first = done(await store.commit(slip))
    while await bench.now_ms() <= first.now_ms:
        pass
    assert await store.commit(slip) == first
    assert told[0] == first.now_ms < told[1]


# ── A server that is not there, that forgets its scripts, that restarts ───────────────────────────────────────────────


async def test_a_server_that_is_not_there_is_said(bench: RedisBench, tmp_path: Path) -> None:
    store = bench.instance(SingleShard(f"unix://{tmp_path / 'nobody'}"))
    for ask in (store.commit(creation(make_action())), store.get(action_id(1)), store.exposure(), store.beat("i", 1)):
        with pytest.raises(StoreUnavailable):
            await ask


async def test_scripts_that_the_server_has_forgotten_are_taught_again_and_run_once(bench: RedisBench) -> None:
    first = creation(make_action(1), projection=Projection())
    sequence = done(await bench.store.commit(first)).sequence
    await bench.client.script_flush()

    past = await bench.now_ms() - DAY
    later = [*(due(n, past) for n in range(2, 8)), change(first, projection=Projection())]
    answers = await asyncio.gather(*(bench.store.commit(slip) for slip in later), bench.other.beat("i1", HOUR))

    assert sorted(done(a).sequence for a in answers if isinstance(a, Committed)) == [sequence + n for n in range(1, 8)]
    await bench.client.script_flush()
    assert len(await bench.store.claim_due(HOUR, 10)) == 6


@pytest.mark.parametrize("name", ["redis", "valkey"])
async def test_a_killed_server_comes_back_with_everything_it_acknowledged(name: str) -> None:
    binary = shutil.which("redis-server") if name == "redis" else valkey_binary()
    with running(binary, "--appendfsync", "always") as server:
        bench = RedisBench(server.url)
        first = creation(make_action(1), scope="s", reserve=(room(60),), keep={"request": b"\x00\xff"})
        last = change(first)
        committed = [await bench.store.commit(first), await bench.store.commit(last)]
        before = await bench.contents()

        server.kill()
        with pytest.raises(StoreUnavailable):
            await bench.store.commit(change(last))
        server.start()

        assert await bench.contents() == before
        assert [await bench.store.commit(first), await bench.store.commit(last)] == committed
        assert done(await bench.store.commit(change(last))).sequence == done(committed[1]).sequence + 1
        await bench.close()


# ── The lane ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_asked_in_one_turn_of_the_loop_travels_as_one(relay: Relay, store: RedisStore) -> None:
    await store.get(action_id(1))
    relay.sent.clear()
    await asyncio.gather(*(store.get(action_id(n)) for n in range(20)))
    assert [piece.count(b"HGET") for piece in relay.sent] == [20]
    assert relay.connections == 1


async def test_what_is_asked_meanwhile_travels_together_next(relay: Relay, store: RedisStore) -> None:
    async def one_by_one() -> None:
        await store.get(action_id(1))
        await asyncio.gather(*(store.get(action_id(n)) for n in range(5)))

    await store.get(action_id(1))
    relay.sent.clear()
    await asyncio.gather(*(one_by_one() for _ in range(4)))
    assert [piece.count(b"HGET") for piece in relay.sent] == [4, 20]


async def test_an_asker_that_gives_up_takes_nothing_from_the_others(bench: RedisBench) -> None:
    asked = [bench.tasks.spawn(bench.store.commit(creation(make_action(n))), str(n)) for n in range(1, 6)]
    await asyncio.sleep(0)
    asked[2].cancel()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(a) for a in answers] == [Committed, Committed, asyncio.CancelledError, Committed, Committed]
    assert await bench.store.get(action_id(3)) is not None, "it was on its way: given up is unknown, not undone"


async def test_nobody_waits_for_ever_where_the_lane_breaks(bench: RedisBench) -> None:
    class Broken(SingleShard):
        """Fails as nothing that is foreseen does."""

        async def client(self) -> Redis:
            raise LookupError("no server of that name")

    store = bench.instance(Broken("redis://h"))
    async with asyncio.timeout(PATIENCE_S):
        answers = await asyncio.gather(*(store.get(action_id(n)) for n in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 3


async def test_a_server_s_refusal_is_told_without_what_it_quotes(bench: RedisBench) -> None:
    await bench.client.set(bench.key("claims"), "not a hash")
    with pytest.raises(StoreUnavailable, match=r"^[A-Za-z]+: [A-Za-z]+$"):
        await bench.store.find("scope", "s")


# ── Keys and periods ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_all_keys_of_a_ledger_share_one_hash_tag_and_none_expires(bench: RedisBench) -> None:
    slip = creation(make_action(1, payload="p"), scope="s", reserve=(room(60),), keep={"request": b"x"})
    await bench.store.commit(slip)
    await bench.store.beat("i1", HOUR)
    await bench.store.commit(due(2, await bench.now_ms() - DAY))
    await bench.store.claim_due(HOUR, 10)
    keys = [key async for key in bench.client.scan_iter(match=f"*{bench.ledger}*")]
    assert len(keys) == 9 - 1  # All structures but the exposure: nothing is unknown.
    assert {key.decode().partition("{")[2].partition("}")[0] for key in keys} == {bench.ledger}
    assert {await bench.client.ttl(key) for key in keys} == {-1}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_every_key_that_a_script_touches_is_declared(name: str) -> None:
    text = SCRIPTS[name]
    declared = set(re.findall(r"KEYS\[\d+\]", text))
    declared |= {
        f"{name}[slot]" for name in re.findall(r"^local ([a-z]+) = \{(?:KEYS\[\d+\](?:, )?)+\}$", text, re.MULTILINE)
    }
    for names, values in re.findall(r"^local ([a-z, ]+) = ((?:KEYS\[\d+\](?:, )?)+)$", text, re.MULTILINE):
        declared |= set(names.split(", "))
        assert names.count(",") == values.count(",")
    touched = re.findall(r'redis\.call\("([A-Z]+)"(?:, ([^,()]+))?', text)
    assert len(touched) == text.count("redis.call(")
    assert {key for command, key in touched if command != "TIME"} <= declared


async def test_the_script_s_calendar_is_the_world_s(bench: RedisBench) -> None:
    found = re.search(r"^local function label_of\(.*?^end$", SCRIPTS["commit.lua"], re.MULTILINE | re.DOTALL)
    assert found is not None
    script = (
        f"local out, now = {{}}, 0\n{found[0]}\n"
        "for _, ms in ipairs(ARGV) do now = tonumber(ms)\n"
        "for _, period in ipairs({'day', 'month'}) do out[#out + 1] = label_of(period) end end return out"
    )
    first = [date(year, month, 1) for year in range(1971, 2401) for month in (1, 2, 3, 7)]
    days = [(day - date(1970, 1, 1)).days + n for day in first for n in (-2, -1, 0, 1)]
    moments = [ms for day in days for ms in (day * DAY, (day + 1) * DAY - 1)]
    for start in range(0, len(moments), 2000):
        some = moments[start : start + 2000]
        labels = await bench.client.eval(script, 0, *some)
        expected = [period_label(period, ms) for ms in some for period in (Period.DAY, Period.MONTH)]
        assert [label.decode() for label in labels] == expected
