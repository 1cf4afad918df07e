"""What the engine needs of the world. Every implementation of a port passes its suite in `tests/conformance`.

Longer than 300 lines: all promises that the engine rests on, in one place.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from proxy.core.events import Moment
from proxy.core.http import Exchange, Request, Response
from proxy.core.model import Action
from proxy.core.records import Filter, Reservation, Slip
from proxy.core.retirement import Outcome, Retirement

T = TypeVar("T")


class SendBefore(Struct, frozen=True):
    """The last moment at which the first byte may be written, on two clocks (CONTRACT 2.4).

    The monotonic clock runs on while the process is stopped; the wall clock runs on while the machine sleeps.
    """

    monotonic_ms: int
    wall_ms: int


class Sending:
    """One try under way, shared by the engine that holds the deadlines and the connection that writes.

    `left_bytes` is raised *before* each write to the transport: 0 proves that nothing left. Setting `abandoned`
    while it is 0 stops the first byte. `until_ms` (monotonic) ends the exchange, whatever it waits for.
    """

    __slots__ = ("abandoned", "left_bytes", "send_before", "until_ms")

    def __init__(self, until_ms: int, send_before: SendBefore | None = None) -> None:
        self.until_ms = until_ms
        self.send_before = send_before
        self.left_bytes = 0
        self.abandoned = False


class StoreUnavailable(Exception):
    """The store did not answer. The write may or may not have happened, or may yet happen."""


class Forgotten(StoreUnavailable):
    """The store answers, and does not know an action that it had acknowledged, or that it never came to know."""


class Committed(Struct, frozen=True):
    """The write is durable. `version` is the record's; `sequence` the ledger's; `stale` see `Store.commit`."""

    version: int
    now_ms: int
    sequence: int
    stale: str | None = None


class Conflict(Struct, frozen=True):
    """Nothing was written: `current` stands in the way. `via`: version, scope, alias, payload, target or
    elsewhere: its target is under way at another instance, of which nobody knows whether its asker is still there."""

    current: Action
    version: int
    now_ms: int
    via: str


class Exhausted(Struct, frozen=True):
    """Nothing was written: a limit has no room. `available` in its unit (minor units or a count)."""

    limit: str
    available: int
    now_ms: int


class Retired(Struct, frozen=True):
    """Nothing was written: an action that has left had this scope or alias (`via`). A tombstone tells its outcome."""

    outcome: Outcome
    via: str
    now_ms: int


class Stored(Struct, frozen=True):
    """A record as read. `due_ms`: when it is claimed next, or None."""

    action: Action
    version: int


class Page(Struct, frozen=True):
    """A part of a list, newest first; `cursor` continues it, None at the end."""

    rows: tuple[Stored, ...]
    cursor: str | None


class ExposureRow(Struct, frozen=True):
    """What is held for unknown actions. `currency` None: unpriced actions, whose amount is 0."""

    provider: str
    account: str
    currency: str | None
    amount: int
    actions: int


class LimitUse(Struct, frozen=True):
    """The use of a limit in one period. `reserved` and `unknown` count against every period."""

    name: str
    consumed: int
    reserved: int
    unknown: int


class Store(Protocol):
    """Durable actions of one ledger. Every method raises StoreUnavailable where the store does not answer."""

    async def commit(self, slip: Slip) -> Committed | Conflict | Exhausted | Retired:
        """Write one action and all that follows from it, in one atomic step.

        The only write. A slip that was committed before answers as it did then, and applies nothing again.
        For a creation `stale` names an unresolved action of the same payload that has outlived its folding.
        """
        ...

    async def get(self, action_id: str) -> Stored | None:
        """Read one action."""
        ...

    async def kept(self, action_id: str, name: str) -> bytes | None:
        """Read a sealed value that was kept beside the action: `request` or `response`."""
        ...

    async def find(self, kind: str, digest: str) -> tuple[str, ...]:
        """Return the IDs of actions under an index: scope, key, object, event or content."""
        ...

    async def page(self, chosen: Filter, cursor: str | None, limit: int) -> Page:
        """List actions, newest first."""
        ...

    async def claim_due(self, lease_ms: int, most: int) -> list[Stored]:
        """Take due actions whose owner, if they are awaited, is dead; nobody else gets them for `lease_ms`.

        What a dead owner awaited is due again after three seconds: its claimant may have died, or not heard the reply.
        """
        ...

    async def beat(self, instance: str, lease_ms: int) -> int:
        """Renew the lease of an instance, and so of all its awaited actions; return the store's time in ms."""
        ...

    async def bury(self, instance: str) -> None:
        """End the lease of an instance that is known to be dead; its awaited actions are due at once."""
        ...

    async def settled(self, instance: str, lease_ms: int, keep_ms: int, most: int) -> list[Stored]:
        """Return settled actions that nothing has changed for `keep_ms`, the oldest first.

        To one instance at a time: to whoever asked last without a lease of `lease_ms` standing against it, else none.
        Drops tombstones that are over, and what limits used in periods that were over `keep_ms` ago.
        """
        ...

    async def retire(self, leaving: Sequence[Retirement], keep_ms: int, keep_scopes_ms: int) -> tuple[str, ...]:
        """Remove settled actions, with every trace; return the IDs of those that left.

        Each stays that was changed since, is unresolved, or sent a message that an unresolved action sent too. Their
        scopes and aliases are answered by `Retired` until `keep_scopes_ms` after their last change.
        """
        ...

    async def exposure(self) -> list[ExposureRow]:
        """Return what is held for unknown actions, by provider, account and currency."""
        ...

    async def limit_use(self, limits: Sequence[Reservation]) -> list[LimitUse]:
        """Return the use of each limit in its current period."""
        ...

    async def due_count(self) -> int:
        """Count the read-backs that are due now."""
        ...


class Upstream(Protocol):
    """One try is one try: no retry, no redirect, nothing added, nothing decoded."""

    async def exchange(self, provider: str, request: Request, sending: Sending) -> Exchange:
        """Send the request once and hear the whole answer, until `sending.until_ms` at the latest.

        `request.headers` are sent as they are, but for `Host`, which is the upstream's. Never raises but
        CancelledError; after that `sending.left_bytes` tells whether a byte may have left.
        """
        ...


class Clock(Protocol):
    """Time as values."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; they run on while the process is stopped."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch by this machine's clock."""
        ...

    def store_ms(self) -> int:
        """Milliseconds since the epoch by the store's clock, as last heard of it."""
        ...

    def heard(self, store_ms: int, asked_monotonic_ms: int) -> None:
        """Take note of the store's time as it said in a reply to what was asked then."""
        ...


class Entropy(Protocol):
    """Where identifiers come from."""

    def action_id(self, now_ms: int) -> str:
        """Return a UUIDv7 (RFC 9562): time-ordered, 74 random bits."""
        ...

    def token(self) -> str:
        """Return 16 hexadecimal digits, unique for all practical purposes."""
        ...


class Vault(Protocol):
    """What is kept is sealed, and what is compared is a keyed digest."""

    def seal(self, plain: bytes, about: str) -> bytes:
        """Encrypt under the newest key, bound to `about` (an action's ID and the value's name)."""
        ...

    def open(self, sealed: bytes, about: str) -> bytes | None:
        """Decrypt; None where no key of ours made it."""
        ...

    def digest(self, data: bytes) -> str:
        """Return the keyed digest of the newest key: 32 hexadecimal digits."""
        ...

    def digests(self, data: bytes) -> tuple[str, ...]:
        """Return the digest under every key that is still read, the newest first."""
        ...


class Observation(Struct, frozen=True, omit_defaults=True):
    """What was seen of an action while the store could not be written: an event, not a commit."""

    action_id: str
    event: bytes
    response: bytes | None = None


Decode = Callable[[Response], Response]
"""Undoes the content coding of a response for reading, where the core cannot; else gives it back as it is."""


class SpoolFull(Exception):
    """The spool has reached its bound; nothing may be dispatched."""


class Spool(Protocol):
    """Observations that outlive this process, kept until the store has taken them."""

    def __len__(self) -> int:
        """Count what the store has not taken yet."""
        ...

    def add(self, observation: Observation) -> None:
        """Append and fsync. Raises SpoolFull, or OSError where the disk refuses; nothing was added then."""
        ...

    def pending(self) -> list[Observation]:
        """Return what the store has not taken yet, in order."""
        ...

    def taken(self, count: int) -> None:
        """Drop the first `count` observations."""
        ...

    def check(self) -> None:
        """Raise SpoolFull or OSError where nothing could be added now."""
        ...


class Archive(Protocol):
    """Where actions go that leave the store."""

    async def append(self, lines: Sequence[bytes]) -> None:
        """Append lines, on the disk when it returns. Raises OSError; then none of them need be there."""
        ...


class Spawner(Protocol):
    """Runs work beside what asks for it, and holds it until it ends."""

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> "asyncio.Task[T]":
        """Run the work in a task of its own; whoever awaits the task gets its result or exception."""
        ...


class Meter(Protocol):
    """What the engine counts. Labels are bounded; no IDs."""

    def action(self, action: Action) -> None:
        """An action came to a new status."""
        ...

    def blocked(self, action: Action) -> None:
        """A retry was answered without sending."""
        ...

    def stored_answer(self, provider: str) -> None:
        """A stored response was replayed to the agent."""
        ...

    def readback(self, provider: str, result: str) -> None:
        """A read-back ended."""
        ...

    def settled(self, action: Action, moment: Moment) -> None:
        """An unknown action was settled."""
        ...

    def upstream(self, provider: str, seconds: float) -> None:
        """An exchange with the provider ended."""
        ...

    def late(self, provider: str) -> None:
        """A response came after the action had become unknown."""
        ...
