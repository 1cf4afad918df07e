"""What a request is called, before anything is committed: its account, event, type, payload and credential, checked."""

import hashlib

from msgspec import Struct

from proxy.core import aims, answers, identity, money, payload
from proxy.core.adapter import Adapter, Match
from proxy.core.answers import Code
from proxy.core.durations import parse_ms
from proxy.core.facts import Key
from proxy.core.http import Request, first, values
from proxy.core.model import Amount, Effect
from proxy.core.outgoing import named_by_connection, request_headers
from proxy.engine.asking import Ask, Refusal
from proxy.engine.settings import Settings
from proxy.ports import Vault

FIELDS_MOST = 64  # Named in a mismatch; a request with more is still compared as a whole.


class Draft(Struct, frozen=True):
    """A request, understood. Digests come once for each key of the vault, the newest first."""

    ask: Ask
    match: Match
    key: Key | None
    account: str
    action_type: str
    event: str | None  # None: nobody named one.
    agent_key: str | None
    alias: tuple[str, ...]
    retry_of: str | None
    agent: str | None
    body: payload.Payload
    payloads: tuple[str, ...]
    credentials: tuple[str, ...]
    targets: tuple[tuple[tuple[str, ...], int], ...]
    facts: dict[str, str]
    amount: Amount
    moves: bool
    plain: bool = True  # Its body alone says what it moves.

    def request(self, key_text: str | None) -> Request:
        """Return the request that is sent, under our key where the provider takes one."""
        key = (self.key.header, key_text) if self.key is not None and key_text is not None else None
        headers = request_headers(self.ask.headers, self.ask.body, key)
        return Request(self.ask.method, self.ask.target, headers, self.ask.body)


def draft(ask: Ask, adapter: Adapter, settings: Settings, vault: Vault) -> Draft:
    """Understand a request. Raises Refusal: what it says of itself cannot be taken."""
    match = adapter.match(ask.method, ask.target.partition("?")[0])
    key = identity.carries_key(adapter, ask.method, ask.target.partition("?")[0])
    agent_key = _agent_key(ask, adapter)
    _check_connection(ask, adapter)
    try:
        event = _event(ask, adapter, settings, agent_key)
        suffix = identity.suffix(ask.headers)
    except identity.BadIdentity as wrong:
        raise Refusal(answers.own(Code.BAD_REQUEST, f"{wrong}. Nothing was sent.")) from None
    if event is None and not settings.derive:
        raise Refusal(answers.own(Code.EVENT_ID_REQUIRED, _EVENT_REQUIRED))
    account = identity.account_of(ask.headers, adapter.doc.account)
    action_type = identity.action_type(match, suffix)
    body = payload.read(ask.headers, ask.body)
    facts = identity.facts(body, match)
    _add_price_facts(facts, body, match)
    money_route = match.route.effect is Effect.MONEY
    # Some providers take parameters from the query too: then the body alone does not say what is moved.
    plain = "?" not in ask.target or not ask.target.partition("?")[2]
    moves = money_route and (not plain or money.moves(body, match))
    counted = tuple(h for h in ask.headers if h[0].lower().decode("latin-1") in _counted(adapter))
    text = identity.payload_text(
        method=ask.method,
        target=ask.target,
        account=account,
        counted=counted,
        body=body.canonical(match.route.volatile),
    )
    return Draft(
        ask=ask,
        match=match,
        key=key,
        account=account,
        action_type=action_type,
        event=event,
        agent_key=agent_key,
        alias=_alias(agent_key, event, account, action_type, settings, vault),
        retry_of=_text(first(ask.headers, b"doubtless-retry-of")),
        agent=_text(first(ask.headers, b"doubtless-agent")),
        body=body,
        payloads=vault.digests(b"payload\0" + action_type.encode() + b"\0" + text),
        credentials=credential_digests(identity.credential(ask.headers), vault),
        targets=_targets(ask, body, match, account, action_type, vault) if settings.twin else (),
        facts=facts,
        amount=money.of_request(body, match, adapter) if plain else Amount(),
        moves=moves,
        plain=plain,
    )


_EVENT_REQUIRED = (
    "this request names no event, and this proxy requires one. Send Doubtless-Event-Id with what caused the action (a "
    "ticket, a job step), or use /e/<event id>/<provider>/… . A key that an SDK makes by itself does not count. "
    "Nothing was sent."
)


def _check_connection(ask: Ask, adapter: Adapter) -> None:
    """Refuse a `Connection` that would take away, on the way, what the action is recorded by. Raises Refusal."""
    doc = adapter.doc
    identifying = {*doc.repeat_headers, *doc.payload_headers, *(doc.account.headers if doc.account is not None else ())}
    identifying |= {doc.key.header} if doc.key is not None else set()
    named = named_by_connection(ask.headers) & {name.lower().encode() for name in identifying}
    if named:
        raise Refusal(answers.own(Code.BAD_REQUEST, _CONNECTION))


_CONNECTION = "its Connection header names a field that says what the request is for. Nothing was sent."


def _agent_key(ask: Ask, adapter: Adapter) -> str | None:
    """Return the agent's own key. Where the provider documents none, a foreign header of that name means nothing."""
    header = adapter.doc.key.header if adapter.doc.key is not None else "Idempotency-Key"
    found = values(ask.headers, header.lower().encode())
    return _text(found[0]) if found and 0 < len(found[0]) <= 1024 else None


def _event(ask: Ask, adapter: Adapter, settings: Settings, agent_key: str | None) -> str | None:
    """Return the event that the request names: our header, the URL, a configured header, or its developer's key."""
    named = identity.named_event(ask.headers, ("Doubtless-Event-Id",))
    if named is None and ask.url_event is not None:
        named = identity.event_id_of_url(ask.url_event)
    if named is None:
        named = identity.named_event(ask.headers, settings.event_headers)
    if named is None and agent_key is not None and not identity.is_sdk_made(agent_key, adapter.doc.key):
        named = identity.event_id(agent_key.encode("latin-1"))
    return named


def _alias(
    agent_key: str | None, event: str | None, account: str, action_type: str, settings: Settings, vault: Vault
) -> tuple[str, ...]:
    """Return the digests under which an SDK's own key finds its action; with an event ID it is only recorded."""
    if agent_key is None or event is not None:
        return ()
    return vault.digests("\0".join(("alias", settings.ledger, account, action_type, agent_key)).encode())


def credential_digests(credential: bytes, vault: Vault) -> tuple[str, ...]:
    """Return the digests of a credential in the form in which `providers.<n>.same_credentials` names them."""
    keyed = vault.digests(b"credential\0" + credential)
    return tuple(f"sha256:{hashlib.sha256(digest.encode()).hexdigest()}" for digest in keyed)


def _targets(
    ask: Ask, body: payload.Payload, match: Match, account: str, action_type: str, vault: Vault
) -> tuple[tuple[tuple[str, ...], int], ...]:
    route = match.route
    if not route.targets:
        return ()
    looked = aims.readings(ask.headers, ask.target.partition("?")[2], body)
    out = []
    for target in route.targets:
        within_ms = parse_ms(target.within) or 0 if target.within else 0
        prefix = f"target\0{account}\0{match.route_type}\0{action_type}\0{','.join(target.of)}\0".encode()
        found = aims.aims(target.of, route.facts, match.parameters, looked)
        out += [(vault.digests(prefix + aimed), within_ms) for aimed in found]
    return tuple(out)


def _add_price_facts(facts: dict[str, str], body: payload.Payload, match: Match) -> None:
    """Add the amount and currency as the request writes them: what a found object must equal."""
    rule = match.route.amount
    if rule is None:
        return
    for name, pointer in (("amount", rule.value), ("currency", rule.currency)):
        value = body.one(pointer) if pointer else None
        if value is not None and len(value) <= 32:
            facts[name] = value


def _counted(adapter: Adapter) -> frozenset[str]:
    return frozenset(name.lower() for name in adapter.doc.payload_headers)


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("latin-1")[:1024]
