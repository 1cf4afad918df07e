"""What is known of a provider, as frozen values: the schema of `adapters/*.toml`, loaded and checked.

A mistake is one sentence that names the file, the key and the rule. Facts that safety rests on carry `source`.
"""

import re
import tomllib
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec import Struct

from proxy.core.durations import parse_ms
from proxy.core.model import Effect, Tier

RESERVED: Final = frozenset({"e", "_doubtless"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_PARAM: Final = re.compile(r"\{([a-z_]+)\}")


class Means(StrEnum):
    """What an answer of the provider means. What no rule matches is unknown."""

    ACCEPTED = "accepted"
    PARTIAL = "partial"
    REJECTED_BEFORE_EXECUTION = "rejected_before_execution"
    REJECTED = "rejected"
    ALREADY_DONE = "already_done"
    NOT_EXECUTED = "not_executed"
    IN_CONFLICT = "in_conflict"
    KEY_REUSED = "key_reused"
    NOT_TERMINAL = "not_terminal"
    UNKNOWN = "unknown"  # An exception to a later, wider rule.


class Unit(StrEnum):
    """How a request writes an amount: in minor units (5400) or in major ones ("54.00")."""

    MINOR = "minor"
    MAJOR = "major"


class ReadKind(StrEnum):
    """How a read-back looks for an action; a closed set."""

    SCAN = "scan"  # A list whose items name our key: identity.
    OBJECT = "object"  # One object, by an ID that we know.
    CONTENT = "content"  # A list, then each likely item in full: declared equality of messages.
    SIMILAR = "similar"  # A list whose items look like ours: candidates for a person.


Json = dict[str, bool | int | str | list[bool | int | str]]


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """`hosts` stay the provider's, whatever `upstream` the configuration sets."""

    name: str
    hosts: tuple[str, ...]
    upstream: str
    title: str = ""
    sdk_lines: dict[str, str] = {}  # A part of `User-Agent` → the line to write for that SDK; {base} is our address.


class Account(Struct, frozen=True, forbid_unknown_fields=True):
    """Which account and mode a request is for.

    `modes`: mode → patterns of the credential; `headers` name a connected account; `agree`: what a record of that mode
    says of itself.
    """

    source: str
    modes: dict[str, tuple[str, ...]] = {}
    headers: tuple[str, ...] = ()
    agree: dict[str, Json] = {}


class Mark(Struct, frozen=True, forbid_unknown_fields=True):
    """What shows that the provider itself answered: any of these headers, or a JSON body of one of these shapes."""

    source: str
    headers: tuple[str, ...] = ()
    shapes: tuple[dict[str, str], ...] = ()  # pointer → string | integer | uuid | object | array
    request_id: str = ""  # The header that names the request at the provider.


class Where(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests for which the provider documents an idempotency key. `path` is a pattern of the normal form."""

    methods: tuple[str, ...]
    path: str
    retention: str = ""


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """The provider's idempotency key: a header, where it is taken, and for how long it is remembered."""

    source: str
    header: str
    where: tuple[Where, ...]
    max_length: int
    retention: str
    margin: str = "1h"
    replay_mark: str = ""  # "Header: value" of an answer that repeats the first one.
    sdk_key_patterns: tuple[str, ...] = ()  # What SDKs make by themselves; a bare UUID always counts as that.


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """Status, and a header or JSON value → meaning. Ordered; the first that matches holds."""

    means: Means
    source: str
    status: tuple[int, ...] = ()
    json: Json = {}
    header: dict[str, str] = {}
    keyed: bool = False  # Only for requests that carry our key.


class Cursor(Struct, frozen=True, forbid_unknown_fields=True):
    """How the next page is asked for: `query` takes the `item` pointer's value of the last item, while `more` holds."""

    query: str
    item: str
    more: str


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    """One way to ask the provider's record. Only GETs. Templates take {facts}, {key}, {object}, {since} and {events}."""

    kind: ReadKind
    source: str
    path: str = ""  # An object is read at its route's `object_path`.
    query: dict[str, str] = {}
    items: str = ""
    cursor: Cursor | None = None
    created: str = ""  # Pointer to an item's time: seconds since the epoch, or RFC 3339 text.
    before: str = "10m"  # The window starts this long before the dispatch.
    look_back: str = "30d"  # How far the provider's record goes back.
    identity: str = ""  # scan: pointer to our key.
    object: str = ""  # scan: pointer to the object that an item names; "" is the item itself.
    object_type: str = ""  # scan: pointer within that object to its type.
    object_id: str = "/id"
    detail: str = ""  # content: the path of one item in full, {object} being its ID.


class Quote(Struct, frozen=True, forbid_unknown_fields=True):
    """A GET for what the request does not carry. `amount` less `less` is what remains; `facts` feed the next quote."""

    needs: str
    path: str
    currency: str = ""
    amount: str = ""
    less: str = ""
    facts: dict[str, str] = {}


class AmountRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the request writes what it moves."""

    value: str
    currency: str = ""
    unit: Unit = Unit.MINOR


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """What the action is aimed at: the request's values at these pointers. `within`: for so long after it was made."""

    of: tuple[str, ...]
    within: str = ""


class Route(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation of the provider. `type` is without the provider's name; `extends` names the path parameters whose values extend it."""

    type: str
    method: str
    path: str
    aliases: tuple[str, ...] = ()
    extends: tuple[str, ...] | None = None  # None: every parameter of the path.
    harmless: bool = False
    effect: Effect = Effect.RECORD
    tier: Tier = Tier.BLIND
    echo: bool = False
    replay: bool = False
    volatile: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    targets: tuple[Target, ...] = ()
    amount: AmountRule | None = None
    moves_when: Json = {}
    quotes: tuple[Quote, ...] = ()
    object: str = ""  # The type of the object that it makes or changes, as the provider writes it.
    object_id: str = ""  # Pointer into a 2xx; "/data/*/id" for a batch.
    object_path: str = ""  # Where that object is read, {object} being its ID.
    same_shape: bool = False  # The object read has the shape of the first response.
    same: dict[str, str] = {}  # Pointer into a found object → fact that it must equal.
    found_when: Json = {}
    failed_when: Json = {}
    content: dict[str, str] = {}  # What a found message must equal: name → pointer, in request and record alike.
    derived: tuple[str, ...] = ()  # Fields of `content` that the provider fills in where the request lacks them.
    items: str = ""  # Pointer to the items of a batch; "" with content: the body is one item, "/": it is a list.
    events: tuple[str, ...] = ()
    readback: tuple[str, ...] = ()
    min_age: str = "0s"
    settle_within: str = "0s"

    @property
    def paths(self) -> tuple[str, ...]:
        """Every spelling of the operation."""
        return (self.path, *self.aliases)


class Document(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole adapter file."""

    schema: int
    provider: Provider
    account: Account | None = None
    mark: Mark | None = None
    key: Key | None = None
    repeat_headers: tuple[str, ...] = ()  # Headers of the write that a read repeats.
    volatile_headers: tuple[str, ...] = ()
    payload_headers: tuple[str, ...] = ()  # Headers that count in payload equality.
    minor_units: dict[str, int] = {}  # Where the provider's minor unit is not ISO 4217's: currency → decimals.
    outcome: tuple[Outcome, ...] = ()
    read: dict[str, Read] = {}
    generic: Route | None = None
    action: tuple[Route, ...] = ()


class BadAdapter(Exception):
    """An adapter that cannot be used; the text is one sentence with file, key and rule."""


def load(text: str, file: str) -> Document:
    """Read an adapter. Raises BadAdapter."""
    try:
        document = msgspec.convert(tomllib.loads(text), Document)
    except tomllib.TOMLDecodeError as wrong:
        raise BadAdapter(f"{file}: it is not TOML: {wrong}.") from None
    except msgspec.ValidationError as wrong:
        rule, _, where = str(wrong).partition(" - at ")
        raise BadAdapter(f"{file}: {where.strip('`').removeprefix('$.') or 'the file'}: {rule}.") from None
    for complaint in _complaints(document):
        raise BadAdapter(f"{file}: {complaint}.")
    return document


def _complaints(doc: Document) -> "list[str]":
    found: list[str] = []
    if doc.schema != 1:
        found.append("schema: this version reads schema 1")
    if not _NAME.fullmatch(doc.provider.name) or doc.provider.name in RESERVED:
        found.append("provider.name: lower-case letters, digits, `_` and `-`, at most 32, and not `e` or `_doubtless`")
    if not doc.provider.hosts:
        found.append("provider.hosts: at least one host")
    for index, rule in enumerate(doc.outcome):
        if not (rule.status or rule.json or rule.header):
            found.append(f"outcome[{index}]: a status, a JSON value or a header must decide")
        found += [f"outcome[{index}].{c}" for c in _pointers("json", rule.json)]
    for name, read in doc.read.items():
        found += [f"read.{name}.{c}" for c in _read_complaints(read)]
    types: set[str] = set()
    for index, route in enumerate(doc.action):
        found += [f"action[{index}] ({route.type}).{c}" for c in _route_complaints(route, doc)]
        if route.type in types:
            found.append(f"action[{index}].type: {route.type} is there twice; use `aliases`")
        types.add(route.type)
    return found + _source_complaints(doc)


def _source_complaints(doc: Document) -> "list[str]":
    cited = {
        "account": doc.account.source if doc.account else "-",
        "mark": doc.mark.source if doc.mark else "-",
        "key": doc.key.source if doc.key else "-",
        **{f"outcome[{i}]": rule.source for i, rule in enumerate(doc.outcome)},
        **{f"read.{name}": read.source for name, read in doc.read.items()},
    }
    return [
        f"{where}.source: name the page it was read on, and the date"
        for where, source in cited.items()
        if not source.strip()
    ]


def _read_complaints(read: Read) -> "list[str]":
    found = (
        _pointers("items", [read.items]) + _pointers("identity", [read.identity]) + _pointers("created", [read.created])
    )
    if read.kind is ReadKind.SCAN and not (read.items and read.identity):
        found.append("identity: a scan needs `items` and `identity`")
    if read.kind is ReadKind.CONTENT and not (read.items and read.detail and read.created):
        found.append("detail: a content read needs `items`, `created` and `detail`")
    return found + [
        f"{n}: {v!r} is no duration"
        for n, v in (("before", read.before), ("look_back", read.look_back))
        if parse_ms(v) is None
    ]


def _route_complaints(route: Route, doc: Document) -> "list[str]":
    found: list[str] = []
    if not _TYPE.fullmatch(route.type):
        found.append("type: object.verb, in lower case")
    if not all(path.startswith("/") for path in route.paths):
        found.append("path: begins with `/`")
    for name in route.readback:
        if name not in doc.read:
            found.append(f"readback: there is no [read.{name}]")
    parameters = {name for path in route.paths for name in _PARAM.findall(path)}
    for name in route.extends or ():
        if name not in parameters:
            found.append(f"extends: the path has no {{{name}}}")
    facts = {*parameters, *route.facts, *(f for q in route.quotes for f in q.facts)}
    found += [
        f"same: there is no fact {fact!r}" for fact in route.same.values() if fact not in facts | {"amount", "currency"}
    ]
    found += [f"quotes: there is no fact {quote.needs!r}" for quote in route.quotes if quote.needs not in facts]
    if route.tier in (Tier.FULL, Tier.RECONCILABLE) and not (route.readback or route.harmless):
        found.append(f"readback: tier {route.tier} promises one")
    if route.content and route.effect is not Effect.MESSAGE:
        found.append("content: only messages may be settled by equal content")
    found += [
        f"{n}: {v!r} is no duration"
        for n, v in (("min_age", route.min_age), ("settle_within", route.settle_within))
        if parse_ms(v) is None
    ]
    for name in ("same", "found_when", "failed_when", "moves_when"):
        found += _pointers(name, getattr(route, name))
    return found


def _pointers(name: str, pointers: "object") -> "list[str]":
    assert isinstance(pointers, dict | list)
    return [f"{name}: {p!r} is no JSON pointer" for p in pointers if p and not p.startswith("/")]


# ── Matching ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Match(Struct, frozen=True):
    """An operation of the provider, and what the path says of it. `generic`: no route matched, the template stands in."""

    route: Route
    route_type: str
    parameters: dict[str, str]
    extension: tuple[str, ...]
    generic: bool = False


class Adapter:
    """A provider's facts, ready to be asked."""

    def __init__(self, document: Document) -> None:
        self.doc = document
        self.name = document.provider.name
        self._routes: dict[tuple[str, int], list[tuple[tuple[str, ...], Route]]] = {}
        for route in document.action:
            for path in route.paths:
                segments = tuple(path.strip("/").split("/"))
                self._routes.setdefault((route.method, len(segments)), []).append((segments, route))
        for candidates in self._routes.values():
            candidates.sort(key=lambda c: sum(s.startswith("{") for s in c[0]))  # Literal segments first.
        self._by_type = {f"{self.name}.{route.type}": route for route in document.action}

    def route(self, route_type: str) -> Route:
        """Return the route of a type, or the generic one."""
        return self._by_type.get(route_type) or self.doc.generic or GENERIC

    def match(self, method: str, path: str) -> Match:
        """Find the operation of a request; `path` is raw, without its query."""
        segments = normal_form(path)
        for pattern, route in self._routes.get((method, len(segments)), ()):
            parameters: dict[str, str] = {}
            for want, have in zip(pattern, segments, strict=True):
                if want.startswith("{"):
                    parameters[want[1:-1]] = have
                elif want != have:
                    break
            else:
                names = parameters if route.extends is None else route.extends
                extension = tuple(parameters[n] for n in names if n in parameters)
                return Match(route, f"{self.name}.{route.type}", parameters, extension)
        return self._generic(method, segments)

    def _generic(self, method: str, segments: tuple[str, ...]) -> Match:
        marked = ["*" if looks_like_identifier(s) else s for s in segments]
        named = tuple(s for s, m in zip(segments, marked, strict=True) if m == "*")
        template = f"{self.name}.{method.lower()}./{'/'.join(marked)}"
        return Match(self.doc.generic or GENERIC, template, {}, named, generic=True)

    def takes_key(self, method: str, path: str) -> Where | None:
        """Does the provider document an idempotency key for this request?"""
        if self.doc.key is None:
            return None
        normal = "/" + "/".join(normal_form(path))
        return next((w for w in self.doc.key.where if method in w.methods and fnmatchcase(normal, w.path)), None)


GENERIC: Final = Route(type="generic.write", method="*", path="/", effect=Effect.MONEY, tier=Tier.BLIND)

_UNRESERVED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_VERSION: Final = re.compile(r"v\d+(\.\d+)*")


def normal_form(path: str) -> tuple[str, ...]:
    """Return the segments of a path: unreserved bytes decoded, `//` and dot segments folded, no trailing slash.

    Only for matching, so that no spelling evades a route (RFC 3986, section 6.2.2); the raw bytes are what is sent.
    """
    decoded = _UNRESERVED.sub(lambda m: _if_unreserved(m[1], m[0]), path)
    out: list[str] = []
    for segment in decoded.split("/"):
        if segment in ("", "."):
            continue
        if segment == "..":
            del out[-1:]
        else:
            out.append(segment)
    return tuple(out)


def _if_unreserved(digits: str, raw: str) -> str:
    char = chr(int(digits, 16))
    return char if char.isascii() and (char.isalnum() or char in "-._~") else raw.upper()


def looks_like_identifier(segment: str) -> bool:
    """Is this path segment likely an object's ID, and not a word of the API?"""
    if _VERSION.fullmatch(segment):
        return False
    return any(c.isdigit() or c in "@%:" for c in segment) or len(segment) > 32
