"""The upstream connection: one try is one try, and it knows whether a byte left (DESIGN, section 4).

outgoing     Request → the bytes of the wire, or ValueError before any byte
head         a response head → values, or what is wrong with it (pure)
reader       bytes of a response, in any pieces → its head, its body, and whether it is whole (pure)
connection   an asyncio protocol: writes one request, feeds one reader, minds the time
dial         addresses, TCP, TLS; a failure → why nothing was sent
pool         the connections of one origin, last in first out
client       UpstreamClient: the `Upstream` port, and `open` for answers that are streamed
"""

from proxy.edges.upstream.client import UpstreamClient
from proxy.edges.upstream.origin import Origin, tls_context
from proxy.edges.upstream.stream import Stream, Truncated

__all__ = ["Origin", "Stream", "Truncated", "UpstreamClient", "tls_context"]
