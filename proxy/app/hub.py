"""`hub`: an instance without doors for agents; it settles what a fleet's sidecars leave (CONTRACT 5)."""

from collections.abc import Callable, Iterator

from proxy.app.instance import Instance
from proxy.app.running import print_now
from proxy.config import Complaint, Complaints, Config, StoreKind


class Hub(Instance):
    """Reconciler, admin, health and metrics on a store that sidecars share. Any number of hubs may."""

    def __init__(self, config: Config, say: Callable[[str], None] = print_now) -> None:
        """Raises Complaints: the store is the embedded one."""
        url = config.store.url
        if url.kind is StoreKind.EMBEDDED:
            rule = "is of one process, and a hub serves the sidecars of a store that they share: name a Redis or Valkey"
            raise Complaints([Complaint("store.url", f'"{url.shown}"', rule)])
        super().__init__(config, say)

    def greeting(self) -> Iterator[str]:
        """Say which ledger is seen to."""
        store = self.config.store
        yield f"Doubtless hub is ready, ledger {store.ledger}, store {store.url.shown}"
