"""What the provider gets is what the agent sent, byte for byte, but for what is ours (CONTRACT 3, "Transparent")."""

import gzip

import pytest

from proxy.edges.standin import Framing
from tests.app.bench import SECRET, event
from tests.app.line import Heard, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOPS = ("uvloop", "asyncio")
AUTH = {"Authorization": f"Bearer {SECRET}"}
TARGETS = [
    "/v1/x?",
    "/v1/a%2Fb%2fc%7e%41",
    "//v1///charges//",
    "/v1/../v1/./charges",
    "/v1/charges?expand[]=data.customer&a[b][c]=1&a=&&=b&c",
    '/v1/x?j={"a":1}|^`"<>\\',
    "/v1/x;p=1?q=%zz%&r=%00+%20",
    "/v1/x?%E2%82%AC=é".replace("é", "%c3%a9"),
    "/v1/x:y@z!$&'()*+,=~?/?:@",
]


def fields(raw: bytes) -> list[bytes]:
    """The lines of a head."""
    return raw.removesuffix(b"\r\n\r\n").split(b"\r\n")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_path_and_query_arrive_as_they_were_written(rig: Rig, method: str, target: str) -> None:
    body = b"" if method == "POST" else None
    await rig.ask(method, f"/stripe{target}", body=body, headers={**AUTH, "Doubtless-Event-Id": event()})
    assert [arrival.target for arrival in rig.standin.journal if arrival.method == method] == [target]


LINES = [
    b"X-Dup: 1",
    b"accept-ENCODING: gzip;q=1.0, identity; q=0.5, *;q=0",
    b"x-dup: 2",
    b"X-Latin: caf\xe9 \xff\xa0",
    b"X-Utf8: caf\xc3\xa9",
    b'Cookie: a="b c"; d=e; d=f',
    b"X-Dup: 1",
    b"X-Odd!#$%&'*+.^_`|~Name: ok",
    b"Via: 1.1 somebody",
    b"X-Forwarded-For: 10.0.0.1",
    b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"Prefer: return=minimal",
]
HOPS = [
    b"Connection: keep-alive, X-Hop",
    b"X-Hop: 1",
    b"Keep-Alive: timeout=5",
    b"TE: trailers",
    b"Proxy-Authorization: Basic eDp5",
    b"Proxy-Connection: keep-alive",
    b"Upgrade: h2c",
    b"Doubtless-Agent: me",
    b"Doubtless-Status: confirmed",
    b"doubtless-anything: forged",
]


async def sent(rig: Rig, first: bytes, lines: list[bytes], body: bytes = b"") -> Heard:
    async with await rig.line() as line:
        return await line.ask(b"\r\n".join([first, *lines]) + b"\r\n\r\n" + body)


async def test_the_head_of_a_read_arrives_as_it_was_but_for_the_host_and_the_hop(rig: Rig) -> None:
    auth = b"authorization: Bearer " + SECRET.encode()
    await sent(rig, b"GET /stripe/v1/charges HTTP/1.1", [b"hOsT: 127.0.0.1", *LINES, *HOPS, auth])
    authority = b"127.0.0.1:%d" % rig.standin.port("stripe")
    wanted = [b"GET /v1/charges HTTP/1.1", b"hOsT: " + authority, *LINES, auth]
    assert fields(rig.standin.journal[0].head) == wanted


async def test_the_head_of_a_write_arrives_as_it_was_with_our_key_where_the_agents_stood(rig: Rig) -> None:
    named, charge = event(), rig.charge()
    body = b"charge=%b&amount=5400" % charge.encode()
    ours = [b"Doubtless-Event-Id: " + named.encode(), b"Doubtless-Action-Type: /x"]
    rest = [
        b"content-LENGTH: %d" % len(body),
        b"Content-Type: application/x-www-form-urlencoded",
        b"authorization: Bearer " + SECRET.encode(),
    ]
    lines = [b"Host: 127.0.0.1", *LINES, b"idempotency-KEY: the agent's", *HOPS, *ours, *rest]
    heard = await sent(rig, b"POST /stripe/v1/refunds HTTP/1.1", lines, body)
    assert heard.status == 200
    arrival = rig.writes[0]
    authority = b"Host: 127.0.0.1:%d" % rig.standin.port("stripe")
    key = b"idempotency-KEY: " + named.encode() + b":stripe.refund.create/x"
    assert fields(arrival.head) == [b"POST /v1/refunds HTTP/1.1", authority, *LINES, key, *rest]
    assert arrival.body_raw == body
    assert (await rig.action(heard.action_id))["agent_key"] == "the agent's"


async def test_where_the_agent_sent_no_key_ours_comes_last(rig: Rig) -> None:
    named = event()
    await rig.refunded(rig.charge(), event=named)
    assert fields(rig.writes[0].head)[-1] == b"Idempotency-Key: " + named.encode() + b":stripe.refund.create"


async def test_where_the_provider_documents_no_key_the_agents_own_passes_and_none_is_added(rig: Rig) -> None:
    with_key = {**AUTH, "Idempotency-Key": "mine", "Doubtless-Event-Id": event()}
    await rig.ask("DELETE", "/stripe/v1/customers/cus_1", headers=with_key)
    await rig.ask("DELETE", "/stripe/v1/customers/cus_2", headers={**AUTH, "Doubtless-Event-Id": event()})
    assert [arrival.key for arrival in rig.writes] == ["mine", None]


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "PATCH"])
async def test_a_write_without_a_body_gains_none(rig: Rig, method: str) -> None:
    line = f"{method} /stripe/v1/customers/cus_1 HTTP/1.1".encode()
    auth = b"Authorization: Bearer " + SECRET.encode()
    heard = await sent(rig, line, [b"Host: x", auth, b"Doubtless-Event-Id: " + event().encode()])
    assert heard.field("Doubtless-Action-Id") is not None
    names = [field.partition(b":")[0].lower() for field in fields(rig.writes[0].head)[1:]]
    assert names == [b"host", b"authorization", *([b"idempotency-key"] if method == "POST" else [])]
    assert (rig.writes[0].framing, rig.writes[0].body) == (Framing.NONE, b"")


async def test_a_read_with_a_body_takes_it_along(rig: Rig) -> None:
    await rig.ask("GET", "/stripe/v1/charges", body=b"limit=1", headers=AUTH)
    assert (rig.standin.journal[0].body_raw, rig.standin.journal[0].framing) == (b"limit=1", Framing.LENGTH)


async def test_a_chunked_upload_is_framed_once_where_it_was_framed(rig: Rig) -> None:
    named, body = event(), f"charge={rig.charge()}&amount=5400".encode()
    lines = [
        b"Host: x",
        b"Transfer-Encoding: chunked",
        b"Authorization: Bearer " + SECRET.encode(),
        b"Doubtless-Event-Id: " + named.encode(),
    ]
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(piece), piece) for piece in (body[:7], body[7:])) + b"0\r\n\r\n"
    assert (await sent(rig, b"POST /stripe/v1/refunds HTTP/1.1", lines, chunks)).status == 200
    arrival = rig.writes[0]
    assert fields(arrival.head)[2] == b"Content-Length: %d" % len(body)
    assert (arrival.framing, arrival.body_raw, rig.standin.executions()) == (Framing.LENGTH, body, 1)


async def test_a_compressed_body_arrives_compressed(rig: Rig) -> None:
    body = gzip.compress(b"charge=ch_1", mtime=0)
    headers = {**AUTH, "Content-Encoding": "gzip", "Doubtless-Event-Id": event()}
    await rig.ask("POST", "/stripe/v1/refunds", body=body, headers=headers)
    assert rig.writes[0].body_raw == body
    assert b"Content-Encoding: gzip" in fields(rig.writes[0].head)


async def test_parts_are_parts_whatever_their_boundary_and_arrive_as_they_were(rig: Rig) -> None:
    def parts(boundary: str) -> tuple[bytes, dict[str, str]]:
        written = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\ndispute_evidence\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n\x00\xff\r\n\r\nend\r\n"
            f"--{boundary}--\r\n"
        )
        return written.encode("latin-1"), {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    named = event()
    answers = []
    for boundary in ("one", "TWO-2"):
        body, kind = parts(boundary)
        headers = {**AUTH, **kind, "Doubtless-Event-Id": named}
        answers.append(await rig.ask("POST", "/stripe/v1/files", body=body, headers=headers))
    assert [arrival.body_raw for arrival in rig.writes] == [parts("one")[0]]
    assert answers[1].body == answers[0].body
    assert answers[1].field("Idempotent-Replayed") == "true"


async def test_a_method_override_makes_a_write_of_a_read(rig: Rig) -> None:
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "x-method-override"):
        headers = {**AUTH, name: "DELETE", "Doubtless-Event-Id": event()}
        heard = await rig.ask("GET", "/stripe/v1/customers/cus_1", headers=headers)
        assert heard.field("Doubtless-Action-Id") is not None
    plain = await rig.ask("GET", "/stripe/v1/charges", headers=AUTH)
    assert plain.field("Doubtless-Action-Id") is None


async def test_an_agent_that_waits_for_100_gets_it_from_us_and_the_provider_is_not_asked(rig: Rig) -> None:
    rig.fault("no_continue")
    data = rig.refund(rig.charge(), event=event(), headers={"Expect": "100-continue"})
    head, _, body = data.partition(b"\r\n\r\n")
    async with await rig.line() as line:
        await line.send(head + b"\r\n\r\n")
        assert await line.read(len(b"HTTP/1.1 100 Continue\r\n\r\n")) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert list(rig.standin.journal) == []
        await line.send(body)
        heard = await line.hear()
        assert (heard.status, heard.interim) == (200, ())
    assert not [field for field in fields(rig.writes[0].head) if field.lower().startswith(b"expect")]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("over", [0, 1])
async def test_a_write_of_16_mib_is_governed_and_one_byte_more_is_refused(rig: Rig, over: int, chunked: bool) -> None:
    filled = f"charge={rig.charge()}&amount=5400&instructions_email=".encode()
    body = filled + b"x" * ((16 << 20) + over - len(filled))
    head = request("POST", "/stripe/v1/refunds", headers={**AUTH, "Doubtless-Event-Id": event()})[:-2]
    framed = (
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        if chunked
        else b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    async with await rig.line() as line:
        heard = await line.ask(head + framed)
    if over:
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (413, "body_too_large", "never")
        assert list(rig.standin.journal) == []
    else:
        assert (heard.status, rig.writes[0].body_raw == body, rig.standin.executions()) == (200, True, 1)


async def test_a_write_that_asks_first_is_told_that_it_is_too_large_before_it_uploads(rig: Rig) -> None:
    head = request("POST", "/stripe/v1/refunds", headers={**AUTH, "Expect": "100-continue"})[:-2]
    async with await rig.line() as line:
        heard = await line.ask(head + b"Content-Length: 16777217\r\n\r\n")
        assert (heard.status, heard.interim, heard.field("Connection")) == (413, (), "close")
