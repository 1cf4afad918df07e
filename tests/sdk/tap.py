"""Stands between a client and the proxy, passes every byte on, and counts what the client sent and what it got."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import httptools


@dataclass
class Message:
    """A request or an answer: its head, as far as it has come."""

    line: str = ""
    fields: list[tuple[str, str]] = field(default_factory=list)

    def __getitem__(self, name: str) -> str | None:
        """Return the first field of this name."""
        return next((value for key, value in self.fields if key.lower() == name.lower()), None)


class _Heads:
    """Notes the head of every message that passes in one direction of one connection."""

    def __init__(self, noted: list[Message], tell: Callable[[], None], *, requests: bool) -> None:
        self._noted = noted
        self._tell = tell
        self._parser = httptools.HttpRequestParser(self) if requests else httptools.HttpResponseParser(self)
        self._requests = requests
        self._now = Message()

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._now = Message()

    def on_url(self, url: bytes) -> None:
        self._now.line += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._now.fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if isinstance(self._parser, httptools.HttpRequestParser):
            self._now.line = f"{self._parser.get_method().decode()} {self._now.line}"
        else:
            self._now.line = str(self._parser.get_status_code())
        self._noted.append(self._now)
        self._tell()


class Tap:
    """One listening port that leads to another. `requests` and `answers` are in their order of arrival."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.requests: list[Message] = []
        self.answers: list[Message] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def statuses(self) -> list[int]:
        """The status of every answer so far."""
        return [int(answer.line) for answer in self.answers]

    async def asked(self, count: int) -> None:
        """Return once so many requests have begun to pass."""
        while len(self.requests) < count:
            await self._changed.wait()

    async def answered(self, count: int) -> None:
        """Return once so many answers have begun to pass."""
        while len(self.answers) < count:
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead one connection on, both ways, until both have ended."""
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._open |= {writer, back}
        asked = _Heads(self.requests, self._tell, requests=True)
        heard = _Heads(self.answers, self._tell, requests=False)
        try:
            await asyncio.gather(_pass(reader, back, asked), _pass(there, writer, heard))
        except (OSError, httptools.HttpParserError):
            pass  # A reset is passed on as a reset, below.
        finally:
            for end in (writer, back):
                end.close()
                self._open.discard(end)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, heads: _Heads) -> None:
    while data := await source.read(1 << 16):
        heads.feed(data)
        target.write(data)
    if target.can_write_eof():
        target.write_eof()
