"""The store does not answer: what is not recorded first is not sent, and what was seen is not lost (DESIGN 3)."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.app import Refused
from proxy.edges import sampler
from tests.app.bench import SECRET, STATE_KEY, event, eventually, nothing_sent, reached
from tests.app.rig import Rig
from tests.app.served import Served
from tests.conformance.server import Server, running

pytestmark = pytest.mark.asyncio(loop_scope="module")
AUTH = {"Authorization": f"Bearer {SECRET}"}
OTHER_KEY = "YW5vdGhlciBzdGF0ZSBrZXkgb2YgMzIgYnl0ZXMhISE"


@pytest.fixture
def redis_server() -> Iterator[Server]:
    """Debian's redis-server, or another on PATH, for this test alone."""
    with running(shutil.which("redis-server")) as server:
        yield server


@pytest.fixture
def more(redis_server: Server) -> dict[str, str]:
    """The settings of a sidecar on that store."""
    return {"STORE__URL": redis_server.url, "STATE__KEY": f'["{STATE_KEY}"]'}


def pid_of(server: Server) -> int:
    info = server.tell("INFO", "server")
    return int(info.partition(b"process_id:")[2].partition(b"\r\n")[0])


async def test_without_the_store_nothing_is_sent_reads_pass_and_it_comes_back_by_itself(
    tmp_path: Path, redis_server: Server, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "EVERY_S", 0.05)
    async with Rig(tmp_path, more) as rig:
        charge, named = rig.charge(), event()
        known = await rig.refunded(rig.charge(), event=event())
        redis_server.kill()
        writes = len(rig.writes)
        heard = await rig.refunded(charge, event=named)
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (503, "store_unavailable", "safe")
        assert (heard.field("Stripe-Should-Retry"), heard.field("x-should-retry"), len(rig.writes)) == (
            None,
            None,
            writes,
        )
        assert heard.field("Doubtless-Action-Id") is None
        assert (await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)).status == 200
        page = await rig.ask("GET", f"/_doubtless/actions/{known.action_id}")
        assert (page.status, page.code) == (503, "store_unavailable")
        for path in ("actions", f"actions/{known.action_id}", "exposure"):
            asked = await rig.admin("GET", path)
            assert (asked.status, asked.json["code"]) == (503, "store_unavailable")
        await rig.until_ready_says("the store does not answer")
        assert (await rig.probe("/readyz")).body == b"the store does not answer\n"
        assert (await rig.probe("/livez")).status == (await rig.probe("/startupz")).status == 200
        await rig.until_metric("store_up", 0)
        redis_server.start()
        await rig.until_ready_says("ok")
        again = await rig.refunded(charge, event=named)
        assert (again.status, len(rig.writes)) == (200, writes + 1)
        assert (await rig.action(known.action_id))["status"] == "confirmed"
        await rig.until_metric("store_up", 1)


async def test_a_store_that_hangs_is_as_one_that_is_away_and_its_late_commit_sends_nothing(
    tmp_path: Path, redis_server: Server, more: dict[str, str]
) -> None:
    pid = pid_of(redis_server)
    async with Rig(tmp_path, more) as rig:
        charge, named = rig.charge(), event()
        os.kill(pid, signal.SIGSTOP)
        try:
            async with nothing_sent(rig):
                heard = await rig.refunded(charge, event=named)
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (heard.status, heard.code) == (503, "store_unavailable")
        await rig.until_ready_says("ok")
        again = await rig.refunded(charge, event=named)
        if again.code == "not_sent":  # It met the late commit as still in flight, and waited for what became of it.
            again = await rig.refunded(charge, event=named)
        assert (again.status, len(rig.writes), rig.standin.executions()) == (200, 1, 1)
        [action] = await rig.actions(event_id=named)
        assert action["status"] == "confirmed"


async def test_an_answer_that_the_store_cannot_take_reaches_the_agent_and_is_recorded_later(
    tmp_path: Path, redis_server: Server, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "EVERY_S", 0.05)
    async with Rig(tmp_path, more) as rig:
        charge, named = rig.charge(), event()
        fault = rig.fault("hold_after_commit")
        async with await rig.line() as line:
            await line.send(rig.refund(charge, event=named))
            await reached(fault)
            redis_server.kill()
            fault.release()
            heard = await line.hear()
        assert (heard.status, heard.field("Doubtless-Status")) == (200, "confirmed")
        assert heard.json["id"] == rig.standin.refunds()[0]["id"]
        await rig.until_metric("spool_observations", 1)
        redis_server.start()
        action = await rig.settled_soon(heard.action_id, "confirmed")
        assert [(e["source"], e["verdict"]) for e in action["evidence"]] == [("response", "accepted")]
        assert action["was_unknown"] is False
        await rig.until_metric("spool_observations", 0)
        again = await rig.refunded(charge, event=named)
        assert (again.body, again.field("Idempotent-Replayed"), len(rig.writes)) == (heard.body, "true", 1)


async def test_a_lost_answer_is_unknown_to_the_agent_while_the_store_is_away(
    tmp_path: Path, redis_server: Server, more: dict[str, str]
) -> None:
    async with Rig(tmp_path, more) as rig:
        named = event()
        held = rig.fault("hold_after_commit")
        rig.fault("drop_after_commit")
        async with await rig.line() as line:
            await line.send(rig.refund(rig.charge(), event=named))
            await reached(held)
            redis_server.kill()
            held.release()
            heard = await line.hear()
        assert (heard.status, heard.code) == (423, "outcome_unknown")
        redis_server.start()
        action = await rig.settled_soon(heard.action_id, "denied_unresolved")
        assert (action["cause"], action["amount"]) == ("connection_lost", 5400)


async def test_what_a_dead_process_had_spooled_is_recorded_by_the_next(
    tmp_path: Path, redis_server: Server, more: dict[str, str]
) -> None:
    async with Served(tmp_path, more) as bench:
        charge, named = bench.charge(), event()
        fault = bench.fault("hold_after_commit")
        async with await bench.line() as line:
            await line.send(bench.refund(charge, event=named))
            await reached(fault)
            redis_server.kill()
            fault.release()
            heard = await line.hear()
        assert heard.status == 200
        assert bench.process is not None
        await bench.process.end(signal.SIGKILL)
        redis_server.start()
        await bench.start()
        action = await bench.action(heard.action_id)
        assert (action["status"], action["was_unknown"], len(bench.writes)) == ("confirmed", False, 1)


# ── Starting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_store_that_is_away_at_the_start_is_waited_for_and_that_is_said(
    tmp_path: Path, redis_server: Server, more: dict[str, str]
) -> None:
    redis_server.stop()
    async with Rig(tmp_path, more, start=False) as rig:
        rig.launch()
        await eventually(rig.has_health)
        assert (await rig.probe("/readyz")).body == b"starting\n"
        assert ((await rig.probe("/startupz")).status, (await rig.probe("/livez")).status) == (503, 200)
        assert "proxy" not in rig.ports
        redis_server.start()
        await rig.ready()
        assert (await rig.refunded(rig.charge(), event=event())).status == 200


async def test_a_process_that_waits_for_its_store_says_so_and_ends_when_told(tmp_path: Path) -> None:
    more = {"STORE__URL": "redis://:swordfish@127.0.0.1:1/0", "STATE__KEY": f'["{STATE_KEY}"]'}
    bench = Served(tmp_path, more)
    async with bench.standin:
        process = bench.launch()
        await process.until_logged(lambda log: "waiting for the store" in log)
        said = json.loads(process.log.splitlines()[0])
        assert (said["store"], said["why"]) == ("redis://…@127.0.0.1:1/0", "it cannot be reached: Connection refused")
        assert await process.end() == 0
        assert (process.printed, "swordfish" in process.log) == ([], False)


async def test_without_a_state_key_another_store_is_refused(tmp_path: Path) -> None:
    bench = Served(tmp_path, {"STORE__URL": "redis://127.0.0.1:1"})
    async with bench.standin:
        process = bench.launch()
        assert await process.ended() == 2
        assert "state.key = (not set): is required where the store is not embedded" in process.log
        assert "Traceback" not in process.log


# ── Another state key ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_state_key_that_opens_nothing_does_not_start_and_the_old_one_beside_it_opens(
    tmp_path: Path,
) -> None:
    async with Rig(tmp_path, {"STATE__KEY": f'["{STATE_KEY}"]'}) as rig:
        done, lost = (rig.charge(), event()), (rig.charge(), event())
        first = await rig.refunded(done[0], event=done[1])
        rig.fault("drop_after_commit")
        unknown = await rig.refunded(lost[0], event=lost[1])
        await rig.stop()

        rig.more = {"STATE__KEY": f'["{OTHER_KEY}"]'}
        with pytest.raises(Refused, match="retries not recognised"):
            await rig.start()
        rig.running = None
        assert len(rig.writes) == rig.standin.executions() == 2

        rig.more = {"STATE__KEY": f'["{OTHER_KEY}", "{STATE_KEY}"]'}
        await rig.start()
        again = await rig.refunded(done[0], event=done[1])
        assert (again.status, again.body, again.field("Idempotent-Replayed")) == (200, first.body, "true")
        assert (await rig.refunded(lost[0], event=lost[1])).code == "outcome_unknown"
        assert (await rig.reconcile(unknown.action_id))["status"] == "confirmed"
        assert len(rig.writes) == 2
