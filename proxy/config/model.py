"""The configuration as a whole, with what people name themselves: providers, limits, tokens (CONTRACT 6).

Durations are kept in milliseconds and say so in their names. An amount is in minor units of its currency.
"""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import field

from proxy.config.address import Address, Network, Networks, Origin, Upstream
from proxy.config.named import Amounts, Credentials, HeaderName, NamedTables, PathText
from proxy.config.reading import Broken, Choice, Duration, Each, Flag, Section, Table, Text, Whole, plainly
from proxy.config.secret import Secret, SecretByAccount, SecretText
from proxy.config.sections import (
    Bounds,
    Deadlines,
    Egress,
    Event,
    Listen,
    Log,
    Notify,
    Off,
    Readback,
    State,
    Store,
    repeated,
)
from proxy.config.store_url import StoreKind

Period = Literal["day", "month", "total"]
Role = Literal["operator", "viewer"]

_NAME: Final = Text(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", "must be 1 to 64 letters, digits, spaces and . _ -")
_TYPE: Final = Text(r"[A-Za-z0-9._/*-]{1,255}", "must be an action type, where * stands for anything")
_CURRENCY: Final = Text(r"[a-z]{3}", "must be an ISO 4217 code in lower case")


class Provider(Section, frozen=True, kw_only=True):
    """`[providers.<name>]`. None: the adapter says it, or the system's roots (`ca_file`), or off (`listen`).

    `read_key` is by account; `*` stands for all.
    """

    upstream: Annotated[Origin | None, Upstream()] = None
    listen: Off = None
    read_key: Annotated[dict[str, Secret], SecretByAccount()] = field(default_factory=dict)
    min_age_ms: Annotated[int | None, Duration(least_ms=0)] = field(name="min_age", default=None)
    webhook_secret: Annotated[tuple[Secret, ...], Each(SecretText())] = ()
    stamp: Annotated[bool, Flag()] = False
    same_credentials: Annotated[tuple[tuple[str, ...], ...], Each(Credentials())] = ()
    ca_file: Annotated[str | None, PathText()] = None
    adapter: Annotated[str | None, PathText()] = None

    def read_key_for(self, account: str) -> Secret | None:
        """Return the key that reads this account's records, if one is configured."""
        return self.read_key.get(account) or self.read_key.get("*")


class Limit(Section, frozen=True, kw_only=True):
    """One of `[[limits]]`: an amount in minor units of a currency, or a count. No provider, no account: any."""

    name: Annotated[str, _NAME]
    match: Annotated[str, _TYPE]
    period: Annotated[Period, Choice(Period)]
    amount: Annotated[int | None, Whole(1)] = None
    currency: Annotated[str | None, _CURRENCY] = None
    count: Annotated[int | None, Whole(1)] = None
    provider: Annotated[str, Text()] = ""
    account: Annotated[str, Text()] = ""

    def broken(self) -> Iterator[Broken]:
        """A limit counts money or actions, one of them."""
        if (self.amount is None) == (self.count is None):
            shown = "(not set)" if self.amount is None else str(self.amount)
            yield Broken("amount", shown, f"limit {self.name} must have an amount or a count, and not both", ("count",))
        if self.amount is not None and self.currency is None:
            yield Broken("currency", "(not set)", f"limit {self.name} has an amount and must say of what", ("amount",))
        if self.amount is None and self.count is not None and self.currency is not None:
            rule = f"limit {self.name} counts actions, which have no currency"
            yield Broken("currency", plainly(self.currency), rule, ("amount", "count"))


class Token(Section, frozen=True, kw_only=True):
    """One of `admin.tokens`: who it is for, what it allows, and the token (several while one rotates)."""

    name: Annotated[str, _NAME]
    role: Annotated[Role, Choice(Role)]
    token: Annotated[tuple[Secret, ...], Each(SecretText(), least=1)]


class Admin(Section, frozen=True, kw_only=True):
    """`[admin]`: who may look and who may act. `user_header` is believed of `trusted_proxies` only; "" is off."""

    tokens: Annotated[tuple[Token, ...], Each(Table(Token))] = ()
    user_header: Annotated[str, HeaderName()] = "X-Forwarded-Email"
    trusted_proxies: Annotated[tuple[Network, ...], Each(Networks())] = ()
    four_eyes_above: Annotated[dict[str, int], Amounts()] = field(default_factory=dict)

    def broken(self) -> Iterator[Broken]:
        """A token must tell who acted."""
        yield from repeated([token.name for token in self.tokens], "tokens", "a token")
        secrets = [secret for token in self.tokens for secret in token.token]
        if len(set(secrets)) < len(secrets):
            yield Broken("tokens", "(hidden)", "the same token occurs twice: nobody could tell who acted")


SHIPPED: Final = {  # The providers that are there without being named.
    "stripe": Provider(
        upstream=Origin(tls=True, address=Address("api.stripe.com", 443)),
        listen=Address("127.0.0.1", 7421),  # stripe-node takes a host and a port, no path.
    ),
    "resend": Provider(upstream=Origin(tls=True, address=Address("api.resend.com", 443))),
}


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration.

    `given` are the settings that were written, in the file or the environment, by their dotted names; `variables`
    the environment variables that secrets were taken from; `files` what a reload has to watch. `secret_files` are the
    settings whose secret stands in a file, each with that file; in the configuration's own, where it is written out.
    """

    listen: Annotated[Listen, Table(Listen)] = field(default_factory=Listen)
    store: Annotated[Store, Table(Store)] = field(default_factory=Store)
    event: Annotated[Event, Table(Event)] = field(default_factory=Event)
    deadlines: Annotated[Deadlines, Table(Deadlines)] = field(default_factory=Deadlines)
    bounds: Annotated[Bounds, Table(Bounds)] = field(default_factory=Bounds)
    readback: Annotated[Readback, Table(Readback)] = field(default_factory=Readback)
    providers: Annotated[dict[str, Provider], NamedTables(Provider, SHIPPED)] = field(
        default_factory=lambda: dict(SHIPPED)
    )
    limits: Annotated[tuple[Limit, ...], Each(Table(Limit))] = ()
    egress: Annotated[Egress, Table(Egress)] = field(default_factory=Egress)
    admin: Annotated[Admin, Table(Admin)] = field(default_factory=Admin)
    state: Annotated[State, Table(State)] = field(default_factory=State)
    notify: Annotated[tuple[Notify, ...], Each(Table(Notify))] = ()
    log: Annotated[Log, Table(Log)] = field(default_factory=Log)
    given: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    files: tuple[str, ...] = ()
    secret_files: tuple[tuple[str, str], ...] = ()

    def broken(self) -> Iterator[Broken]:
        """Say the rules between sections that do not hold."""
        yield from self._listeners_broken()
        yield from self._state_broken()
        yield from repeated([limit.name for limit in self.limits], "limits", "a limit")
        for stranger in sorted({limit.provider for limit in self.limits} - {"", *self.providers}):
            rule = "a limit is for a provider that is not configured"
            yield Broken("limits", plainly(stranger), rule, ("providers",))
        for name, provider in self.providers.items():
            if name not in SHIPPED and provider.adapter is None:
                rule = f"must name the adapter file of a provider that is not shipped ({', '.join(SHIPPED)} are)"
                yield Broken(f"providers.{name}.adapter", "(not set)", rule)

    def listeners(self) -> dict[str, Address]:
        """Return every address we listen on, by its setting."""
        own = {f"providers.{name}.listen": provider.listen for name, provider in self.providers.items()}
        named = ("proxy", "admin", "health", "webhooks", "transparent")
        listeners = {**{f"listen.{name}": getattr(self.listen, name) for name in named}, **own}
        return {setting: address for setting, address in listeners.items() if address is not None}

    def _listeners_broken(self) -> Iterator[Broken]:
        taken: dict[Address, str] = {}
        for setting, address in self.listeners().items():
            if not address.loopback and not self.listen.remote and setting != "listen.health":
                rule = "listens beyond loopback, which needs listen.remote = true"
                yield Broken(setting, plainly(str(address)), rule, ("listen.remote",))
            if address.port and address in taken:
                rule = f"is the address of {taken[address]} too"
                yield Broken(setting, plainly(str(address)), rule, (taken[address],))
            taken.setdefault(address, setting)

    def _state_broken(self) -> Iterator[Broken]:
        if self.store.url.kind is not StoreKind.EMBEDDED and not self.state.key:
            rule = (
                'is required where the store is not embedded: 32 bytes in base64url, such as "env:DOUBTLESS_STATE_KEY"'
            )
            yield Broken("state.key", "(not set)", rule, ("store.url",))
        if self.state.keep_ms < self.event.retry_window_ms:
            rule = (
                f"must be at least event.retry_window ({self.event.retry_window_ms} ms): a retry must find its action"
            )
            yield Broken("state.keep", f"{self.state.keep_ms} ms", rule, ("event.retry_window",))
        if self.state.keep_ms < self.deadlines.harvest_ms:
            rule = (
                f"must be at least deadlines.harvest ({self.deadlines.harvest_ms} ms): late answers find their action"
            )
            yield Broken("state.keep", f"{self.state.keep_ms} ms", rule, ("deadlines.harvest",))
