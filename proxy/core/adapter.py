"""A provider's facts, ready to be asked: which operation a request is, and whether it takes a key."""

import re
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from proxy.core.facts import Document, Json, Route, Where
from proxy.core.model import Effect, Tier
from proxy.core.payload import INVALID, text_of, walk


class Match(Struct, frozen=True):
    """An operation of the provider, and what the path says of it. `generic`: no route matched."""

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
        template = _NOT_OF_A_TYPE.sub("_", f"{self.name}.{method.lower()}./{'/'.join(marked)}")
        return Match(self.doc.generic or GENERIC, template, {}, named, generic=True)

    def takes_key(self, method: str, path: str) -> Where | None:
        """Does the provider document an idempotency key for this request?"""
        if self.doc.key is None:
            return None
        normal = "/" + "/".join(normal_form(path))
        return next((w for w in self.doc.key.where if method in w.methods and fnmatchcase(normal, w.path)), None)


GENERIC: Final = Route(type="generic.write", method="*", path="/", effect=Effect.MONEY, tier=Tier.BLIND)

_NOT_OF_A_TYPE: Final = re.compile(r"[^A-Za-z0-9._/*-]")
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


def holds(tree: "object", wanted: Json) -> bool:
    """Does a JSON tree have one of the wanted values at every pointer? `"*"` stands for any value but null."""
    return tree is not INVALID and all(_has(tree, pointer, want) for pointer, want in wanted.items())


def _has(tree: "object", pointer: str, want: bool | int | str | list[bool | int | str]) -> bool:
    texts = texts_of(want)
    return any((node is not None and "*" in texts) or text_of(node) in texts for node in walk(tree, pointer))


def texts_of(want: bool | int | str | list[bool | int | str]) -> set[str]:
    """Return the wanted values as text, as a body writes them."""
    options = want if isinstance(want, list) else [want]
    return {("true" if o else "false") if isinstance(o, bool) else str(o) for o in options}


def looks_like_identifier(segment: str) -> bool:
    """Is this path segment likely an object's ID, and not a word of the API?"""
    if _VERSION.fullmatch(segment):
        return False
    return any(c.isdigit() or c in "@%:" for c in segment) or len(segment) > 32
