"""A client of bytes: it sends what it is told, shows what came back, and how the connection ended."""

import asyncio
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from proxy.edges.standin import Fault, StandIn

DAY_MS = 24 * 60 * 60 * 1000
REFUND = {"charge": "ch_1", "amount": "1000"}


class Hands:
    """A clock, in milliseconds since the epoch, that a test moves."""

    def __init__(self, now_ms: int = 1_790_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def move(self, by_ms: int) -> None:
        self.now_ms += by_ms


@dataclass(frozen=True)
class Heard:
    """A response, and the bytes it came in."""

    raw: bytes
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def hear(self, *, bodiless: bool = False) -> Heard:
        """Read one response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        body = b"" if bodiless else await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Heard(head + body, int(line.split(" ")[1]), headers, body)

    async def rest(self) -> tuple[bytes, str]:
        """Read until the connection ends, and say how: by `fin` or by `rst`."""
        data = b""
        try:
            while piece := await self.reader.read(1 << 16):
                data += piece
        except ConnectionError:
            return data, "rst"
        return data, "fin"

    def close(self) -> None:
        self.writer.transport.abort()


class Client:
    """Requests to one port, each on the same connection unless told otherwise."""

    def __init__(self, port: int, secret: str | None = None) -> None:
        self.port = port
        self.secret = secret
        self._lines: list[Line] = []
        self._line: Line | None = None

    async def line(self, *, tls: ssl.SSLContext | None = None) -> Line:
        """Open a connection."""
        name = "localhost" if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls, server_hostname=name)
        line = Line(reader, writer)
        self._lines.append(line)
        return line

    def request(
        self,
        method: str,
        target: str,
        form: dict[str, Any] | None = None,
        *,
        body: Any = None,
        key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """Write a request: `form` urlencoded, or `body` as JSON."""
        fields = {"Host": "127.0.0.1"}
        if self.secret:
            fields["Authorization"] = f"Bearer {self.secret}"
        if key is not None:
            fields["Idempotency-Key"] = key
        data = b""
        if form is not None:
            data, fields["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        elif body is not None:
            data, fields["Content-Type"] = json.dumps(body).encode(), "application/json"
        if data or method != "GET":
            fields["Content-Length"] = str(len(data))
        lines = [
            f"{method} {target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in (fields | (headers or {})).items()),
        ]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data

    async def ask(self, method: str, target: str, form: dict[str, Any] | None = None, **more: Any) -> Heard:
        """Send a request on the standing connection and read its response."""
        if self._line is None:
            self._line = await self.line()
        await self._line.send(self.request(method, target, form, **more))
        return await self._line.hear(bodiless=method == "HEAD")

    async def post(self, target: str, form: dict[str, Any] | None = None, **more: Any) -> Heard:
        return await self.ask("POST", target, form, **more)

    async def get(self, target: str, **more: Any) -> Heard:
        return await self.ask("GET", target, **more)

    async def sent(self, method: str, target: str, form: dict[str, Any] | None = None, **more: Any) -> Line:
        """Send a request on a connection of its own, and leave the answer to the test."""
        line = await self.line()
        await line.send(self.request(method, target, form, **more))
        return line

    def close(self) -> None:
        for line in self._lines:
            line.close()


async def after(standin: StandIn, client: Client, fault: Fault) -> tuple[bytes, str]:
    """Refund under a fault; return every byte that came, and how the connection ended."""
    standin.faults.add(fault)
    line = await client.sent("POST", "/v1/refunds", REFUND, key="k")
    return await line.rest()
