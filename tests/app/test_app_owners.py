"""Several processes on one store, of which one is killed or stopped: what it had in flight (CONTRACT 2.4, DESIGN 3)."""

import asyncio
import contextlib
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from proxy.edges.clock import SystemClock
from tests.app.bench import STATE_KEY, event, reached
from tests.app.served import Served
from tests.conformance.relay import relaying
from tests.conformance.server import Server, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
# Where only the order of things matters and not how long they take.
SHORT_LEASE = "import proxy.app\nproxy.app.LEASE_MS, proxy.app.BEAT_MS = 2_000, 500"
SEND_WITHIN_S = 5.1  # With a connect deadline of 100 ms.


@pytest.fixture
def redis_server() -> Iterator[Server]:
    """A redis-server for this test alone."""
    with running("redis-server", "--appendfsync", "always") as server:
        yield server


@contextlib.asynccontextmanager
async def pair(folder: Path, url: str, second: str, *, code: str = SHORT_LEASE) -> AsyncIterator[tuple[Served, Served]]:
    """Two sidecars before one stand-in, on one store that each reaches by its own URL."""
    more = {"STATE__KEY": f'["{STATE_KEY}"]', "DEADLINES__CONNECT": "100ms"}
    async with Served(folder / "a", more | {"STORE__URL": url}, code=code) as a:
        b = Served(folder / "b", more | {"STORE__URL": second}, code=code, standin=a.standin)
        async with b:
            yield a, b


def tell(bench: Served, number: signal.Signals) -> None:
    assert bench.process is not None
    bench.process.tell(number)


def ms_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


async def test_a_survivor_writes_off_the_dead_within_twenty_seconds_and_never_the_slow(
    tmp_path: Path, redis_server: Server
) -> None:
    async with pair(tmp_path, redis_server.url, redis_server.url, code="") as (dead, survivor):
        faults = [dead.fault("hold_after_commit") for _ in range(2)]
        events = [event(), event()]
        async with await dead.line() as cut, await survivor.line() as slow:
            await slow.send(survivor.refund(survivor.charge(), event=events[0]))
            await reached(faults[0])
            await cut.send(dead.refund(dead.charge(), event=events[1]))
            await reached(faults[1])
            tell(dead, signal.SIGKILL)
            killed_ms = SystemClock().wall_ms()
            [pending] = await survivor.actions(event_id=events[1])
            lost = await survivor.settled(pending["action_id"], "denied_unresolved")
            [living] = await survivor.actions(event_id=events[0])
            for fault in faults:
                fault.release()
            heard = await slow.hear()
        assert (pending["status"], living["status"]) == ("pending", "pending")
        assert (lost["cause"], lost["delivery"], lost["amount"]) == ("proxy_restart", "pending", 5400)
        assert ms_of(lost["unknown_since"]) <= killed_ms + 20_000
        assert (heard.status, (await survivor.action(heard.action_id))["was_unknown"]) == (200, False)
        assert (await survivor.reconcile(lost["action_id"]))["status"] == "confirmed"
        assert survivor.standin.executions() == len(survivor.writes) == 2


async def test_a_restart_writes_off_its_own_before_it_listens_on_a_shared_store_too(
    tmp_path: Path, redis_server: Server
) -> None:
    more = {"STATE__KEY": f'["{STATE_KEY}"]', "STORE__URL": redis_server.url}
    async with Served(tmp_path, more) as bench:
        fault, named = bench.fault("hold_after_commit"), event()
        async with await bench.line() as line:
            await line.send(bench.refund(bench.charge(), event=named))
            await reached(fault)
            assert bench.process is not None
            await bench.process.end(signal.SIGKILL)
        await bench.start()
        [action] = await bench.actions(event_id=named)
        assert (action["status"], action["cause"]) == ("denied_unresolved", "proxy_restart")
        fault.release()
        assert (await bench.reconcile(action["action_id"]))["status"] == "confirmed"
        assert len(bench.writes) == 1


@pytest.mark.parametrize("overtaken", [False, True], ids=["alone", "written off meanwhile"])
async def test_what_was_stopped_between_commit_and_first_byte_sends_nothing_afterwards(
    tmp_path: Path, redis_server: Server, *, overtaken: bool
) -> None:
    async with (
        relaying(redis_server.socket, f"{redis_server.folder}/r") as relay,
        pair(tmp_path, relay.url, redis_server.url, code=SHORT_LEASE if overtaken else "") as (sleeper, other),
    ):
        charge, named = sleeper.charge(), event()
        stopped = asyncio.Event()

        def stop_at_the_first_commit(data: bytes) -> None:
            if named.encode() in data and not stopped.is_set():
                tell(sleeper, signal.SIGSTOP)  # The commit is on its way, and its reply will wait to be read.
                stopped.set()

        relay.on_sent = stop_at_the_first_commit
        async with await sleeper.line() as line:
            await line.send(sleeper.refund(charge, event=named))
            await stopped.wait()
            [action] = await _committed(other, named)
            if overtaken:
                await other.settled(action["action_id"], "denied_unresolved")
            await asyncio.sleep(SEND_WITHIN_S)  # Both clocks of the stopped process go on: there is none to move.
            tell(sleeper, signal.SIGCONT)
            heard = await line.hear()
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (502, "not_sent", "safe")
        assert sleeper.writes == [], "not a byte of it, whole or in part"
        failed = await other.settled(action["action_id"], "failed")
        assert (failed["cause"], failed["was_unknown"]) == ("not_sent", overtaken)
        again = await other.refunded(charge, event=named)
        assert (again.status, again.action_id, len(other.writes)) == (200, action["action_id"], 1)


async def _committed(bench: Served, named: str) -> "list[dict[str, object]]":
    while not (found := await bench.actions(event_id=named)):
        pass
    return found


@pytest.mark.parametrize("answered", ["while it was stopped", "after it went on"])
@pytest.mark.parametrize("first", ["the written-off", "the record", "the owner"])
async def test_an_owner_that_was_overtaken_while_it_waited_delivers_its_answer_as_evidence(
    tmp_path: Path, redis_server: Server, first: str, answered: str
) -> None:
    code = "" if first == "the owner" else SHORT_LEASE
    async with pair(tmp_path, redis_server.url, redis_server.url, code=code) as (sleeper, other):
        fault, named = sleeper.fault("hold_after_commit"), event()
        async with await sleeper.line() as line:
            await line.send(sleeper.refund(sleeper.charge(), event=named))
            await reached(fault)
            [action] = await other.actions(event_id=named)
            tell(sleeper, signal.SIGSTOP)
            if answered == "while it was stopped":
                fault.release()
            if first != "the owner":
                written_off = await other.settled(action["action_id"], "denied_unresolved")
                assert written_off["cause"] == "proxy_restart"
            if first == "the record":
                assert (await other.reconcile(action["action_id"]))["status"] == "confirmed"
            tell(sleeper, signal.SIGCONT)
            fault.release()
            heard = await line.hear()
        assert (heard.status, heard.json["id"]) == (200, other.standin.refunds()[0]["id"])
        settled = await other.settled(action["action_id"], "confirmed")
        assert (settled["was_unknown"], settled["contradicted"]) == (first != "the owner", False)
        sources = {
            "the written-off": ["transport", "late_response"],
            "the record": ["transport", "read_back", "late_response"],
            "the owner": ["response"],
        }
        assert [piece["source"] for piece in settled["evidence"]] == sources[first]
        assert settled["unknown_cause"] == (None if first == "the owner" else "proxy_restart")
        assert other.standin.executions() == len(other.writes) == 1
        assert (await other.admin("GET", "exposure")).json["data"] == []


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_what_lay_in_a_stopped_process_is_not_sent_once_its_agent_was_answered_elsewhere(
    tmp_path: Path, redis_server: Server, how: str
) -> None:
    async with pair(tmp_path, redis_server.url, redis_server.url, code="") as (sleeper, other):
        charge = sleeper.charge()
        tell(sleeper, signal.SIGSTOP)
        line = await sleeper.line()
        await line.send(sleeper.refund(charge, key=str(uuid.uuid4())))
        getattr(line, how)()
        heard = await other.refunded(charge, key=str(uuid.uuid4()))
        await asyncio.sleep(0.2)  # It is on the clocks of the stopped process that it was stopped.
        tell(sleeper, signal.SIGCONT)
        await sleeper.refunded(sleeper.charge(), event=event())  # Taken up after what lay there.
        assert heard.status == 200
        assert [action["action_id"] for action in await other.actions()][1:] == [heard.action_id]
        assert len(sleeper.writes) == 2


async def test_an_agent_that_was_cut_off_with_its_sidecar_and_rewords_at_another_sends_nothing(
    tmp_path: Path, redis_server: Server
) -> None:
    async with pair(tmp_path, redis_server.url, redis_server.url) as (dead, survivor):
        fault, charge = dead.fault("hold_after_commit"), dead.charge()
        async with await dead.line() as line:
            await line.send(dead.refund(charge, key=str(uuid.uuid4())))
            await reached(fault)
            tell(dead, signal.SIGKILL)
            await line.rest()
        heard = await survivor.refunded(charge, key=str(uuid.uuid4()), amount="5399")
        assert (heard.status, heard.code) == (423, "suspected_duplicate")
        fault.release()
        assert (await survivor.reconcile(heard.action_id))["status"] == "confirmed"
        assert survivor.standin.executions() == len(survivor.writes) == 1
