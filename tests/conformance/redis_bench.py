"""The suite's hold on a real server: connections, time that passes, and what is written.

A server's clock cannot be moved, so time passes by making what is stored older: every time in it is moved back.
"""

import itertools
import os
import re
import struct
from collections.abc import AsyncIterator, Callable
from datetime import date, timedelta
from typing import Any, Final

import msgspec
from redis.asyncio import Redis

from proxy.core.model import FOREVER_MS
from proxy.core.records import WAITED_FOR_MS, Period, period_label
from proxy.edges.clock import SystemClock
from proxy.edges.store.client import GRAVES, RedisStore
from proxy.edges.store.topology import Shard, SingleShard
from proxy.edges.tasks import Tasks
from tests.conformance.bench import DAY
from tests.conformance.server import Server

_ledgers = itertools.count(1)
STONE: Final = 21  # Bytes of a tombstone; its last four are the second when it is over.
_CLAIM: Final = re.compile(r"@(\d+)")


class RedisBench:
    """One new ledger on a server, and two instances with a connection each."""

    def __init__(self, url: str) -> None:
        self.ledger = f"suite-{os.getpid()}-{next(_ledgers)}"
        admin = SingleShard(url, answer_s=10.0)
        self.client: Redis = admin.connected
        self._shards: list[Shard] = [admin]
        self.tasks = Tasks()
        self.clock = SystemClock()
        self.store = self.instance(admin)
        self.other = self.instance(SingleShard(url, answer_s=10.0))

    def instance(self, shard: Shard, clock: SystemClock | None = None) -> RedisStore:
        """Return the ledger over a connection; the bench closes it."""
        if shard not in self._shards:
            self._shards.append(shard)
        return RedisStore(shard, self.ledger, clock or self.clock, self.tasks)

    async def close(self) -> None:
        """Leave nothing open."""
        for shard in self._shards:
            await shard.close()

    def key(self, name: str) -> str:
        """Return the key of one of the ledger's structures."""
        return f"dl:{{{self.ledger}}}:{name}"

    async def now_ms(self) -> int:
        """See Bench."""
        seconds, micros = await self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def contents(self) -> object:
        """See Bench."""
        found: dict[bytes, Any] = {}
        async for key in self.client.scan_iter(match=f"dl:{{{self.ledger}}}:*", count=1000):
            kind = await self.client.type(key)
            if kind == b"hash":
                found[key] = await self.client.hgetall(key)
            else:
                found[key] = await self.client.zrange(key, 0, -1, withscores=True)
        return found

    async def claimants(self, kind: str, digest: str) -> list[str]:
        """See Bench."""
        raw: Any = await self.client.hget(self.key("claims"), kind[0] + digest)
        return [] if raw is None else [entry.partition("@")[0] for entry in raw.decode().split(",")]

    async def pass_time(self, ms: int) -> None:
        """See Bench."""
        due: Any = await self.client.zrange(self.key("due"), 0, -1, withscores=True)
        if due:
            await self.client.zadd(self.key("due"), {member: score - ms for member, score in due})
        settled: Any = await self.client.zrange(self.key("settled"), 0, -1, withscores=True)
        if settled:
            await self.client.zadd(self.key("settled"), {member: score - ms for member, score in settled})
        for number in range(1, GRAVES + 1):
            await self._rewrite(f"graves:{number}", lambda _, row: _older_stones(row, ms))
        await self._rewrite("meta", lambda name, raw: _older_meta(name, raw, ms))
        await self._rewrite("instances", lambda _, raw: str(int(raw) - ms).encode())
        await self._rewrite("claims", lambda name, raw: _older_claim(name, raw, ms))
        if ms >= DAY:
            now_ms = await self.now_ms()
            await self._rewrite("actions", lambda _, raw: _older_holds(raw, now_ms, ms))
            used: Any = await self.client.hgetall(self.key("limits"))
            if used:
                moved: dict[Any, Any] = {_older_field(name.decode(), now_ms, ms): value for name, value in used.items()}
                await self.client.delete(self.key("limits"))
                await self.client.hset(self.key("limits"), mapping=moved)

    async def _rewrite(self, name: str, older: Any) -> None:
        found: Any = await self.client.hgetall(self.key(name))
        if found:
            await self.client.hset(self.key(name), mapping={f: older(f, raw) for f, raw in found.items()})


Benches = AsyncIterator[Callable[[], RedisBench]]


async def benches_on(server: Server) -> Benches:
    """Yield what makes a bench of a new ledger, and close them all."""
    made: list[RedisBench] = []

    def fresh() -> RedisBench:
        made.append(RedisBench(server.url))
        return made[-1]

    yield fresh
    for bench in made:
        await bench.close()


def _older_claim(name: bytes, raw: bytes, ms: int) -> bytes:
    """Move the ends of a payload or target claim; a scope and an alias have none, nor has what is no time."""
    if name[:1] not in (b"p", b"t"):
        return raw
    timeless = (FOREVER_MS, WAITED_FOR_MS)
    return _CLAIM.sub(lambda m: m[0] if int(m[1]) in timeless else f"@{int(m[1]) - ms}", raw.decode()).encode()


def _older_stones(row: bytes, ms: int) -> bytes:
    """Move the ends of a row of tombstones."""
    stones = (row[at : at + STONE] for at in range(0, len(row), STONE))
    return b"".join(stone[:-4] + struct.pack(">I", struct.unpack(">I", stone[-4:])[0] - ms // 1000) for stone in stones)


def _older_meta(name: bytes, raw: bytes, ms: int) -> bytes:
    """Move the times of a grave and of whoever retires; numbers have none."""
    if re.fullmatch(rb"grave\d", name):
        opened, last, count = (int(word) for word in raw.split())
        return b"%d %d %d" % (opened - ms // 1000, last - ms // 1000, count)
    return _CLAIM.sub(lambda m: f"@{int(m[1]) - ms}", raw.decode()).encode() if name == b"retirer" else raw


def _older_holds(raw: bytes, now_ms: int, ms: int) -> bytes:
    (size,) = struct.unpack_from(">I", raw)
    head = msgspec.msgpack.decode(raw[4 : 4 + size])
    for hold in head["h"]:
        hold["l"] = _older_label(hold["l"], now_ms, ms)
    packed = msgspec.msgpack.encode(head)
    return struct.pack(">I", len(packed)) + packed + raw[4 + size :]


def _older_field(name: str, now_ms: int, ms: int) -> str:
    bucket, _, rest = name.partition("|")
    limit, _, label = rest.rpartition("|")
    return f"{bucket}|{limit}|{_older_label(label, now_ms, ms)}" if bucket == "c" else name


def _older_label(label: str, now_ms: int, ms: int) -> str:
    """Return the period of what was in `label` and is so much older now."""
    if label == "total":
        return label
    if len(label) == len("2026-10-15"):
        return (date.fromisoformat(label) - timedelta(milliseconds=ms)).isoformat()
    assert label == period_label(Period.MONTH, now_ms), "of an earlier month nobody knows the day"
    return period_label(Period.MONTH, now_ms - ms)
