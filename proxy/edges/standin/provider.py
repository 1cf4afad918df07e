"""What the server needs of a provider: a request begins, perhaps it executes, and its answer is perhaps kept."""

import json
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl
from uuid import UUID

from msgspec import Struct

from proxy.core.http import Headers, first
from proxy.edges.standin.wire import Answer, normal_path

Json = dict[str, Any]
Clock = Callable[[], int]
"""Milliseconds since the epoch."""

READS: Final = frozenset({"GET", "HEAD"})


class Call(Struct, frozen=True):
    """A whole request, as the server hands it to a provider."""

    method: str
    target: str
    headers: Headers
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path in its normal form."""
        return normal_path(self.target)

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query's pairs, decoded, in their order."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    @property
    def is_read(self) -> bool:
        """Does it only read?"""
        return self.method in READS

    def header(self, name: bytes) -> str | None:
        """Return the first value of a header; `name` in lower case."""
        value = first(self.headers, name)
        return None if value is None else value.decode("latin-1")


class Caller(Struct, frozen=True):
    """Who asks, as far as the request tells."""

    key: str | None = None
    account: str | None = None
    mode: str | None = None


class Reply(Struct, frozen=True):
    """What a provider answers, and what that means. `kept`: its idempotency layer saves it under the key."""

    answer: Answer
    executed: bool = False
    replayed: bool = False
    kept: bool = False
    object_id: str | None = None
    request_id: str | None = None


class Work:
    """A request that has passed the provider's front. Its key is in flight from here to `finish`."""

    def __init__(self, run: Callable[[], Reply], finish: Callable[[Reply], None]) -> None:
        self._run = run
        self._finish = finish

    def commit(self) -> Reply:
        """Execute it."""
        return self._run()

    def finish(self, reply: Reply) -> None:
        """End it with what the provider answered: kept under the key, or the key is free again."""
        self._finish(reply)


class Provider(Protocol):
    """One provider's API."""

    name: str
    mark: frozenset[bytes]
    """Lower-case names of the headers that show that the provider itself answered."""

    def caller(self, call: Call) -> Caller:
        """Say who asks; never fails."""
        ...

    def begin(self, call: Call) -> Reply | Work:
        """Answer at once (refused at the front, replayed), or hand back the work to be done."""
        ...

    def refusal(self, call: Call, status: int) -> Reply:
        """Return the provider's own answer of a status that something forced on it."""
        ...

    def keeps(self, status: int, *, executed: bool) -> bool:
        """Would an answer of this status be saved under the key?"""
        ...

    def answered(self, call: Call, reply: Reply) -> None:
        """Take note of what this provider itself answered."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...


class Identifiers:
    """Identifiers in their providers' shapes: a token for this stand-in, and a counter."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token or secrets.token_hex(4)
        self._count = 0

    def make(self, prefix: str) -> str:
        """Return an identifier such as `re_3f00ba4a2000000000000017`."""
        self._count += 1
        return f"{prefix}_3{self._token}{self._count:015d}"

    def request(self) -> str:
        """Return an identifier such as `req_f00ba4a2000017`."""
        self._count += 1
        return f"req_{self._token}{self._count:06d}"

    def uuid(self) -> str:
        """Return a UUID of version 4 in form."""
        self._count += 1
        return str(UUID(int=int.from_bytes(self._token.encode()[-8:]) << 64 | self._count, version=4))


def dump(body: Json, *, indent: int | None = None) -> bytes:
    """Write JSON in UTF-8."""
    separators = None if indent else (",", ":")
    return json.dumps(body, indent=indent, separators=separators, ensure_ascii=False).encode()


def moment(now_ms: int) -> datetime:
    """Return a time with its zone."""
    return datetime.fromtimestamp(now_ms / 1000, UTC)


def http_date(now_ms: int) -> bytes:
    """Return a Date header's value."""
    return format_datetime(moment(now_ms), usegmt=True).encode()
