"""A request's body, read whole within the bounds: what is to be governed must be known before anything is sent."""

import asyncio
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest

from proxy.core import answers
from proxy.core.answers import Code
from proxy.core.http import Headers, first, values
from proxy.engine.asking import Refusal

IDLE_S: Final = 60.0  # A body that stops coming must not hold its room for ever.
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Buffered:
    """How many bytes of request bodies are in memory, over all connections."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    def hold(self, size: int) -> None:
        """Take room. Raises Refusal: there is none."""
        if self.held_bytes + size > self._most_bytes:
            raise Refusal(answers.own(Code.OVERLOADED, _OVERLOADED))
        self.held_bytes += size

    def release(self, size: int) -> None:
        """Give room back."""
        self.held_bytes -= size


def check_head(version: tuple[int, ...], headers: Headers) -> None:
    """Refuse what cannot be carried faithfully. Raises Refusal."""
    if version[0] != 1:
        raise Refusal(answers.own(Code.BAD_REQUEST, _VERSION))
    codings = values(headers, b"transfer-encoding")
    if codings and (version < (1, 1) or [coding.strip().lower() for coding in codings] != [b"chunked"]):
        raise Refusal(answers.own(Code.BAD_REQUEST, _CODINGS))
    if first(headers, b"trailer") is not None:
        raise Refusal(answers.own(Code.BAD_REQUEST, _TRAILERS))
    upgrade = b",".join(values(headers, b"upgrade")).lower()
    if b"websocket" in upgrade or b"tcp" in upgrade:
        raise Refusal(answers.own(Code.BAD_REQUEST, _UPGRADE))


async def read_body(request: BaseRequest, most_bytes: int, buffered: Buffered) -> bytes:
    """Read the body, after `100 Continue` where the agent waits for it.

    Raises Refusal, and whatever the connection ends with; then `buffered` is as before.
    """
    headers = request.raw_headers
    declared = first(headers, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > most_bytes:
        raise too_large(most_bytes)
    if (first(headers, b"expect") or b"").strip().lower() == b"100-continue":
        transport = request.transport
        if transport is not None and not transport.is_closing():
            transport.write(CONTINUE)
    if not request.body_exists:
        return b""
    pieces: list[bytes] = []
    size = 0
    try:
        while piece := await _next_piece(request):
            size += len(piece)
            buffered.hold(len(piece))
            pieces.append(piece)
            if size > most_bytes:
                raise too_large(most_bytes)
    except BaseException as failed:
        buffered.release(sum(map(len, pieces)))
        if isinstance(failed, HttpProcessingError | RequestPayloadError | ValueError):
            raise Refusal(answers.own(Code.BAD_REQUEST, _BROKEN)) from None
        raise
    return b"".join(pieces)


async def _next_piece(request: BaseRequest) -> bytes:
    """Return what came, at least a byte; nothing at the end. Raises Refusal: it stopped coming."""
    try:
        async with asyncio.timeout(IDLE_S):
            return await request.content.readany()
    except TimeoutError:
        raise Refusal(answers.own(Code.BAD_REQUEST, _STALLED)) from None


def too_large(most_bytes: int) -> Refusal:
    """Return the refusal of a body over the bound."""
    message = (
        f"the request's body is over {most_bytes} bytes (bounds.body_bytes), and a write is only sent once it is known "
        "whole. Nothing was sent."
    )
    return Refusal(answers.own(Code.BODY_TOO_LARGE, message))


_VERSION = "this proxy speaks HTTP/1.1. Nothing was sent."
_CODINGS = "the only transfer coding that is carried faithfully is chunked, in HTTP/1.1. Nothing was sent."
_TRAILERS = "the request announces trailers, which cannot be carried faithfully. Nothing was sent."
_UPGRADE = "this proxy does not upgrade connections to a provider. Nothing was sent."
_BROKEN = "the request's body is not framed as its head says. Nothing was sent."
_STALLED = "the request's body stopped coming. Nothing was sent."
_OVERLOADED = (
    "too many request bodies are in memory (bounds.buffered_bytes); nothing was sent. It is safe to try again."
)
