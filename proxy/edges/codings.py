"""Content codings that the standard library cannot undo. For judging a response alone: the agent gets it as it came."""

from typing import Final

import brotli
import zstandard
from msgspec.structs import replace

from proxy.core.http import Response, first, without

DECODED_BYTES: Final = 64 << 20  # A response that decodes to more is not judged, and so is unknown.


def undo(response: Response) -> Response:
    """Return the response with a `br` or `zstd` body decoded (RFC 7932, RFC 8878); as it is where that fails."""
    coding = (first(response.headers, b"content-encoding") or b"").strip().lower()
    if coding == b"br":
        body = _brotli(response.body)
    elif coding == b"zstd":
        body = _zstd(response.body)
    else:
        return response
    if body is None:
        return response
    return replace(response, headers=tuple(without(response.headers, b"content-encoding")), body=body)


def _brotli(data: bytes) -> bytes | None:
    decoder = brotli.Decompressor()
    try:
        body: bytes = decoder.process(data, output_buffer_limit=DECODED_BYTES)
    except brotli.error:
        return None
    return body if decoder.is_finished() and len(body) <= DECODED_BYTES else None


def _zstd(data: bytes) -> bytes | None:
    decoder = zstandard.ZstdDecompressor(max_window_size=8 << 20).decompressobj()
    try:
        body: bytes = decoder.decompress(data)
    except (zstandard.ZstdError, MemoryError):
        return None
    return body if decoder.eof and len(body) <= DECODED_BYTES and not decoder.unused_data else None
