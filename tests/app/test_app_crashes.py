"""The process is killed, or told to end: what is in flight is recorded, and nothing is sent again (CONTRACT 2.1)."""

import signal
import uuid
from pathlib import Path

import pytest

from tests.app.bench import SECRET, event, reached
from tests.app.line import request
from tests.app.served import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")


def store_pid(bench: Served) -> int:
    return int((bench.folder / "store" / "server.pid").read_text("ascii"))


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text("ascii").split()[2] != "Z"


async def test_what_a_killed_process_had_in_flight_is_unknown_before_it_listens_again(tmp_path: Path) -> None:
    async with Served(tmp_path) as bench:
        charge, named = bench.charge(), event()
        fault = bench.fault("hold_after_commit")
        async with await bench.line() as line:
            await line.send(bench.refund(charge, event=named))
            await reached(fault)
            assert bench.process is not None
            assert await bench.process.end(signal.SIGKILL) == -signal.SIGKILL
            assert (await line.rest())[0] == b""
        await bench.start()
        [action] = await bench.actions(event_id=named)
        assert (action["status"], action["cause"]) == ("denied_unresolved", "proxy_restart")
        assert (action["delivery"], action["grade"], action["amount"]) == ("pending", "unknown", 5400)
        again = await bench.refunded(charge, event=named)
        assert (again.status, again.code, again.action_id) == (423, "outcome_unknown", action["action_id"])
        fault.release()
        assert len(bench.writes) == bench.standin.executions() == 1
        settled = await bench.reconcile(action["action_id"])
        assert (settled["status"], settled["grade"]) == ("confirmed", "confirmed")
        assert settled["provider_object_id"] == bench.standin.refunds()[0]["id"]
        assert (settled["was_unknown"], settled["unknown_cause"]) == (True, "proxy_restart")


async def test_what_was_never_executed_stays_unknown_after_a_crash_too(tmp_path: Path) -> None:
    async with Served(tmp_path) as bench:
        fault, named = bench.fault("hang"), event()
        async with await bench.line() as line:
            await line.send(bench.refund(bench.charge(), event=named))
            await reached(fault)
            assert bench.process is not None
            await bench.process.end(signal.SIGKILL)
        await bench.start()
        [action] = await bench.actions(event_id=named)
        asked = await bench.reconcile(action["action_id"])
        assert (asked["status"], asked["attempts"][-1]["result"]) == ("denied_unresolved", "absent")
        bench.standin.faults.clear()


async def test_a_crash_after_the_answer_was_written_leaves_it_undelivered(tmp_path: Path) -> None:
    async with Served(tmp_path) as bench:
        charge = bench.charge()
        async with await bench.line() as line:
            first = await line.ask(bench.refund(charge, key=str(uuid.uuid4())))
            assert bench.process is not None
            await bench.process.end(signal.SIGKILL)
        await bench.start()
        second = await bench.refunded(charge, key=str(uuid.uuid4()))
        assert (first.status, second.status, second.body) == (200, 200, first.body)
        assert second.field("Doubtless-Folded-Into") == first.action_id
        assert len(bench.writes) == 1


# ── The drain ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_drain_takes_no_new_writes_and_waits_for_those_in_flight(tmp_path: Path) -> None:
    async with Served(tmp_path) as bench:
        charge, named = bench.charge(), event()
        fault = bench.fault("hold_after_commit")
        process = bench.process
        assert process is not None
        async with await bench.line() as line:
            await line.send(bench.refund(charge, event=named))
            await reached(fault)
            process.tell(signal.SIGTERM)
            await bench.until_ready_says("draining")
            ready = await bench.probe("/readyz")
            assert (ready.status, (await bench.probe("/livez")).status) == (503, 200)
            refused = await bench.refunded(bench.charge(), event=event())
            assert (refused.status, refused.code, refused.field("Doubtless-Retry")) == (503, "draining", "safe")
            assert (refused.field("Stripe-Should-Retry"), len(bench.writes)) == (None, 1)
            read = await bench.ask("GET", "/stripe/v1/charges", headers={"Authorization": f"Bearer {SECRET}"})
            assert read.status == 200
            fault.release()
            heard = await line.hear()
            assert (heard.status, heard.field("Doubtless-Status")) == (200, "confirmed")
        pid = store_pid(bench)
        assert await process.ended() == 0
        assert not runs(pid)
        assert "rror" not in process.log
        await bench.start()
        [action] = await bench.actions(event_id=named)
        assert (action["status"], action["was_unknown"]) == ("confirmed", False)


async def test_a_drain_that_runs_out_tells_its_agents_and_records_it(tmp_path: Path) -> None:
    async with Served(tmp_path, {"DEADLINES__DRAIN": "200ms"}) as bench:
        charge = bench.charge()
        fault = bench.fault("hold_after_commit")
        process = bench.process
        assert process is not None
        async with await bench.line() as first, await bench.line() as second:
            await first.send(bench.refund(charge, key=str(uuid.uuid4())))
            await reached(fault)
            [pending] = await bench.actions()
            await second.send(bench.refund(charge, key=str(uuid.uuid4())))
            await bench.until_record(pending["action_id"], lambda action: action.unanswered_folded == 1)
            process.tell(signal.SIGTERM)
            told = [await first.hear(), await second.hear()]
        assert [(h.status, h.code) for h in told] == [(423, "outcome_unknown")] * 2
        assert {h.json["doubtless"]["cause"] for h in told} == {"shutdown"}
        assert await process.ended() == 0
        await bench.start()
        action = await bench.action(pending["action_id"])
        assert (action["status"], action["cause"], action["delivery"]) == ("denied_unresolved", "shutdown", "pending")
        fault.release()
        assert (await bench.reconcile(action["action_id"]))["status"] == "confirmed"
        assert len(bench.writes) == 1


async def test_a_read_that_outlasts_the_drain_is_told_that_it_was_cut(tmp_path: Path) -> None:
    async with Served(tmp_path, {"DEADLINES__DRAIN": "100ms"}) as bench:
        fault = bench.fault("hold_after_commit", method="GET", path="/v1/charges")
        async with await bench.line() as line:
            await line.send(request("GET", "/stripe/v1/charges", headers={"Authorization": f"Bearer {SECRET}"}))
            await reached(fault)
            assert bench.process is not None
            bench.process.tell(signal.SIGTERM)
            heard = await line.hear()
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (502, "read_failed", "safe")
        assert await bench.process.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_process_ends_at_once_with_its_store(tmp_path: Path, number: signal.Signals) -> None:
    async with Served(tmp_path) as bench:
        process, pid = bench.process, store_pid(bench)
        assert process is not None
        assert runs(pid)
        assert await process.end(number) == 0
        assert not runs(pid)
        assert not (tmp_path / "store" / "store.sock").exists()


async def test_a_second_process_on_the_same_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async with Served(tmp_path) as bench:
        second = bench.launch()
        assert await second.ended() == 2
        [line] = second.log.splitlines()[-1:]
        assert "is in use by another process of doubtless" in line
        assert "Traceback" not in second.log
        assert second.printed == []
        assert (await bench.refunded(bench.charge(), event=event())).status == 200
