"""Between the processes and the providers: what is lost, late, garbled, or answered by something in between."""

import asyncio
from typing import TYPE_CHECKING, Final

from proxy.core.http import Answered, Exchange, Integrity, NotSent, Request, Response, Silence, Unsent
from proxy.ports import Sending
from tests.fakes.fuse import Bug
from tests.simulation.providers import Provider, text
from tests.simulation.weather import MIDDLEBOX

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

REFUSALS: Final = {
    "500": 500,
    "in conflict": 409,
    "not executed": 429,
    "unauthorised": 401,
    "invalid": 400,
    "declined": 402,
    "refused, and cut short": 400,
    "key reused": 400,
}
ACTS_NOT: Final = {*REFUSALS, "lost before it is read", "neither made nor answered", "a middlebox"}
SILENT: Final = {"made, and never answered", "neither made nor answered"}
CLOSED: Final = {"made, and the connection is lost", "lost before it is read"}
GARBLED: Final = Response(502, b"", ((b"Content-Type", b"text/html"),), b"<html>Bad Gateway</html>")
BODIES: Final = (GARBLED.body, b'{"error": {"type": "invalid_request_error", "message": "No."}}', b'{"id": "x"}')


class Network:
    """Carries requests, on the world's time: a process that stands still does not stop what it has sent."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._weather = world.weather
        self._chance = world.chance

    def carry(self, provider: Provider, request: Request, reply: "asyncio.Future[Exchange]") -> None:
        """Take a write to its provider, and what comes of it back."""
        fate = self._weather.write()
        who = f"errand {text(request, b'x-errand')}"
        self._world.story.count(f"write: {fate}", who, f"request {text(request, b'x-request')} at the provider: {fate}")
        there_ms = self._chance.between(5_000, 70_000) if fate == "made late" else self._chance.between(20, 900)
        self._world.later(there_ms, self._at_provider, provider, request, fate, reply)

    def _at_provider(self, provider: Provider, request: Request, fate: str, reply: "asyncio.Future[Exchange]") -> None:
        if fate in REFUSALS:
            response = provider.says(REFUSALS[fate], code="key_reused" if fate == "key reused" else "")
        elif fate in ACTS_NOT:
            response = GARBLED
        else:
            response = provider.act(request, failed=fate == "created as failed")
            if fate == "made, and repeated by a middlebox":
                again = provider.act(request, by_others=True)
                # Without a key that is honoured, the answer to the repetition may be a lie about the first.
                response = again if provider.idempotent else response
                fate = "made" if provider.idempotent else "made, and the connection is lost"
        if fate in SILENT:
            return
        back_ms = self._chance.between(8_000, 60_000) if fate == "made, and answered late" else 0
        back_ms += self._chance.between(10, 600)
        self._world.later(back_ms, self._back, reply, self._as_heard(fate, response, provider))

    def _back(self, reply: "asyncio.Future[Exchange]", heard: Exchange | Exception) -> None:
        if reply.done():
            return
        if isinstance(heard, Exception):
            reply.set_exception(heard)
        else:
            reply.set_result(heard)

    def _as_heard(self, fate: str, response: Response, provider: Provider) -> Exchange | Exception:
        if fate in CLOSED:
            return Silence()
        match fate:
            case "made, and 500":
                return Answered(provider.says(500))
            case "made, and cut short" | "refused, and cut short":
                return Answered(response, Integrity.CUT)
            case "made, and bytes behind it":
                return Answered(response, Integrity.TRAILING)
            case "made, behind a middlebox" | "a middlebox":
                return Answered(Response(self._chance.of(MIDDLEBOX), b"", GARBLED.headers, self._chance.of(BODIES)))
            case "made, and a bug of ours":
                return Bug("after the last byte")
            case "made, and answered before the upload ended":
                return Answered(provider.says(400), upload_ended=False)
            case _:
                return Answered(response)

    def read(self, provider: Provider, target: str, reply: "asyncio.Future[Exchange]") -> None:
        """Take a GET there and back."""
        fate = self._weather.read()
        self._world.story.count(f"read: {fate}", provider.name, f"GET {target}: {fate}")
        back_ms = self._chance.between(4_000, 15_000) if fate == "read slowly" else self._chance.between(20, 400)
        self._world.later(back_ms, self._read, provider, target, fate, reply)

    def _read(self, provider: Provider, target: str, fate: str, reply: "asyncio.Future[Exchange]") -> None:
        match fate:
            case "no answer":
                self._back(reply, Silence())
            case "failed":
                self._back(reply, Answered(provider.says(500)))
            case "refused":
                self._back(reply, Answered(provider.says(401)))
            case "cut short":
                self._back(reply, Answered(provider.read(target), Integrity.CUT))
            case _:
                self._back(reply, Answered(provider.read(target)))


class Line:
    """The Upstream port of one process: its connections, and its own last look before the first byte."""

    def __init__(self, world: "World", process: "Process") -> None:
        self._world = world
        self._process = process
        self._clock = process.clock

    async def exchange(self, provider: str, request: Request, sending: Sending) -> Exchange:
        """See the port."""
        await self._process.struck()
        there = self._world.providers[provider]
        reply: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        if request.method == "GET":
            if self._world.weather.provider_down:
                return NotSent(Unsent.REFUSED)
            self._world.network.read(there, request.target, reply)
            return await self._heard(reply, sending)
        if (why := await self._connected(sending)) is not None:
            return NotSent(why)
        sending.left_bytes += len(request.body) + 1  # From here on nothing is certain.
        self._world.truth.first_byte(self._process, provider, request)
        self._world.network.carry(there, request, reply)
        exchange = await self._heard(reply, sending)
        await self._process.struck()
        self._world.truth.heard(self._process, provider, request, exchange)
        return exchange

    async def _connected(self, sending: Sending) -> Unsent | None:
        """Connect; then look a last time whether the first byte may still leave."""
        fate = self._world.weather.connection()
        self._world.story.count(f"connection: {fate}", self._process.name, f"connecting: {fate}")
        slow = fate == "connected slowly"
        await asyncio.sleep(self._world.chance.between(*((1_000, 15_000) if slow else (1, 60))) / 1000)
        match fate:
            case "refused":
                return Unsent.REFUSED
            case "no name":
                return Unsent.DNS
            case "a bug of ours":
                raise Bug("before the first byte")
        if sending.abandoned:
            return Unsent.CANCELLED
        limit, now_ms = sending.send_before, self._clock.monotonic_ms()
        if limit is not None and (now_ms > limit.monotonic_ms or self._clock.wall_ms() > limit.wall_ms):
            self._world.story.count("send_before had passed", self._process.name, "too late for the first byte")
            return Unsent.SEND_BEFORE
        return Unsent.TIMEOUT if now_ms >= sending.until_ms else None

    async def _heard(self, reply: "asyncio.Future[Exchange]", sending: Sending) -> Exchange:
        left_ms = max(0, sending.until_ms - self._clock.monotonic_ms())
        await asyncio.wait({reply}, timeout=left_ms / 1000)
        if not reply.done():
            reply.cancel()
            return Silence(timed_out=True)
        return reply.result()
