"""Reads of our own, and what they are first needed for: what a request moves, where it does not say so itself."""

import asyncio

import msgspec

from proxy.core.adapter import Adapter
from proxy.core.events import Priced
from proxy.core.facts import Route
from proxy.core.http import Answered, Headers, Request, without
from proxy.core.identity import credential_names
from proxy.core.model import Action, Amount, Effect
from proxy.core.quote import Quoting
from proxy.engine.applying import CREDENTIAL, Applier
from proxy.engine.settings import Settings
from proxy.ports import Clock, Sending, Spawner, Stored, StoreUnavailable, Upstream, Vault

USER_AGENT = (b"User-Agent", b"doubtless")  # Some providers refuse a request that names no client.
QUOTE_MS = 5_000


class Reader:
    """GETs of our own. They carry the write's account, and `read_key` where one is set."""

    def __init__(self, upstream: Upstream, clock: Clock, settings: Settings) -> None:
        self._upstream = upstream
        self._clock = clock
        self._settings = settings

    async def get(self, provider: str, target: str, headers: Headers, within_ms: int) -> Answered | None:
        """Ask once; None where no answer came. `headers` are of `credential_headers`."""
        request = Request("GET", target, (*headers, (b"Accept", b"application/json"), USER_AGENT))
        sending = Sending(self._clock.monotonic_ms() + within_ms)
        exchange = await self._upstream.exchange(provider, request, sending)
        return exchange if isinstance(exchange, Answered) else None

    def headers(self, provider: str, account: str, sent: Headers) -> Headers:
        """Return what a read authenticates with: the account's configured key, else what the write was sent with.

        Nothing where that cannot be known any more: a key alone would read another account's record.
        """
        if not sent and "/" in account:
            return ()
        keys = self._settings.read_keys.get(provider, {})
        key = keys.get(account) or keys.get(account.partition("/")[0]) or keys.get("")
        if key is None:
            return sent
        bearer = (b"Authorization", b"Bearer " + key.encode())
        return (bearer, *without(sent, b"authorization"))


def credential_headers(headers: Headers, adapter: Adapter) -> Headers:
    """Return the headers of a write that a read repeats: its credential, and what names the account."""
    of_account = adapter.doc.account.headers if adapter.doc.account is not None else ()
    names = {
        *credential_names(headers),
        *(name.lower().encode() for name in (*of_account, *adapter.doc.repeat_headers)),
    }
    return tuple((name, value) for name, value in headers if name.lower() in names)


class Pricer:
    """Reads amounts and currencies: before dispatch for a limit, and of actions that became unknown."""

    def __init__(self, applier: Applier, reader: Reader, vault: Vault, tasks: Spawner) -> None:
        self._applier = applier
        self._reader = reader
        self._vault = vault
        self._tasks = tasks

    async def quote(
        self, provider: str, account: str, route: Route, facts: dict[str, str], amount: Amount, headers: Headers
    ) -> Amount:
        """Read what a request moves, as far as it can be told. `headers`: the write's, or what was kept of them."""
        adapter = self._applier.adapters[provider]
        sent = credential_headers(headers, adapter)
        asking = self._reader.headers(provider, account, sent)
        quoting = Quoting(adapter, route, facts, amount)
        while (target := quoting.ask()) is not None:
            quoting.hear(await self._reader.get(provider, target, asking, QUOTE_MS))
        return quoting.amount

    async def on_unknown(self, action: Action, headers: Headers) -> Action:
        """Price an action that just became unknown; the answer waits a little for it, the recording to its end."""
        if not self.unpriced(action):
            return action
        left_ms = action.dispatches[-1].answer_by_ms - self._applier.clock.store_ms()
        wait_ms = min(self._applier.settings.quote_answer_ms, left_ms)
        pricing = self._tasks.spawn(self.price(action, headers), "pricing")
        await asyncio.wait({pricing}, timeout=max(0, wait_ms) / 1000)
        return pricing.result() if pricing.done() and not pricing.cancelled() else action

    def unpriced(self, action: Action) -> bool:
        """Is there an amount to be read that nobody has read yet?"""
        if action.effect is not Effect.MONEY or action.amount.priced or not action.unresolved:
            return False
        adapter = self._applier.adapters.get(action.identity.provider)
        return adapter is not None and bool(adapter.route(action.identity.route).quotes)

    async def price(self, action: Action, headers: Headers) -> Action:
        """Read the price and record it; the action as it is then."""
        ident = action.identity
        route = self._applier.adapters[ident.provider].route(ident.route)
        amount = await self.quote(ident.provider, ident.account, route, ident.facts, action.amount, headers)
        if amount == action.amount:
            return action
        try:
            priced = await self._applier.apply(action.action_id, Priced(amount))
        except StoreUnavailable:
            return action
        return priced.action if isinstance(priced, Stored) else action

    async def kept_headers(self, action: Action) -> Headers:
        """Return what was kept of the write's headers for reads; nothing where no key of ours opens it."""
        sealed = await self._applier.store.kept(action.action_id, CREDENTIAL)
        opened = None if sealed is None else self._vault.open(sealed, f"{action.action_id}:{CREDENTIAL}")
        return () if opened is None else msgspec.msgpack.decode(opened, type=Headers)
