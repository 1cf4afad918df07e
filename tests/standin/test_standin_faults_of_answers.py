"""Faults of answers: each, as the client sees it byte for byte, and what has happened at the provider."""

import json

import pytest
from standin_client import REFUND, Client, after

from proxy.edges.standin import Chunk, Fault, StandIn


@pytest.fixture(autouse=True)
def a_charge(standin: StandIn) -> None:
    standin.seed_charge(5400, charge_id="ch_1")


async def test_half_a_head_is_all_that_comes_of_an_executed_refund(standin: StandIn, stripe: Client) -> None:
    data, how = await after(standin, stripe, Fault("half_head_after_commit"))
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\n" not in data
    assert (how, standin.executions(), standin.journal[0].sent) == ("fin", 1, data)


@pytest.mark.parametrize(("kind", "executed"), [("status_after_commit", 1), ("status_without_commit", 0)])
@pytest.mark.parametrize("status", [400, 401, 402, 404, 409, 429, 500, 503, 599])
async def test_any_status_in_the_providers_own_shape_and_with_its_mark(
    standin: StandIn, stripe: Client, kind: str, status: int, executed: int
) -> None:
    standin.faults.add(Fault(kind, status=status, headers=((b"Stripe-Should-Retry", b"true"),)))
    answer = await stripe.post("/v1/refunds", REFUND)
    assert (answer.status, answer.headers["stripe-should-retry"]) == (status, "true")
    assert answer.headers["request-id"] == standin.journal[0].request_id
    assert isinstance(answer.error["message"], str)
    assert standin.executions() == len(standin.refunds()) == executed


async def test_a_status_without_the_mark_is_a_middleboxs_page(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_after_commit", status=503, marked=False))
    answer = await stripe.post("/v1/refunds", REFUND)
    assert (answer.status, answer.headers["content-type"]) == (503, "text/html")
    assert "request-id" not in answer.headers
    assert len(standin.refunds()) == 1


async def test_a_2xx_of_another_number_has_the_providers_own_body(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_after_commit", status=202))
    answer = await stripe.post("/v1/refunds", REFUND)
    assert (answer.status, answer.json["id"]) == (202, standin.refunds()[0]["id"])


async def test_a_body_can_be_put_in_the_place_of_the_providers(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("status_without_commit", status=200, body=b'{"ok": false}'))
    assert (await stripe.post("/v1/refunds", REFUND)).json == {"ok": False}
    assert standin.refunds() == []


@pytest.mark.parametrize("commit", [True, False])
async def test_an_html_502_says_nothing_of_what_happened(standin: StandIn, stripe: Client, commit: bool) -> None:
    standin.faults.add(Fault("html_502", commit=commit))
    answer = await stripe.post("/v1/refunds", REFUND)
    assert (answer.status, answer.body[:6]) == (502, b"<html>")
    assert not {"request-id", "stripe-version"} & answer.headers.keys()
    assert len(standin.refunds()) == commit


async def test_an_answer_can_lose_its_mark_on_the_way(standin: StandIn, stripe: Client, resend: Client) -> None:
    standin.faults.add(Fault("unmarked_after_commit", times=2))
    refund = await stripe.post("/v1/refunds", REFUND)
    mail = {"from": "a@acme.example", "to": "b@example.com", "subject": "s", "text": "t"}
    email = await resend.post("/emails", body=mail)
    assert (refund.status, refund.json["id"]) == (200, standin.refunds()[0]["id"])
    assert email.json["id"] == standin.emails()[0]["id"]
    assert not [name for name in (*refund.headers, *email.headers) if name == "request-id" or "ratelimit" in name]


@pytest.mark.parametrize("keep", [None, 0, 1])
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_body_can_end_before_its_length(standin: StandIn, stripe: Client, keep: int | None, how: str) -> None:
    data, ended = await after(standin, stripe, Fault("truncate_after_commit", keep=keep, how=how))
    head, _, body = data.partition(b"\r\n\r\n")
    announced = int(head.partition(b"Content-Length: ")[2])
    assert (ended, len(body)) == (how, announced // 2 if keep is None else keep)
    assert standin.executions() == 1


async def test_a_chunked_body_can_end_before_its_last_chunk(standin: StandIn, stripe: Client) -> None:
    data, how = await after(standin, stripe, Fault("truncate_after_commit", framing="chunked", keep=10_000))
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.endswith(b"Transfer-Encoding: chunked")
    size, _, rest = body.partition(b"\r\n")
    assert (int(size, 16), json.loads(rest)["id"], how) == (len(rest) - 2, standin.refunds()[0]["id"], "fin")


async def test_a_body_can_be_no_json(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("garbage_after_commit"))
    answer = await stripe.post("/v1/refunds", REFUND)
    assert (answer.status, "request-id" in answer.headers) == (200, True)
    with pytest.raises(ValueError, match="decode"):
        json.loads(answer.body)
    assert standin.executions() == 1


async def test_an_answer_can_be_no_http(standin: StandIn, stripe: Client) -> None:
    data, how = await after(standin, stripe, Fault("garbage_after_commit", where="head"))
    assert (b"HTTP/" in data[:20], how, standin.executions()) == (False, "fin", 1)
    data, _ = await after(standin, stripe, Fault("garbage_after_commit", where="chunk"))
    assert data.endswith(b"\r\nzz\r\nnot a chunk")


async def test_an_answer_can_lack_the_objects_id(standin: StandIn, stripe: Client, resend: Client) -> None:
    standin.faults.add(Fault("without_object_id_after_commit", times=2))
    refund = await stripe.post("/v1/refunds", REFUND)
    assert ("id" in refund.json, refund.json["object"]) == (False, "refund")
    mail = {"from": "a@acme.example", "to": "b@example.com", "subject": "s", "text": "t"}
    assert (await resend.post("/emails/batch", body=[mail, mail])).json == {"data": [{}, {}]}


async def test_bytes_can_follow_an_answer(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("trailing_bytes_after_commit", data=b"tail"))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    assert (await line.hear()).status == 200
    assert await line.reader.readexactly(4) == b"tail"


async def test_an_answer_can_come_twice(standin: StandIn, stripe: Client) -> None:
    standin.faults.add(Fault("second_response_after_commit"))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    assert (await line.hear()).raw == (await line.hear()).raw
    assert standin.executions() == 1


@pytest.mark.parametrize("commit", [True, False])
async def test_a_redirect_points_elsewhere(standin: StandIn, stripe: Client, commit: bool) -> None:
    standin.faults.add(Fault("redirect", status=308, location="https://other.example/v1/refunds", commit=commit))
    answer = await stripe.post("/v1/refunds", REFUND, key="k")
    assert (answer.status, answer.headers["location"]) == (308, "https://other.example/v1/refunds")
    assert len(standin.refunds()) == commit
    again = await stripe.post("/v1/refunds", REFUND, key="k")
    assert ("idempotent-replayed" in again.headers) is commit


async def test_raw_bytes_drip_as_the_test_lets_them(standin: StandIn, stripe: Client) -> None:
    drops = [b"HTTP/1.1 200 OK\r\nContent-Le", b"ngth: 2\r\n\r\n", b"{", b"}"]
    fault = standin.faults.add(Fault("raw", chunks=tuple(Chunk(drop, gated=True) for drop in drops), commit=True))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    await standin.journal.until(lambda journal: bool(journal) and journal[0].executed)
    for drop in drops:
        fault.step()
        assert await line.reader.readexactly(len(drop)) == drop
    assert await line.rest() == (b"", "fin")
    assert standin.journal[0].sent == b"".join(drops)


async def test_raw_bytes_may_leave_the_connection_open_and_execute_nothing(standin: StandIn, stripe: Client) -> None:
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    standin.faults.add(Fault("raw", chunks=(Chunk(answer, delay_ms=1),), close=False))
    line = await stripe.sent("POST", "/v1/refunds", REFUND)
    assert await line.reader.readexactly(len(answer)) == answer
    await line.send(stripe.request("GET", "/v1/refunds"))
    assert (await line.hear()).json["data"] == []
