"""An agent of bytes: sends exactly what it is told, reads when it is told to, and ends the connection in every way."""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import urlencode

PATIENCE_S: Final = 30
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close() sends RST instead of FIN.
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Heard:
    """A response, and the bytes it came in. `interim`: the heads of the 1xx responses before it."""

    head: bytes
    raw_body: bytes
    body: bytes
    trailers: bytes = b""
    interim: tuple[bytes, ...] = ()

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the fields as they came, in their order."""
        lines = self.head.removesuffix(b"\r\n\r\n").split(b"\r\n")[1:]
        return [(name, value.removeprefix(b" ")) for name, _, value in (line.partition(b":") for line in lines)]

    def values(self, name: str) -> list[str]:
        """Return every value of a field."""
        return [v.decode("latin-1") for n, v in self.headers if n.decode("latin-1").lower() == name.lower()]

    def field(self, name: str) -> str | None:
        """Return the only value of a field, None where it is not there."""
        found = self.values(name)
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """Return the code of an answer of the proxy's own; None where it is the provider's."""
        return self.json["doubtless"] and str(self.json["error"]["code"]) if b"doubtless" in self.body else None

    @property
    def action_id(self) -> str:
        """Return the action that the answer names in its head."""
        found = self.field("Doubtless-Action-Id")
        assert found is not None, self.head
        return found


def request(
    method: str,
    target: str,
    *,
    form: dict[str, Any] | None = None,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    host: str = "127.0.0.1",
) -> bytes:
    """Write a request: `form` urlencoded, or `body` as it is."""
    fields = {"Host": host}
    if form is not None:
        body, fields["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
    if body is not None:
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{n}: {v}" for n, v in (fields | (headers or {})).items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


class Line:
    """One connection. Nothing is read before `hear`, `read` or `rest` asks for it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._waiting = b""

    @classmethod
    async def open(cls, port: int, *, receive_bytes: int | None = None) -> Self:
        """Connect. `receive_bytes`: of the kernel's buffer, so that little is acknowledged while nobody reads."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        async with asyncio.timeout(PATIENCE_S):
            await self._loop.sock_sendall(self._sock, data)

    async def arrived(self) -> None:
        """Return once there is something to read, and leave it there."""
        there = asyncio.Event()
        self._loop.add_reader(self._sock, there.set)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await there.wait()
        finally:
            self._loop.remove_reader(self._sock)

    async def read(self, least: int = 1) -> bytes:
        """Take at least so many bytes, or fewer where the connection ends."""
        while len(self._waiting) < least and await self._more():
            pass
        data, self._waiting = self._waiting, b""
        return data

    async def _more(self) -> bool:
        async with asyncio.timeout(PATIENCE_S):
            data = await self._loop.sock_recv(self._sock, _READ_BYTES)
        self._waiting += data
        return bool(data)

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._waiting:
            if not await self._more():
                raise EOFError(self._waiting)
        found, _, self._waiting = self._waiting.partition(mark)
        return found + mark

    async def _exactly(self, size: int) -> bytes:
        while len(self._waiting) < size:
            if not await self._more():
                raise EOFError(self._waiting)
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return data

    async def hear(self, *, head_only: bool = False) -> Heard:
        """Read one response. Raises EOFError, with what came, where it ends short. `head_only`: it answers a HEAD."""
        interim: list[bytes] = []
        while True:
            head = await self._until(b"\r\n\r\n")
            if not head.split(b" ", 2)[1].startswith(b"1"):
                break
            interim.append(head)
        heard = Heard(head, b"", b"", interim=tuple(interim))
        if head_only or heard.status in (204, 304):
            return heard
        if heard.field("Transfer-Encoding") == "chunked":
            assert heard.field("Content-Length") is None, "framed twice"
            return await self._chunked(heard)
        length = heard.field("Content-Length")
        body = (await self.rest())[0] if length is None else await self._exactly(int(length))
        return Heard(head, body, body, interim=heard.interim)

    async def _chunked(self, heard: Heard) -> Heard:
        raw = body = b""
        while True:
            line = await self._until(b"\r\n")
            raw += line
            size = int(line, 16)
            if size == 0:
                break
            piece = await self._exactly(size + 2)
            raw, body = raw + piece, body + piece[:-2]
        trailers = b""
        while (line := await self._until(b"\r\n")) != b"\r\n":
            trailers += line
        return Heard(heard.head, raw, body, trailers, heard.interim)

    async def ask(self, data: bytes, *, head_only: bool = False) -> Heard:
        """Send a request and read its response."""
        await self.send(data)
        return await self.hear(head_only=head_only)

    async def rest(self) -> tuple[bytes, str]:
        """Read until the connection ends, and say how: by `fin` or by `rst`."""
        try:
            while await self._more():
                pass
        except ConnectionError:
            return self._taken(), "rst"
        return self._taken(), "fin"

    def _taken(self) -> bytes:
        data, self._waiting = self._waiting, b""
        return data

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self._sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """End the connection with RST, as the kernel does for a process that was killed before it read all."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._sock.close()

    def close(self) -> None:
        """End the connection in an orderly way, if nothing is left unread."""
        self._sock.close()
