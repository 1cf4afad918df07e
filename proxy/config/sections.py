"""The sections that have fixed names: every setting, what it may be, and its default (CONTRACT 6).

Durations are kept in milliseconds and say so in their names; sizes are bytes.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import field

from proxy.config.address import Address, HostPort, Listener, SecretUrl
from proxy.config.named import HeaderName, PathText
from proxy.config.reading import Broken, Choice, Duration, Each, Flag, Section, Text, Whole, plainly
from proxy.config.secret import Secret, SecretText, StateKey
from proxy.config.store_url import EMBEDDED, StoreKind, StoreUrl, StoreUrlText

Missing = Literal["derive", "require"]
EgressDefault = Literal["deny", "tunnel"]
Notice = Literal["needs_operator", "contradicted", "window_closing", "digest"]
Level = Literal["debug", "info", "warning", "error"]
Format = Literal["console", "json"]

Off = Annotated[Address | None, Listener()]


class Listen(Section, frozen=True, kw_only=True):
    """`[listen]`: our ports. None is off."""

    proxy: Off = Address("127.0.0.1", 7411)
    admin: Off = Address("127.0.0.1", 7412)
    health: Off = Address("127.0.0.1", 7413)
    webhooks: Off = None
    transparent: Off = None
    remote: Annotated[bool, Flag()] = False


class Store(Section, frozen=True, kw_only=True):
    """`[store]`: where actions are kept."""

    url: Annotated[StoreUrl, StoreUrlText()] = EMBEDDED
    ledger: Annotated[str, Text(r"[A-Za-z0-9._-]{1,64}", "must be 1 to 64 letters, digits and . _ -")] = "default"
    wait_replicas: Annotated[int, Whole(0, 100)] = 0
    allow_ephemeral: Annotated[bool, Flag()] = False

    def broken(self) -> Iterator[Broken]:
        """An embedded store has no replicas: waiting for one would refuse every write."""
        if self.wait_replicas and self.url.kind is StoreKind.EMBEDDED:
            yield Broken("wait_replicas", str(self.wait_replicas), "must be 0: an embedded store has none", ("url",))


class Event(Section, frozen=True, kw_only=True):
    """`[event]`: how a request says, or fails to say, what caused it."""

    headers: Annotated[tuple[str, ...], Each(HeaderName(sources=True))] = ("Doubtless-Event-Id",)
    missing: Annotated[Missing, Choice(Missing)] = "derive"
    retry_window_ms: Annotated[int, Duration()] = field(name="retry_window", default=72_000_000)
    twin: Annotated[bool, Flag()] = True


class Deadlines(Section, frozen=True, kw_only=True):
    """`[deadlines]`: counted from the dispatch; `drain` from the signal to stop."""

    connect_ms: Annotated[int, Duration()] = field(name="connect", default=5_000)
    answer_ms: Annotated[int, Duration()] = field(name="answer", default=25_000)
    harvest_ms: Annotated[int, Duration()] = field(name="harvest", default=120_000)
    drain_ms: Annotated[int, Duration(least_ms=0)] = field(name="drain", default=20_000)

    def broken(self) -> Iterator[Broken]:
        """We go on listening after the answer deadline. Connecting may be given longer: then nothing left."""
        if self.harvest_ms < self.answer_ms:
            rule = f"must not end before deadlines.answer ({self.answer_ms} ms)"
            yield Broken("harvest", f"{self.harvest_ms} ms", rule, ("answer",))


class Bounds(Section, frozen=True, kw_only=True):
    """`[bounds]`: bytes, and connections of agents."""

    body_bytes: Annotated[int, Whole(1)] = 16 << 20
    response_bytes: Annotated[int, Whole(1)] = 16 << 20
    buffered_bytes: Annotated[int, Whole(1)] = 256 << 20
    connections: Annotated[int, Whole(1)] = 8192

    def broken(self) -> Iterator[Broken]:
        """A message that is allowed must fit into what may be held at all."""
        largest = max(self.body_bytes, self.response_bytes)
        if self.buffered_bytes < largest:
            rule = f"must hold one message: at least {largest} (bounds.body_bytes, bounds.response_bytes)"
            yield Broken("buffered_bytes", str(self.buffered_bytes), rule, ("body_bytes", "response_bytes"))


class Readback(Section, frozen=True, kw_only=True):
    """`[readback]`: the scheduled read-backs; the wait doubles from `first` to `max`."""

    first_ms: Annotated[int, Duration()] = field(name="first", default=30_000)
    max_ms: Annotated[int, Duration()] = field(name="max", default=3_600_000)
    attempts: Annotated[int, Whole(1, 1000)] = 12

    def broken(self) -> Iterator[Broken]:
        """Waits grow."""
        if self.max_ms < self.first_ms:
            yield Broken(
                "max", f"{self.max_ms} ms", f"must be at least readback.first ({self.first_ms} ms)", ("first",)
            )


class Egress(Section, frozen=True, kw_only=True):
    """`[egress]`: hosts that are no provider's, by the forward proxy."""

    default: Annotated[EgressDefault, Choice(EgressDefault)] = "deny"
    allow: Annotated[tuple[Address, ...], Each(HostPort())] = ()


class State(Section, frozen=True, kw_only=True):
    """`[state]`: what is kept, how it is sealed and for how long. No `archive`: None."""

    key: Annotated[tuple[Secret, ...], Each(StateKey())] = ()
    keep_ms: Annotated[int, Duration()] = field(name="keep", default=90 * 86_400_000)
    keep_scopes_ms: Annotated[int, Duration()] = field(name="keep_scopes", default=400 * 86_400_000)
    archive: Annotated[str | None, PathText(exists=False)] = None
    spool: Annotated[str, PathText(exists=False, off=False)] = ".doubtless/spool"

    def broken(self) -> Iterator[Broken]:
        """A tombstone follows the record it stands for."""
        if self.keep_scopes_ms < self.keep_ms:
            rule = f"must be at least state.keep ({self.keep_ms} ms)"
            yield Broken("keep_scopes", f"{self.keep_scopes_ms} ms", rule, ("keep",))


class Notify(Section, frozen=True, kw_only=True):
    """One of `[[notify]]`: where people are told of what needs them. The URL may hold a token."""

    url: Annotated[Secret, SecretUrl()]
    secret: Annotated[tuple[Secret, ...], Each(SecretText())] = ()
    events: Annotated[tuple[Notice, ...], Each(Choice(Notice), least=1)] = (
        "needs_operator",
        "contradicted",
        "window_closing",
        "digest",
    )


class Log(Section, frozen=True, kw_only=True):
    """`[log]`: how much is logged, and for whom."""

    level: Annotated[Level, Choice(Level)] = "info"
    format: Annotated[Format, Choice(Format)] = "console"


def repeated(names: list[str], setting: str, what: str) -> Iterator[Broken]:
    """Complain of each name that occurs more than once."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Broken(setting, plainly(name), f"names {what} more than once")
