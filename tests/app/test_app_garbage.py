"""What is no request, or none that may pass: one clear answer, nothing sent, nothing of it echoed, and on it goes."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.app.bench import SECRET, event, nothing_sent
from tests.app.line import Heard, Line, request
from tests.app.served import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")
MARK = b"s3cr3t-marker"
AUTH = b"Authorization: Bearer " + MARK + b"\r\n"
HEAD = b"POST /stripe/v1/refunds HTTP/1.1\r\nHost: x\r\n" + AUTH
CHUNKED = b"Transfer-Encoding: chunked\r\n"
BODY = b"5\r\nabcde\r\n0\r\n\r\n"
FIVE = b"Content-Length: 5\r\n"

SMUGGLING = {
    "both framings": HEAD + FIVE + CHUNKED + b"\r\n" + BODY,
    "both framings, the other way": HEAD + CHUNKED + FIVE + b"\r\n" + BODY,
    "two lengths": HEAD + FIVE + b"Content-Length: 6\r\n\r\nabcdef",
    "two equal lengths": HEAD + FIVE + FIVE + b"\r\nabcde",
    "a list of lengths": HEAD + b"Content-Length: 5, 5\r\n\r\nabcde",
    "a length with a sign": HEAD + b"Content-Length: +5\r\n\r\nabcde",
    "a length below zero": HEAD + b"Content-Length: -5\r\n\r\nabcde",
    "a length in hexadecimal": HEAD + b"Content-Length: 0x5\r\n\r\nabcde",
    "a length that is none": HEAD + b"Content-Length: " + MARK + b"\r\n\r\nabcde",
    "chunked is not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + BODY,
    "an unknown coding": HEAD + b"Transfer-Encoding: " + MARK + b"\r\n\r\n" + BODY,
    "a coding twice": HEAD + CHUNKED + CHUNKED + b"\r\n" + BODY,
    "a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + BODY,
    "a space before a length's colon": HEAD + b"Content-Length : 5\r\n\r\nabcde",
    "bare line feeds": HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\nabcde",
    "one bare line feed": HEAD + b"X: " + MARK + b"\nContent-Length: 5\r\n\r\nabcde",
    "a bare carriage return": HEAD + b"X: a\rContent-Length: 5\r\n\r\nabcde",
    "a folded header": HEAD + b"X: a\r\n " + MARK + b"\r\n" + FIVE + b"\r\nabcde",
    "a folded first header": b"POST /stripe/v1/refunds HTTP/1.1\r\n Host: x\r\n" + AUTH + FIVE + b"\r\nabcde",
    "no host": HEAD.replace(b"Host: x\r\n", b"") + FIVE + b"\r\nabcde",
    "two hosts": HEAD + b"Host: y\r\n" + FIVE + b"\r\nabcde",
    "a chunk size that is none": HEAD + CHUNKED + b"\r\n" + MARK + b"\r\nabcde\r\n0\r\n\r\n",
    "a chunk size below zero": HEAD + CHUNKED + b"\r\n-5\r\nabcde\r\n0\r\n\r\n",
    "a chunk that is longer than it says": HEAD + CHUNKED + b"\r\n3\r\nabcde\r\n0\r\n\r\n",
    "chunks with bare line feeds": HEAD + CHUNKED + b"\r\n5\nabcde\n0\n\n",
    "no colon": HEAD + MARK + b"\r\n" + FIVE + b"\r\nabcde",
    "an empty header name": HEAD + b": " + MARK + b"\r\n" + FIVE + b"\r\nabcde",
    "a space in a header's name": HEAD + b"X " + MARK + b": 1\r\n" + FIVE + b"\r\nabcde",
    "a zero byte in a header": HEAD + b"X: " + MARK + b"\0\r\n" + FIVE + b"\r\nabcde",
    "a zero byte in a name": HEAD + b"X\0" + MARK + b": 1\r\n" + FIVE + b"\r\nabcde",
}
NO_HTTP = {
    "bytes": MARK + bytes(range(256)) + b"\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + MARK + bytes(64) + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /" + MARK + b"\r\n\r\n",
    "HTTP/3.0": b"GET /" + MARK + b" HTTP/3.0\r\nHost: x\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method in lower case": b"get /" + MARK + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method that is none": MARK + b" /stripe HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes beyond ASCII in the path": b"GET /stripe/caf\xc3\xa9" + MARK + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a control byte in the path": b"GET /stripe/\x01" + MARK + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "a long first line": b"GET /" + MARK + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + MARK + b"x" * 70_000 + b"\r\n\r\n",
    "a very long head": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + MARK + b"x" * 4_000_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: s3cr3t-marker\r\n" * 300 + b"\r\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One process for all: whatever it was told before, it goes on."""
    async with Served(tmp_path_factory.mktemp("garbage"), {"STATE__KEY": '["%s"]' % ("A" * 43)}) as bench:
        yield bench


@pytest.fixture
def bench(shared: Served) -> Served:
    shared.standin.reset()
    return shared


async def heard_from(port: int, data: bytes) -> Heard:
    async with await Line.open(port) as line:
        heard = await line.ask(data)
        rest, how = await line.rest()
        assert (rest, how) == (b"", "fin"), "it is answered once, and all of the answer arrives"
        return heard


async def check_serving(bench: Served) -> None:
    """Nothing of it was echoed, and the next request is served."""
    assert bench.process is not None
    assert MARK.decode() not in bench.process.log
    assert "Traceback" not in bench.process.log
    assert (await bench.ask("GET", "/stripe/v1/charges", headers={"Authorization": f"Bearer {SECRET}"})).status == 200


@pytest.mark.parametrize("name", [*SMUGGLING, *NO_HTTP])
async def test_what_is_no_request_is_refused_in_our_own_words(bench: Served, name: str) -> None:
    before = len(await bench.actions())
    for port in (bench.ports["proxy"], bench.ports["providers.stripe"]):
        async with nothing_sent(bench):
            heard = await heard_from(port, (SMUGGLING | NO_HTTP)[name])
        assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (400, "bad_request", "never")
        assert (heard.field("Connection"), heard.field("Content-Type")) == ("close", "application/json")
        assert MARK not in heard.head + heard.body
    assert len(await bench.actions()) == before
    await check_serving(bench)


@pytest.mark.parametrize("name", [*SMUGGLING, *(name for name in NO_HTTP if name != "HTTP/0.9")])
async def test_the_ports_of_operators_and_probes_echo_nothing_either(bench: Served, name: str) -> None:
    for port in ("admin", "health"):
        heard = await heard_from(bench.ports[port], (SMUGGLING | NO_HTTP)[name])
        assert heard.status == 400
        assert MARK not in heard.head + heard.body
        if port == "admin":
            assert heard.json["code"] == "bad_request"
    assert (await bench.probe("/readyz")).status == 200
    await check_serving(bench)


async def test_noise_on_every_port_disturbs_nobody(bench: Served) -> None:
    for port in bench.ports.values():
        for size in (1, 100, 100_000):
            async with await Line.open(port) as line:
                await line.send(os.urandom(size))
                line.half_close()
                await line.rest()
    assert (await bench.admin("GET", "actions")).status == 200
    await check_serving(bench)


# ── Requests that are some, and may not pass ──────────────────────────────────────────────────────────────────────────

FORM = b"charge=ch_1&amount=5400"
REFUSED = {
    "announced trailers": {"Trailer": "X-Checksum"},
    "a websocket": {"Upgrade": "websocket", "Connection": "upgrade"},
    "an empty event": {"Doubtless-Event-Id": ""},
    "a long event": {"Doubtless-Event-Id": "x" * 256},
    "an event with a tab": {"Doubtless-Event-Id": "a\tb"},
    "an event with a control byte": {"Doubtless-Event-Id": "a\x7fb"},
    "a type that is no suffix": {"Doubtless-Action-Type": "stripe.payout.create"},
    "an empty suffix": {"Doubtless-Action-Type": "/"},
    "no suffix": {"Doubtless-Action-Type": ""},
    "a long suffix": {"Doubtless-Action-Type": "/" + "x" * 100},
}


@pytest.mark.parametrize(
    "head", [HEAD + b"Transfer-Encoding: gzip, chunked\r\n", HEAD.replace(b"/1.1", b"/1.0") + CHUNKED]
)
async def test_a_coding_that_cannot_be_carried_is_refused(bench: Served, head: bytes) -> None:
    async with nothing_sent(bench), await bench.line() as line:
        await line.send(head + b"\r\n" + BODY)
        heard = await line.hear()
        assert (heard.status, heard.code) == (400, "bad_request")
        assert MARK not in heard.body


@pytest.mark.parametrize("name", REFUSED)
async def test_what_a_write_says_of_itself_must_be_takeable(bench: Served, name: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"} | REFUSED[name]
    before = len(await bench.actions())
    async with nothing_sent(bench):
        heard = await bench.ask("POST", "/stripe/v1/refunds", body=FORM, headers=headers)
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (400, "bad_request", "never")
    assert heard.field("Doubtless-Action-Id") is None
    assert len(await bench.actions()) == before


@pytest.mark.parametrize("written", ["", "%00", "a%0Ab", "a%7Fb", "%C2%85", "x" * 256, "%E2%82%AC" * 86])
async def test_an_event_of_the_url_must_be_takeable(bench: Served, written: str) -> None:
    async with nothing_sent(bench):
        heard = await bench.ask("POST", f"/e/{written}/stripe/v1/refunds", body=FORM)
    assert (heard.status, heard.code) == (400, "bad_request")


@pytest.mark.parametrize("name", ["Doubtless-Event-Id", "Doubtless-Action-Type"])
async def test_what_names_an_action_is_said_once(bench: Served, name: str) -> None:
    data = request("POST", "/stripe/v1/refunds", body=FORM, headers={name: "/a"})
    line = f"{name}: /a\r\n".encode()
    async with nothing_sent(bench):
        heard = await heard_of(bench, data.replace(line, line + line))
    assert (heard.status, heard.code) == (400, "bad_request")


async def heard_of(bench: Served, data: bytes) -> Heard:
    async with await bench.line() as line:
        return await line.ask(data)


async def test_an_event_of_255_bytes_and_a_suffix_of_100_are_taken(bench: Served) -> None:
    named, suffix = event() + "é" * 100, "/" + "x" * 99
    named += "x" * (255 - len(named.encode()))
    headers = {"Doubtless-Event-Id": named.encode().decode("latin-1"), "Doubtless-Action-Type": suffix}
    heard = await heard_of(bench, bench.refund(bench.charge(), headers=headers))
    assert heard.status == 200
    action = await bench.action(heard.action_id)
    assert (action["event_id"], action["action_type"]) == (named, f"stripe.refund.create{suffix}")
    assert (bench.writes[0].key or "").startswith("doubtless-")


@pytest.mark.parametrize("named", ["no-such-action", "", "0190f0a0-0000-7000-8000-000000000000"])
async def test_a_retry_of_nothing_is_refused(bench: Served, named: str) -> None:
    async with nothing_sent(bench):
        heard = await heard_of(bench, bench.refund("ch_1", event=event(), headers={"Doubtless-Retry-Of": named}))
    assert (heard.status, heard.code) == (400, "retry_of_invalid")
