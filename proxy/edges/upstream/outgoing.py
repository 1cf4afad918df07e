"""A request as bytes, exactly as it was given but for `Host`.

Nothing is added, dropped or put right: a request that is not coherent is refused before any byte of it exists.
"""

from typing import Final, NamedTuple

from proxy.core.http import Request
from proxy.edges.upstream.head import lower_name

# Up to here head and body leave in one write: one system call, one packet for most.
_JOINED_BYTES: Final = 64 * 1024
# What no request may carry inside a line. Other controls are the agent's own affair and pass.
_INSIDE: Final = bytes(byte for byte in range(256) if byte not in b"\r\n\0")
_VISIBLE: Final = bytes(byte for byte in range(256) if byte > 0x20 and byte != 0x7F)
_OURS: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection"))


class Outgoing(NamedTuple):
    """What is written, in order; `keep_alive` is false where the request itself says `Connection: close`."""

    parts: tuple[bytes, ...]
    keep_alive: bool


def outgoing(request: Request, authority: bytes, prefix: str) -> Outgoing:
    """Write a request down (RFC 9112, section 3).

    Raises ValueError where the target is not in origin form, a line holds CR, LF or NUL, a name is no token, or the
    framing is not exactly one true Content-Length (none or 0 for an empty body) without Transfer-Encoding.
    """
    method = request.method.encode("latin-1")
    if lower_name(method) is None or method == b"CONNECT":
        raise ValueError("the method is no token, or CONNECT")
    lines = [b""]  # The request line's place; a Host that is missing follows it.
    lengths: list[bytes] = []
    hosts = 0
    keep_alive = True
    for name, value in request.headers:
        lower = lower_name(name)
        if lower is None:
            raise ValueError("a header name is no token")
        if lower in _OURS:
            if lower == b"host":
                hosts += 1
                lines.append(b"%b: %b\r\n" % (name, authority))
                continue
            if lower == b"transfer-encoding":
                raise ValueError("Transfer-Encoding: bodies leave with their length")
            if lower == b"content-length":
                lengths.append(value)
            elif b"close" in value.lower():
                keep_alive = False
        lines.append(b"%b: %b\r\n" % (name, value))
    if hosts > 1:
        raise ValueError("more than one Host")
    _check_length(lengths, len(request.body))
    host = b"" if hosts else b"Host: %b\r\n" % authority
    lines[0] = b"%b %b HTTP/1.1\r\n%b" % (method, _target(request, prefix), host)
    lines.append(b"\r\n")
    head = b"".join(lines)
    if len(head.translate(None, _INSIDE)) != 2 * (len(lines) + 1 - hosts):
        raise ValueError("CR, LF or NUL inside a line")
    if len(request.body) <= _JOINED_BYTES:
        return Outgoing((head + request.body,), keep_alive)
    return Outgoing((head, request.body), keep_alive)


def _target(request: Request, prefix: str) -> bytes:
    """Return the target in origin form, the upstream's prefix before it; `*` only for OPTIONS."""
    target = request.target
    if target == "*" and request.method == "OPTIONS":
        return b"*"
    raw = (prefix + target).encode("latin-1")
    if not target.startswith("/") or raw.translate(None, _VISIBLE):
        raise ValueError("the target is not in origin form, or holds a space or a control byte")
    return raw


def _check_length(lengths: list[bytes], body_bytes: int) -> None:
    if not lengths and not body_bytes:
        return
    if len(lengths) != 1 or not lengths[0].isdigit() or int(lengths[0]) != body_bytes:
        raise ValueError("Content-Length is not exactly the body's")
