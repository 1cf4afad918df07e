"""The store: begun or found, waited for, and looked at before anything is written."""

import asyncio
import contextlib
from typing import Self

import structlog

from proxy.app.parts import state_key
from proxy.config import Config, StoreKind
from proxy.edges.embedded import Embedded
from proxy.edges.spool import FileSpool
from proxy.edges.store.client import RedisStore, tag_of
from proxy.edges.store.topology import Shard, SingleShard, shard_of
from proxy.ports import StoreUnavailable
from proxy.reconciler import Reconciler

_log = structlog.get_logger(__name__)


class Ledger:
    """Where a ledger is kept, and the state keys of what is sealed in it."""

    def __init__(self, config: Config, shard: Shard, keys: list[bytes], embedded: Embedded | None) -> None:
        self.shard = shard
        self.keys = keys
        self._config = config
        self._embedded = embedded

    @classmethod
    async def open(cls, config: Config, stack: contextlib.AsyncExitStack) -> Self:
        """Start the store, or say where it is found. Raises EmbeddedError."""
        url = config.store.url
        keys = [state_key(secret.reveal()) for secret in config.state.key]
        if url.kind is not StoreKind.EMBEDDED:
            return cls(config, shard_of(url, tag_of(config.store.ledger)), keys, None)
        embedded = Embedded(url.folder, allow_ephemeral=config.store.allow_ephemeral)
        address = await embedded.start()
        stack.push_async_callback(embedded.stop)
        return cls(config, SingleShard(address), keys or [state_key(embedded.state_key())], embedded)

    def _dead(self, spool: FileSpool) -> set[str]:
        """Return the instances that are dead for certain: what they held before us, by a lock, is ours."""
        previous = self._embedded.previous_instance if self._embedded is not None else None
        return {*spool.dead_instances, *([previous] if previous else [])}

    async def first_beat(
        self,
        name: str,
        lease_ms: int,
        store: RedisStore,
        reconciler: Reconciler,
        spool: FileSpool,
        stopping: asyncio.Event,
    ) -> None:
        """Wait until the store answers; then write off what the owner before us left in flight, before we listen."""
        while not stopping.is_set():
            try:
                await store.beat(name, lease_ms)
                await reconciler.unspool()  # First: what the dead saw and wrote down is not unknown.
                for dead in self._dead(spool):
                    await store.bury(dead)
                while await reconciler.round():
                    pass
                spool.write_instance(name)
                spool.forget_dead()
                if self._embedded is not None:
                    self._embedded.write_instance(name)
            except StoreUnavailable as gone:
                _log.warning("waiting for the store", store=self._config.store.url.shown, why=str(gone)[:64])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), 1.0)
            else:
                return
