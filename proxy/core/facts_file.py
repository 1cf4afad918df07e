"""Adapter files, read and checked: a mistake is one sentence that names the file, the key and the rule."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from proxy.core.adapter import Adapter
from proxy.core.durations import parse_ms
from proxy.core.facts import Document, Json, Key, Mark, Provider, Read, ReadKind, Route
from proxy.core.model import Effect, Tier

RESERVED: Final = frozenset({"e", "_doubtless"})
KEY_LENGTH_LEAST: Final = 32  # Digits of a hash: 128 bits, so that derived keys stay distinct.
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_KINDS: Final = ("string", "integer", "uuid", "object", "array")


class BadAdapter(Exception):
    """An adapter that cannot be used; the text is one sentence with file, key and rule."""


def load(text: str, file: str) -> Document:
    """Read an adapter. Raises BadAdapter."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise BadAdapter(f"{file}: it is not TOML: {wrong}.") from None
    try:
        document = msgspec.convert(raw, Document)
    except msgspec.ValidationError as wrong:
        rule, _, where = str(wrong).partition(" - at ")
        raise BadAdapter(f"{file}: {_place(where, raw)}: {rule}.") from None
    for complaint in _complaints(document):
        raise BadAdapter(f"{file}: {complaint}.")
    return document


def _place(where: str, raw: dict[str, object]) -> str:
    """Name the key that is wrong; msgspec does not say which of the reads it is."""
    place = where.strip("`").removeprefix("$.")
    reads = raw.get("read")
    if place.startswith("read[...]") and isinstance(reads, dict):
        for name, table in reads.items():
            try:
                msgspec.convert(table, Read)
            except msgspec.ValidationError:
                return place.replace("read[...]", f"read.{name}", 1)
    return place or "the file"


def _complaints(doc: Document) -> Iterator[str]:
    if doc.schema != 1:
        yield "schema: this version reads schema 1"
    yield from (f"provider.{c}" for c in _provider_complaints(doc.provider))
    if doc.account is not None:
        yield from _pointers("account.connected", (doc.account.connected,))
        for mode, wanted in doc.account.agree.items():
            yield from (f"account.agree.{c}" for c in _pointers(mode, wanted))
    yield from (f"mark.{c}" for c in (_mark_complaints(doc.mark) if doc.mark is not None else ()))
    yield from (f"key.{c}" for c in (_key_complaints(doc.key) if doc.key is not None else ()))
    for index, rule in enumerate(doc.outcome):
        if not (rule.status or rule.json or rule.header):
            yield f"outcome[{index}]: a status, a JSON value or a header must decide"
        if any(status >= 500 for status in rule.status):
            yield f"outcome[{index}].status: 500 and above stay unknown, whatever a rule says"
        yield from (f"outcome[{index}].{c}" for c in _pointers("json", rule.json))
    for name, read in doc.read.items():
        yield from (f"read.{name}.{c}" for c in _read_complaints(name, read, doc))
    yield from (f"generic.{c}" for c in (_route_complaints(doc.generic, doc) if doc.generic is not None else ()))
    yield from _action_complaints(doc)
    yield from _source_complaints(doc)


def _action_complaints(doc: Document) -> Iterator[str]:
    types: set[str] = set()
    spellings: set[tuple[str, str]] = set()
    for index, route in enumerate(doc.action):
        yield from (f"action[{index}] ({route.type}).{c}" for c in _route_complaints(route, doc))
        if route.type in types:
            yield f"action[{index}].type: {route.type} is there twice; use `aliases`"
        if not re.fullmatch("[A-Z]+", route.method):
            yield f"action[{index}] ({route.type}).method: {route.method!r} is no method; they are upper-case"
        types.add(route.type)
        for path in route.paths:
            spelling = (route.method, _PLACE.sub("{}", path))
            if spelling in spellings:
                yield f"action[{index}] ({route.type}).path: {path!r} is another action's already"
            spellings.add(spelling)


def _source_complaints(doc: Document) -> Iterator[str]:
    cited = {
        "account": doc.account.source if doc.account else "-",
        "mark": doc.mark.source if doc.mark else "-",
        "key": doc.key.source if doc.key else "-",
        **{f"outcome[{i}]": rule.source for i, rule in enumerate(doc.outcome)},
        **{f"read.{name}": read.source for name, read in doc.read.items()},
    }
    for where, source in cited.items():
        if not source.strip():
            yield f"{where}.source: name the page it was read on, and the date"


def _provider_complaints(provider: Provider) -> Iterator[str]:
    if not _NAME.fullmatch(provider.name) or provider.name in RESERVED:
        yield "name: lower-case letters, digits, `_` and `-`, at most 32, and not `e` or `_doubtless`"
    if not provider.hosts:
        yield "hosts: at least one host"
    for host in provider.hosts:
        if not _HOST.fullmatch(host):
            yield f"hosts: {host!r} is no exact host name, in lower case and without port"
    if not provider.upstream.startswith(("https://", "http://")):
        yield "upstream: an address that begins with https:// or http://"


def _mark_complaints(mark: Mark) -> Iterator[str]:
    for shape in mark.shapes:
        yield from _pointers("shapes", shape)
        yield from (f"shapes: {k!r} is none of {', '.join(_KINDS)}" for k in shape.values() if k not in _KINDS)
    if not (mark.headers or mark.shapes):
        yield "headers: without a header or a shape nothing would bear the mark"


def _key_complaints(key: Key) -> Iterator[str]:
    if key.max_length < KEY_LENGTH_LEAST:
        yield f"max_length: at least {KEY_LENGTH_LEAST}, so that a derived key stays distinct"
    if key.replay_mark and ": " not in key.replay_mark:
        yield "replay_mark: `Header: value`"
    yield from _durations(("retention", key.retention), ("margin", key.margin))
    yield from _durations(*(("where.retention", where.retention) for where in key.where if where.retention))


def _read_complaints(name: str, read: Read, doc: Document) -> Iterator[str]:
    pointers = ("items", "created", "identity", "object", "object_type", "object_id", "type", "request")
    for pointer in pointers:
        yield from _pointers(pointer, [getattr(read, pointer)])
    if read.cursor is not None:
        yield from _pointers("cursor", [read.cursor.item, read.cursor.more])
    if read.kind is ReadKind.SCAN and not (read.items and read.identity):
        yield "identity: a scan needs `items` and `identity`"
    if read.kind is ReadKind.CONTENT and not (read.items and read.detail and read.created):
        yield "detail: a content read needs `items`, `created` and `detail`"
    if read.kind is not ReadKind.OBJECT and not read.path.startswith("/"):
        yield "path: begins with `/`"
    users = [r for r in (*doc.action, *((doc.generic,) if doc.generic else ())) if name in r.readback]
    known = {"key", "since", "events"}.union(*(_facts(route) for route in users))
    if users:
        yield from _places("query", read.query.values(), known)
    yield from _places("detail", [read.detail], {"object"})
    yield from _durations(("before", read.before), ("look_back", read.look_back))


def _facts(route: Route) -> set[str]:
    """Return what is known of a request of this type, by name."""
    parameters = {name for path in route.paths for name in _PLACE.findall(path)}
    return {*parameters, *route.facts, *(("amount", "currency") if route.amount is not None else ())}


def _route_complaints(route: Route, doc: Document) -> Iterator[str]:
    facts = _facts(route)
    if not _TYPE.fullmatch(route.type):
        yield "type: object.verb, in lower case"
    if not all(path.startswith("/") for path in route.paths):
        yield "path: begins with `/`"
    parameters = {name for path in route.paths for name in _PLACE.findall(path)}
    yield from (f"extends: the path has no {{{name}}}" for name in route.extends or () if name not in parameters)
    yield from (f"same: there is no fact {fact!r}" for fact in route.same.values() if fact not in facts)
    for target in route.targets:
        named = [part for part in target.of if not part.startswith("/")]
        yield from (f"targets: there is no fact {part!r}" for part in named if part not in facts)
        yield from _durations(*((("targets.within", target.within),) if target.within else ()))
    yield from _quote_complaints(route, facts)
    yield from _places("object_path", [route.object_path], facts | {"object"})
    yield from _readback_complaints(route, doc, facts)
    if route.replay and route is not doc.generic and Adapter(doc).takes_key(route.method, route.path) is None:
        yield "replay: the provider takes no key there, so a second sending would execute again"
    if route.content and route.effect is not Effect.MESSAGE:
        yield "content: only messages may be settled by equal content"
    yield from _durations(("min_age", route.min_age), ("settle_within", route.settle_within))
    for name in ("same", "found_when", "failed_when", "moves_when", "volatile"):
        yield from _pointers(name, getattr(route, name))
    yield from _pointers("facts", route.facts.values())
    yield from _pointers("content", route.content.values())
    yield from _pointers("object_id", [route.object_id])
    if route.amount is not None:
        rule = route.amount
        yield from _pointers("amount", [rule.value, rule.currency, rule.moved, rule.moved_currency])


def _quote_complaints(route: Route, facts: set[str]) -> Iterator[str]:
    known = facts | {name for quote in route.quotes for name in quote.facts}
    for quote in route.quotes:
        if quote.needs not in known:
            yield f"quotes: there is no fact {quote.needs!r}"
        yield from _places("quotes", [quote.path], known)
        yield from _pointers("quotes", [quote.currency, quote.amount, quote.less, *quote.facts.values()])


def _readback_complaints(route: Route, doc: Document, facts: set[str]) -> Iterator[str]:
    if route.tier in (Tier.FULL, Tier.RECONCILABLE) and not (route.readback or route.harmless):
        yield f"readback: tier {route.tier} promises one"
    for name in route.readback:
        read = doc.read.get(name)
        if read is None:
            yield f"readback: there is no [read.{name}]"
            continue
        yield from _places(f"readback ({name})", [read.path], facts | {"key"})
        if read.kind is ReadKind.OBJECT and not route.object_path:
            yield f"object_path: [read.{name}] reads the object there"
        if read.kind is ReadKind.CONTENT and not route.content:
            yield f"content: [read.{name}] compares it"


def _pointers(name: str, pointers: Json | Iterable[str]) -> Iterator[str]:
    return (f"{name}: {p!r} is no JSON pointer" for p in pointers if p and not p.startswith("/"))


def _places(name: str, templates: Iterable[str], known: set[str]) -> Iterator[str]:
    """What a template asks for must be known, or it would never be asked."""
    asked = (place for template in templates for place in _PLACE.findall(template))
    return (f"{name}: there is no fact {place!r}" for place in asked if place not in known)


def _durations(*named: tuple[str, str]) -> Iterator[str]:
    return (f"{name}: {text!r} is no duration" for name, text in named if parse_ms(text) is None)
