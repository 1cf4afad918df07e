"""What an action is called: its event ID, type, scope, and the idempotency key made of them (CONTRACT 1, 2.3)."""

import base64
import hashlib
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

from msgspec import Struct

from proxy.core.adapter import Adapter, Match
from proxy.core.facts import Account, Key, Route
from proxy.core.http import Headers, first, values
from proxy.core.payload import Members, Node, Payload, plain

EVENT_ID_BYTES: Final = 255
SUFFIX_BYTES: Final = 100
DEFAULT: Final = "default"
AUTHORIZATION: Final = b"authorization"
_UUID: Final = re.compile(
    r"(urn:uuid:)?\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?|[0-9a-f]{32}", re.IGNORECASE | re.ASCII
)
_CREDENTIAL: Final = re.compile(
    rb"api-?key|(^|[-_])(auth|authentication|authorization|key|token|secret|password|cookie)([-_]|$)"
)
_NOT_OF_A_TYPE: Final = re.compile(rb"[^A-Za-z0-9._/*-]")
_PLAIN_KEY: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_NOT_OF_AN_ACCOUNT: Final = re.compile(r"[^A-Za-z0-9._-]")


class BadIdentity(Exception):
    """The request names itself in a way that cannot be taken; the text says what was wrong and what to do."""


class Event(Struct, frozen=True):
    """What caused the action. `explicit` is false where nobody named it and one was made."""

    event_id: str
    explicit: bool = True


def event_id(raw: bytes) -> str:
    """Check an event ID and return it as text. Raises BadIdentity."""
    if not 1 <= len(raw) <= EVENT_ID_BYTES:
        raise BadIdentity(f"an event ID has 1 to {EVENT_ID_BYTES} bytes; this one has {len(raw)}")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # A header's bytes before RFC 9110 settled on ASCII.
    if any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in text):
        raise BadIdentity("an event ID has no control characters")
    return text


def event_id_of_url(raw: str) -> str:
    """Return the event ID of a URL's segment, percent-decoded. Raises BadIdentity."""
    return event_id(unquote_to_bytes(raw.encode("utf-8", "surrogateescape")))


def named_event(headers: Headers, carriers: tuple[str, ...]) -> str | None:
    """Return the event ID of the first configured header that carries one. Raises BadIdentity.

    A carrier is a header's name; `ce` is CloudEvents' `ce-source` and `ce-id`; `baggage:NAME` a W3C baggage member.
    """
    for carrier in carriers:
        raw = _carried(headers, carrier)
        if raw is not None:
            return event_id(raw)
    return None


def _carried(headers: Headers, carrier: str) -> bytes | None:
    if carrier == "ce":
        source, ident = _single(headers, "ce-source"), _single(headers, "ce-id")
        if source is None or ident is None:
            return None
        # Only together are they unique, so no two pairs may read the same: the ID's own slashes are escaped.
        return source + b"/" + ident.replace(b"%", b"%25").replace(b"/", b"%2F")
    if carrier.startswith("baggage:"):
        wanted = carrier.removeprefix("baggage:").encode()
        members = (m.partition(b";")[0].partition(b"=") for m in b",".join(values(headers, b"baggage")).split(b","))
        return _only([unquote_to_bytes(value.strip()) for name, _, value in members if name.strip() == wanted], carrier)
    return _single(headers, carrier)


def _single(headers: Headers, name: str) -> bytes | None:
    return _only(values(headers, name.lower().encode()), name)


def _only(found: list[bytes], carrier: str) -> bytes | None:
    if len(found) > 1:
        raise BadIdentity(f"{carrier} is there {len(found)} times; an action has one event ID")
    return found[0] if found else None


def is_sdk_made(value: str, key: Key | None) -> bool:
    """Was this idempotency key made by an SDK for one call, and not chosen by a developer for one event?"""
    if _UUID.fullmatch(value):
        return True
    return key is not None and any(fnmatchcase(value, pattern) for pattern in key.sdk_key_patterns)


def action_type(match: Match, suffix: str | None) -> str:
    """Return the type of an action: the route's own, extended by the object it names and by the agent's suffix."""
    named = "/".join([match.route_type, *match.extension]).encode("utf-8", "surrogateescape")
    return _NOT_OF_A_TYPE.sub(b"_", named + (suffix or "").encode("latin-1", "replace")).decode()


def suffix(headers: Headers) -> str | None:
    """Return the agent's extension of the action type. Raises BadIdentity: an agent may only extend it."""
    found = values(headers, b"doubtless-action-type")
    if not found:
        return None
    text = found[0].decode("latin-1")
    if len(found) > 1 or not 2 <= len(text) <= SUFFIX_BYTES or not text.startswith("/"):
        raise BadIdentity(
            f"Doubtless-Action-Type extends the type: one `/suffix` of 2 to {SUFFIX_BYTES} bytes, no more"
        )
    return text


def account_of(headers: Headers, rule: Account | None) -> str:
    """Return the account and mode that a request is for: `live`, `test/acct_1`, or `default`."""
    if rule is None:
        return DEFAULT
    token = credential_text(headers)
    mode = next((m for m, patterns in rule.modes.items() if any(fnmatchcase(token, p) for p in patterns)), DEFAULT)
    connected = [v.decode("latin-1") for name in rule.headers for v in values(headers, name.lower().encode())]
    return "/".join([mode, *(_NOT_OF_AN_ACCOUNT.sub(_percent, c) for c in connected)])


def _percent(found: "re.Match[str]") -> str:
    return f"%{ord(found[0]):02X}"


def credential_names(headers: Headers) -> frozenset[bytes]:
    """Return the headers, in lower case, that may carry what authenticates the request.

    Providers put keys into headers of their own (`X-Api-Key`, cookies). One that is taken for a credential and is none
    only hides a stored answer; the other way round it would be shown to somebody else.
    """
    named = {name.lower() for name, _ in headers}
    return frozenset(name for name in named if _CREDENTIAL.search(name) and b"idempotency" not in name) | {
        AUTHORIZATION
    }


def credential(headers: Headers) -> bytes:
    """Return what authenticates the request: the raw `Authorization` values, and of headers that carry keys."""
    names = credential_names(headers) - {AUTHORIZATION}
    others = sorted(name.lower() + b":" + value for name, value in headers if name.lower() in names)
    return b"\n".join([*values(headers, AUTHORIZATION), *others])


def credential_text(headers: Headers) -> str:
    """Return the token of a bearer credential or the user name of a basic one, for telling the mode."""
    scheme, _, rest = (first(headers, AUTHORIZATION) or b"").strip().partition(b" ")
    if scheme.lower() != b"basic":
        return rest.strip().decode("latin-1")
    try:
        return base64.b64decode(rest.strip(), validate=True).partition(b":")[0].decode("latin-1")
    except ValueError:
        return ""


def scope(ledger: str, account: str, event: str, type_: str) -> str:
    """Return the digest of a scope: one live action each."""
    return _digest("scope", ledger, account, event, type_)


def event_index(ledger: str, event: str) -> str:
    """Return the digest under which an event's actions are found."""
    return _digest("event", ledger, event)


def object_index(ledger: str, provider: str, object_id: str) -> str:
    """Return the digest under which actions are found by the provider's object."""
    return _digest("object", ledger, provider, object_id)


def key_index(ledger: str, provider: str, account: str, key: str) -> str:
    """Return the digest under which an action is found by the key that the provider knows."""
    return _digest("key", ledger, provider, account, key)


def content_index(ledger: str, message: Mapping[str, str]) -> str:
    """Return the digest under which actions that sent an equal message are found."""
    return _digest("content", ledger, *(part for field in sorted(message.items()) for part in field))


def _digest(*parts: str) -> str:
    framed = b"".join(b"%d:" % len(raw) + raw for raw in (p.encode("utf-8", "surrogateescape") for p in parts))
    return hashlib.blake2b(framed, digest_size=16).hexdigest()


def idempotency_key(*, event: str, type_: str, run: int, account: str, ledger: str) -> str:
    """Return the key: `event_id:action_type[:n][#connected-account][@ledger]`."""
    connected = account.partition("/")[2]
    return (
        f"{event}:{type_}"
        + (f":{run}" if run > 1 else "")
        + (f"#{connected}" if connected else "")
        + (f"@{ledger}" if ledger != DEFAULT else "")
    )


def fitted(key: str, rule: Key) -> str:
    """Return the key as the provider takes it: as it is, or, where its rules forbid that, `doubtless-` and its SHA-256.

    Where that is too long as well, it is as many digits of the SHA-256 as fit, 32 at least (`facts_file`).
    The hash is unkeyed: anyone who knows event ID and type can derive it.
    """
    if len(key) <= rule.max_length and _PLAIN_KEY.fullmatch(key):
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    return f"doubtless-{digest}" if len(digest) + 10 <= rule.max_length else digest[: rule.max_length]


def facts(payload: Payload, match: Match) -> dict[str, str]:
    """Return the request's values that read-backs and quotes ask with: path parameters and declared pointers.

    What the path says holds, whatever the body says. A value that is no text, or a long one, is nobody's identifier.
    """
    pointed = {name: payload.one(pointer) for name, pointer in match.route.facts.items()}
    named = pointed | {name: unquote(raw, errors="surrogateescape") for name, raw in match.parameters.items()}
    return {name: value for name, value in named.items() if value is not None and len(value) <= 255 and _is_text(value)}


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)


def payload_text(*, method: str, target: str, account: str, counted: Headers, body: bytes) -> bytes:
    """Return what equal payloads share: method, raw path and query, account, headers that count, canonical body."""
    parts = (
        method.encode(),
        target.encode("utf-8", "surrogateescape"),
        account.encode(),
        *(piece for name, value in counted for piece in (name.lower(), value)),
        body,
    )
    return b"".join(b"%d:" % len(part) + part for part in parts)


def carries_key(adapter: Adapter, method: str, path: str) -> Key | None:
    """Return the key rule where the provider documents a key for this request."""
    return adapter.doc.key if adapter.takes_key(method, path) is not None else None


def content(payload: Payload, route: Route) -> list[dict[str, bytes]]:
    """Return, for each message of the request, the comparable form of every field that it has.

    Nothing where one of them cannot be read for certain: no object, or one that has a field twice.
    """
    if not route.content:
        return []
    tree = payload.tree
    messages = [_fields(item) for item in (tree if route.items == "/" and isinstance(tree, list) else [tree])]
    return [message for message in messages if message] if all(messages) else []


def _fields(item: object) -> dict[str, bytes] | None:
    fields = {name: message_field(node) for name, node in item} if isinstance(item, Members) else {}
    return fields if isinstance(item, Members) and len(fields) == len(item) else None


def message_field(node: Node) -> bytes:
    """Return a message's field as request and record are compared: a single address is a list of one."""
    return plain(node if isinstance(node, list) else [node])
