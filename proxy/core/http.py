"""An HTTP message as values, and everything an exchange with a provider can end in.

Header names and values are the bytes of the wire, in their order and case; nothing here normalises them.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

Headers = tuple[tuple[bytes, bytes], ...]


def values(headers: Headers, name: bytes) -> list[bytes]:
    """Return every value of a header, in order; `name` in lower case."""
    return [value for key, value in headers if key.lower() == name]


def first(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header, or None; `name` in lower case."""
    return next((value for key, value in headers if key.lower() == name), None)


def without(headers: Headers, *names: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers whose lower-case name is not among `names`."""
    return ((key, value) for key, value in headers if key.lower() not in names)


class Request(Struct, frozen=True):
    """A request as it leaves for the provider: `target` is the raw path and query."""

    method: str
    target: str
    headers: Headers = ()
    body: bytes = b""


class Response(Struct, frozen=True, omit_defaults=True):
    """A response as it came; `body` without its transfer coding."""

    status: int
    reason: bytes = b""
    headers: Headers = ()
    body: bytes = b""
    trailers: Headers = ()


class Unsent(StrEnum):
    """Why provably no byte left. The values are the error types of RFC 9209, section 2.3, where it has one."""

    DNS = "dns_error"
    REFUSED = "connection_refused"
    TIMEOUT = "connection_timeout"
    TLS = "tls_protocol_error"
    CERTIFICATE = "tls_certificate_error"
    UNREACHABLE = "destination_ip_unroutable"
    CLOSED = "connection_terminated"
    SEND_BEFORE = "connection_write_timeout"
    CANCELLED = "proxy_internal_error"


class Integrity(StrEnum):
    """Is the response that came the whole of what was sent?"""

    WHOLE = "whole"
    CUT = "cut"  # The connection ended, or time ran out, before the body did.
    TRAILING = "trailing"  # Bytes followed the end of the message.
    TOO_LARGE = "too_large"  # Over bounds.response_bytes; what was read is dropped.
    MALFORMED = "malformed"  # The framing is not HTTP's.


class NotSent(Struct, frozen=True, tag=True):
    """Provably no byte of the request left."""

    why: Unsent


class Silence(Struct, frozen=True, tag=True):
    """A byte may have left, and no whole response head came back.

    `garbled`: bytes came that are no response head; `timed_out`: the exchange's time ran out.
    """

    timed_out: bool = False
    garbled: bool = False


class Answered(Struct, frozen=True, tag=True):
    """A whole final response head came back, and perhaps its body.

    `upload_ended` is false where the head came while a part of the request had not been given to the kernel.
    """

    response: Response
    integrity: Integrity = Integrity.WHOLE
    upload_ended: bool = True


Exchange = NotSent | Silence | Answered
