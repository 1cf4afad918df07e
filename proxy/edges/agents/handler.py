"""One request from its head to its answer: reads stream through without state, everything else is governed."""

from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
import structlog
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from msgspec import Struct

from proxy.core import answers
from proxy.core.adapter import Adapter
from proxy.core.answers import Code, Own
from proxy.core.http import Headers, NotSent, Request, Silence, first
from proxy.core.outgoing import request_headers
from proxy.edges.agents.connection import AgentConnection
from proxy.edges.agents.pages import Pages, applied, prefer_wait_ms
from proxy.edges.agents.reading import Buffered, check_head, read_body
from proxy.edges.agents.ways import Page, Place, Ways
from proxy.edges.agents.writing import (
    HTTP11,
    WireResponse,
    chunk,
    has_no_body,
    head_bytes,
    json_bytes,
    last_chunk,
    own_bytes,
    whole_bytes,
)
from proxy.edges.upstream import Stream, Truncated, UpstreamClient
from proxy.engine import Ask, Engine, Provided
from proxy.engine.asking import Refusal
from proxy.engine.cutting import Cutting
from proxy.ports import Clock, Sending

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OVERRIDES: Final = (b"x-http-method-override", b"x-http-method", b"x-method-override")
_log = structlog.get_logger(__name__)


class Limits(Struct, frozen=True):
    """The bounds of the agent's side."""

    body_bytes: int = 16 << 20
    buffered_bytes: int = 256 << 20
    read_head_ms: int = 120_000  # How long a read waits for the head of its answer.
    connections: int = 8192
    wait_ms: int = 25_000  # The most that `Prefer: wait` may ask for on a page of ours: deadlines.answer.


class Handler:
    """Answers requests of one listener."""

    def __init__(
        self,
        *,
        engine: Engine,
        upstream: UpstreamClient,
        adapters: Mapping[str, Adapter],
        ways: Ways,
        clock: Clock,
        limits: Limits,
        buffered: Buffered,
        timed: Callable[[float], None],
    ) -> None:
        self._engine = engine
        self._upstream = upstream
        self._adapters = adapters
        self._ways = ways
        self._clock = clock
        self._limits = limits
        self._buffered = buffered
        self._timed = timed
        self.reads = Cutting()  # Those that wait for the head of their answer.
        self.pages = Pages(engine.applier.store, adapters, clock, limits.wait_ms)

    async def __call__(self, request: BaseRequest) -> StreamResponse:
        """Answer one request."""
        headers = request.raw_headers
        base = base_of(headers)
        if cast("AgentConnection", request.protocol).overloaded:
            return self._own(request, answers.own(Code.OVERLOADED, _CONNECTIONS), goes_on=False)
        try:
            check_head(tuple(request.version), headers)
            place = self._ways.find(request.raw_path, headers, base)
            if isinstance(place, Page):
                return await self._page(request, place, base)
            if self._is_read(request.method, place, headers):
                return await self._read(request, place, headers)
            return await self._write(request, place, headers, base)
        except Refusal as refusal:
            return self._own(request, refusal.own)

    def _is_read(self, method: str, place: Place, headers: Headers) -> bool:
        """Does the request change nothing? A method-override header makes a write of anything."""
        if any(first(headers, name) is not None for name in OVERRIDES):
            return False
        if method in READS:
            match = self._adapters[place.provider].match(method, place.target.partition("?")[0])
            return match.generic or match.route.harmless
        return self._adapters[place.provider].match(method, place.target.partition("?")[0]).route.harmless

    # ── Governed writes ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _write(self, request: BaseRequest, place: Place, headers: Headers, base: str) -> StreamResponse:
        asker = cast("AgentConnection", request.protocol).new_asker()
        body = await read_body(request, self._limits.body_bytes, self._buffered)
        began_ms = self._clock.monotonic_ms()
        try:
            ask = Ask(
                provider=place.provider,
                method=request.method,
                target=place.target,
                headers=headers,
                body=body,
                base=base,
                url_event=place.url_event,
                wait_ms=prefer_wait_ms(headers),
            )
            try:
                answer: Own | Provided = await self._engine.govern(ask, asker)
            except Exception as bug:
                # The one rescue of the agent's side: a byte may have left, so nobody may be told that it failed.
                _log.error("a governed write failed in the proxy", error=type(bug).__name__)
                answer = answers.own(Code.OUTCOME_UNKNOWN, _BUG)
        finally:
            self._buffered.release(len(body))
        self._timed(max(0, self._clock.monotonic_ms() - began_ms - asker.waited_ms) / 1000)
        if isinstance(answer, Own):
            return self._own(request, answer, waited_ms=ask.wait_ms)
        return await self._provided(request, answer)

    async def _provided(self, request: BaseRequest, answer: Provided) -> StreamResponse:
        """Write the provider's own answer, and watch whether it arrives."""
        keep_alive, connection = request.keep_alive, cast("AgentConnection", request.protocol)
        data = whole_bytes(
            answer.response,
            method=request.method,
            extra=answer.headers,
            keep_alive=keep_alive,
            chunks=tuple(request.version) >= HTTP11,
        )
        if self._send(request, data):
            if answer.delivers:
                connection.gave(answer.action_id, folded=answer.folded)
            await request.writer.drain()
            if answer.delivers and not keep_alive:
                await connection.linger()
        return WireResponse(answer.response.status, keep_alive=keep_alive)

    def _own(
        self, request: BaseRequest, own: Own, *, waited_ms: int | None = None, goes_on: bool = True
    ) -> StreamResponse:
        """Write an answer of our own. A body that has not wholly come ends the connection."""
        keep_alive = goes_on and request.keep_alive and request.content.is_eof()
        if waited_ms is not None and own.code in (Code.ACTION_IN_FLIGHT, Code.OUTCOME_UNKNOWN):
            own = msgspec.structs.replace(own, headers=(*own.headers, *applied(waited_ms)))
        self._send(request, own_bytes(own, head_only=request.method == "HEAD", keep_alive=keep_alive))
        return WireResponse(own.status, keep_alive=keep_alive)

    def _send(self, request: BaseRequest, data: bytes) -> bool:
        transport = request.protocol.transport
        if transport is None or transport.is_closing():
            return False
        request.writer.output_size += len(data)  # From here on no other answer may follow, whatever fails.
        transport.write(data)
        return True

    # ── Reads ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, request: BaseRequest, place: Place, headers: Headers) -> StreamResponse:
        """Pass a read through as it comes, in pieces, with no state."""
        body = await read_body(request, self._limits.body_bytes, self._buffered)
        try:
            out = Request(request.method, place.target, request_headers(headers, body, None), body)
            sending = Sending(self._clock.monotonic_ms() + self._limits.read_head_ms)
            with self.reads.off(Refusal(answers.own(Code.READ_FAILED, _READ_FAILED))):
                opened = await self._upstream.open(place.provider, out, sending)
        finally:
            self._buffered.release(len(body))
        match opened:
            case NotSent(why):
                raise Refusal(answers.own(Code.NOT_SENT, answers.not_sent_text(None), error=why.value))
            case Silence():
                error = "http_response_timeout" if opened.timed_out else "connection_terminated"
                raise Refusal(answers.own(Code.READ_FAILED, _READ_FAILED, error=error))
            case _:
                return await self._stream(request, opened)

    async def _stream(self, request: BaseRequest, stream: Stream) -> StreamResponse:
        head, method = stream.head, request.method
        keep_alive = request.keep_alive
        empty = has_no_body(method, head.status)
        sized = any(name.lower() == b"content-length" for name, _ in head.headers)
        chunked = not empty and not sized and tuple(request.version) >= HTTP11
        keep_alive = keep_alive and (empty or sized or chunked)
        framing: Headers = ((b"Transfer-Encoding", b"chunked"),) if chunked else ()
        whole = False
        try:
            self._send(
                request,
                head_bytes(head, extra=(), framing=framing, keep_alive=keep_alive, keep_length=sized),
            )
            async for piece in stream:
                if not self._send(request, chunk(piece) if chunked else piece):
                    break
                await request.writer.drain()
            else:
                whole = True
            if chunked and whole:
                self._send(request, last_chunk(stream.trailers))
        except Truncated:
            keep_alive = False  # What was begun cannot be taken back; that it ends short says that it was cut.
        finally:
            await stream.aclose()
        return WireResponse(head.status, keep_alive=keep_alive and whole)

    # ── Pages of our own ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _page(self, request: BaseRequest, page: Page, base: str) -> StreamResponse:
        """Answer an agent that asks for the state of an action."""
        asker, wait_ms = cast("AgentConnection", request.protocol).new_asker(), prefer_wait_ms(request.raw_headers)
        body = await self.pages.show(request.method, page.path, base, wait_ms=wait_ms or 0, asker=asker)
        keep_alive = request.keep_alive and request.content.is_eof()
        headers = (("Content-Type", "application/json"), *applied(wait_ms))
        head_only = request.method == "HEAD"
        self._send(request, json_bytes(200, headers, body, head_only=head_only, keep_alive=keep_alive))
        return WireResponse(200, keep_alive=keep_alive)


def base_of(headers: Headers) -> str:
    """Return our own address as the agent wrote it, for the links that it is given."""
    host = (first(headers, b"host") or b"").decode("latin-1")
    clean = host if host and all(c.isascii() and (c.isalnum() or c in ".:-_[]") for c in host) else "127.0.0.1:7411"
    return f"http://{clean}"


_BUG = (
    "this proxy failed while it handled the request, and it may have been sent: its outcome is unknown. Do not call "
    "this tool again for it, even if you are told to retry; ask a person to look at the queue of unknown actions."
)
_READ_FAILED = "the provider's answer to this read did not come. Reads change nothing: it is safe to try again."
_CONNECTIONS = "too many connections are open (bounds.connections); nothing was sent. It is safe to try again."
