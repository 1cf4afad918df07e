"""Over TLS: what is refused sends nothing, and what ends does so only with close_notify."""

import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trustme

from proxy.core.http import Answered, Integrity, NotSent, Silence, Unsent
from proxy.edges.upstream import tls_context
from proxy.edges.upstream.dial import Address
from tests.wire.scripted import Peer, Scripted, answered, asking, get, ok, on_both_loops, post

LARGE = bytes(8 << 20)
OURS = trustme.CA()
LOCAL = OURS.issue_cert("127.0.0.1", "localhost")
OTHER = OURS.issue_cert("other.example")


def served(certificate: trustme.LeafCert = LOCAL) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    OURS.cert_pem.write_to_path(str(file))
    return tls_context(str(file))


@on_both_loops
async def test_an_exchange_over_tls_speaks_http_1_1_and_keeps_its_connection(trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        peer, _ = await answered(asker, server, post(), ok())
        task = asker.ask(get("/second"))

        assert (await peer.request()).startswith(b"GET /second ")
        peer.say(ok(b"again"))
        outcome = await task
        assert isinstance(outcome, Answered)
        assert outcome.response.body == b"again"
        assert peer.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


@on_both_loops
async def test_the_name_of_the_upstream_is_asked_for_and_verified_wherever_it_resolves_to(
    trusting: ssl.SSLContext,
) -> None:
    asked: list[str] = []

    async def resolve(_host: str, port: int) -> Sequence[Address]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    context = served(OTHER)
    context.sni_callback = lambda _object, name, _context: asked.append(name)
    async with (
        Scripted(context) as server,
        asking(server.port, host="other.example", tls=trusting, resolve=resolve) as asker,
    ):
        _, outcome = await answered(asker, server, get(), ok())

    assert outcome.integrity is Integrity.WHOLE
    assert asked == ["other.example"]


@on_both_loops
@pytest.mark.parametrize("reason", ["an authority that is not trusted", "another name"])
async def test_a_certificate_that_is_refused_sees_no_byte_of_the_request(reason: str, trusting: ssl.SSLContext) -> None:
    tls, certificate = (tls_context(), LOCAL) if reason.startswith("an authority") else (trusting, OTHER)
    async with Scripted(served(certificate)) as server, asking(server.port, tls=tls) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.CERTIFICATE)

        assert asker.sent[0].left_bytes == 0
        for peer in server.peers:  # In TLS 1.3 the server may have thought itself connected.
            assert await peer.heard_no_more() == b""


@on_both_loops
async def test_a_server_that_speaks_no_tls_is_a_tls_error(trusting: ssl.SSLContext) -> None:
    async with Scripted() as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.reader.readexactly(5)
        peer.say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        assert await task == NotSent(Unsent.TLS)
        assert b"refunds" not in await peer.heard_no_more()


@on_both_loops
async def test_an_alert_in_the_handshake_is_a_tls_error(trusting: ssl.SSLContext) -> None:
    async with Scripted() as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.reader.readexactly(5)
        peer.say(b"\x15\x03\x03\x00\x02\x02\x46")  # Fatal: protocol version (RFC 8446, section 6).

        assert await task == NotSent(Unsent.TLS)


@on_both_loops
@pytest.mark.parametrize("ending", [Peer.hang_up, Peer.reset])
async def test_a_connection_that_ends_within_the_handshake_was_sent_nothing(
    ending: Callable[[Peer], None], trusting: ssl.SSLContext
) -> None:
    async with Scripted() as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.reader.readexactly(5)
        ending(peer)

        assert await task == NotSent(Unsent.CLOSED)
        assert asker.sent[0].left_bytes == 0


@on_both_loops
async def test_a_server_that_speaks_first_where_tls_is_expected_was_sent_nothing(trusting: ssl.SSLContext) -> None:
    async with Scripted() as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        peer.say(b"220 mail.example ESMTP\r\n")

        outcome = await task
        assert isinstance(outcome, NotSent)
        assert outcome.why in (Unsent.TLS, Unsent.CLOSED)
        assert b"refunds" not in await peer.heard_no_more()


@on_both_loops
async def test_a_handshake_that_hangs_is_a_timeout(trusting: ssl.SSLContext) -> None:
    async with Scripted() as server, asking(server.port, tls=trusting, connect_timeout_ms=80) as asker:
        assert await asker.exchange(post()) == NotSent(Unsent.TIMEOUT)
        assert b"refunds" not in await (await server.accept()).heard_no_more()


@on_both_loops
@pytest.mark.parametrize("notified", [True, False])
async def test_only_close_notify_ends_a_body_without_framing(notified: bool, trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(get())
        peer = await server.accept()
        await peer.request()
        peer.say(b"HTTP/1.1 200 OK\r\n\r\nall of it, perhaps")
        await peer.writer.drain()
        if notified:
            peer.hang_up()
        else:  # Under TLS, as somebody on the way could.
            with socket.socket(fileno=os.dup(peer.writer.get_extra_info("socket").fileno())) as below:
                below.shutdown(socket.SHUT_WR)
        outcome = await task

    assert isinstance(outcome, Answered)
    assert outcome.response.body == b"all of it, perhaps"
    assert outcome.integrity is (Integrity.WHOLE if notified else Integrity.CUT)


@on_both_loops
@pytest.mark.parametrize("ending", [Peer.hang_up, Peer.reset])
async def test_a_connection_lost_before_the_head_is_silence(
    ending: Callable[[Peer], None], trusting: ssl.SSLContext
) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post())
        peer = await server.accept()
        await peer.request()
        ending(peer)

        assert await task == Silence()
        assert asker.sent[0].left_bytes > 0


@on_both_loops
async def test_an_answer_before_the_upload_ended_is_seen_through_tls(trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        task = asker.ask(post(LARGE))
        peer = await server.accept()
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.stop_reading()
        peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        outcome = await task

    assert isinstance(outcome, Answered)
    assert (outcome.response.status, outcome.upload_ended) == (413, False)


@on_both_loops
async def test_a_large_upload_through_tls_arrives_and_its_connection_is_kept(trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        peer, outcome = await answered(asker, server, post(LARGE), ok())
        assert outcome.upload_ended

        task = asker.ask(get())
        await peer.request()
        peer.say(ok())
        assert isinstance(await task, Answered)


@on_both_loops
async def test_an_upload_that_the_peer_does_not_read_ends_in_time(trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        peer.stop_reading()

        assert await asker.exchange(post(LARGE), asker.sending(ms=100)) == Silence(timed_out=True)


@on_both_loops
async def test_an_idle_connection_that_the_server_ends_is_passed_over(trusting: ssl.SSLContext) -> None:
    async with Scripted(served()) as server, asking(server.port, tls=trusting) as asker:
        peer, _ = await answered(asker, server, get(), ok())
        peer.hang_up()
        _, outcome = await answered(asker, server, post(), ok(b"fresh"))

        assert outcome.response.body == b"fresh"
        assert asker.sent[1].left_bytes > 0


@on_both_loops
async def test_the_roots_of_ssl_cert_file_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    OURS.cert_pem.write_to_path(str(tmp_path / "roots.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    async with Scripted(served()) as server, asking(server.port, tls=tls_context()) as asker:
        _, outcome = await answered(asker, server, get(), ok())

        assert outcome.integrity is Integrity.WHOLE


def test_a_ca_file_that_holds_no_certificate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")

    with pytest.raises(ssl.SSLError):
        tls_context(str(tmp_path / "empty.pem"))
    with pytest.raises(OSError, match="No such file"):
        tls_context(str(tmp_path / "absent.pem"))
