"""The engine: what the edges call."""

from collections.abc import Mapping

from proxy.core import answers
from proxy.core.adapter import Adapter
from proxy.core.answers import Code
from proxy.core.events import Delivered
from proxy.engine.admission import Admission
from proxy.engine.answering import Answering
from proxy.engine.applying import Applier
from proxy.engine.asking import Answer, Ask, Asker, Refusal
from proxy.engine.dispatching import Dispatcher
from proxy.engine.drafting import draft
from proxy.engine.making import Maker
from proxy.engine.notebook import Notebook
from proxy.engine.pricing import Pricer, Reader
from proxy.engine.pulse import Pulse
from proxy.engine.sending import Draining, Sender
from proxy.engine.settings import Settings
from proxy.ports import (
    Clock,
    Decode,
    Entropy,
    Meter,
    Spawner,
    Spool,
    SpoolFull,
    Store,
    StoreUnavailable,
    Upstream,
    Vault,
)


class Engine:
    """Governed writes over the ports."""

    def __init__(
        self,
        *,
        store: Store,
        upstream: Upstream,
        clock: Clock,
        entropy: Entropy,
        vault: Vault,
        spool: Spool,
        meter: Meter,
        tasks: Spawner,
        adapters: Mapping[str, Adapter],
        settings: Settings,
        decode: Decode = lambda response: response,
    ) -> None:
        self.applier = Applier(store, clock, entropy, meter, adapters, settings)
        self.reader = Reader(upstream, clock, settings)
        self._adapters = adapters
        self._settings = settings
        self._vault = vault
        self.notebook = Notebook(spool)
        self.pulse = Pulse(clock)
        self._spool = spool
        self._tasks = tasks
        self.pricer = Pricer(self.applier, self.reader, vault, tasks)
        dispatcher = Dispatcher(self.applier, upstream, self.notebook, vault, tasks, self.pricer, decode)
        self._sender = Sender(self.applier, dispatcher, tasks)
        maker = Maker(self.applier, adapters, self.pricer, vault)
        self._admission = Admission(
            self.applier, maker, self._sender, Answering(adapters), self.reader, vault, self.notebook, self.pulse
        )
        self._draining = False

    @property
    def in_flight(self) -> int:
        """How many dispatches are under way."""
        return len(self._sender)

    async def govern(self, ask: Ask, asker: Asker) -> Answer:
        """Carry one governed write to its answer. Never raises but CancelledError: every failure is an answer."""
        try:
            if self._draining:
                raise Draining
            drafted = draft(ask, self._adapters[ask.provider], self._settings, self._vault)
            self._spool.check()
            return await self._admission.admit(drafted, asker)
        except Refusal as refusal:
            return refusal.own
        except Draining:
            return answers.own(Code.DRAINING, _DRAINING)
        except (StoreUnavailable, SpoolFull, OSError):
            return answers.own(Code.STORE_UNAVAILABLE, _STORE_UNAVAILABLE)

    async def tell(self) -> None:
        """Tell the store what must be known before this instance shows that it lives. Raises StoreUnavailable."""
        await self._sender.tell()

    def delivered(self, action_id: str, *, folded: bool) -> None:
        """An agent showed that it got the provider's own answer; recorded in a later commit."""
        self._tasks.spawn(self._delivered(action_id, folded), "delivered")

    async def _delivered(self, action_id: str, folded: bool) -> None:
        try:
            await self.applier.apply(action_id, Delivered(folded))
        except StoreUnavailable:
            return  # It stays undelivered: an identical request within the window gets the same answer again.

    async def drain(self, within_ms: int) -> None:
        """Take no new writes, and wait for those under way; what is left is recorded as `shutdown`."""
        self._draining = True
        await self._sender.drain(within_ms)


_DRAINING = "this proxy is shutting down, and nothing was sent. It is safe to try again, here or at another replica."
_STORE_UNAVAILABLE = (
    "the store cannot be written, so nothing was sent: what is not recorded first is never sent. It is safe to try "
    "again."
)
