"""The chunked coding (RFC 9112, section 7.1), decoded by llhttp, with what llhttp does not mind."""

from collections.abc import Callable
from typing import Final

import httptools

from proxy.edges.upstream.head import HEAD_BYTES, HEADERS_MOST

_OWS: Final = b" \t"
_NOT_IN_TRAILERS: Final = frozenset((b"transfer-encoding", b"content-length"))  # RFC 9110, section 6.5.1.


class Faulty(Exception):
    """The framing of the body is not HTTP's."""


class Chunks:
    """A decoder of one chunked body. `done`: its last byte came; `trailing`: and then another one."""

    __slots__ = ("_complaint", "_in_body", "_parser", "_quiet_bytes", "_tail", "_take", "done", "trailers", "trailing")

    def __init__(self, head: bytes, take: Callable[[bytes], None]) -> None:
        """`head` is the whole head with its empty line, for llhttp to judge too; raises Faulty."""
        self.done = False
        self.trailing = False
        self.trailers: list[tuple[bytes, bytes]] = []
        self._take = take
        self._tail = b""
        self._quiet_bytes = 0
        self._in_body = False
        self._complaint = False
        self._parser = httptools.HttpResponseParser(self)
        judge(self._parser, head)
        self._in_body = True

    def feed(self, data: bytes) -> None:
        """Decode what came; not called again once `done`. Raises Faulty."""
        self._quiet_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.done:
                raise Faulty(str(error)) from error
            self.trailing = True
        if self.done:
            # llhttp skips empty lines before a next message without a word. A chunked body ends with exactly one
            # empty line, so what comes before the last two line ends must not be a line end as well.
            tail = (self._tail + data[-5:])[-5:]
            if tail[1:] != b"\r\n\r\n" or tail[:1] in (b"\r", b"\n"):
                self.trailing = True
        elif self._quiet_bytes > HEAD_BYTES + len(data):
            raise Faulty("a chunk extension or a trailer section without end")
        if self._complaint or len(self.trailers) > HEADERS_MOST:
            raise Faulty("a trailer section that is not to be taken")
        self._tail = (self._tail + data[-5:])[-5:]

    # What llhttp calls. It reports the fields of the head as well, which are read already.

    def on_message_begin(self) -> None:
        """Another message follows; also called for the first."""
        if self.done:
            self.trailing = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the trailer section."""
        if self._in_body and not self.done:
            self.trailers.append((name, value.strip(_OWS)))
            self._complaint = self._complaint or name.lower() in _NOT_IN_TRAILERS

    def on_chunk_header(self) -> None:
        """A chunk's size line ended."""
        self._quiet_bytes = 0

    def on_body(self, piece: bytes) -> None:
        """Take a piece of a chunk's data."""
        if not self.done:
            self._quiet_bytes = 0
            self._take(piece)

    def on_message_complete(self) -> None:
        """The last byte of the message came."""
        self.done = True


def judge(parser: httptools.HttpResponseParser, head: bytes) -> None:
    """Let llhttp read a head that passed our own rules: both must agree. Raises Faulty."""
    try:
        parser.feed_data(head)
    except httptools.HttpParserError as error:
        raise Faulty(str(error)) from error
