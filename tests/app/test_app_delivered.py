"""An answer that was written is not an answer that arrived (CONTRACT 2.3, rule 2).

What was shown to arrive is done: the same body under a new key is a new action. What was not is a retry.
"""

import asyncio
import json
import uuid

import pytest

from proxy.edges.agents import connection as agents
from proxy.edges.standin import Chunk
from tests.app.bench import reached
from tests.app.line import Heard, Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = ("uvloop", "asyncio")
LARGE_BYTES = 400_000  # Far more than the agent's receive buffer holds.


class Ends:
    """Counts the agents' connections that the proxy has seen the end of."""

    def __init__(self) -> None:
        self.count = 0
        self._more = asyncio.Event()

    def one(self) -> None:
        self.count += 1
        self._more.set()

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.count < count:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Ends:
    ends, lost = Ends(), agents.AgentConnection.connection_lost

    def connection_lost(self: agents.AgentConnection, exc: BaseException | None) -> None:
        lost(self, exc)
        ends.one()

    monkeypatch.setattr(agents.AgentConnection, "connection_lost", connection_lost)
    return ends


def unnamed(rig: Rig, charge: str, **more: str) -> bytes:
    """Write the refund as an SDK does that is called anew: no event, a new key."""
    return rig.refund(charge, key=str(uuid.uuid4()), **more)


def large(rig: Rig, refund_id: str = "re_large") -> bytes:
    """Let the provider's next answer be large; its body."""
    refund = {"id": refund_id, "object": "refund", "amount": 5400, "currency": "usd", "pad": "x" * LARGE_BYTES}
    body = json.dumps(refund).encode()
    head = b"HTTP/1.1 200 OK\r\nRequest-Id: req_1\r\nContent-Length: %d\r\n\r\n" % len(body)
    rig.fault("raw", chunks=(Chunk(head + body),), commit=True)
    return body


async def again(rig: Rig, charge: str) -> Heard:
    """Ask for the same under a new key, on a connection of its own."""
    async with await rig.line() as line:
        return await line.ask(unnamed(rig, charge))


async def shown(rig: Rig, heard: Heard) -> None:
    """Return once it is recorded that the answer arrived."""
    await rig.until_record(heard.action_id, lambda action: not action.unanswered_first)


async def check_new(rig: Rig, charge: str, first: Heard, times: int = 2) -> None:
    """The same again is an action of its own, and is executed."""
    second = await again(rig, charge)
    assert second.action_id != first.action_id
    assert (second.field("Doubtless-Folded-Into"), second.field("Idempotent-Replayed")) == (None, None)
    assert len(rig.writes) == times


async def check_folded(rig: Rig, charge: str, action_id: str, body: bytes | None = None) -> None:
    """The same again is a retry: it gets the first one's answer, and nothing is sent."""
    assert (await rig.record(action_id)).unanswered_first
    second = await again(rig, charge)
    assert second.field("Doubtless-Folded-Into") == second.action_id == action_id
    assert (second.status, second.field("Idempotent-Replayed")) == (200, "true")
    assert body is None or second.body == body
    assert len(rig.writes) == rig.standin.executions() == 1


# ── Shown ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_next_request_on_the_connection_shows_that_the_answer_was_read(rig: Rig) -> None:
    charge = rig.charge()
    async with await rig.line() as line:
        heard = await line.ask(unnamed(rig, charge))
        await line.ask(request("GET", "/_doubtless/actions/none"))
        await shown(rig, heard)
        await check_new(rig, charge, heard)


async def test_an_orderly_close_shows_that_the_answer_was_read(rig: Rig) -> None:
    charge = rig.charge()
    heard = await again(rig, charge)
    await shown(rig, heard)
    await check_new(rig, charge, heard)


async def test_an_orderly_close_shows_it_where_we_were_to_close_too(rig: Rig) -> None:
    charge = rig.charge()
    async with await rig.line() as line:
        heard = await line.ask(unnamed(rig, charge, headers={"Connection": "close"}))  # type: ignore[arg-type]
        assert await line.rest() == (b"", "fin")
    await shown(rig, heard)
    await check_new(rig, charge, heard)


async def test_a_connection_that_stays_open_and_has_nothing_left_to_send_shows_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "SHOWN_AFTER_S", 0.01)
    charge = rig.charge()
    async with await rig.line() as line:
        heard = await line.ask(unnamed(rig, charge))
        await shown(rig, heard)
        await check_new(rig, charge, heard)


async def test_a_large_answer_counts_once_the_last_of_it_was_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "SHOWN_AFTER_S", 0.01)
    charge = rig.charge()
    body = large(rig)
    async with await rig.line(receive_bytes=4096) as line:
        await line.send(unnamed(rig, charge))
        await line.arrived()
        [action] = await rig.actions(limit="1")
        assert (await rig.record(action["action_id"])).unanswered_first
        heard = await line.hear()
        assert heard.body == body
        await shown(rig, heard)
        await check_new(rig, charge, heard)


async def test_a_rejection_that_was_read_is_done_too(rig: Rig) -> None:
    charge = rig.charge()
    rig.fault("status_without_commit", status=402)
    heard = await again(rig, charge)
    await shown(rig, heard)
    await check_new(rig, charge, heard)


async def test_answers_to_what_was_sent_at_once_are_shown_together(rig: Rig) -> None:
    charges = [rig.charge(), rig.charge()]
    async with await rig.line() as line:
        await line.send(b"".join(unnamed(rig, charge) for charge in charges))
        heard = [await line.hear() for _ in charges]
        await line.ask(request("GET", "/_doubtless/actions/none"))
        for one in heard:
            await shown(rig, one)
    for times, (charge, one) in enumerate(zip(charges, heard, strict=True), 3):
        await check_new(rig, charge, one, times)


# ── Not shown ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_agent_that_stops_reading_and_is_killed_has_not_got_it(
    rig: Rig, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "SHOWN_AFTER_S", 0.01)  # However long it stays open, there is something left.
    charge = rig.charge()
    body = large(rig)
    line = await rig.line(receive_bytes=4096)
    await line.send(unnamed(rig, charge))
    await line.arrived()
    [action] = await rig.actions(limit="1")
    for _ in range(20):
        assert (await rig.record(action["action_id"])).unanswered_first
    line.reset()
    await ends.reached(1)
    await check_folded(rig, charge, action["action_id"], body)


async def test_an_agent_that_is_killed_before_it_read_a_byte_has_not_got_it(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    line = await rig.line()
    await line.send(unnamed(rig, charge))
    await line.arrived()
    [action] = await rig.actions(limit="1")
    line.close()  # With bytes unread, the kernel makes a reset of it.
    await ends.reached(1)
    await check_folded(rig, charge, action["action_id"])


async def test_a_reset_right_after_reading_does_not_show_it(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    line = await rig.line()
    heard = await line.ask(unnamed(rig, charge))
    line.reset()
    await ends.reached(1)
    await check_folded(rig, charge, heard.action_id, heard.body)


async def test_a_fin_before_the_answer_does_not_show_it_though_the_answer_still_comes(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    fault = rig.fault("hold_after_commit")
    line = await rig.line()
    await line.send(unnamed(rig, charge))
    await reached(fault)
    line.half_close()
    fault.release()
    heard = await line.hear()
    assert (heard.status, await line.rest()) == (200, (b"", "fin"))
    line.close()
    await ends.reached(1)
    await check_folded(rig, charge, heard.action_id, heard.body)


async def test_a_fin_before_the_last_byte_was_acknowledged_does_not_show_it(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    body = large(rig)
    line = await rig.line(receive_bytes=4096)
    await line.send(unnamed(rig, charge))
    await line.arrived()
    line.half_close()
    await rig.ask("GET", "/_doubtless/actions/none")  # By now its FIN was seen, and nothing was read.
    heard = await line.hear()
    assert heard.body == body
    await line.rest()
    line.close()
    await ends.reached(1)
    await check_folded(rig, charge, heard.action_id, body)


async def test_an_agent_that_left_before_the_answer_has_not_got_it(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    fault = rig.fault("hold_after_commit")
    line = await rig.line()
    await line.send(unnamed(rig, charge))
    await reached(fault)
    line.close()
    fault.release()
    await ends.reached(1)
    [action] = await rig.actions(limit="1")
    await rig.settled(action["action_id"], "confirmed")
    await check_folded(rig, charge, action["action_id"])


# ── Folded ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_folded_request_that_got_the_answer_is_the_end_of_it(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    line = await rig.line()
    first = await line.ask(unnamed(rig, charge))
    line.reset()
    await ends.reached(1)
    assert (await again(rig, charge)).action_id == first.action_id
    await shown(rig, first)
    await check_new(rig, charge, first)


async def test_while_one_folded_request_lacks_its_answer_it_is_undelivered(rig: Rig, ends: Ends) -> None:
    charge = rig.charge()
    fault = rig.fault("hold_after_commit")
    lines: list[Line] = []
    for _ in range(3):
        lines.append(await rig.line())
        await lines[-1].send(unnamed(rig, charge))
        await reached(fault)
    [action] = await rig.actions(limit="1")
    await rig.until_record(action["action_id"], lambda record: record.unanswered_folded == 2)
    fault.release()
    answers = [await line.hear() for line in lines]
    assert {heard.action_id for heard in answers} == {action["action_id"]}
    lines[0].close()
    lines[1].close()
    lines[2].reset()
    await ends.reached(3)
    await rig.until_record(action["action_id"], lambda record: record.unanswered_folded == 1)
    assert (await again(rig, charge)).action_id == action["action_id"]
    assert len(rig.writes) == 1
