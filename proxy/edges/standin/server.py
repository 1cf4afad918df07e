"""`StandIn`: listens as Stripe and as Resend, and is the handle by which tests and the sandbox rule both."""

import asyncio
import copy
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

from proxy.edges.standin.connection import Connection, Shop
from proxy.edges.standin.control import Control
from proxy.edges.standin.doors import Door, Listener, ProviderName
from proxy.edges.standin.faults import Faults
from proxy.edges.standin.journal import Journal
from proxy.edges.standin.provider import Clock, Identifiers, Json, Provider
from proxy.edges.standin.resend import Resend
from proxy.edges.standin.scenes import Scenes
from proxy.edges.standin.stripe import Stripe
from proxy.edges.standin.webhooks import Delivery
from proxy.edges.standin.wire import normal_path


class StandIn:
    """Stripe and Resend in one process, honest about what they promise, with faults on demand.

    `clock` gives milliseconds since the epoch. `idempotency=False` switches every idempotency layer off, so that
    nothing hides a duplicate. `token` makes identifiers repeatable.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        idempotency: bool = True,
        listen: Sequence[Listener] = (Listener("stripe"), Listener("resend")),
        token: str | None = None,
    ) -> None:
        self.journal = Journal()
        self.faults = Faults()
        self.connections = 0
        ids = Identifiers(token)
        self._stripe = Stripe(clock=clock, ids=ids, idempotency=idempotency)
        self._resend = Resend(clock=clock, ids=ids, idempotency=idempotency)
        self._scenes = Scenes(self._stripe, self._resend, ids=ids, clock=clock)
        self._doors = [Door(listener) for listener in listen]
        self._open: dict[Connection, asyncio.Task[None]] = {}
        self._failures: list[BaseException] = []
        control = Control(self)
        self._shops = {
            provider.name: Shop(provider, self.faults, self.journal, clock, control) for provider in self._providers
        }

    @property
    def _providers(self) -> tuple[Provider, ...]:
        return self._stripe, self._resend

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen at every listener."""
        for door in self._doors:
            await door.open(partial(self._accept, self._shops[door.listener.provider]))

    async def stop(self) -> None:
        """Stop listening and cut every connection; what is held is dropped, not executed.

        Raises where the stand-in itself failed while it served: no test may pass by that.
        """
        for door in self._doors:
            door.close()
        open_now = dict(self._open)
        for connection, task in open_now.items():
            connection.abort()
            task.cancel()
        await asyncio.gather(*open_now.values(), return_exceptions=True)
        for connection in open_now:
            await connection.closed()
        if self._failures:
            raise BaseExceptionGroup("the stand-in itself failed", self._failures)

    async def shut(self, provider: ProviderName) -> None:
        """Refuse new connections to a provider (ECONNREFUSED) until `open`; those that are open stay."""
        for door in self._doors:
            if door.listener.provider == provider:
                await door.shut()

    async def open(self, provider: ProviderName) -> None:
        """Listen again, on the same port."""
        for door in self._doors:
            if door.listener.provider == provider:
                await door.open(partial(self._accept, self._shops[provider]))

    def port(self, provider: ProviderName, *, tls: bool = False) -> int:
        """Return the port of a provider's first listener with, or without, TLS."""
        return self._door(provider, tls=tls).port

    def url(self, provider: ProviderName, *, tls: bool = False) -> str:
        """Return the base URL of a provider's first listener with, or without, TLS."""
        door = self._door(provider, tls=tls)
        host = f"[{door.listener.host}]" if ":" in door.listener.host else door.listener.host
        return f"{'https' if tls else 'http'}://{host}:{door.port}"

    def _door(self, provider: ProviderName, *, tls: bool) -> Door:
        for door in self._doors:
            if door.listener.provider == provider and (door.listener.ssl is not None) is tls:
                return door
        raise LookupError(f"nothing listens as {provider} {'with' if tls else 'without'} TLS")

    def _accept(self, shop: Shop, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in a task that is held here; asyncio 3.11 logs an error where its own is cancelled."""
        self.connections += 1
        connection = Connection(shop, reader, writer, number=self.connections)
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._open[connection] = task
        task.add_done_callback(partial(self._ended, connection))

    def _ended(self, connection: Connection, task: "asyncio.Task[None]") -> None:
        del self._open[connection]
        failure = None if task.cancelled() else task.exception()
        if failure:
            self._failures.append(failure)

    def reset(self) -> None:
        """Forget everything: objects, keys, journal and faults. What is held goes on, into what is forgotten."""
        for provider in self._providers:
            provider.reset()
        self.journal.clear()
        self.faults.clear()

    def executions(
        self,
        provider: ProviderName | None = None,
        *,
        method: str | None = None,
        path: str | None = None,
        key: str | None = None,
    ) -> int:
        """Count the requests that did what they asked for; `path` as in a fault."""
        return sum(
            arrival.executed
            and provider in (None, arrival.provider)
            and method in (None, arrival.method)
            and key in (None, arrival.key)
            and (path is None or re.fullmatch(path, normal_path(arrival.target)) is not None)
            for arrival in self.journal
        )

    def stripe_objects(self, kind: str, *, mode: str | None = None, account: str | None = None) -> list[Json]:
        """Return Stripe's objects of a kind, whoever made them, the oldest first; without `mode` of every world."""
        worlds = self._stripe.worlds if mode is None else (self._stripe.world(mode, account),)
        return [copy.deepcopy(item) for world in worlds for item in world.of(kind)]

    def refunds(self, *, mode: str | None = None, account: str | None = None) -> list[Json]:
        """Return every refund that exists."""
        return self.stripe_objects("refund", mode=mode, account=account)

    def events(self, *, mode: str = "test", account: str | None = None) -> list[Json]:
        """Return a world's events, the oldest first."""
        return copy.deepcopy(self._stripe.world(mode, account).events)

    def emails(self) -> list[Json]:
        """Return every email that exists, with its tags and headers."""
        return copy.deepcopy(list(self._resend.mailbox.emails.values()))

    def objects(self) -> Json:
        """Return everything that exists, as GET /_standin/objects shows it."""
        return self._scenes.objects()

    def seed_charge(
        self,
        amount: int = 5400,
        currency: str = "usd",
        *,
        charge_id: str | None = None,
        mode: str = "test",
        account: str | None = None,
        **fields: Any,
    ) -> Json:
        """Put a charge there that succeeded and can be refunded."""
        made = {"amount": amount, "currency": currency} | fields
        return self.seed("charge", charge_id, mode=mode, account=account, **made)

    def seed(
        self, kind: str, object_id: str | None = None, *, mode: str = "test", account: str | None = None, **fields: Any
    ) -> Json:
        """Put an object of Stripe's there, with no event."""
        return copy.deepcopy(self._scenes.seed(kind, fields, mode=mode, account=account, object_id=object_id))

    def force_status(self, kind: str, status: str, *, times: int = 1) -> None:
        """Give the next objects of a kind this status: `pending`, `failed`, `requires_action`…"""
        self._stripe.forced.add(kind, status, times)

    def foreign_refund(
        self,
        charge_id: str,
        amount: int = 1,
        *,
        key: str | None = "somebody-else",
        metadata: Json | None = None,
    ) -> Json:
        """Let somebody else refund a part of a charge, under a key of theirs and with events of their own."""
        return copy.deepcopy(self._scenes.foreign_refund(charge_id, amount, key=key, metadata=metadata or {}))

    def foreign_email(self, **fields: Any) -> Json:
        """Let somebody else send an email: `to`, `subject`, `html`… and `sender`, for what JSON calls `from`."""
        sender = fields.pop("sender")
        return copy.deepcopy(self._scenes.foreign_email(fields | {"from": sender}))

    def duplicate(self, object_id: str) -> Json:
        """Make a second object of the same content under the same key."""
        return copy.deepcopy(self._scenes.duplicate(object_id))

    def mutate(self, object_id: str, **fields: Any) -> Json:
        """Change an object by nobody's request, with the events of that: refund.updated, refund.failed…"""
        return copy.deepcopy(self._scenes.mutate(object_id, fields))

    def webhook_request(
        self,
        subject: str,
        *,
        secret: str,
        provider: ProviderName = "stripe",
        event_type: str | None = None,
        timestamp: int | None = None,
        delivery_id: str | None = None,
    ) -> Delivery:
        """Return headers and body of a signed delivery about an event, or about an object's newest event."""
        if provider == "stripe":
            return self._scenes.stripe_webhook(subject, event_type, secret=secret, timestamp=timestamp)
        return self._scenes.resend_webhook(
            subject, event_type, secret=secret, timestamp=timestamp, delivery_id=delivery_id
        )
