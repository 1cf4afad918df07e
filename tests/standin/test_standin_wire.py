"""The journal shows the bytes that arrived, whatever their framing; the server speaks HTTP/1.1 as providers do."""

import ssl

import pytest
import trustme
from standin_client import Client, Hands

from proxy.edges.standin import Fault, Framing, Listener, StandIn
from proxy.edges.standin.wire import Answer, Body, Malformed, encode

HEAD = (
    b"POST /v1/customers?a=%2F&b=[x] HTTP/1.1\r\n"
    b"hOsT: api.stripe.com\r\n"
    b"X-Twice: 1\r\n"
    b"Authorization: Bearer sk_test_mine\r\n"
    b"x-twice:   2\t\r\n"
    b"X-Latin: caf\xe9\r\n"
    b"Idempotency-Key: ticket-17:stripe.customer.create\r\n"
)
BODY = b"email=a%40example.com&metadata[a]=b"


async def test_the_journal_shows_head_and_body_as_they_came(standin: StandIn, stripe: Client, hands: Hands) -> None:
    line = await stripe.line()
    await line.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY)
    answer = await line.hear()
    (arrival,) = standin.journal
    assert arrival.head == HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY)
    assert (arrival.method, arrival.target) == ("POST", "/v1/customers?a=%2F&b=[x]")
    assert arrival.headers[:2] == ((b"hOsT", b"api.stripe.com"), (b"X-Twice", b"1"))
    assert arrival.headers[3:5] == ((b"x-twice", b"2"), (b"X-Latin", b"caf\xe9"))
    assert (arrival.body, arrival.body_raw, arrival.framing) == (BODY, BODY, Framing.LENGTH)
    assert (arrival.key, arrival.mode, arrival.account) == ("ticket-17:stripe.customer.create", "test", None)
    assert (arrival.executed, arrival.replayed, arrival.status, arrival.fault) == (True, False, 200, None)
    assert (arrival.object_id, arrival.request_id) == (answer.json["id"], answer.headers["request-id"])
    assert (arrival.sent, arrival.arrived_ms, arrival.complete) == (answer.raw, hands(), True)


async def test_a_chunked_body_is_shown_with_and_without_its_coding(standin: StandIn, stripe: Client) -> None:
    coded = b"7\r\nemail=a\r\n20;x=1\r\n%40example.com&metadata[long]=yy\r\n0\r\nX-Trailer: 1\r\n\r\n"
    line = await stripe.line()
    await line.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + coded)
    assert (await line.hear()).json["email"] == "a@example.com"
    (arrival,) = standin.journal
    assert (arrival.framing, arrival.body_raw) == (Framing.CHUNKED, coded)
    assert arrival.body == b"email=a%40example.com&metadata[long]=yy"


@pytest.mark.parametrize("coded", [b"4\r\nabcd\r\n0\r\n\r\n", b"2\r\nab\r\n2;q\r\ncd\r\n0\r\nA: b\r\n\r\n"])
def test_a_chunked_body_is_the_same_however_it_is_cut(coded: bytes) -> None:
    for size in range(1, len(coded) + 1):
        body, rest = Body(Framing.CHUNKED), b""
        for start in range(0, len(coded) + 3, size):
            rest += body.feed((coded + b"NXT")[start : start + size])
        assert (bytes(body.data), bytes(body.raw), rest, body.done) == (b"abcd", coded, b"NXT", True)


@pytest.mark.parametrize("coded", [b"zz\r\n", b"2\r\nabc\r\n"])
def test_a_chunk_that_is_none_is_malformed(coded: bytes) -> None:
    with pytest.raises(Malformed):
        Body(Framing.CHUNKED).feed(coded)


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_that_can_have_no_body_announces_none(status: int) -> None:
    assert encode(Answer(status, ((b"A", b"b"),), b"x"), bodiless=False).endswith(b"\r\nA: b\r\n\r\n")


async def test_requests_follow_each_other_on_a_connection(standin: StandIn, stripe: Client) -> None:
    line = await stripe.line()
    await line.send(stripe.request("GET", "/v1/balance") + b"\r\n" + stripe.request("GET", "/v1/account"))
    assert (await line.hear()).json["object"] == "balance"
    assert (await line.hear()).json["object"] == "account"
    other = await stripe.sent("GET", "/v1/balance")
    assert (await other.hear()).status == 200
    assert [(arrival.connection, arrival.nth) for arrival in standin.journal] == [(1, 1), (1, 2), (2, 1)]
    assert standin.connections == 2


async def test_a_head_may_come_byte_by_byte(standin: StandIn, stripe: Client) -> None:
    line = await stripe.line()
    for byte in stripe.request("GET", "/v1/balance"):
        await line.send(bytes([byte]))
    assert (await line.hear()).status == 200


async def test_a_connection_closes_when_the_client_asks_for_it(stripe: Client) -> None:
    line = await stripe.sent("GET", "/v1/balance", headers={"Connection": "close"})
    assert ((await line.hear()).status, await line.rest()) == (200, (b"", "fin"))
    line = await stripe.line()
    await line.send(b"GET /v1/balance HTTP/1.0\r\nAuthorization: Bearer sk_test_mine\r\n\r\n")
    assert ((await line.hear()).status, await line.rest()) == (200, (b"", "fin"))


async def test_100_continue_comes_before_the_body_is_sent(standin: StandIn, stripe: Client) -> None:
    head, _, body = stripe.request(
        "POST", "/v1/customers", {"email": "a@example.com"}, headers={"Expect": "100-continue"}
    ).partition(b"\r\n\r\n")
    line = await stripe.line()
    await line.send(head + b"\r\n\r\n")
    assert (await line.hear()).raw == b"HTTP/1.1 100 Continue\r\n\r\n"
    await line.send(body)
    assert (await line.hear()).status == 200
    assert standin.journal[0].body == b"email=a%40example.com"


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET  /v1/balance HTTP/1.1\r\n\r\n",
        b"GET /v1/balance HTTP/2\r\n\r\n",
        b"GET /v1/balance HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /v1/balance HTTP/1.1\r\n folded: x\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"POST /v1/refunds HTTP/1.1\r\nContent-Length: +1\r\n\r\nx",
        b"POST /v1/refunds HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST /v1/refunds HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/balance HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"yyyy",
    ],
)
async def test_what_is_no_http_is_answered_400_and_never_taken_for_a_request(
    standin: StandIn, stripe: Client, data: bytes
) -> None:
    line = await stripe.line()
    await line.send(data)
    line.writer.write_eof()
    answer, how = await line.rest()
    assert (answer[:24], how) == (b"HTTP/1.1 400 Bad Request", "fin")
    (arrival,) = standin.journal
    assert data.startswith(arrival.head[:100])
    assert (arrival.status, arrival.executed, (arrival.fault or "")[:10]) == (400, False, "malformed:")


@pytest.mark.parametrize("sent", [b"POST /v1/ref", b"POST /v1/refunds HTTP/1.1\r\nContent-Length: 9\r\n\r\nchar"])
async def test_a_client_that_goes_in_the_middle_leaves_what_it_sent(
    standin: StandIn, stripe: Client, sent: bytes
) -> None:
    line = await stripe.line()
    await line.send(sent)
    line.writer.write_eof()
    assert await line.rest() == (b"", "fin")
    (arrival,) = standin.journal
    assert (arrival.complete, arrival.executed, arrival.head + arrival.body) == (False, False, sent)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def test_it_listens_with_tls_beside_plain(hands: Hands, authority: trustme.CA) -> None:
    server, client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client_side)
    standin = StandIn(clock=hands, listen=[Listener("stripe"), Listener("stripe", ssl=server), Listener("resend")])
    await standin.start()
    client = Client(standin.port("stripe", tls=True), secret="sk_test_mine")
    assert standin.url("stripe", tls=True) == f"https://127.0.0.1:{client.port}"
    assert standin.url("stripe") == f"http://127.0.0.1:{standin.port('stripe')}"
    line = await client.line(tls=client_side)
    await line.send(client.request("GET", "/v1/balance"))
    assert (await line.hear()).status == 200
    for how in ("fin", "rst"):
        standin.faults.add(Fault("drop_after_commit", how=how))
        line = await client.line(tls=client_side)
        await line.send(client.request("POST", "/v1/customers", {}))
        assert (await line.rest())[0] == b""
    assert standin.executions() == 2
    with pytest.raises(LookupError):
        standin.port("resend", tls=True)
    client.close()
    await standin.stop()
