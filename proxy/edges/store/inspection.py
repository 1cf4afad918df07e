"""What a store shows of itself: its `INFO` and its time, and the state keys that a ledger was written with.

A ledger knows each state key that ever sealed by a fingerprint, a keyed digest of a fixed text, beside the time at
which an instance last started with it. It is no secret: nothing of a key of 32 random bytes follows from it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from proxy.core import checks
from proxy.core.checks import Check
from proxy.edges.store import safety
from proxy.edges.store.client import tag_of
from proxy.edges.store.lane import Script
from proxy.edges.store.topology import Shard
from proxy.ports import Clock, StoreUnavailable, Vault

LOOK_S: Final = 5.0
KEYS: Final = Script("keys")
_PREFIX: Final = b"key:"


class Unseen(StoreUnavailable):
    """The store shows nothing of itself; `do` says what may help."""

    def __init__(self, why: str, do: str) -> None:
        super().__init__(why)
        self.do = do


class Seen(Struct, frozen=True):
    """What a store showed. `store_ms` None: it tells no time; `keys` None: the ledger's keys were not to be seen."""

    info: Mapping[str, str]
    store_ms: int | None
    wall_ms: int
    keys: Mapping[str, int] | None


def fingerprints(vault: Vault) -> tuple[str, ...]:
    """Return what a ledger knows the vault's keys by, the newest first."""
    return vault.digests(b"doubtless state key")


def judged(seen: Seen, ours: Sequence[str], keep_ms: int) -> list[Check]:
    """Return the checks of what was seen. `keep_ms`: see `checks.state_key`."""
    now_ms = seen.wall_ms if seen.store_ms is None else seen.store_ms
    found = safety.judge(seen.info, seen.store_ms, seen.wall_ms)
    if seen.keys is None:
        return [*found, UNSEEN_KEYS]
    return [*found, checks.state_key(ours, seen.keys, now_ms, keep_ms)]


UNSEEN_KEYS: Final = Check(
    "state key",
    checks.Level.UNVERIFIABLE,
    "what the ledger was written with is not to be seen",
    "Run this again while the store answers.",
)


async def look(shard: Shard, ledger: str, clock: Clock) -> Seen:
    """Ask a store what it is; it changes nothing. Raises Unseen."""
    async with _asking(shard) as client:
        client.set_response_callback("INFO", _as_it_came)  # redis-py takes 7.10 for the number 7.1.
        before_ms = clock.wall_ms()
        info = await _unless_refused(client.info())
        time = await _unless_refused(client.time())
        wall_ms = (before_ms + clock.wall_ms()) // 2
        fields = await _unless_refused(client.hgetall(_meta_of(ledger)))
    return Seen(
        info=safety.parse(info.decode("utf-8", "replace")) if info is not None else {},
        store_ms=int(time[0]) * 1000 + int(time[1]) // 1000 if time is not None else None,
        wall_ms=wall_ms,
        keys=None if fields is None else _keys_in(fields),
    )


async def take_up(shard: Shard, ledger: str, ours: Sequence[str]) -> dict[str, int]:
    """Note the first of our keys as in use, and return those that the ledger knew before, in one atomic step.

    Nothing is noted where it knows keys, and none of ours. Raises Unseen.
    """
    async with _asking(shard) as client:
        _, *flat = await client.eval(KEYS.text.decode(), 1, _meta_of(ledger), *ours)
    return {key.decode(): int(at) for key, at in zip(flat[::2], flat[1::2], strict=True)}


def _meta_of(ledger: str) -> bytes:
    return tag_of(ledger) + b"meta"


def _as_it_came(response: Any, **_: Any) -> Any:
    return response


def _keys_in(fields: Mapping[bytes, bytes]) -> dict[str, int]:
    return {k.removeprefix(_PREFIX).decode(): int(at) for k, at in fields.items() if k.startswith(_PREFIX)}


async def _unless_refused(answer: Any) -> Any:
    """Return an answer; None where we may not ask: what cannot be seen is not verifiable."""
    try:
        return await answer
    except BusyLoadingError:
        raise
    except ResponseError:
        return None


@contextlib.asynccontextmanager
async def _asking(shard: Shard) -> AsyncIterator[Redis]:
    """Lend a client, and turn every way in which it fails into one. Raises Unseen."""
    try:
        async with asyncio.timeout(LOOK_S):
            yield await shard.client()
    except (RedisError, OSError, StoreUnavailable) as failed:  # A TimeoutError is an OSError.
        raise _unseen(failed) from None


_SAYS: Final[tuple[tuple[tuple[type[BaseException], ...], str, str], ...]] = (
    ((AuthenticationError, AuthorizationError), "it refuses our name or password", "Correct them in store.url."),
    ((BusyLoadingError,), "it is loading what it holds", "Wait until it is ready."),
    ((ReadOnlyError,), "it is a replica, which cannot be written", "Let store.url lead to the primary."),
    ((OutOfMemoryError,), "its memory is full, and it refuses writes", "Give it more."),
    ((TimeoutError, RedisTimeoutError), "it is silent", "Look whether it runs, and whether store.url leads to it."),
)


def _unseen(failed: BaseException) -> Unseen:
    """Say why, in the system's words where there are none of ours; nothing that was sent, and no URL."""
    causes = list(_causes(failed))
    for kinds, why, do in _SAYS:
        if any(isinstance(cause, kinds) for cause in causes):
            return Unseen(why, do)
    if isinstance(failed, StoreUnavailable):
        return Unseen(str(failed), "Look whether it runs, and whether store.url leads to it.")
    said = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
    return Unseen(f"it cannot be reached: {said or type(failed).__name__}", "Start it, or correct store.url.")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it: redis-py wraps what a server says to a new connection."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
