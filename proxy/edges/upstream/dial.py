"""Addresses, TCP, TLS; each failure says why nothing was sent."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from itertools import zip_longest
from typing import Final

from proxy.core.http import Unsent
from proxy.edges.upstream.connection import Connection
from proxy.edges.upstream.origin import Origin

# What getaddrinfo returns: family, type, protocol, canonical name, socket address.
SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, SocketAddress]
Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_REASONS: Final = {
    errno.ECONNREFUSED: Unsent.REFUSED,
    errno.ETIMEDOUT: Unsent.TIMEOUT,
    errno.ECONNRESET: Unsent.CLOSED,
    errno.ECONNABORTED: Unsent.CLOSED,
    errno.EPIPE: Unsent.CLOSED,
}


class Unreached(Exception):
    """No connection, and so no byte: `why`."""

    def __init__(self, why: Unsent) -> None:
        super().__init__(why)
        self.why = why


async def system_resolve(host: str, port: int) -> Sequence[Address]:
    """Ask the system: its hosts file, then DNS."""
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def dial(
    origin: Origin, resolve: Resolve, make: Callable[[], Connection], *, until_s: float, prefer: SocketAddress | None
) -> tuple[Connection, SocketAddress]:
    """Connect; return the connection and the address that answered.

    `until_s` (the loop's time) only shares out the time between addresses: the caller enforces it. `prefer` goes
    first if the name still has it. Raises Unreached.
    """
    try:
        addresses = await resolve(origin.host, origin.port)
    except (OSError, UnicodeError) as error:  # The latter: a name that IDNA refuses.
        raise Unreached(Unsent.DNS) from error
    sock, address = await _reach(in_turn(addresses, prefer), until_s)
    try:
        raw, connection = await asyncio.get_running_loop().create_connection(make, sock=sock)
    except OSError as error:
        sock.close()
        raise Unreached(_reason(error)) from error
    except asyncio.CancelledError:
        sock.close()
        raise
    if origin.tls is not None:
        await _secure(raw, connection, origin.tls, origin.host)
    return connection, address


async def _reach(addresses: Sequence[Address], until_s: float) -> tuple[socket.socket, SocketAddress]:
    """Connect to the first address that answers; each but the last may use half of the time that is left.

    The last failure is the one that is told.
    """
    loop = asyncio.get_running_loop()
    failure = Unreached(Unsent.DNS)
    for left, (family, kind, protocol, _, address) in zip(range(len(addresses))[::-1], addresses, strict=True):
        share_s = (until_s - loop.time()) / 2 if left else None
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:  # No such family here, or no descriptor left.
            failure = Unreached(_reason(error))
            continue
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(share_s):
                await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = Unreached(_reason(error))
        except asyncio.CancelledError:
            sock.close()
            raise
        else:
            return sock, address
    raise failure


async def _secure(raw: asyncio.Transport, connection: Connection, tls: ssl.SSLContext, host: str) -> None:
    """Shake hands over the connection, so that both transports are ours to ask for what is unwritten."""
    if raw.is_closing():  # The peer spoke or hung up first; uvloop takes a handshake over that amiss.
        raise Unreached(Unsent.CLOSED)
    try:
        secured = await asyncio.get_running_loop().start_tls(raw, connection, tls, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raw.abort()
        raise Unreached(Unsent.CERTIFICATE) from error
    except ssl.SSLError as error:
        raw.abort()
        raise Unreached(Unsent.TLS) from error
    except (OSError, RuntimeError) as error:  # uvloop's word for a transport that closed meanwhile.
        raw.abort()
        raise Unreached(Unsent.CLOSED) from error
    except asyncio.CancelledError:
        raw.abort()
        raise
    if secured is None:
        raise Unreached(Unsent.CLOSED)
    connection.secured(secured)


def in_turn(addresses: Sequence[Address], prefer: SocketAddress | None) -> list[Address]:
    """Alternate between address families (RFC 8305, section 4), so that a dead one costs one turn, not all."""
    first = [address for address in addresses if address[0] == addresses[0][0]]
    other = [address for address in addresses if address[0] != addresses[0][0]]
    turns = [address for pair in zip_longest(first, other) for address in pair if address is not None]
    return sorted(turns, key=lambda address: address[4] != prefer)


def _reason(error: OSError) -> Unsent:
    return _REASONS.get(error.errno or 0, Unsent.UNREACHABLE)
