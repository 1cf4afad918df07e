"""Bytes of a response, in any pieces → its head, its body, and whether it is whole. No socket, no clock.

One reader serves one request. Interim responses (1xx) are skipped. Once `ended`, `head` is None where no final head
came (`garbled`: bytes came that are none), and else `integrity` says what the body is worth.
"""

import httptools

from proxy.core.http import Headers, Integrity, Response
from proxy.edges.upstream.chunks import Chunks, Faulty, judge
from proxy.edges.upstream.head import HEAD_BYTES, Head, read_head, read_status_line

_BEGINNING = b"HTTP/"
_SWITCHING_PROTOCOLS = 101
_NO_CONTENT = 204
_NOT_MODIFIED = 304
_INTERIM_MOST = 64  # Providers send one or two; an endless row of them would hold up everybody else here.


class Reader:
    """The state of one response. `buffered`: bytes of the body that nobody took yet."""

    __slots__ = (
        "_body_bytes",
        "_body_bytes_max",
        "_buffer",
        "_chunks",
        "_framed",
        "_interim",
        "_is_head_request",
        "_left",
        "_pieces",
        "buffered",
        "ended",
        "garbled",
        "head",
        "integrity",
        "reusable",
    )

    def __init__(self, method: str, body_bytes_max: int) -> None:
        """`body_bytes_max`: a body longer than that ends the reading (TOO_LARGE)."""
        self.head: Head | None = None
        self.ended = False
        self.garbled = False
        self.integrity = Integrity.CUT
        self.reusable = False
        self.buffered = 0
        self._is_head_request = method == "HEAD"
        self._body_bytes_max = body_bytes_max
        self._body_bytes = 0
        self._interim = 0  # How many 1xx came.
        self._buffer = b""
        self._pieces: list[bytes] = []
        self._left: int | None = None  # Bytes of a body of known length that are still due.
        self._chunks: Chunks | None = None
        self._framed = False  # The final head is there, and it says where the body ends.

    @property
    def trailers(self) -> Headers:
        """The trailer section, complete once the reading ended."""
        return tuple(self._chunks.trailers) if self._chunks is not None else ()

    def response(self, body: bytes) -> Response:
        """Return the response with a body. Only where there is a head."""
        assert self.head is not None
        return Response(self.head.status, self.head.reason, self.head.headers, body, self.trailers)

    def take(self) -> bytes:
        """Take what came of the body and was not taken yet."""
        pieces, self._pieces, self.buffered = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def feed(self, data: bytes) -> None:
        """Read what came. After the end it only means that the connection is not to be used again."""
        if self.ended:
            self.reusable = False
            return
        rest = self._feed_head(data) if self.head is None else data
        if rest is not None:
            self._feed_body(rest)

    def eof(self) -> None:
        """The peer has said that it is done: this ends a body without framing, and cuts any other."""
        if self.head is not None and self._left is None and self._chunks is None:
            self._end(Integrity.WHOLE)
        self.cut()

    def cut(self) -> None:
        """Nothing more will come: the connection broke, or time ran out."""
        self.reusable = False
        self._end(Integrity.CUT)

    def _end(self, integrity: Integrity) -> None:
        if not self.ended:
            self.ended = True
            self.integrity = integrity

    def _garble(self) -> None:
        self.garbled = True
        self._end(Integrity.MALFORMED)

    def _feed_head(self, data: bytes) -> bytes | None:
        """Read heads until the final one; return what follows it, None where there is no body to read."""
        start = max(len(self._buffer) - 2, 0)
        data = self._buffer + data if self._buffer else data
        while not self.ended:
            end = _head_end(data, start)
            if not end:
                self._buffer = data
                self._check_beginning(data)
                break
            self._take_head(data[:end])
            data, start, self._buffer = data[end:], 0, b""
            if self._framed:
                return data
            if not data:
                break
        return None

    def _check_beginning(self, data: bytes) -> None:
        """Give up early where what came cannot become a head."""
        line, line_end, _ = data.partition(b"\n")
        if (
            not _BEGINNING.startswith(data[:5])
            or (line_end and read_status_line(line.removesuffix(b"\r")) is None)
            or len(data) > HEAD_BYTES
        ):
            self._garble()

    def _take_head(self, raw: bytes) -> None:
        """Take a whole head, its empty line included."""
        lines = raw[:-4] if raw.endswith(b"\r\n\r\n") else raw.removesuffix(b"\n").removesuffix(b"\r")
        head = read_head(lines) if len(raw) <= HEAD_BYTES else None
        if head is None:
            self._garble()
        elif 100 <= head.status < 200 and head.status != _SWITCHING_PROTOCOLS:
            self._interim += 1
            if head.complaint is not None or self._interim > _INTERIM_MOST:
                self._garble()  # No final head, and nobody knows where the next one begins.
        else:
            self.head = head
            if head.status == _SWITCHING_PROTOCOLS:
                head.complaint = head.complaint or "a change of protocol that nobody asked for"
            if head.complaint is None:
                self._agree(head, raw)
            if head.complaint is None:
                self._begin_body(head)
            else:
                self._end(Integrity.MALFORMED)

    def _agree(self, head: Head, raw: bytes) -> None:
        """Have llhttp read the head too; what either of us refuses is not HTTP."""
        try:
            if head.chunked:
                self._chunks = Chunks(raw, self._take_piece)
            else:
                judge(httptools.HttpResponseParser(None), raw)
        except Faulty as fault:
            head.complaint = str(fault)

    def _begin_body(self, head: Head) -> None:
        """Settle where the body ends (RFC 9112, section 6.3)."""
        self._framed = True
        self.reusable = head.keep_alive and (head.chunked or head.length is not None)
        if self._is_head_request or head.status in (_NO_CONTENT, _NOT_MODIFIED):
            # The framing describes what a GET would have brought. In a 204 it has no meaning, and where a server
            # says it all the same a body may well follow.
            self.reusable = head.keep_alive and not (head.status == _NO_CONTENT and (head.chunked or head.length))
            self._chunks = None
            self._left = 0
        elif not head.chunked:
            self._left = head.length
            if head.length is not None and head.length > self._body_bytes_max:
                self._too_large()

    def _feed_body(self, data: bytes) -> None:
        if self._chunks is not None:
            self._feed_chunks(self._chunks, data)
        elif self._left is None:
            self._take_piece(data)
        elif len(data) <= self._left:
            self._left -= len(data)
            self._take_piece(data)
            if self._left == 0:
                self._end(Integrity.WHOLE)
        else:
            self._take_piece(data[: self._left])
            self._left = 0
            self._end_trailing()

    def _feed_chunks(self, chunks: Chunks, data: bytes) -> None:
        try:
            if data:
                chunks.feed(data)
        except Faulty:
            self.reusable = False
            self._end(Integrity.MALFORMED)
        if chunks.trailing:
            self._end_trailing()
        elif chunks.done:
            self._end(Integrity.WHOLE)

    def _end_trailing(self) -> None:
        self.reusable = False
        self._end(Integrity.TRAILING)

    def _take_piece(self, piece: bytes) -> None:
        if not piece or self.ended:
            return
        self._body_bytes += len(piece)
        if self._body_bytes > self._body_bytes_max:
            self._too_large()
            return
        self.buffered += len(piece)
        self._pieces.append(piece)

    def _too_large(self) -> None:
        self.reusable = False
        self._pieces.clear()
        self.buffered = 0
        self._end(Integrity.TOO_LARGE)


def _head_end(data: bytes, start: int) -> int:
    """Return where the first head ends, its empty line included, or 0. `start`: no end begins before it.

    A peer that forgets its CRs ends a head with two bare LFs; that head is found too, to be complained of.
    """
    proper = data.find(b"\n\r\n", start)
    bare = data.find(b"\n\n", start, proper + 1 if proper >= 0 else len(data))
    if bare >= 0:
        return bare + 2
    return proper + 3 if proper >= 0 else 0
