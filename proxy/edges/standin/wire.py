"""HTTP/1.1 as the stand-in reads and writes it: whole bytes, nothing normalised, no I/O."""

from enum import StrEnum
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from msgspec import Struct

from proxy.core.http import Headers, first, values

HEAD_BYTES_MAX: Final = 1 << 20  # Generous: what a proxy lets through is its own affair, not ours.
END_OF_HEAD: Final = b"\r\n\r\n"


class Malformed(Exception):
    """The bytes that arrived are no HTTP/1.1 request."""


class Framing(StrEnum):
    """How a request says where its body ends."""

    NONE = "none"
    LENGTH = "content-length"
    CHUNKED = "chunked"


def normal_path(target: str) -> str:
    """Return a target's path, decoded, in its normal form: `//v1/refunds/` names what `/v1/refunds` names.

    Providers' routers are lenient, and a proxy's rules must not be evaded by a spelling (CONTRACT 3).
    """
    segments = unquote(target.partition("?")[0]).split("/")
    return "/" + "/".join(segment for segment in segments if segment)


class Head(Struct, frozen=True):
    """A request head as it came. `raw` holds its bytes up to and including the empty line."""

    raw: bytes
    method: str
    target: str
    version: str
    headers: Headers

    @property
    def keeps_alive(self) -> bool:
        """Does the client want to send more on this connection (RFC 9112, section 9.3)?"""
        options = b",".join(values(self.headers, b"connection")).lower()
        return b"keep-alive" in options if self.version == "HTTP/1.0" else b"close" not in options

    @property
    def expects_continue(self) -> bool:
        """Does the client wait for 100 before it sends the body?"""
        return (first(self.headers, b"expect") or b"").lower() == b"100-continue"


def parse_head(raw: bytes) -> Head:
    """Take a head apart without changing a byte of its names and values."""
    line, *fields = raw.removesuffix(END_OF_HEAD).split(b"\r\n")
    parts = line.split(b" ")
    if len(parts) != 3 or not all(parts) or not parts[2].startswith(b"HTTP/1."):
        raise Malformed(f"the request line is {line[:200]!r}")
    method, target, version = (part.decode("latin-1") for part in parts)
    return Head(raw, method, target, version, tuple(_field(field) for field in fields))


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():
        raise Malformed(f"a header line is {line[:200]!r}")
    return name, value.strip(b" \t")


def framing_of(head: Head) -> tuple[Framing, int]:
    """Return how the body is framed, and its length where that is announced.

    Two framings at once are refused: a proxy that sends both is smuggling (RFC 9112, section 6.3).
    """
    lengths, codings = values(head.headers, b"content-length"), values(head.headers, b"transfer-encoding")
    if lengths and codings:
        raise Malformed("both Content-Length and Transfer-Encoding")
    if codings:
        if b",".join(codings).strip().lower() != b"chunked":
            raise Malformed(f"the transfer coding is {codings!r}")
        return Framing.CHUNKED, 0
    if not lengths:
        return Framing.NONE, 0
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise Malformed(f"the content length is {lengths!r}")
    return Framing.LENGTH, int(lengths[0])


class Body:
    """A request body as it comes in: `raw` as on the wire, `data` without its transfer coding."""

    def __init__(self, framing: Framing, length: int = 0) -> None:
        self.raw = bytearray()
        self.data = bytearray()
        self._chunked = framing is Framing.CHUNKED
        self._left = length
        self._pending = bytearray()
        self._in_trailers = False
        self.done = not self._chunked and length == 0

    def feed(self, data: bytes) -> bytes:
        """Take what belongs to this body; return what follows it."""
        if self.done:
            return data
        return self._feed_chunked(data) if self._chunked else self._feed_counted(data)

    def _feed_counted(self, data: bytes) -> bytes:
        taken, rest = data[: self._left], data[self._left :]
        self._left -= len(taken)
        self.raw += taken
        self.data += taken
        self.done = self._left == 0
        return rest

    def _feed_chunked(self, data: bytes) -> bytes:
        self._pending += data
        self.raw += data
        while not self.done and self._take_line_or_chunk():
            pass
        if not self.done:
            return b""
        rest = bytes(self._pending)
        del self.raw[len(self.raw) - len(rest) :]
        return rest

    def _take_line_or_chunk(self) -> bool:
        """Take the next piece off `_pending`; False where it has not arrived whole."""
        if self._left:
            return self._take_chunk()
        line, found, rest = bytes(self._pending).partition(b"\r\n")
        if not found:
            return False
        self._pending = bytearray(rest)
        if self._in_trailers:
            self.done = not line
        else:
            self._begin_chunk(line)
        return True

    def _begin_chunk(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise Malformed(f"a chunk size is {line[:40]!r}") from None
        self._in_trailers = size == 0
        self._left = size and size + 2  # The chunk's own CRLF is counted with it.

    def _take_chunk(self) -> bool:
        if len(self._pending) < self._left:
            return False
        chunk = self._pending[: self._left]
        if not chunk.endswith(b"\r\n"):
            raise Malformed("a chunk does not end with CRLF")
        self.data += chunk[:-2]
        del self._pending[: self._left]
        self._left = 0
        return True


class Answer(Struct, frozen=True):
    """A response before it is framed: no Content-Length, no Transfer-Encoding among its headers."""

    status: int
    headers: Headers
    body: bytes = b""


def head_bytes(answer: Answer, *framing: tuple[bytes, bytes]) -> bytes:
    """Write the head of a response, with the framing headers last."""
    try:
        reason = HTTPStatus(answer.status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {answer.status} {reason}".encode()]
    lines += [name + b": " + value for name, value in (*answer.headers, *framing)]
    return b"\r\n".join(lines) + END_OF_HEAD


def counted(length: int) -> tuple[bytes, bytes]:
    """Return a Content-Length header."""
    return b"Content-Length", str(length).encode()


CHUNKED: Final = (b"Transfer-Encoding", b"chunked")


def chunk(data: bytes) -> bytes:
    """Frame one chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def encode(answer: Answer, *, bodiless: bool) -> bytes:
    """Write a whole response. `bodiless`: it answers a HEAD, whose Content-Length speaks of a GET."""
    if answer.status < 200 or answer.status in (204, 304):
        return head_bytes(answer)
    head = head_bytes(answer, counted(len(answer.body)))
    return head if bodiless else head + answer.body
