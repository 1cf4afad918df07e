"""Answers as bytes. aiohttp's own add Date, Server and Content-Type and re-encode header bytes; these do not."""

from collections.abc import Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from proxy.core.answers import Own
from proxy.core.http import Headers, Response
from proxy.core.outgoing import response_headers

HTTP11: Final = (1, 1)
LAST_CHUNK: Final = b"0\r\n\r\n"


class WireResponse(StreamResponse):
    """A response that is written by us: aiohttp asks it only whether the connection goes on."""

    def __init__(self, status: int, *, keep_alive: bool) -> None:
        super().__init__(status=status)
        self._keep_alive = keep_alive

    async def prepare(self, request: BaseRequest) -> None:
        """Nothing is left to write."""
        del request
        self._eof_sent = True

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to write."""


class OwnResponse(WireResponse):
    """An answer of our own, where aiohttp does the asking: to what is no request."""

    def __init__(self, own: Own, afterwards: Callable[[], Awaitable[None]]) -> None:
        super().__init__(own.status, keep_alive=True)
        self.own = own
        self._afterwards = afterwards

    async def prepare(self, request: BaseRequest) -> None:
        """Write it whole."""
        await super().prepare(request)
        protocol = request.protocol
        transport = protocol.transport
        if transport is not None and not transport.is_closing():
            keep_alive = bool(self._keep_alive) and request.keep_alive
            transport.write(own_bytes(self.own, head_only=request.method == "HEAD", keep_alive=keep_alive))

    async def write_eof(self, data: bytes = b"") -> None:
        """See that it arrives, though the agent may still be sending."""
        del data
        await self._afterwards()


def own_bytes(own: Own, *, head_only: bool, keep_alive: bool) -> bytes:
    """Return an answer of our own, whole."""
    return json_bytes(own.status, own.headers, own.body, head_only=head_only, keep_alive=keep_alive)


def json_bytes(
    status: int, headers: Iterable[tuple[str, str]], body: bytes, *, head_only: bool, keep_alive: bool
) -> bytes:
    """Return a response that we make, whole."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append(f"Content-Length: {len(body)}")
    if not keep_alive:
        lines.append("Connection: close")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head if head_only else head + body


def head_bytes(
    response: Response, *, extra: Iterable[tuple[str, str]], framing: Headers, keep_alive: bool, keep_length: bool
) -> bytes:
    """Return the head of a provider's answer as the agent gets it.

    `framing`: the fields that frame our copy of the body; `keep_length` leaves the provider's own Content-Length in.
    """
    out = [b"HTTP/1.1 %d %s" % (response.status, response.reason)]
    passed = response_headers(response.headers)
    for name, value in passed:
        if keep_length or name.lower() != b"content-length":
            out.append(name + b": " + value)
    said = {(name.lower(), value) for name, value in passed}
    ours = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra]
    out += [name + b": " + value for name, value in ours if (name.lower(), value) not in said]
    out += [name + b": " + value for name, value in framing]
    if not keep_alive:
        out.append(b"Connection: close")
    return b"\r\n".join(out) + b"\r\n\r\n"


def has_no_body(method: str, status: int) -> bool:
    """Has the response no body whatever its fields say (RFC 9110, section 6.4.1)?"""
    return method == "HEAD" or status in (204, 304) or 100 <= status < 200


def whole_bytes(
    response: Response, *, method: str, extra: Iterable[tuple[str, str]], keep_alive: bool, chunks: bool
) -> bytes:
    """Return a provider's answer that was read whole; trailers go along where the agent's version has chunks."""
    if has_no_body(method, response.status):
        return head_bytes(response, extra=extra, framing=(), keep_alive=keep_alive, keep_length=True)
    if response.trailers and chunks:
        framing = ((b"Transfer-Encoding", b"chunked"),)
        head = head_bytes(response, extra=extra, framing=framing, keep_alive=keep_alive, keep_length=False)
        body = chunk(response.body) if response.body else b""
        return head + body + last_chunk(response.trailers)
    has_length = any(name.lower() == b"content-length" for name, _ in response.headers)
    length = () if has_length else ((b"Content-Length", b"%d" % len(response.body)),)
    head = head_bytes(response, extra=extra, framing=length, keep_alive=keep_alive, keep_length=True)
    return head + response.body


def chunk(data: bytes) -> bytes:
    """Frame a piece of a body (RFC 9112, section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(trailers: Headers) -> bytes:
    """End a chunked body. What is no header of the provider's is no trailer of its either."""
    trailers = response_headers(trailers)
    if not trailers:
        return LAST_CHUNK
    return b"0\r\n" + b"".join(name + b": " + value + b"\r\n" for name, value in trailers) + b"\r\n"
