"""The rules of a response head, and of a request as it is written down: pure functions, as tables."""

import pytest

from proxy.core.http import Request
from proxy.edges.upstream import Origin, tls_context
from proxy.edges.upstream.head import HEADERS_MOST, Head, read_head
from proxy.edges.upstream.outgoing import outgoing


def head(raw: bytes) -> Head:
    read = read_head(raw)
    assert read is not None
    return read


def test_a_head_keeps_order_case_duplicates_and_latin_1_bytes_as_they_came() -> None:
    read = head(
        b"HTTP/1.1 299 Tr\xe8s bien\r\nx-B: 1\r\nX-a:\t2 \t\r\nX-A: caf\xe9\r\nSet-Cookie: a\r\nset-cookie:\r\nX-a: 2"
    )

    assert (read.status, read.reason, read.complaint) == (299, b"Tr\xe8s bien", None)
    assert read.headers == (
        (b"x-B", b"1"),
        (b"X-a", b"2"),
        (b"X-A", b"caf\xe9"),
        (b"Set-Cookie", b"a"),
        (b"set-cookie", b""),
        (b"X-a", b"2"),
    )


@pytest.mark.parametrize(
    ("raw", "reason"),
    [(b"HTTP/1.1 200", b""), (b"HTTP/1.1 200 ", b""), (b"HTTP/1.0 200 OK", b"OK"), (b"HTTP/1.1 600 Eh", b"Eh")],
)
def test_a_status_line_may_lack_its_reason_and_be_of_1_0(raw: bytes, reason: bytes) -> None:
    assert (head(raw).reason, head(raw).complaint) == (reason, None)


FAULTY = {
    "both framings": b"Content-Length: 2\r\nTransfer-Encoding: chunked",
    "both framings, the other way round": b"Transfer-Encoding: chunked\r\nContent-Length: 2",
    "two lengths that differ": b"Content-Length: 2\r\nContent-Length: 3",
    "two lengths that are equal": b"Content-Length: 2\r\nContent-Length: 2",
    "a list of equal lengths": b"Content-Length: 2, 2",
    "a signed length": b"Content-Length: +2",
    "a hexadecimal length": b"Content-Length: 0x2",
    "an empty length": b"Content-Length:",
    "a length past 2^63": b"Content-Length: 9999999999999999999",
    "gzip as a transfer coding": b"Transfer-Encoding: gzip",
    "gzip under chunked": b"Transfer-Encoding: gzip, chunked",
    "chunked twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "chunked with a parameter": b"Transfer-Encoding: chunked;q=1",
    "identity": b"Transfer-Encoding: identity",
    "an empty transfer coding": b"Transfer-Encoding:",
    "a folded line": b"A: x\r\n y",
    "a line folded by a tab": b"A: x\r\n\ty",
    "a space before the colon": b"A : x",
    "a space in a name": b"A b: x",
    "a name outside ASCII": b"Caf\xe9: x",
    "no name": b": x",
    "no colon": b"Nothing",
    "a bare LF": b"A: x\nB: y",
    "a bare CR": b"A: x\rB: y",
    "a NUL in a value": b"A: x\0y",
    "a control byte in a value": b"A: x\x01y",
    "a DEL in a value": b"A: x\x7fy",
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_head_that_breaks_a_framing_rule_is_complained_of_and_its_status_kept(fault: str) -> None:
    read = head(b"HTTP/1.1 201 Created\r\n" + FAULTY[fault])

    assert read.complaint is not None
    assert (read.status, read.reason) == (201, b"Created")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.2 200 OK",
        b"HTTP/2.0 200 OK",
        b"HTTP/0.9 200 OK",
        b"HTTP/1.1 099 Low",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_status_line_that_is_none_of_http_1_is_complained_of(raw: bytes) -> None:
    assert head(raw).complaint is not None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/x.y 200 OK",
        b"HTTP/11 200 OK",
        b"http/1.1 200 OK",
        b"SSH-2.0-OpenSSH_9.2",
        b"\r\nHTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK" + b"\r\nA: x" * (HEADERS_MOST + 1),
    ],
)
def test_what_does_not_begin_with_a_status_line_or_has_too_many_fields_is_no_head(raw: bytes) -> None:
    assert read_head(raw) is None


def test_as_many_fields_as_the_bound_are_a_head() -> None:
    assert len(head(b"HTTP/1.1 200 OK" + b"\r\nA: x" * HEADERS_MOST).headers) == HEADERS_MOST


@pytest.mark.parametrize(
    ("raw", "kept", "seconds"),
    [
        (b"HTTP/1.1 200 OK", True, None),
        (b"HTTP/1.1 200 OK\r\nConnection: Close", False, None),
        (b"HTTP/1.1 200 OK\r\nConnection: keep-alive, close", False, None),
        (b"HTTP/1.1 200 OK\r\nConnection: upgrade\r\nConnection: close", False, None),
        (b"HTTP/1.1 200 OK\r\nConnection: closed", True, None),
        (b"HTTP/1.0 200 OK", False, None),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive", True, None),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100", True, 5),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: max=100,Timeout=7", True, 7),
        (b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=soon", True, None),
    ],
)
def test_a_connection_is_kept_as_the_head_says(raw: bytes, kept: bool, seconds: int | None) -> None:
    assert (head(raw).keep_alive, head(raw).keep_alive_s) == (kept, seconds)


def written(request: Request, authority: bytes = b"api.acme.example", prefix: str = "") -> bytes:
    return b"".join(outgoing(request, authority, prefix).parts)


def test_a_request_is_written_as_it_is_given_but_for_the_host() -> None:
    headers = (
        (b"x-Zed", b"1"),
        (b"HOST", b"127.0.0.1:7411"),
        (b"X-a", b"caf\xe9"),
        (b"x-zed", b""),
        (b"content-LENGTH", b"2"),
    )

    assert written(Request("POST", "/a?", headers, b"ok")) == (
        b"POST /a? HTTP/1.1\r\n"
        b"x-Zed: 1\r\nHOST: api.acme.example\r\nX-a: caf\xe9\r\nx-zed: \r\ncontent-LENGTH: 2\r\n\r\nok"
    )


def test_a_missing_host_comes_first_and_nothing_else_is_added() -> None:
    assert written(Request("DELETE", "/x", ((b"A", b"b"),))) == (
        b"DELETE /x HTTP/1.1\r\nHost: api.acme.example\r\nA: b\r\n\r\n"
    )


@pytest.mark.parametrize(
    "target",
    [
        "/x?",
        "/%2F%2f",
        "//a//b",
        "/a/../b/.",
        "/a[]=1&b[c]=2",
        "/{j}|^",
        "/x?a=%00&b=+&c=%20",
        "/%zz",
        "/x#f",
        "/caf\xe9",
    ],
)
def test_a_target_is_not_touched(target: str) -> None:
    assert written(Request("GET", target)).startswith(b"GET " + target.encode("latin-1") + b" HTTP/1.1\r\n")


def test_the_prefix_of_the_upstream_goes_before_the_target_and_nothing_before_an_asterisk() -> None:
    assert written(Request("GET", "/v1"), prefix="/eu").startswith(b"GET /eu/v1 HTTP/1.1")
    assert written(Request("OPTIONS", "*"), prefix="/eu").startswith(b"OPTIONS * HTTP/1.1")


@pytest.mark.parametrize(
    "request_",
    [
        Request("POST", "/", (), b"x"),
        Request("POST", "/", ((b"Content-Length", b"2"),), b"x"),
        Request("POST", "/", ((b"Content-Length", b"1"), (b"content-length", b"1")), b"x"),
        Request("POST", "/", ((b"Content-Length", b"+1"),), b"x"),
        Request("POST", "/", ((b"Content-Length", b"1"),)),
        Request("POST", "/", ((b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")), b"x"),
        Request("GET", "/", ((b"TRANSFER-encoding", b"chunked"),)),
        Request("GET", "/", ((b"A", b"b\r\nC: d"),)),
        Request("GET", "/", ((b"A", b"b\n"),)),
        Request("GET", "/", ((b"A", b"\0"),)),
        Request("GET", "/", ((b"A:", b"b"),)),
        Request("GET", "/", ((b"", b"b"),)),
        Request("GET", "/a b"),
        Request("GET", "/a\r\nX: y"),
        Request("GET", "/\u20ac"),
        Request("GET", "https://acme.example/"),
        Request("GET", ""),
        Request("GET", "*"),
        Request("GE T", "/"),
        Request("GET\r\nX: y", "/"),
        Request("CONNECT", "/"),
    ],
)
def test_a_request_that_is_not_coherent_is_refused(request_: Request) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - a UnicodeEncodeError is one as well.
        written(request_)


def test_two_hosts_are_refused_as_such() -> None:
    with pytest.raises(ValueError, match="more than one Host"):
        written(Request("GET", "/", ((b"Host", b"a"), (b"host", b"a"))))


def test_an_empty_body_may_say_so() -> None:
    assert written(Request("POST", "/", ((b"Content-Length", b"0"),))).endswith(b"Content-Length: 0\r\n\r\n")


def test_a_small_body_leaves_with_its_head_and_a_large_one_after_it() -> None:
    small, large = (Request("PUT", "/", ((b"Content-Length", b"%d" % size),), bytes(size)) for size in (65536, 65537))

    assert len(outgoing(small, b"a", "").parts) == 1
    assert len(outgoing(large, b"a", "").parts) == 2


def test_a_request_that_says_close_is_the_last_on_its_connection() -> None:
    assert outgoing(Request("GET", "/"), b"a", "").keep_alive
    assert not outgoing(Request("GET", "/", ((b"connection", b"Close"),)), b"a", "").keep_alive


@pytest.mark.parametrize(
    ("url", "host", "port", "authority", "prefix"),
    [
        ("https://api.stripe.com", "api.stripe.com", 443, b"api.stripe.com", ""),
        ("https://API.stripe.com:8443/eu/", "api.stripe.com", 8443, b"api.stripe.com:8443", "/eu"),
        ("https://[::1]:9/", "::1", 9, b"[::1]:9", ""),
        ("https://b\xfccher.example", "b\xfccher.example", 443, b"xn--bcher-kva.example", ""),
    ],
)
def test_an_origin_is_read_from_its_url(url: str, host: str, port: int, authority: bytes, prefix: str) -> None:
    origin = Origin.parse(url, tls_context())

    assert (origin.host, origin.port, origin.authority, origin.prefix) == (host, port, authority, prefix)


def test_the_port_of_a_plain_origin_is_80_unless_it_says_otherwise() -> None:
    assert Origin.parse("http://acme").authority == b"acme"
    assert Origin.parse("http://acme:443").authority == b"acme:443"


@pytest.mark.parametrize(
    "url",
    ["ftp://a", "a", "http://", "http://u:p@a", "http://a?q", "http://a#f", "https://a", "http://a..b", "http://a:x"],
)
def test_what_names_no_origin_is_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - urlsplit and the IDNA codec have words of their own.
        Origin.parse(url)
