"""Faults on demand: what a `Fault` can be, which request it meets, and the gate that lets it go on."""

import asyncio
import re
from collections.abc import Iterator
from enum import Enum, StrEnum, auto
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import force_setattr

from proxy.core.http import Headers

How = Literal["fin", "rst"]
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Stage(Enum):
    """Where in the life of a connection or request a fault strikes, in this order."""

    ACCEPT = auto()
    FIRST_BYTE = auto()
    HEAD = auto()
    CONTINUE = auto()
    FRONT = auto()  # The request was read; the provider's own machinery has not seen it: no key is claimed.
    BEFORE_COMMIT = auto()  # Its key is claimed and in flight.
    INSTEAD = auto()  # Something is answered in place of execution.
    OUTCOME = auto()  # It executed; what is made of the answer.
    AFTER_COMMIT = auto()  # The answer is ready, and kept under its key; it waits to be sent.


class Kind(StrEnum):
    """Every fault. The README of the sandbox lists them under these names."""

    REFUSE_CONNECTION = "refuse_connection"  # Accepted by the kernel, reset at once. See also StandIn.shut().
    DROP_BEFORE_READ = "drop_before_read"  # Closed at the first byte, which nobody looks at.
    DROP_AFTER_HEAD = "drop_after_head"
    ANSWER_BEFORE_UPLOAD_ENDS = "answer_before_upload_ends"  # `status` (413) after `after_bytes` of the body.
    STOP_READING = "stop_reading"  # After `after_bytes` of the body; reads on when released.
    NO_CONTINUE = "no_continue"  # Never sends the 100 that the client asked for.
    DROP_AFTER_READ = "drop_after_read"
    HANG = "hang"  # Reads, and does nothing more until released.
    HOLD_BEFORE_COMMIT = "hold_before_commit"  # Until released; the key is in flight meanwhile.
    DELAY_BEFORE_COMMIT = "delay_before_commit"  # `delay_ms`.
    STATUS_WITHOUT_COMMIT = "status_without_commit"  # `status` (500), `marked`, `headers`, `body`.
    HTML_502 = "html_502"  # A middlebox's page, without the provider's mark; `commit` says whether it executed.
    REDIRECT = "redirect"  # `status` (307) to `location`; `commit` says whether it executed.
    RAW = "raw"  # `chunks`, byte for byte; `commit` says whether it executed.
    DROP_AFTER_COMMIT = "drop_after_commit"
    HALF_HEAD_AFTER_COMMIT = "half_head_after_commit"
    HOLD_AFTER_COMMIT = "hold_after_commit"  # Until released; the answer is kept under its key already.
    DELAY_AFTER_COMMIT = "delay_after_commit"  # `delay_ms`.
    STATUS_AFTER_COMMIT = "status_after_commit"  # `status` (500), `marked`, `headers`, `body`.
    UNMARKED_AFTER_COMMIT = "unmarked_after_commit"  # The provider's answer, its mark taken off on the way.
    TRUNCATE_AFTER_COMMIT = "truncate_after_commit"  # `keep` bytes of the body (half); `framing`.
    GARBAGE_AFTER_COMMIT = "garbage_after_commit"  # `where`: body, head or chunk.
    WITHOUT_OBJECT_ID_AFTER_COMMIT = "without_object_id_after_commit"
    TRAILING_BYTES_AFTER_COMMIT = "trailing_bytes_after_commit"  # `data` follows the answer in the same write.
    SECOND_RESPONSE_AFTER_COMMIT = "second_response_after_commit"
    CLOSE_IDLE_AFTER = "close_idle_after"  # A whole answer, then the idle connection ends; `gated`: when released.


_STAGES: Final = {
    Kind.REFUSE_CONNECTION: Stage.ACCEPT,
    Kind.DROP_BEFORE_READ: Stage.FIRST_BYTE,
    Kind.DROP_AFTER_HEAD: Stage.HEAD,
    Kind.ANSWER_BEFORE_UPLOAD_ENDS: Stage.HEAD,
    Kind.STOP_READING: Stage.HEAD,
    Kind.NO_CONTINUE: Stage.CONTINUE,
    Kind.DROP_AFTER_READ: Stage.FRONT,
    Kind.HANG: Stage.FRONT,
    Kind.HOLD_BEFORE_COMMIT: Stage.BEFORE_COMMIT,
    Kind.DELAY_BEFORE_COMMIT: Stage.BEFORE_COMMIT,
    Kind.STATUS_WITHOUT_COMMIT: Stage.INSTEAD,
    Kind.HOLD_AFTER_COMMIT: Stage.AFTER_COMMIT,
    Kind.DELAY_AFTER_COMMIT: Stage.AFTER_COMMIT,
}
_EITHER: Final = frozenset({Kind.HTML_502, Kind.REDIRECT, Kind.RAW})


class Gate:
    """Holds what a fault holds until it is let go, and tells a test that it got there."""

    def __init__(self) -> None:
        self.hits = 0
        self._reached = asyncio.Event()
        self._turns = asyncio.Semaphore(0)
        self._open = False

    def hit(self) -> None:
        """Note that the fault has met a request."""
        self.hits += 1
        self._reached.set()

    async def reached(self) -> None:
        """Return once the fault has met its first request."""
        await self._reached.wait()

    async def wait(self) -> None:
        """Wait for a turn, or for the gate to be opened for good."""
        if not self._open:
            await self._turns.acquire()
        if self._open:
            self._turns.release()  # Wakes the next who waits.

    def step(self) -> None:
        """Let one waiter pass."""
        self._turns.release()

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self._open = True
        self._turns.release()


class Chunk(Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of a raw answer: wait for a turn of the gate, or `delay_ms`, then send `data`."""

    data: bytes
    gated: bool = False
    delay_ms: int = 0


class Fault(Struct, frozen=True, eq=False, forbid_unknown_fields=True):
    """One fault, and the requests it meets: the first `times` (None: all) that match, after `skip` of them.

    `path` is a regular expression for the whole path in its normal form, without its query. A fault about a commit
    that names neither method nor path leaves reads alone: a quote before the write would use it up.
    """

    kind: Kind
    provider: str | None = None
    method: str | None = None
    path: str | None = None
    times: int | None = 1
    skip: int = 0
    how: How = "fin"
    status: int | None = None
    marked: bool = True
    headers: Headers = ()
    body: bytes | None = None
    kept: bool | None = None  # Is a marked status saved under the key? None: as the provider would.
    commit: bool = False
    location: str = "https://elsewhere.example/"
    delay_ms: int = 0
    after_bytes: int = 0
    framing: Literal["content-length", "chunked"] = "content-length"
    keep: int | None = None
    where: Literal["body", "head", "chunk"] = "body"
    data: bytes = b"\r\nleft over"
    chunks: tuple[Chunk, ...] = ()
    close: bool = True  # Of raw: close when all chunks are sent.
    gated: bool = False
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        force_setattr(self, "kind", Kind(self.kind))  # A name that is no fault is a mistake, not a no-op.
        try:
            re.compile(self.path or "")
        except re.error as problem:
            raise ValueError(f"path {self.path!r}: {problem}") from None

    @property
    def stage(self) -> Stage:
        """Where it strikes."""
        if self.kind in _EITHER:
            return Stage.OUTCOME if self.commit else Stage.INSTEAD
        return _STAGES.get(self.kind, Stage.OUTCOME)

    @property
    def hits(self) -> int:
        """How many requests it has met."""
        return self.gate.hits

    def release(self) -> None:
        """Let everything it holds go on, now and later."""
        self.gate.open()

    def step(self) -> None:
        """Let one thing it holds go on: the next gated chunk, the next held request."""
        self.gate.step()

    async def reached(self) -> None:
        """Return once it has met its first request."""
        await self.gate.reached()

    def matches(self, provider: str, method: str, path: str) -> bool:
        """Is this one of its requests? Before a head was read, method and path are empty and match."""
        if self.provider not in (None, provider):
            return False
        if not method:
            return True
        if self.method is not None:
            return method == self.method and self._on(path)
        spares_reads = self.path is None and self.kind.endswith("_commit")
        return (method in WRITES or not spares_reads) and self._on(path)

    def _on(self, path: str) -> bool:
        return self.path is None or re.fullmatch(self.path, path) is not None


class Faults:
    """The faults that are armed. Of several that match at one stage the one added first strikes."""

    def __init__(self) -> None:
        self._armed: list[Fault] = []
        self._passed: dict[Fault, int] = {}

    def __iter__(self) -> Iterator[Fault]:
        """Iterate over the faults, spent ones among them, in the order in which they were added."""
        return iter(self._armed)

    def add(self, fault: Fault) -> Fault:
        """Arm a fault and return it."""
        self._armed.append(fault)
        self._passed[fault] = 0
        return fault

    def clear(self) -> None:
        """Disarm all; whatever they hold goes on."""
        armed, self._armed, self._passed = self._armed, [], {}
        for fault in armed:
            fault.release()

    def take(self, stage: Stage, provider: str, *, method: str = "", path: str = "") -> Fault | None:
        """Return the fault that strikes here, and count it. Those that skip requests count this one too."""
        due = [fault for fault in self._armed if fault.stage is stage and self._is_due(fault, provider, method, path)]
        if not due:
            return None
        due[0].gate.hit()
        return due[0]

    def _is_due(self, fault: Fault, provider: str, method: str, path: str) -> bool:
        if not fault.matches(provider, method, path):
            return False
        if self._passed[fault] < fault.skip:
            self._passed[fault] += 1
            return False
        return fault.times is None or fault.hits < fault.times
