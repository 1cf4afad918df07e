"""What the agent gets is what the provider sent, byte for byte, but for what is ours (CONTRACT 3, "Transparent")."""

import gzip

import pytest

from proxy.edges.standin import Chunk, Fault
from tests.app.bench import SECRET, event
from tests.app.line import Heard, Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = ("uvloop", "asyncio")
AUTH = {"Authorization": f"Bearer {SECRET}"}
REFUND = b'{"id": "re_1", "object": "refund", "amount": 5400, "currency": "usd", "status": "succeeded"}'
LINES = [
    b"X-Dup: 1",
    b"content-TYPE: application/json",
    b"Request-Id: req_1",
    b"x-dup: 2",
    b"X-Latin: caf\xe9 \xff\xa0",
    b"Set-Cookie: a=1; Path=/",
    b"Set-Cookie: b=2",
    b"X-Empty: ",
    b"Via: 1.1 cdn",
    b"Retry-After: 3",
    b"X-Dup: 1",
]
HOPS = [
    b"Connection: X-Hop",
    b"X-Hop: 1",
    b"Keep-Alive: timeout=5",
    b"Doubtless-Status: confirmed",
    b"doubtless-anything: forged",
]


def answer(rig: Rig, *pieces: bytes, gated: bool = False, close: bool = True, method: str = "POST") -> Fault:
    """Let the provider answer the next request with exactly these bytes, each after the first behind the gate."""
    chunks = tuple(Chunk(piece, gated=gated and n > 0) for n, piece in enumerate(pieces))
    return rig.fault("raw", method=method, path=None, chunks=chunks, close=close, commit=True)


def fields(heard: Heard) -> list[bytes]:
    return heard.head.removesuffix(b"\r\n\r\n").split(b"\r\n")


async def write(rig: Rig, target: str = "/stripe/v1/refunds") -> Heard:
    headers = {**AUTH, "Doubtless-Event-Id": event()}
    return await rig.ask("POST", target, form={"charge": rig.charge(), "amount": "5400"}, headers=headers)


async def read(rig: Rig, *, method: str = "GET") -> Heard:
    return await rig.ask(method, "/stripe/v1/charges", headers=AUTH, head_only=method == "HEAD")


@pytest.mark.parametrize("governed", [True, False])
async def test_the_head_of_an_answer_arrives_as_it_was_and_nothing_is_added_but_ours(rig: Rig, governed: bool) -> None:
    length = b"Content-Length: %d" % len(REFUND)
    answer(
        rig,
        b"\r\n".join([b"HTTP/1.1 200 Fine, caf\xe9", *LINES, *HOPS, length, b"", REFUND]),
        method="POST" if governed else "GET",
    )
    heard = await (write(rig) if governed else read(rig))
    ours = [b"Doubtless-Action-Id", b"Doubtless-Status", b"Doubtless-Grade", b"Doubtless-Retry"] if governed else []
    lines = fields(heard)
    assert lines[: len(LINES) + 2] == [b"HTTP/1.1 200 Fine, caf\xe9", *LINES, length]
    assert [line.partition(b":")[0] for line in lines[len(LINES) + 2 :]] == ours
    assert heard.body == REFUND


@pytest.mark.parametrize("status", ["299 Odd", "203 Non-Authoritative", "600 ?", "451 No", "999 "])
async def test_any_status_of_a_read_passes(rig: Rig, status: str) -> None:
    answer(rig, f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n[]".encode(), method="GET")
    heard = await read(rig)
    assert (fields(heard)[0], heard.body) == (f"HTTP/1.1 {status}".encode(), b"[]")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_of_a_read_passes_and_is_not_followed(rig: Rig, status: int) -> None:
    location = f"{rig.standin.url('stripe')}/v1/refunds"
    rig.fault("redirect", method="GET", path=None, status=status, location=location)
    heard = await read(rig)
    assert (heard.status, heard.field("Location"), len(rig.standin.journal)) == (status, location, 1)


@pytest.mark.parametrize("governed", [True, False])
async def test_a_compressed_answer_arrives_compressed(rig: Rig, governed: bool) -> None:
    body = gzip.compress(REFUND, mtime=0)
    head = b"HTTP/1.1 200 OK\r\nRequest-Id: r\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer(rig, head + body, method="POST" if governed else "GET")
    heard = await (write(rig) if governed else read(rig))
    assert (heard.status, heard.body, heard.field("Content-Encoding")) == (200, body, "gzip")
    if governed:
        assert heard.field("Doubtless-Status") == "confirmed"


async def test_head_204_and_304_have_no_body_and_keep_what_they_say(rig: Rig) -> None:
    answer(rig, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", method="HEAD", close=False)
    heard = await read(rig, method="HEAD")
    assert (heard.status, heard.field("Content-Length")) == (200, "100")
    for status in (b"204 No Content", b"304 Not Modified"):
        answer(rig, b"HTTP/1.1 %b\r\nETag: x\r\n\r\n" % status, method="GET", close=False)
        heard = await read(rig)
        assert fields(heard) == [b"HTTP/1.1 " + status, b"ETag: x"]
    async with await rig.line() as line:  # And the next answer on the connection is the next answer.
        assert (await line.ask(request("HEAD", "/stripe/v1/charges", headers=AUTH), head_only=True)).status == 200
        assert (await line.ask(request("GET", "/stripe/v1/charges", headers=AUTH))).json["data"] == []


async def test_an_interim_answer_is_not_taken_for_the_answer(rig: Rig) -> None:
    final = b"HTTP/1.1 200 OK\r\nRequest-Id: r\r\nContent-Length: %d\r\n\r\n" % len(REFUND) + REFUND
    answer(rig, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", final, gated=False)
    assert (await write(rig)).body == REFUND


@pytest.mark.parametrize("governed", [True, False])
async def test_the_trailers_of_an_answer_arrive(rig: Rig, governed: bool) -> None:
    chunks = b"%x\r\n%b\r\n0\r\nX-Checksum: abc\r\nx-latin: caf\xe9\r\n\r\n" % (len(REFUND), REFUND)
    head = b"HTTP/1.1 200 OK\r\nRequest-Id: r\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n"
    answer(rig, head + chunks, method="POST" if governed else "GET", close=False)
    heard = await (write(rig) if governed else read(rig))
    assert (heard.body, heard.trailers) == (REFUND, b"X-Checksum: abc\r\nx-latin: caf\xe9\r\n")
    assert heard.field("Trailer") == "X-Checksum"


@pytest.mark.parametrize("governed", [True, False])
async def test_a_trailer_of_ours_or_of_the_connection_does_not_pass(rig: Rig, governed: bool) -> None:
    chunks = b"%x\r\n%b\r\n0\r\nDoubtless-Status: failed\r\nConnection: x\r\nX-Sum: a\r\n\r\n" % (len(REFUND), REFUND)
    head = b"HTTP/1.1 200 OK\r\nRequest-Id: r\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer(rig, head + chunks, method="POST" if governed else "GET", close=False)
    assert (await (write(rig) if governed else read(rig))).trailers == b"X-Sum: a\r\n"


@pytest.mark.parametrize("governed", [True, False])
async def test_an_agent_of_http_1_0_gets_no_chunks(rig: Rig, governed: bool) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(REFUND), REFUND)
    head = b"HTTP/1.1 200 OK\r\nRequest-Id: r\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer(rig, head + chunks, method="POST" if governed else "GET", close=False)
    method, target = ("POST", "/stripe/v1/refunds") if governed else ("GET", "/stripe/v1/charges")
    headers = {**AUTH, "Doubtless-Event-Id": event()}
    data = request(method, target, body=b"charge=ch_1" if governed else None, headers=headers)
    async with await rig.line() as line:
        heard = await line.ask(data.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        assert (heard.body, heard.field("Transfer-Encoding"), await line.rest()) == (REFUND, None, (b"", "fin"))


# ── Reads come as they come ───────────────────────────────────────────────────────────────────────────────────────────

PIECES = (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n")


def chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
async def test_a_read_flows_piece_by_piece(rig: Rig, framing: str) -> None:
    how = {
        "chunked": b"Transfer-Encoding: chunked\r\n",
        "length": b"Content-Length: %d\r\n" % sum(map(len, PIECES)),
        "close": b"",
    }[framing]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + how + b"\r\n"
    body = [chunk(piece) for piece in PIECES] if framing == "chunked" else list(PIECES)
    fault = answer(
        rig,
        head + body[0],
        body[1],
        body[2] + (b"0\r\n\r\n" if framing == "chunked" else b""),
        gated=True,
        method="GET",
    )
    async with await rig.line() as line:
        await line.send(request("GET", "/stripe/v1/events", headers=AUTH))
        got = b""
        for piece in PIECES:
            while piece not in got:
                got += await line.read()
            assert PIECES[-1] not in got or piece == PIECES[-1]
            fault.step()
        while framing != "length" and not got.endswith(b"0\r\n\r\n"):  # Without a length it goes on in chunks.
            got += await line.read()
    assert got.count(b"data: ") == 3


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("framing", ["content-length", "chunked"])
async def test_a_read_that_is_cut_ends_short_and_does_not_look_whole(rig: Rig, framing: str, how: str) -> None:
    rig.standin.seed_charge(1, "usd", description="x" * 5000)
    rig.fault("truncate_after_commit", method="GET", path=None, framing=framing, how=how, keep=100)
    async with await rig.line() as line:
        await line.send(request("GET", "/stripe/v1/charges", headers=AUTH))
        data, _ = await line.rest()
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert len(body) < 200
    if framing == "chunked":
        assert not body.endswith(b"0\r\n\r\n")
    else:
        assert int(Heard(head + b"\r\n\r\n", b"", b"").field("Content-Length") or 0) > len(body)


async def test_an_agent_that_leaves_a_read_disturbs_nobody(rig: Rig) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = chunk(b"x" * 1000)
    fault = answer(rig, head + piece, *([piece] * 50), gated=True, method="GET")
    line = await rig.line()
    await line.send(request("GET", "/stripe/v1/events", headers=AUTH))
    assert piece in await line.read(1000)
    line.close()
    fault.release()
    assert (await read(rig)).status == 200


async def test_one_connection_serves_reads_writes_pages_and_answers_of_ours_in_turn(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    async with await rig.line() as line:
        one = await line.ask(request("GET", "/stripe/v1/charges", headers=AUTH))
        two = await line.ask(rig.refund(charge, event=named))
        three = await line.ask(request("GET", f"/_doubtless/actions/{two.action_id}"))
        four = await line.ask(rig.refund(charge, event=named, amount="5401"))
        five = await line.ask(request("POST", "/nobody/v1", body=b"x" * 100_000))
        six = await line.ask(rig.refund(charge, event=named))
        seven = await line.ask(request("HEAD", "/stripe/v1/charges", headers=AUTH), head_only=True)
    assert [h.status for h in (one, two, three, four, five, six, seven)] == [200, 200, 200, 422, 404, 200, 200]
    assert (six.body, six.field("Idempotent-Replayed")) == (two.body, "true")
    assert [arrival.method for arrival in rig.standin.journal] == ["GET", "POST", "HEAD"]


async def test_requests_that_are_sent_at_once_are_answered_in_their_order(rig: Rig) -> None:
    named = [event() for _ in range(5)]
    async with await rig.line() as line:
        await line.send(b"".join(rig.refund(rig.charge(), event=name) for name in named))
        heard = [await line.hear() for _ in named]
    assert [(await rig.action(h.action_id))["event_id"] for h in heard] == named
    assert [a.key for a in rig.writes] == [f"{name}:stripe.refund.create" for name in named]


@pytest.mark.parametrize("target", ["/stripe/v1/charges", "/stripe/v1/refunds", "/nobody", "/_doubtless/actions/x"])
async def test_an_agent_that_wants_the_connection_closed_is_obeyed(rig: Rig, target: str) -> None:
    method = "POST" if target.endswith("refunds") else "GET"
    data = request(
        method, target, body=b"charge=ch_1" if method == "POST" else None, headers={**AUTH, "Connection": "close"}
    )
    async with await rig.line() as line:
        heard = await line.ask(data)
        assert (heard.field("Connection"), await line.rest()) == ("close", (b"", "fin"))


async def test_the_providers_port_answers_the_same(rig: Rig) -> None:
    async with await Line.open(rig.app.ports["providers.stripe"]) as line:
        heard = await line.ask(request("GET", "/v1/charges?", headers=AUTH))
    assert heard.body == (await rig.ask("GET", "/stripe/v1/charges?", headers=AUTH)).body
