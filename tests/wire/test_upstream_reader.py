"""The reader: each response whole, byte by byte, and with something after it."""

from dataclasses import dataclass

import pytest

from proxy.core.http import Headers, Integrity
from proxy.edges.upstream.head import HEAD_BYTES, HEADERS_MOST
from proxy.edges.upstream.reader import Reader

WHOLE, CUT, TRAILING, TOO_LARGE, MALFORMED = Integrity
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH_2 = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


@dataclass(frozen=True)
class Result:
    """What a reader says of a response; `status` None: no head."""

    status: int | None
    body: bytes = b""
    integrity: Integrity = WHOLE
    trailers: Headers = ()
    ended: bool = True
    reusable: bool = False
    garbled: bool = False


GARBLED = Result(None, integrity=MALFORMED, garbled=True)


def read(*pieces: bytes, method: str = "GET", eof: bool = False, most: int = 1 << 20) -> Result:
    reader = Reader(method, most)
    for piece in pieces:
        reader.feed(piece)
    if eof:
        reader.eof()
    status = reader.head.status if reader.head is not None else None
    return Result(
        status, reader.take(), reader.integrity, reader.trailers, reader.ended, reader.reusable, reader.garbled
    )


def bytewise(raw: bytes) -> list[bytes]:
    return [raw[at : at + 1] for at in range(len(raw))]


@dataclass(frozen=True)
class Shape:
    """A response as it is framed, and what it is read as."""

    raw: bytes
    body: bytes = b""
    status: int = 200
    method: str = "GET"
    reusable: bool = True
    trailers: Headers = ()


SHAPES = {
    "a length": Shape(LENGTH_2 + b"ok", b"ok"),
    "a length of 0": Shape(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "a length with spaces about it": Shape(b"HTTP/1.1 200 OK\r\nContent-Length: \t2 \r\n\r\nok", b"ok"),
    "a body that looks like a head": Shape(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\r\n\r\n", b"\r\n\r\n"),
    "chunks": Shape(CHUNKED + b"2\r\nok\r\n3\r\n, b\r\n0\r\n\r\n", b"ok, b"),
    "chunks in another case": Shape(
        CHUNKED.replace(b"chunked", b"Chunked") + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"
    ),
    "chunks with extensions": Shape(CHUNKED + b'2;a=b;c="d"\r\nok\r\n0;e\r\n\r\n', b"ok"),
    "chunks that end in line ends": Shape(CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n"),
    "no chunk": Shape(CHUNKED + b"0\r\n\r\n"),
    "chunks and trailers": Shape(
        CHUNKED + b"2\r\nok\r\n0\r\nX-Sum: 1 \r\nx-none:\r\nX-Sum: caf\xe9\r\n\r\n",
        b"ok",
        trailers=((b"X-Sum", b"1"), (b"x-none", b""), (b"X-Sum", b"caf\xe9")),
    ),
    "HEAD with a length": Shape(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", method="HEAD"),
    "HEAD with chunks announced": Shape(CHUNKED, method="HEAD"),
    "HEAD without framing": Shape(b"HTTP/1.1 200 OK\r\n\r\n", method="HEAD"),
    "204": Shape(b"HTTP/1.1 204 No Content\r\n\r\n", status=204),
    "204 that says a length": Shape(b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", status=204, reusable=False),
    "204 that says chunks": Shape(b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", status=204, reusable=False),
    "304 with a length": Shape(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", status=304),
    "301": Shape(b"HTTP/1.1 301 M\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", status=301),
    "64 interim responses before it": Shape(b"HTTP/1.1 102 P\r\n\r\n" * 64 + LENGTH_2 + b"ok", b"ok"),
    "100 before it": Shape(b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH_2 + b"ok", b"ok"),
    "103 before it, twice": Shape(b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" * 2 + LENGTH_2 + b"ok", b"ok"),
    "102 with a length, which means nothing": Shape(
        b"HTTP/1.1 102 P\r\nContent-Length: 9\r\n\r\n" + LENGTH_2 + b"ok", b"ok"
    ),
    "close": Shape(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok", reusable=False),
    "1.0": Shape(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok", reusable=False),
    "1.0 that is kept": Shape(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    "an offer to upgrade": Shape(
        b"HTTP/1.1 200 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nok", b"ok"
    ),
    "a status nobody knows": Shape(b"HTTP/1.1 799\r\nContent-Length: 0\r\n\r\n", status=799),
}
AFTERS = {
    "letters": b"EXTRA",
    "a line end": b"\r\n",
    "a bare LF": b"\n",
    "two line ends": b"\r\n\r\n",
    "the beginning of a second response": b"H",
    "a second response": LENGTH_2 + b"ok",
    "a second response without a body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "what looks like the end of chunks": b"0\r\n\r\n",
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_shape_is_read_alike_whole_and_byte_by_byte_and_something_after_it_is_seen(name: str) -> None:
    shape = SHAPES[name]
    expected = Result(shape.status, shape.body, WHOLE, shape.trailers, reusable=shape.reusable)
    trailing = Result(shape.status, shape.body, TRAILING, shape.trailers)

    assert read(shape.raw, method=shape.method) == expected
    assert read(*bytewise(shape.raw), method=shape.method) == expected
    for after in AFTERS.values():
        assert read(shape.raw + after, method=shape.method) == trailing
        assert read(*bytewise(shape.raw[:-1]), shape.raw[-1:] + after, method=shape.method) == trailing
        # What comes in a later read is not part of the answer, and spoils the connection.
        assert read(shape.raw, after, method=shape.method) == Result(shape.status, shape.body, WHOLE, shape.trailers)


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.body])
def test_an_end_of_the_connection_before_the_end_of_a_framed_body_cuts_it(name: str) -> None:
    shape = SHAPES[name]
    body_at = shape.raw.index(b"\r\n\r\n", shape.raw.rindex(b"HTTP/1.")) + 4
    for at in range(body_at, len(shape.raw)):
        result = read(shape.raw[:at], method=shape.method, eof=True)
        assert (result.status, result.integrity, result.reusable) == (shape.status, CUT, False)
        assert shape.body.startswith(result.body)


def test_an_end_of_the_connection_ends_a_body_without_framing() -> None:
    for raw in (b"HTTP/1.1 200 OK\r\n\r\nokay", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nokay"):
        assert read(raw, eof=True) == Result(200, b"okay", WHOLE)
        assert read(*bytewise(raw), eof=True) == Result(200, b"okay", WHOLE)
        assert not read(raw).ended


def test_a_body_without_framing_that_is_broken_off_is_cut() -> None:
    reader = Reader("GET", 100)
    reader.feed(b"HTTP/1.1 200 OK\r\n\r\nokay")
    reader.cut()

    assert (reader.ended, reader.integrity, reader.take()) == (True, CUT, b"okay")


@pytest.mark.parametrize("at", range(len(LENGTH_2)))
def test_an_end_of_the_connection_before_a_whole_head_leaves_nothing(at: int) -> None:
    assert read(LENGTH_2[:at], eof=True) == Result(None, integrity=CUT)
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH_2[:at], eof=True) == Result(None, integrity=CUT)


MALFORMED_HEADS = {
    "both framings": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    "HEAD or not": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
    "a folded line": b"HTTP/1.1 200 OK\r\nA: x\r\n y\r\nContent-Length: 2\r\n\r\nok",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    "a NUL": b"HTTP/1.1 200 OK\r\nA: \0\r\nContent-Length: 2\r\n\r\nok",
    "bare LFs": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "a bare LF at the last line": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
    "a bare LF before the empty line": b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok",
    "a bare LF after the status line": b"HTTP/1.1 200 OK\n\r\nok",
    "bare LFs first and proper ends later": b"HTTP/1.1 200 OK\nA: x\n\nok\r\nB: y\r\n\r\n",
    "chunks in 1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "version 2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("name", MALFORMED_HEADS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_whole_head_with_faulty_framing_is_malformed_and_its_body_is_not_read(name: str, method: str) -> None:
    raw = MALFORMED_HEADS[name]

    assert read(raw, method=method) == Result(200, integrity=MALFORMED)
    assert read(*bytewise(raw), method=method) == Result(200, integrity=MALFORMED)


def test_a_change_of_protocol_is_malformed() -> None:
    raw = b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nfoo"

    assert read(raw) == read(*bytewise(raw)) == Result(101, integrity=MALFORMED)


NO_HEADS = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "TLS where none is spoken": b"\x15\x03\x03\x00\x02\x02\x28",
    "HTTP/0.9": b"<html>",
    "a line end first": b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "no number for a status": b"HTTP/1.1 abc\r\n",
    "interim responses without end": b"HTTP/1.1 102 P\r\n\r\n" * 65 + LENGTH_2 + b"ok",
    "a faulty interim response": b"HTTP/1.1 103 Early\r\nA : b\r\n\r\n" + LENGTH_2 + b"ok",
    "an endless head": b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_BYTES,
    "a head over the bound": b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_BYTES + b"\r\nContent-Length: 0\r\n\r\n",
    "too many fields": b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * (HEADERS_MOST + 1) + b"\r\n",
    "letters between two heads": b"HTTP/1.1 100 Continue\r\n\r\nletters",
}


@pytest.mark.parametrize("name", NO_HEADS)
def test_what_is_no_head_is_garbled_without_waiting_for_more(name: str) -> None:
    raw = NO_HEADS[name]
    thirds = [raw[: len(raw) // 3], raw[len(raw) // 3 : -1], raw[-1:]]

    assert read(raw) == GARBLED
    assert read(*thirds) == GARBLED
    if len(raw) < 1000:
        assert read(*bytewise(raw)) == GARBLED


def test_a_head_of_exactly_the_bound_is_read() -> None:
    start = b"HTTP/1.1 204 No\r\nA: "
    raw = start + b"x" * (HEAD_BYTES - len(start) - 4) + b"\r\n\r\n"

    assert len(raw) == HEAD_BYTES
    assert read(raw).status == read(raw[:-1], raw[-1:]).status == 204


FAULTY_CHUNKS = {
    "a bare LF after the size": b"2\nok\r\n0\r\n\r\n",
    "a bare LF after the data": b"2\r\nok\n0\r\n\r\n",
    "nothing after the data": b"2\r\nok0\r\n\r\n",
    "more data than the size": b"2\r\nokay\r\n0\r\n\r\n",
    "a space after the size": b"2 \r\nok\r\n0\r\n\r\n",
    "a space before the size": b" 2\r\nok\r\n0\r\n\r\n",
    "a sign": b"+2\r\nok\r\n0\r\n\r\n",
    "a prefix of hexadecimal": b"0x2\r\nok\r\n0\r\n\r\n",
    "no size": b"\r\nok\r\n0\r\n\r\n",
    "a size past 2^64": b"ffffffffffffffff2\r\nok\r\n0\r\n\r\n",
    "a bare LF in an extension": b"2;a\nb\r\nok\r\n0\r\n\r\n",
    "a folded trailer": b"0\r\nA: y\r\n z\r\n\r\n",
    "a space before a trailer's colon": b"0\r\nA : y\r\n\r\n",
    "a bare LF in the trailers": b"0\r\nA: y\nB: x\r\n\r\n",
    "a bare LF as the last line": b"0\r\n\n",
    "a length in the trailers": b"0\r\nContent-Length: 5\r\n\r\n",
    "a transfer coding in the trailers": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "too many trailers": b"0\r\n" + b"A: b\r\n" * (HEADERS_MOST + 1) + b"\r\n",
}


@pytest.mark.parametrize("name", FAULTY_CHUNKS)
def test_chunks_that_are_none_are_malformed(name: str) -> None:
    raw = CHUNKED + FAULTY_CHUNKS[name]

    for result in (read(raw), read(*bytewise(raw)), read(CHUNKED, FAULTY_CHUNKS[name])):
        assert (result.status, result.integrity, result.ended, result.reusable) == (200, MALFORMED, True, False)


@pytest.mark.parametrize("beginning", [b"2;a=", b"0\r\nA: ", b"2\r\nok\r\n0\r\nA: b\r\nC: "])
def test_an_extension_or_a_trailer_without_end_is_given_up(beginning: bytes) -> None:
    result = read(CHUNKED + beginning, *[b"x" * 8192] * 20)

    assert (result.integrity, result.ended) == (MALFORMED, True)


def test_many_small_chunks_are_no_trailer_without_end() -> None:
    raw = CHUNKED + b"1;abcdefgh\r\nx\r\n" * 20_000 + b"0\r\n\r\n"

    assert read(raw).integrity is read(*(raw[at : at + 8192] for at in range(0, len(raw), 8192))).integrity is WHOLE


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nlarge",
        CHUNKED + b"5\r\nlarge\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nlar\r\n2\r\nge\r\n0\r\n\r\n",
    ],
)
def test_a_body_over_the_bound_is_given_up_and_dropped(raw: bytes) -> None:
    assert read(raw, most=4) == Result(200, integrity=TOO_LARGE)
    assert read(*bytewise(raw), most=4) == Result(200, integrity=TOO_LARGE)


def test_a_body_of_exactly_the_bound_is_read() -> None:
    assert read(LENGTH_2 + b"ok", most=2).integrity is WHOLE
    assert read(CHUNKED + b"2\r\nok\r\n0\r\n\r\n", most=2).integrity is WHOLE
    assert read(b"HTTP/1.1 200 OK\r\n\r\nok", most=2, eof=True).integrity is WHOLE


def test_head_is_not_bounded_by_the_body_it_does_not_have() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", method="HEAD", most=4).integrity is WHOLE


def test_a_head_that_only_llhttp_refuses_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.edges.upstream.head._frame", lambda *_, **__: None)

    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok") == Result(200, integrity=MALFORMED)
