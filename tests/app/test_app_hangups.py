"""An agent that hangs up changes nothing: before the request is whole nothing is sent, after that all is recorded."""

import uuid

import pytest

from tests.app.bench import SECRET, event, nothing_sent, reached
from tests.app.line import Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = ("uvloop", "asyncio")
HOW = pytest.mark.parametrize("how", ["close", "reset", "half_close"])


def leave(line: Line, how: str) -> None:
    getattr(line, how)()


def parts(rig: Rig) -> "dict[str, bytes]":
    """What an agent may have sent of a write when it leaves."""
    named = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
    whole = rig.refund(rig.charge(), event=event())
    head = request("POST", "/stripe/v1/refunds", headers=named)[:-2]
    return {
        "nothing": b"",
        "a part of its first line": b"POST /stripe/v1/ref",
        "a part of its head": whole[:60],
        "its head": whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n",
        "all but a byte": whole[:-1],
        "a chunk": head + b"Transfer-Encoding: chunked\r\n\r\n5\r\ncharg\r\n",
        "all chunks but the last": head + b"Transfer-Encoding: chunked\r\n\r\n5\r\ncharg\r\n0\r\n",
        "its head and Expect": head + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
        "a part of CONNECT": b"CONN",
    }


@HOW
async def test_before_the_request_is_whole_nothing_is_sent_and_nothing_recorded(rig: Rig, how: str) -> None:
    before = len(await rig.actions(limit="200"))
    async with nothing_sent(rig):
        for data in parts(rig).values():
            line = await rig.line()
            await line.send(data)
            leave(line, how)
            if how == "half_close":
                await line.rest()
                line.close()
        assert (await rig.ask("GET", "/_doubtless/actions/none")).status == 404
    assert len(await rig.actions(limit="200")) == before


@HOW
@pytest.mark.parametrize("kind", ["hang", "hold_before_commit", "hold_after_commit"])
async def test_while_the_provider_works_the_outcome_is_recorded_all_the_same(rig: Rig, kind: str, how: str) -> None:
    charge, named = rig.charge(), event()
    fault = rig.fault(kind)
    line = await rig.line()
    await line.send(rig.refund(charge, event=named))
    await reached(fault)
    leave(line, how)
    [action] = await rig.actions(event_id=named)
    fault.release()
    settled = await rig.settled(action["action_id"], "confirmed")
    assert (settled["provider_object_id"], rig.standin.executions()) == (rig.standin.refunds()[0]["id"], 1)
    if how == "half_close":
        assert (await line.hear()).action_id == action["action_id"]
        line.close()
    again = await rig.refunded(charge, event=named)
    assert (again.status, again.field("Idempotent-Replayed"), rig.standin.executions()) == (200, "true", 1)


@HOW
async def test_an_answer_that_is_lost_when_nobody_waits_any_more_is_unknown(rig: Rig, how: str) -> None:
    named = event()
    held = rig.fault("hold_after_commit")
    rig.fault("drop_after_commit")
    line = await rig.line()
    await line.send(rig.refund(rig.charge(), event=named))
    await reached(held)
    leave(line, how)
    held.release()
    [action] = await rig.actions(event_id=named)
    lost = await rig.settled(action["action_id"], "denied_unresolved")
    assert (lost["cause"], rig.standin.executions()) == ("connection_lost", 1)
    line.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_while_the_answer_is_written_it_stands_recorded(rig: Rig, how: str) -> None:
    named = event()
    line = await rig.line(receive_bytes=4096)
    await line.send(rig.refund(rig.charge(), event=named, **{"metadata[pad]": "x" * 3_000_000}))
    await line.arrived()
    leave(line, how)
    [action] = await rig.actions(event_id=named)
    assert (action["status"], action["acceptance"]) == ("confirmed", "accepted")
    assert rig.standin.executions() == 1


async def test_the_first_asker_may_leave_and_the_one_that_waits_gets_the_answer(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    fault = rig.fault("hold_after_commit")
    async with await rig.line() as first, await rig.line() as second:
        await first.send(rig.refund(charge, event=named))
        await reached(fault)
        await second.send(rig.refund(charge, event=named))
        first.reset()
        fault.release()
        heard = await second.hear()
    assert (heard.status, heard.field("Idempotent-Replayed"), rig.standin.executions()) == (200, "true", 1)


async def test_one_that_waits_may_leave_and_the_first_gets_its_answer(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    fault = rig.fault("hold_after_commit")
    async with await rig.line() as first, await rig.line() as second:
        await first.send(rig.refund(charge, event=named))
        await reached(fault)
        await second.send(rig.refund(charge, event=named))
        second.reset()
        fault.release()
        heard = await first.hear()
    assert (heard.status, heard.field("Idempotent-Replayed"), rig.standin.executions()) == (200, None, 1)


async def test_a_reworded_retry_after_all_askers_left_does_not_get_through(rig: Rig) -> None:
    charge = rig.charge()
    fault = rig.fault("hold_after_commit")
    async with await rig.line() as line:
        await line.send(rig.refund(charge, key=str(uuid.uuid4())))
        await reached(fault)
        [action] = await rig.actions(limit="1")
        line.reset()
        await rig.until_record(action["action_id"], lambda record: record.askers_gone)
    heard = await rig.refunded(charge, key=str(uuid.uuid4()), reason="requested_by_customer")
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (423, "suspected_duplicate", "new-event")
    assert heard.json["doubtless"]["action_id"] == action["action_id"]
    fault.release()
    await rig.settled(action["action_id"], "confirmed")
    assert len(rig.writes) == 1


async def test_with_an_event_of_its_own_the_same_is_always_a_new_action(rig: Rig) -> None:
    form = {"charge": rig.charge(), "amount": "5400"}
    fields = {"Authorization": f"Bearer {SECRET}"}
    line = await rig.line()
    first = await line.ask(request("POST", "/stripe/v1/refunds", form=form, headers=fields))
    line.reset()
    named = {**fields, "Doubtless-Event-Id": "ticket-17/2"}
    second = await rig.ask("POST", "/stripe/v1/refunds", form=form, headers=named)
    assert (second.status, second.action_id != first.action_id, len(rig.writes)) == (200, True, 2)
