"""The store: begun or found, waited for, and looked at before anything is written."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Self

import structlog
from msgspec import structs

from proxy.app.parts import state_key
from proxy.config import Config, StoreKind
from proxy.core.checks import Check
from proxy.edges.clock import SystemClock
from proxy.edges.embedded import Embedded
from proxy.edges.spool import FileSpool
from proxy.edges.store import inspection
from proxy.edges.store.client import RedisStore, tag_of
from proxy.edges.store.topology import Shard, SingleShard, shard_of
from proxy.ports import StoreUnavailable
from proxy.reconciler import Reconciler

_log = structlog.get_logger(__name__)


class Refused(Exception):
    """The store answers, and is not one to start on; the text is a sentence for a person."""


class Ledger:
    """Where a ledger is kept, and the state keys of what is sealed in it."""

    def __init__(self, config: Config, shard: Shard, keys: list[bytes], embedded: Embedded | None) -> None:
        self.shard = shard
        self.keys = keys
        self.checks: list[Check] = []  # Of the store, once it was looked at.
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

    async def _look(self, fingerprints: Sequence[str]) -> None:
        ledger = self._config.store.ledger
        seen = await inspection.look(self.shard, ledger, SystemClock())
        self._judge(seen, fingerprints)
        before = await inspection.take_up(self.shard, ledger, fingerprints)  # Of two that are first, one is.
        self._judge(structs.replace(seen, keys=before), fingerprints)

    def _judge(self, seen: inspection.Seen, fingerprints: Sequence[str]) -> None:
        self.checks = inspection.judged(seen, fingerprints, self._config.state.keep_scopes_ms)
        for check in self.checks:
            if check.stops:
                shown = self._config.store.url.shown
                raise Refused(f"Cannot start on {shown}: {check.what}: {check.found}. {check.do}")

    def _dead(self, spool: FileSpool) -> set[str]:
        """Return the instances that are dead for certain: what they held before us, by a lock, is ours."""
        previous = self._embedded.previous_instance if self._embedded is not None else None
        return {*spool.dead_instances, *([previous] if previous else [])}

    async def first_beat(
        self,
        name: str,
        lease_ms: int,
        fingerprints: Sequence[str],
        store: RedisStore,
        reconciler: Reconciler,
        spool: FileSpool,
        stopping: asyncio.Event,
    ) -> None:
        """Wait until the store answers; then write off what the owner before us left in flight, before we listen.

        Raises Refused: the store, or our state key for it, is such that a record could be lost or not recognised.
        """
        while not stopping.is_set():
            try:
                await self._look(fingerprints)  # Before anything is written there.
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
