"""What passes through: a request's headers on their way to the provider, a response's on their way to the agent.

Everything stays as it was in order, case and bytes, but for hop-by-hop fields (RFC 9110, section 7.6.1), our own, and
the idempotency key.
"""

from typing import Final

from proxy.core.http import Headers, values

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    }
)
OWN_PREFIX: Final = b"doubtless-"


def request_headers(headers: Headers, body: bytes, key: tuple[str, str] | None) -> Headers:
    """Return the headers of the request that is sent; `key`: our header and value, put where the agent's stood."""
    dropped = named_by_connection(headers) | HOP_BY_HOP
    out: list[tuple[bytes, bytes]] = []
    framed = False
    placed = key is None
    for name, value in headers:
        low = name.lower()
        if low == b"expect" or low.startswith(OWN_PREFIX):
            continue  # The body is here already; and what is ours is for nobody else.
        if low in (b"transfer-encoding", b"content-length"):
            if not framed:
                # A chunked body was read whole: it is framed once, where the agent framed it.
                out.append((name if low == b"content-length" else b"Content-Length", b"%d" % len(body)))
                framed = True
        elif key is not None and low == key[0].lower().encode():
            if not placed:
                out.append((name, key[1].encode()))
                placed = True
        elif low not in dropped:
            out.append((name, value))
    if key is not None and not placed:
        out.append((key[0].encode(), key[1].encode()))
    return tuple(out)


def response_headers(headers: Headers) -> Headers:
    """Return the headers of the provider's answer that the agent gets; framing is the writer's."""
    dropped = named_by_connection(headers) | HOP_BY_HOP
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in dropped and not name.lower().startswith(OWN_PREFIX)
    )


def named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Return the fields that `Connection` names as of this hop only. Framing is never among them."""
    named = {part.strip().lower() for value in values(headers, b"connection") for part in value.split(b",")}
    return frozenset(named - {b"close", b"keep-alive", b"content-length", b"host", b"authorization"})
