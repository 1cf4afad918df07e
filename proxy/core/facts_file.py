"""Adapter files, read and checked: a mistake is one sentence that names the file, the key and the rule."""

import re
import tomllib
from typing import Final

import msgspec

from proxy.core.durations import parse_ms
from proxy.core.facts import Document, Read, ReadKind, Route
from proxy.core.model import Effect, Tier

RESERVED: Final = frozenset({"e", "_doubtless"})
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TYPE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_PARAM: Final = re.compile(r"\{([a-z_]+)\}")


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
    found += [f"readback: there is no [read.{name}]" for name in route.readback if name not in doc.read]
    parameters = {name for path in route.paths for name in _PARAM.findall(path)}
    found += [f"extends: the path has no {{{name}}}" for name in route.extends or () if name not in parameters]
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
