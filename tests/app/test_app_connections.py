"""One connection of an agent: in pieces, half closed, stalled, refused, and where something of ours fails."""

import asyncio
from pathlib import Path

import pytest

from proxy.app import App
from proxy.edges.agents import reading
from proxy.edges.standin import Chunk
from proxy.edges.upstream import Stream
from proxy.engine import Engine
from tests.app.bench import SECRET, event, eventually, nothing_sent, reached
from tests.app.line import Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = ("uvloop", "asyncio")
AUTH = {"Authorization": f"Bearer {SECRET}"}
CONNECT = b"CONNECT api.stripe.com:443 HTTP/1.1\r\nUser-Agent: x\r\n\r\n"


async def drip(line: Line, data: bytes) -> None:
    """Send byte by byte."""
    for index in range(len(data)):
        await line.send(data[index : index + 1])
        await asyncio.sleep(0)


async def test_a_request_may_come_byte_by_byte(rig: Rig) -> None:
    named = event()
    async with await rig.line() as line:
        await drip(line, rig.refund(rig.charge(), event=named))
        heard = await line.hear()
        await drip(line, request("GET", "/stripe/v1/charges", headers=AUTH))
        assert (heard.status, (await line.hear()).status) == (200, 200)
    assert len(rig.writes) == 1


@pytest.mark.parametrize("how", ["whole", "dripping", "with a TLS hello", "half closed"])
async def test_connect_is_refused_however_it_comes(rig: Rig, how: str) -> None:
    async with nothing_sent(rig), await rig.line() as line:
        if how == "dripping":
            await drip(line, CONNECT)
        else:
            await line.send(CONNECT + (b"\x16\x03\x01\x02\x00\x01" if how == "with a TLS hello" else b""))
        if how == "half closed":
            line.half_close()
        heard = await line.hear()
        assert (heard.status, heard.code, heard.field("Connection")) == (403, "egress_denied", "close")
        assert await line.rest() == (b"", "fin")


async def test_connect_without_an_end_is_refused_too(rig: Rig) -> None:
    async with nothing_sent(rig), await rig.line() as line:
        await line.send(CONNECT[:-2] + b"X: " + b"x" * 70_000)
        assert (await line.hear()).code == "egress_denied"


@pytest.mark.parametrize(
    "target", ["/stripe/v1/charges", "/stripe/v1/refunds", "/_doubtless/actions/none", "/nobody", "not a request"]
)
async def test_an_agent_that_closes_its_half_still_gets_its_answer(rig: Rig, target: str) -> None:
    data = request("GET", target, headers=AUTH)
    if target.endswith("refunds"):
        data = rig.refund(rig.charge(), event=event())
    async with await rig.line() as line:
        await line.send(data)
        line.half_close()
        heard = await line.hear()
        assert heard.status in (200, 400, 404)
        assert await line.rest() == (b"", "fin")


async def test_of_two_requests_and_a_fin_the_first_is_answered(rig: Rig) -> None:
    async with await rig.line() as line:
        await line.send(rig.refund(rig.charge(), event=event()) + b"GET /nobody HTTP/1.1\r\nHo")
        line.half_close()
        heard = await line.hear()
        assert (heard.status, await line.rest(), len(rig.writes)) == (200, (b"", "fin"), 1)


async def test_of_a_request_and_half_a_body_both_are_answered_and_one_is_sent(rig: Rig) -> None:
    whole, cut = rig.refund(rig.charge(), event=event()), rig.refund(rig.charge(), event=event())
    async with await rig.line() as line:
        await line.send(whole + cut[:-5])
        line.half_close()
        heard = [await line.hear(), await line.hear()]
        assert ([h.status for h in heard], heard[1].code) == ([200, 400], "bad_request")
        assert (await line.rest(), len(rig.writes)) == ((b"", "fin"), 1)


async def test_half_a_body_is_refused_and_not_sent(rig: Rig) -> None:
    async with nothing_sent(rig), await rig.line() as line:
        await line.send(rig.refund(rig.charge(), event=event())[:-5])
        line.half_close()
        assert (await line.hear()).code == "bad_request"
        assert await line.rest() == (b"", "fin")


async def test_every_whole_request_before_a_fin_is_answered(rig: Rig) -> None:
    page = request("GET", "/_doubtless/actions/none")
    async with await rig.line() as line:
        await line.send(b"".join(rig.refund(rig.charge(), event=event()) for _ in range(3)) + page)
        line.half_close()
        assert [(await line.hear()).status for _ in range(4)] == [200, 200, 200, 404]
        assert (await line.rest(), len(rig.writes)) == ((b"", "fin"), 3)


async def test_a_retry_that_will_not_wait_is_told_that_the_first_is_in_flight(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    fault = rig.fault("hold_after_commit")
    async with await rig.line() as line:
        await line.send(rig.refund(charge, event=named))
        await reached(fault)
        heard = await rig.refunded(charge, event=named, headers={"Prefer": "wait=0"})
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (423, "action_in_flight", "never")
        assert (heard.field("Preference-Applied"), heard.json["doubtless"]["status"]) == ("wait=0", "pending")
        fault.release()
        assert (await line.hear()).status == 200


async def test_operators_and_agents_are_shown_one_address(rig: Rig) -> None:
    rig.fault("drop_after_commit")
    host = f"127.0.0.1:{rig.port}"
    heard = await rig.refunded(rig.charge(), event=event(), headers={"Host": host})
    url = heard.json["doubtless"]["status_url"]
    assert url == (await rig.action(heard.action_id))["status_url"]
    assert url.startswith(f"http://{host}/_doubtless/actions/")


async def test_a_replay_of_a_replay_says_so_once(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    async with await Line.open(rig.standin.port("stripe")) as line:
        headers = {**AUTH, "Idempotency-Key": f"{named}:stripe.refund.create"}
        await line.ask(request("POST", "/v1/refunds", form={"charge": charge, "amount": "5400"}, headers=headers))
    for _ in range(2):
        heard = await rig.refunded(charge, event=named)
        assert (heard.status, heard.values("Idempotent-Replayed")) == (200, ["true"])


# ── Stalled and refused ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_body_that_stops_coming_is_refused(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "IDLE_S", 0.05)
    async with nothing_sent(rig), await rig.line() as line:
        await line.send(rig.refund("ch_1", event=event())[:-1])
        heard = await line.hear()
        assert (heard.status, heard.code, heard.field("Connection")) == (400, "bad_request", "close")


async def test_a_connection_over_the_bound_is_answered_and_ended(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"BOUNDS__CONNECTIONS": "1"}) as rig:
        page = request("GET", "/_doubtless/actions/none")
        async with await rig.line() as one:
            assert (await one.ask(page)).status == 404
            async with await rig.line() as two:
                heard = await two.ask(page)
                assert (heard.status, heard.code, heard.field("Connection")) == (503, "overloaded", "close")
                assert await two.rest() == (b"", "fin")

        async def room() -> bool:
            return (await rig.ask("GET", "/_doubtless/actions/none")).status == 404

        await eventually(room)


# ── Where something of ours fails ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_failure_of_ours_in_a_write_is_unknown_never_failed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("the text may hold a secret")

    monkeypatch.setattr(Engine, "govern", broken)
    async with await rig.line() as line:
        heard = await line.ask(rig.refund("ch_1", event=event()))
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (423, "outcome_unknown", "never")
        assert "Do not call this tool again" in heard.json["message"]
        monkeypatch.undo()
        assert (await line.ask(rig.refund(rig.charge(), event=event()))).status == 200
    told = capsys.readouterr()
    assert ("RuntimeError" in told.out, "secret" in told.out + told.err) == (True, False)


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
async def test_a_failure_of_ours_in_a_read_cuts_it_short_and_writes_nothing_into_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    pieces = [Chunk(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode() + b"5\r\nabcde\r\n")]
    rig.fault("raw", method="GET", path=None, chunks=(*pieces, Chunk(b"x", gated=True)))
    taken = Stream.__anext__
    count = 0

    async def once(self: Stream) -> bytes:
        nonlocal count
        count += 1
        if count > 1:
            raise RuntimeError
        return await taken(self)

    monkeypatch.setattr(Stream, "__anext__", once)
    async with await rig.line() as line:
        await line.send(request("GET", "/stripe/v1/charges", headers=AUTH))
        data, _ = await line.rest()
    assert (b"abcde" in data, b"doubtless" in data, data.endswith(b"0\r\n\r\n")) == (True, False, False)


async def test_what_was_shown_to_have_arrived_right_before_the_end_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, end, delivered = asyncio.Event(), App._end_tasks, Engine._delivered

    async def ends(self: App) -> None:
        ending.set()
        await end(self)

    async def late(self: Engine, action_id: str, folded: bool) -> None:
        await ending.wait()
        for _ in range(50):  # Turns of the loop: a store that takes its time.
            await asyncio.sleep(0)
        await delivered(self, action_id, folded)

    monkeypatch.setattr(App, "_end_tasks", ends)
    monkeypatch.setattr(Engine, "_delivered", late)
    async with Rig(tmp_path) as rig:
        charge = rig.charge()
        async with await rig.line() as line:
            first = await line.ask(rig.refund(charge))
            await line.ask(request("GET", "/nobody"))  # It shows that the answer before it was read.
            await rig.stop()
        await rig.start()
        second = await rig.refunded(charge)
        assert (second.status, second.action_id != first.action_id, len(rig.writes)) == (200, True, 2)
