"""An exchange over real sockets: what leaves and what comes back."""

import pytest

from proxy.core.http import Answered, Integrity, Request, Response, Silence
from tests.wire.scripted import Scripted, answered, asking, get, ok, on_both_loops, post, turns

LARGE = bytes(8 << 20)  # Far more than the kernel's buffers and the server's take unread.


@on_both_loops
async def test_the_request_arrives_byte_for_byte_with_the_upstreams_host() -> None:
    headers = (
        (b"x-Zed", b"1"),
        (b"Host", b"127.0.0.1:7411"),
        (b"X-a", b"caf\xe9 \xff"),
        (b"x-zed", b"2"),
        (b"cookie", b'a="b c"; d=e; d=f'),
    )
    async with Scripted() as server, asking(server.port, prefix="/eu") as asker:
        task = asker.ask(post(b"a[]=1", target="/v1/%2F//../{x}[y]?", headers=headers))
        peer = await server.accept()

        assert (
            await peer.request()
            == (
                b"POST /eu/v1/%%2F//../{x}[y]? HTTP/1.1\r\n"
                b"x-Zed: 1\r\nHost: 127.0.0.1:%d\r\nX-a: caf\xe9 \xff\r\nx-zed: 2\r\n"
                b'cookie: a="b c"; d=e; d=f\r\nContent-Length: 5\r\n\r\na[]=1'
            )
            % server.port
        )
        peer.say(ok())
        assert (await task).integrity is Integrity.WHOLE


@on_both_loops
@pytest.mark.parametrize("target", ["/x?", "/%2F%7e", "//a//", "/a/../.", "/a[]=1&b[c]=2", '/?q={"j":1}|^'])
async def test_a_target_arrives_byte_identical(target: str) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(get(target))
        peer = await server.accept()

        assert (await peer.request()).split(b" ")[1] == target.encode()
        peer.say(ok())
        await task


@on_both_loops
async def test_a_delete_without_a_body_gains_no_content_length() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(Request("DELETE", "/v1/customers/cus_1"))
        peer = await server.accept()

        assert (
            await peer.request() == b"DELETE /v1/customers/cus_1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port
        )
        peer.say(ok())
        await task


@on_both_loops
async def test_the_response_comes_back_byte_for_byte() -> None:
    raw = (
        b"HTTP/1.1 299 Tr\xe8s bien\r\nset-Cookie: a\r\nX-A: caf\xe9\r\nSET-cookie: b\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\0\xff"
    )
    async with Scripted() as server, asking(server.port) as asker:
        _, outcome = await answered(asker, server, get(), raw)

    headers = (
        (b"set-Cookie", b"a"),
        (b"X-A", b"caf\xe9"),
        (b"SET-cookie", b"b"),
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"4"),
    )
    assert outcome == Answered(Response(299, b"Tr\xe8s bien", headers, b"\x1f\x8b\0\xff"))


@on_both_loops
async def test_trailers_come_back() -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"
    async with Scripted() as server, asking(server.port) as asker:
        _, outcome = await answered(asker, server, get(), raw)

    assert (outcome.response.body, outcome.response.trailers) == (b"ok", ((b"X-Sum", b"1"),))


@on_both_loops
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        raw = b"HTTP/1.1 %d Moved\r\nLocation: http://127.0.0.1:%d/b\r\nContent-Length: 0\r\n\r\n" % (
            status,
            server.port,
        )
        peer, outcome = await answered(asker, server, post(), raw)
        await asker.client.close()

        assert outcome.response.status == status
        assert await peer.heard_no_more() == b""
        assert len(server.peers) == 1


@on_both_loops
async def test_interim_responses_are_waited_through() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 100 Continue\r\n\r\n")
        await turns()
        peer.say(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok(b"fine"))

        assert (await task).response.body == b"fine"


@on_both_loops
@pytest.mark.parametrize(
    ("raw", "integrity"),
    [
        (ok() + b"EXTRA", Integrity.TRAILING),
        (ok() + ok(), Integrity.TRAILING),
        (ok() + b"\r\n", Integrity.TRAILING),
        (ok(bytes(101)), Integrity.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", Integrity.MALFORMED),
        (b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Integrity.MALFORMED),
    ],
)
async def test_an_answer_that_is_not_spotless_says_so_and_its_connection_is_closed(
    raw: bytes, integrity: Integrity
) -> None:
    async with Scripted() as server, asking(server.port, response_bytes=100) as asker:
        peer, outcome = await answered(asker, server, post(), raw)

        assert outcome.integrity is integrity
        assert await peer.heard_no_more() == b""


@on_both_loops
@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nA: " + bytes(70_000)])
async def test_bytes_that_are_no_response_are_garbled_silence_at_once(raw: bytes) -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        peer.say(raw)

        assert await task == Silence(garbled=True)
        assert asker.sent[0].left_bytes > 0
        await peer.heard_no_more()


@on_both_loops
async def test_an_answer_before_the_upload_ended_says_so_and_closes_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        task = asker.ask(post(LARGE))
        peer = await server.accept()
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.stop_reading()
        peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")

        outcome = await task
        assert (outcome.response.status, outcome.response.body) == (413, b"large")
        assert (outcome.integrity, outcome.upload_ended) == (Integrity.WHOLE, False)
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await peer.heard_no_more()) < len(LARGE)


@on_both_loops
async def test_an_answer_after_a_large_upload_says_that_it_ended_and_keeps_the_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        _, outcome = await answered(asker, server, post(LARGE), ok())
        assert outcome.upload_ended

        task = asker.ask(get())
        await server.peers[0].request()
        server.peers[0].say(ok())
        assert (await task).integrity is Integrity.WHOLE


@on_both_loops
async def test_a_request_that_is_not_coherent_is_refused_before_a_connection() -> None:
    async with Scripted() as server, asking(server.port) as asker:
        with pytest.raises(ValueError, match="Content-Length"):
            await asker.exchange(Request("POST", "/", (), b"x"))

        await turns()
        assert (asker.sent[0].left_bytes, server.peers) == (0, [])
