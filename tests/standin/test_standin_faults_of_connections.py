"""Faults of connections and of time: dropped, refused, held, stalled; and what has happened at the provider."""

import asyncio

import pytest
from standin_client import REFUND, Client, after

from proxy.edges.standin import Fault, StandIn


@pytest.fixture(autouse=True)
def a_charge(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize(
    ("kind", "executed"),
    [("drop_before_read", 0), ("drop_after_head", 0), ("drop_after_read", 0), ("drop_after_commit", 1)],
)
async def test_a_dropped_request_gets_no_byte(
    standin: StandIn, stripe: Client, kind: str, how: str, executed: int
) -> None:
    assert await after(standin, stripe, Fault(kind, how=how)) == (b"", how)
    assert standin.executions() == len(standin.refunds()) == executed
    assert [(arrival.fault, arrival.sent) for arrival in standin.journal] == [(kind, b"")]
    assert (await stripe.get("/v1/charges/ch_1")).status == 200


async def test_a_drop_after_the_head_ends_with_fin_even_while_the_body_is_on_its_way(
    standin: StandIn, stripe: Client
) -> None:
    standin.faults.add(Fault("drop_after_head"))
    line = await stripe.line()
    await line.send(b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 70_000)
    assert await line.rest() == (b"", "fin")
    assert standin.journal[0].complete is False


async def test_a_refused_connection_is_reset_before_anything_is_read(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("refuse_connection"))
    line = await stripe.line()
    assert await line.rest() == (b"", "rst")
    assert (len(standin.journal), standin.connections) == (0, 1)
    assert (await stripe.post("/v1/refunds", REFUND)).status == 200


async def test_a_shut_port_refuses_and_opens_again(standin: StandIn, stripe: Client) -> None:
    standing = await stripe.post("/v1/refunds", REFUND)
    await standin.shut("stripe")
    await standin.shut("stripe")
    with pytest.raises(ConnectionRefusedError):
        await stripe.line()
    assert (await stripe.get("/v1/refunds/" + standing.json["id"])).status == 200  # On the connection that stands.
    await standin.open("stripe")
    await standin.open("stripe")
    assert (await (await stripe.sent("GET", "/v1/balance")).hear()).status == 200


@pytest.mark.parametrize(
    ("kind", "before_release"),
    [("hang", 0), ("hold_before_commit", 0), ("hold_after_commit", 1)],
)
async def test_what_is_held_goes_on_when_released(
    standin: StandIn, stripe: Client, kind: str, before_release: int
) -> None:
    fault = standin.faults.add(Fault(kind))
    line = await stripe.sent("POST", "/v1/refunds", REFUND, key="k")
    await fault.reached()
    await standin.journal.until(lambda journal: journal[0].executed is bool(before_release))
    assert len(standin.refunds()) == before_release
    fault.release()
    assert (await line.hear()).status == 200
    assert len(standin.refunds()) == 1


async def test_while_it_hangs_no_key_is_claimed_so_a_second_request_executes(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("hang"))
    first = await stripe.sent("POST", "/v1/refunds", REFUND, key="k")
    await fault.reached()
    assert (await stripe.post("/v1/refunds", REFUND, key="k")).status == 200
    fault.release()
    assert (await first.hear()).headers["idempotent-replayed"] == "true"


async def test_while_an_answer_is_held_the_key_replays_it(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("hold_after_commit"))
    first = await stripe.sent("POST", "/v1/refunds", REFUND, key="k")
    await fault.reached()
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    fault.release()
    assert (again.headers["idempotent-replayed"], (await first.hear()).body) == ("true", again.body)


async def test_held_requests_can_be_let_go_one_by_one(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("hold_before_commit", times=None))
    lines = [await stripe.sent("POST", "/v1/refunds", REFUND) for _ in range(3)]
    await standin.journal.until(lambda journal: fault.hits == 3)
    fault.step()
    await standin.journal.until(lambda journal: any(arrival.status for arrival in journal))
    assert standin.executions() == 1
    fault.release()
    assert [(await line.hear()).status for line in lines] == [200, 200, 200]


async def test_what_is_held_executes_even_if_the_client_has_gone(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("hold_before_commit"))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    await fault.reached()
    line.close()
    fault.release()
    await standin.journal.until(lambda journal: journal[0].executed)
    assert len(standin.refunds()) == 1


async def test_a_delay_delays_and_changes_nothing(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("delay_before_commit", delay_ms=1))
    standin.faults.add(Fault("delay_after_commit", delay_ms=1))
    assert (await stripe.post("/v1/refunds", REFUND)).status == 200
    assert [fault.hits for fault in standin.faults] == [1, 1]


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_an_idle_connection_ends_after_a_whole_answer(standin: StandIn, stripe: Client, how: str) -> None:
    fault = standin.faults.add(Fault("close_idle_after", how=how, gated=True))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    assert "connection" not in (await line.hear()).headers
    fault.release()
    assert await line.rest() == (b"", how)
    standin.faults.add(Fault("close_idle_after", how="fin"))
    line = await stripe.sent("GET", "/v1/refunds")
    assert ((await line.hear()).status, await line.rest()) == (200, (b"", "fin"))


async def test_an_answer_can_come_before_the_upload_ends(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("answer_before_upload_ends", after_bytes=3))
    request = stripe.request("POST", "/v1/refunds", REFUND)
    line = await stripe.line()
    await line.send(request[:-5])
    early = await line.hear()
    assert (early.status, "request-id" in early.headers) == (413, True)
    assert standin.journal[0].complete is False
    await line.send(request[-5:] + stripe.request("GET", "/v1/refunds"))
    assert (await line.hear()).json["data"] == []
    assert (standin.journal[0].complete, standin.executions()) == (True, 0)


async def test_an_upload_can_stall_until_the_provider_reads_on(standin: StandIn, stripe: Client) -> None:
    fault = standin.faults.add(Fault("stop_reading", after_bytes=10))
    body = b"amount=1000&charge=ch_1&metadata[note]=" + b"x" * 24_000_000
    head = b"POST /v1/refunds HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk_test_mine\r\n"
    line = await stripe.line()
    async with asyncio.TaskGroup() as tasks:
        upload = tasks.create_task(line.send(head + b"Content-Length: %d\r\n\r\n" % len(body) + body))
        await fault.reached()
        await standin.journal.until(lambda journal: len(journal[0].body) >= 10)
        assert not upload.done()  # More than the kernel's buffers hold is still with the client.
        fault.release()
    assert (await line.hear()).status == 200
    assert standin.journal[0].body == body


async def test_a_provider_may_never_send_the_100_it_is_asked_for(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("no_continue"))
    request = stripe.request("POST", "/v1/refunds", REFUND, headers={"Expect": "100-continue"})
    line = await stripe.line()
    await line.send(request)
    assert (await line.hear()).status == 200
