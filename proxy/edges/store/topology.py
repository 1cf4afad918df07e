"""Where the server is that holds a ledger: one address, the master that sentinels know, or the node that owns a slot.

Each gives a plain client of that one server, and looks again when it is told that the server is not the one any more.
Whoever asks repeats nothing by itself: redis-py would repeat a command ten times, and so run a script twice.
"""

from typing import Any, Final, Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError

from proxy.config import Address, StoreKind, StoreUrl
from proxy.ports import StoreUnavailable

ANSWER_S: Final = 2.0  # A store that is silent for longer is taken for unreachable: the command may have run.


class Shard(Protocol):
    """The server of one ledger. `answer_s`: silent for longer, in seconds, it is taken for unreachable."""

    answer_s: float

    async def client(self) -> Redis:
        """Return a client of the server. Raises StoreUnavailable: it is not to be found now."""
        ...

    async def lost(self) -> None:
        """The server failed, or said that it is not the one: drop its connections, and look again."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


def _once(answer_s: float = ANSWER_S) -> dict[str, Any]:
    return {
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "socket_timeout": answer_s,
        "socket_connect_timeout": answer_s,
        "decode_responses": False,
    }


class SingleShard:
    """A server at an address, by TCP, TLS or a Unix socket."""

    def __init__(self, url: str, answer_s: float = ANSWER_S) -> None:
        self.answer_s = answer_s
        self.connected: Redis = Redis.from_url(url, **_once(answer_s))

    async def client(self) -> Redis:
        """Return its client."""
        return self.connected

    async def lost(self) -> None:
        """Connect anew next time: a name may lead to another server by then."""
        await self.connected.connection_pool.disconnect(inuse_connections=True)

    async def close(self) -> None:
        """Close every connection."""
        await self.connected.aclose()


class SentinelShard:
    """The master that sentinels agree upon; asked anew for each new connection."""

    def __init__(self, url: StoreUrl) -> None:
        self.answer_s = ANSWER_S
        nodes = [(node.host, node.port) for node in url.nodes]
        self._sentinel = Sentinel(nodes, sentinel_kwargs=_once())  # type: ignore[no-untyped-call]
        secret = url.password.reveal() if url.password is not None else None
        self._client: Redis = self._sentinel.master_for(
            url.service, db=url.database, username=url.username or None, password=secret, ssl=url.tls, **_once()
        )

    async def client(self) -> Redis:
        """Return the client of whoever is master when it connects."""
        return self._client

    async def lost(self) -> None:
        """Ask the sentinels again."""
        await self._client.connection_pool.disconnect(inuse_connections=True)

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()


class ClusterShard:
    """The node that owns a ledger's slot. All keys of a ledger share one hash tag, and so one slot."""

    def __init__(self, url: StoreUrl, key: bytes) -> None:
        self.answer_s = ANSWER_S
        self._url = url
        self._slot = key_slot(key)
        self._known: list[Address] = list(url.nodes)
        self._client: Redis | None = None

    async def client(self) -> Redis:
        """Return a client of the node that owns the slot now."""
        if self._client is None:
            self._client = self._open(await self._owner())
        return self._client

    async def lost(self) -> None:
        """Ask the cluster again who owns the slot."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    async def close(self) -> None:
        """Close every connection."""
        await self.lost()

    async def _owner(self) -> Address:
        """Ask the nodes that are known, one after the other, until one tells."""
        for node in [*self._known, *self._url.nodes]:
            asked = self._open(node)
            try:
                ranges = await asked.execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
            except (RedisError, OSError):
                continue
            finally:
                await asked.aclose()
            masters = [(entry[0], entry[1], _address(entry[2], node)) for entry in ranges]
            self._known = [address for _, _, address in masters]
            for first, last, address in masters:
                if first <= self._slot <= last:
                    return address
        raise StoreUnavailable("no node of the cluster tells who owns the ledger's slot")

    def _open(self, node: Address) -> Redis:
        url = self._url
        secret = url.password.reveal() if url.password is not None else None
        return Redis(
            host=node.host, port=node.port, username=url.username or None, password=secret, ssl=url.tls, **_once()
        )


def _address(entry: "list[Any]", asked: Address) -> Address:
    """Read a node as `CLUSTER SLOTS` names it; an empty host is the one that was asked."""
    host = entry[0].decode() if isinstance(entry[0], bytes) else str(entry[0] or "")
    return Address(host or asked.host, int(entry[1]))


def shard_of(url: StoreUrl, ledger_key: bytes) -> Shard:
    """Return where the ledger is, for a store that runs elsewhere."""
    match url.kind:
        case StoreKind.SENTINEL:
            return SentinelShard(url)
        case StoreKind.CLUSTER:
            return ClusterShard(url, ledger_key)
        case _:
            return SingleShard(url.address.reveal())
