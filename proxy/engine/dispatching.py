"""One try: sent once, waited for until the answer deadline, listened to until the harvest end, and recorded.

The agent's connection only waits for it. What was seen and cannot be committed goes to the spool, as an observation.
"""

import asyncio
from typing import Final

import msgspec

from proxy.core import verdict
from proxy.core.events import Event, Lost, Responded, Unsendable
from proxy.core.http import Answered, Exchange, NotSent, Response, Silence, Unsent
from proxy.core.lifecycle import step
from proxy.core.model import Action, Cause
from proxy.engine.applying import RESPONSE, Applier
from proxy.engine.asking import Asker
from proxy.engine.making import Made
from proxy.engine.notebook import Notebook
from proxy.engine.pricing import Pricer
from proxy.ports import Clock, Decode, Observation, Spawner, Stored, StoreUnavailable, Upstream, Vault

EVENT_ENCODER: Final = msgspec.msgpack.Encoder()
EVENT_DECODER: Final = msgspec.msgpack.Decoder(Event)
RESPONSE_DECODER: Final = msgspec.msgpack.Decoder(Response)


class Outcome(msgspec.Struct, frozen=True):
    """What became of a dispatch by its answer deadline. `response`: the provider's own answer, where it is one."""

    action: Action
    response: Response | None = None


class Live:
    """A dispatch under way: who waits for it, and its outcome once there is one."""

    def __init__(self, action_id: str, targets: frozenset[str]) -> None:
        self.action_id = action_id
        self.targets = targets  # Under every key; of a further dispatch none: it was there already.
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.outcome: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self.askers: set[Asker] = set()

    def resolve(self, outcome: Outcome | None) -> None:
        """Tell everyone who waits; None where there is nothing to tell (it was never dispatched)."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class _Try(msgspec.Struct):
    """What a dispatch carries along."""

    live: Live
    stored: Stored
    made: Made
    exchange: "asyncio.Future[Exchange]"
    began_ms: int  # Monotonic.

    @property
    def dispatch_id(self) -> str:
        return self.stored.action.dispatches[-1].dispatch_id

    @property
    def nothing_left(self) -> bool:
        """Is it proven that no byte left?"""
        return self.made.sending.left_bytes == 0

    def elapsed_ms(self, clock: Clock) -> int:
        """Return how long the exchange has taken."""
        return clock.monotonic_ms() - self.began_ms

    async def stop(self) -> None:
        """End the exchange. Where nothing has left, nothing will."""
        self.made.sending.abandoned = True
        self.exchange.cancel()
        await asyncio.wait({self.exchange})


class Dispatcher:
    """Carries dispatches through."""

    def __init__(
        self,
        applier: Applier,
        upstream: Upstream,
        notebook: Notebook,
        vault: Vault,
        tasks: Spawner,
        pricer: Pricer,
        decode: Decode,
    ) -> None:
        self._applier = applier
        self._upstream = upstream
        self._notebook = notebook
        self._vault = vault
        self._tasks = tasks
        self._pricer = pricer
        self._decode = decode

    async def carry(self, live: Live, stored: Stored, made: Made) -> None:
        """Send, hear and record. It is cancelled only by a drain that ran out."""
        this = _Try(live, stored, made, asyncio.get_running_loop().create_future(), self._applier.clock.monotonic_ms())
        try:
            try:
                exchange = self._upstream.exchange(stored.action.identity.provider, made.request, made.sending)
                this.exchange = self._tasks.spawn(exchange, "exchange")
                await self._until_answer_deadline(this)
                await self._heard(this, Cause.TIMEOUT)
            except asyncio.CancelledError:
                await this.stop()
                await self._heard(this, Cause.SHUTDOWN)  # Its answer may be there already, and not be recorded yet.
                raise
        except Exception:
            # Whatever failed here is ours: the provider may have acted, and only the counter can say that it has not.
            await this.stop()
            await self._record(this, _silent(this, Cause.CONNECTION_LOST))
            raise
        finally:
            live.resolve(None)

    async def _until_answer_deadline(self, this: _Try) -> None:
        """Wait for the answer. At the deadline the action becomes unknown for everyone, and the listening goes on."""
        left_ms = this.made.answer_by_ms - self._applier.clock.monotonic_ms()
        await asyncio.wait({this.exchange}, timeout=max(0, left_ms) / 1000)
        if this.exchange.done():
            return
        if this.nothing_left:
            await this.stop()
        else:
            await self._record(this, Lost(this.dispatch_id, Cause.TIMEOUT))

    async def _heard(self, this: _Try, stopped: Cause) -> None:
        """Hear the exchange to its end, and record that. `stopped`: why, where it was stopped before."""
        await asyncio.wait({this.exchange})
        if this.exchange.cancelled():
            await self._record(this, _silent(this, stopped))
            return
        exchange = this.exchange.result()
        self._applier.meter.upstream(this.stored.action.identity.provider, this.elapsed_ms(self._applier.clock) / 1000)
        match exchange:
            case NotSent(why) if this.nothing_left:
                await self._record(this, Unsendable(this.dispatch_id, why))
            case NotSent():
                await self._record(this, Lost(this.dispatch_id, Cause.CONNECTION_LOST))
            case Silence():
                await self._record(this, Lost(this.dispatch_id, verdict.of_silence(exchange)))
            case Answered(response):
                ident = this.stored.action.identity
                adapter = self._applier.adapters[ident.provider]
                keyed = ident.idempotency_key is not None
                readable = msgspec.structs.replace(exchange, response=self._decode(response))
                judged = verdict.of_dispatch(readable, adapter, adapter.route(ident.route), keyed=keyed)
                kept = not isinstance(judged, verdict.Unclear) or judged.cause is Cause.NON_TERMINAL
                event = Responded(this.dispatch_id, judged, verdict.reply_of(exchange, adapter), kept)
                await self._record(this, event, response if kept else None)

    async def _record(self, this: _Try, event: Event, response: Response | None = None) -> None:
        """Commit what was seen, or else note it; then tell who waits. Commit, then answer."""
        sealed = None
        if response is not None:
            about = f"{this.live.action_id}:{RESPONSE}"
            sealed = self._vault.seal(EVENT_ENCODER.encode(response), about)
        try:
            keep = {RESPONSE: sealed} if sealed is not None else {}
            after = await self._applier.apply(this.live.action_id, event, keep=keep)
            action = after.action if isinstance(after, Stored) else this.stored.action
            if not _knows(action, this):
                # The store has forgotten this dispatch: what it says is of an earlier one.
                action = self._noted(this.stored, event, sealed)
        except StoreUnavailable:
            action = self._noted(this.stored, event, sealed)
        answered = this.live.outcome.done()
        if answered and isinstance(event, Responded):
            self._applier.meter.late(action.identity.provider)
        if not answered and action.unresolved:
            priced = await self._pricer.on_unknown(action, this.made.request.headers)
            action = priced if _knows(priced, this) else action
        this.live.resolve(Outcome(action, response if action.answer_kept else None))

    def _noted(self, stored: Stored, event: Event, sealed: bytes | None) -> Action:
        """Keep the observation; what it makes of the action is what the store will hold."""
        rules = self._applier.rules(stored.action)
        if not self._notebook.note(Observation(stored.action.action_id, EVENT_ENCODER.encode(event), sealed)):
            # Neither store nor disk: it may end with this process, and the agent is told so.
            event = Lost(stored.action.dispatches[-1].dispatch_id, Cause.PROXY_RESTART)
        return step(stored.action, event, self._applier.moment(), rules).action


def _knows(action: Action, this: _Try) -> bool:
    """Does the record know this dispatch? A store that has forgotten it speaks of an earlier one."""
    return any(dispatch.dispatch_id == this.dispatch_id for dispatch in action.dispatches)


def _silent(this: _Try, cause: Cause) -> Event:
    """Return what is recorded of a try that is not heard to its end."""
    if this.nothing_left:
        return Unsendable(this.dispatch_id, Unsent.TIMEOUT if cause is Cause.TIMEOUT else Unsent.CANCELLED)
    return Lost(this.dispatch_id, cause)
