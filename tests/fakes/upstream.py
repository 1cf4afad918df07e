"""An Upstream that does what a script says, exchange by exchange, on the time of the event loop.

It owes what the port says: `left_bytes` is raised before anything is written, `send_before` and `abandoned` are looked
at right before that, `until_ms` ends whatever it waits for, and it raises nothing but what a script makes it raise.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from proxy.core.http import Answered, Exchange, Headers, Integrity, NotSent, Request, Response, Silence, Unsent, first
from proxy.ports import Clock, Sending


@dataclass(frozen=True, slots=True)
class Script:
    """One exchange, and what it ends in; an exception is raised once the last byte has left.

    `connecting`, `thinking`: how long it takes to the first byte and to the answer, in milliseconds, or until an event.
    `breaks_early`: it raises before the first byte instead.
    """

    ends: Exchange | Exception
    connecting: int | asyncio.Event = 0
    thinking: int | asyncio.Event = 0
    breaks_early: Exception | None = None


def answers(
    status: int = 200,
    body: object = None,
    *,
    headers: Headers = ((b"Request-Id", b"req_1"),),
    integrity: Integrity = Integrity.WHOLE,
    connecting: int | asyncio.Event = 0,
    thinking: int | asyncio.Event = 0,
) -> Script:
    """Answer with JSON, under Stripe's mark."""
    all_headers = ((b"Content-Type", b"application/json"), *headers)
    response = Response(status, b"", all_headers, msgspec.json.encode(body) if body is not None else b"")
    return Script(Answered(response, integrity), connecting=connecting, thinking=thinking)


def unsent(why: Unsent = Unsent.REFUSED, *, connecting: int | asyncio.Event = 0) -> Script:
    """No connection comes about."""
    return Script(NotSent(why), connecting=connecting)


def silence(*, timed_out: bool = False, thinking: int | asyncio.Event = 0) -> Script:
    """Take the request, and lose the connection before any answer."""
    return Script(Silence(timed_out=timed_out), thinking=thinking)


@dataclass(slots=True)
class Call:
    """One exchange as it was asked for, and what became of it."""

    provider: str
    request: Request
    sending: Sending
    left_bytes: int = 0
    left_ms: int | None = None  # Monotonic, of the first byte.
    ended: bool = False

    @property
    def key(self) -> str | None:
        """The idempotency key that it bore."""
        raw = first(self.request.headers, b"idempotency-key")
        return None if raw is None else raw.decode("latin-1")

    @property
    def credential(self) -> str | None:
        """What it authenticated with."""
        raw = first(self.request.headers, b"authorization")
        return None if raw is None else raw.decode("latin-1")


@dataclass(slots=True)
class ScriptedUpstream:
    """Writes follow `writes` in order, then `otherwise`; GETs are answered by `reads`, or else find nobody there."""

    clock: Clock
    writes: deque[Script] = field(default_factory=deque)
    otherwise: Script | None = None
    reads: Callable[[Call], Script] | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def dispatched(self) -> list[Call]:
        """The writes of which a byte left."""
        return [call for call in self.tried if call.left_bytes]

    @property
    def tried(self) -> list[Call]:
        """The writes that were asked for."""
        return [call for call in self.calls if call.request.method != "GET"]

    @property
    def read(self) -> list[Call]:
        """The reads that were asked for."""
        return [call for call in self.calls if call.request.method == "GET"]

    async def exchange(self, provider: str, request: Request, sending: Sending) -> Exchange:
        """See the port."""
        call = Call(provider, request, sending)
        self.calls.append(call)
        script = self._script(call)
        try:
            return await self._follow(script, call)
        finally:
            call.ended = True

    def _script(self, call: Call) -> Script:
        if call.request.method == "GET":
            return self.reads(call) if self.reads is not None else unsent()
        script = self.writes.popleft() if self.writes else self.otherwise
        assert script is not None, "a write that no script foresees"
        return script

    async def _follow(self, script: Script, call: Call) -> Exchange:
        sending = call.sending
        if not await self._until(sending, script.connecting):
            return NotSent(Unsent.TIMEOUT)
        if script.breaks_early is not None:
            raise script.breaks_early
        if isinstance(script.ends, NotSent):
            return script.ends
        if (why := self._refusal(sending)) is not None:
            return NotSent(why)
        sending.left_bytes += len(call.request.target) + len(call.request.body)
        call.left_bytes, call.left_ms = sending.left_bytes, self.clock.monotonic_ms()
        if not await self._until(sending, script.thinking):
            return Silence(timed_out=True)
        if isinstance(script.ends, Exception):
            raise script.ends
        return script.ends

    async def _until(self, sending: Sending, waited_for: int | asyncio.Event) -> bool:
        """Wait for a time or an event; False where the exchange's own time ran out first."""
        work: Awaitable[object]
        work = asyncio.sleep(waited_for / 1000) if isinstance(waited_for, int) else waited_for.wait()
        left_ms = sending.until_ms - self.clock.monotonic_ms()
        try:
            async with asyncio.timeout(max(0, left_ms) / 1000):
                await work
        except TimeoutError:
            return False
        return True

    def _refusal(self, sending: Sending) -> Unsent | None:
        """Say why not even the first byte may be written; nothing is awaited between this and writing it."""
        if sending.abandoned:
            return Unsent.CANCELLED
        limit, now_ms = sending.send_before, self.clock.monotonic_ms()
        if limit is not None and (now_ms > limit.monotonic_ms or self.clock.wall_ms() > limit.wall_ms):
            return Unsent.SEND_BEFORE
        return Unsent.TIMEOUT if now_ms >= sending.until_ms else None
