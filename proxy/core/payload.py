"""A request's body as values: its canonical form (CONTRACT 2.2), its fields by name, and its values by JSON pointer.

Two bodies are the same payload exactly where their canonical forms are equal. Nothing here guesses: what cannot be
read as its content type says counts as bytes. Longer than 300 lines: three kinds of body, one notion of what is equal.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl

from msgspec import Struct

from proxy.core.http import Headers, first


class Kind(StrEnum):
    """How a body is read."""

    FORM = "form"
    JSON = "json"
    MULTIPART = "multipart"
    BYTES = "bytes"


class Number(str):
    """A JSON number as it was written: 1 and 1.0 are not the same, and 2^60 stays exact."""

    __slots__ = ()


class Members(tuple[tuple[str, "Node"], ...]):
    """A JSON object as it was written: its members in order, with duplicates."""

    __slots__ = ()


UNNAMED: Final = "(another field)"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-\[\]]{0,63}")

Node = None | bool | str | Number | list["Node"] | Members

_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=lambda word: _refuse(word)
)


def _refuse(word: str) -> Node:
    raise ValueError(f"{word} is not JSON")  # RFC 8259, section 6.


class Payload(Struct, frozen=True):
    """A body, read once. `tree` is set for JSON, `pairs` for forms and (name, digest) of multipart bodies."""

    kind: Kind
    raw: bytes
    tree: "object" = None
    pairs: tuple[tuple[str, str], ...] = ()

    def canonical(self, volatile: tuple[str, ...] = ()) -> bytes:
        """Return the bytes that equal payloads share. `volatile`: JSON pointers of fields that do not count."""
        match self.kind:
            case Kind.FORM:
                pairs = [p for p in self.pairs if _form_pointer(p[0]) not in volatile]
                if not any("[]" in name for name, _ in pairs):
                    pairs.sort(key=lambda pair: _raw(pair[0]))  # Stable: the order among equal names is a value.
                return b"form\0" + b"\0".join(_utf8(part) for pair in pairs for part in pair)
            case Kind.JSON:
                out = bytearray(b"json\0")
                _write(self.tree, out, "", frozenset(volatile))
                return bytes(out)
            case Kind.MULTIPART:
                pairs = [p for p in self.pairs if _form_pointer(p[0]) not in volatile]
                return b"multipart\0" + b"\0".join(_utf8(part) for pair in pairs for part in pair)
            case Kind.BYTES:
                return b"bytes\0" + self.raw

    def fields(self, volatile: tuple[str, ...] = ()) -> dict[str, bytes]:
        """Return the canonical bytes of each top-level field, for naming what differs: names, and never values."""
        out: dict[str, bytes] = {}
        match self.kind:
            case Kind.FORM | Kind.MULTIPART:
                for name, value in sorted(self.pairs, key=lambda pair: _raw(pair[0])):
                    if _form_pointer(name) not in volatile:
                        _add(out, name, _utf8(value))
            case Kind.JSON if isinstance(self.tree, Members):
                for name, node in sorted(self.tree, key=lambda member: member[0]):
                    if f"/{_escape(name)}" not in volatile:
                        piece = bytearray()
                        _write(node, piece, f"/{_escape(name)}", frozenset(volatile))
                        _add(out, name, bytes(piece))
            case _:
                out["body"] = self.canonical(volatile)
        return out

    def values(self, pointer: str) -> list[Node]:
        """Return every value at a pointer: none where it is absent, several where a name is duplicated."""
        match self.kind:
            case Kind.FORM:
                inner = [v for name, v in self.pairs if _form_pointer(name) == pointer]
                return list(inner) if inner else _form_list(self.pairs, pointer)
            case Kind.JSON:
                return list(walk(self.tree, pointer))
            case _:
                return []

    def one(self, pointer: str) -> str | None:
        """Return the single scalar at a pointer as text, else None."""
        found = self.values(pointer)
        return text_of(found[0]) if len(found) == 1 else None


def read(headers: Headers, body: bytes) -> Payload:
    """Read a body as its Content-Type says; a coded or unreadable one counts as bytes."""
    if first(headers, b"content-encoding") is not None:
        return Payload(Kind.BYTES, body)
    declared = (first(headers, b"content-type") or b"").decode("latin-1")
    media = declared.partition(";")[0].strip().lower()
    if media == "application/x-www-form-urlencoded" and (b"=" in body or not body):
        return read_form(body)  # Without any `=` it is something else, and its text is nobody's name.
    if media == "application/json" or media.endswith("+json"):
        tree = parse_json(body)
        return Payload(Kind.BYTES, body) if tree is INVALID else Payload(Kind.JSON, body, tree=tree)
    if media == "multipart/form-data":
        return _read_multipart(declared, body)
    return Payload(Kind.BYTES, body)


class _Invalid:
    """What a body that is no JSON parses to."""


INVALID: Final = _Invalid()
NESTING: Final = 200
_QUOTE: Final = ord('"')
_NO_SYNTAX: Final = bytes(set(range(256)) - set(b'"[]{}'))


def parse_json(body: bytes) -> "object":
    """Return the tree of a JSON text (RFC 8259), or INVALID. Never raises.

    Nested deeper than NESTING it is INVALID: the walks below are recursive, and no provider's API comes near.
    """
    try:
        if body.count(b"[") + body.count(b"{") > NESTING and _nests_too_deep(body):
            return INVALID
        return _DECODER.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return INVALID


def _nests_too_deep(body: bytes) -> bool:
    """Are brackets nested deeper than NESTING? Those in strings are text."""
    depth, text = 0, False
    for char in body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_SYNTAX):
        if char == _QUOTE:
            text = not text
        elif not text:
            depth += 1 if char in b"[{" else -1
            if depth > NESTING:
                return True
    return False


def walk(node: "object", pointer: str) -> Iterator[Node]:
    """Yield every node at a JSON pointer (RFC 6901). `*` stands for every item of an array."""
    nodes: list[object] = [node]
    for step in [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]:
        below: list[object] = []
        for here in nodes:
            if isinstance(here, Members):
                below += [value for name, value in here if name == step]
            elif isinstance(here, list) and step == "*":
                below += here
            elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
                below.append(here[int(step)])
        nodes = below
    yield from nodes  # type: ignore[misc]  # Only nodes of the tree are in it.


def text_of(node: Node) -> str | None:
    """Return a scalar as text, as it was written; None for null, arrays and objects."""
    if isinstance(node, bool):
        return "true" if node else "false"
    return str(node) if isinstance(node, str) else None


def flat(node: Node) -> list[str]:
    """Return the scalars in a node, in order."""
    if isinstance(node, Members):
        return [text for _, value in node for text in flat(value)]
    if isinstance(node, list):
        return [text for value in node for text in flat(value)]
    text = text_of(node)
    return [] if text is None else [text]


def plain(node: Node) -> bytes:
    """Return the canonical bytes of one node."""
    out = bytearray()
    _write(node, out, "", frozenset())
    return bytes(out)


# ── Forms ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_form(body: bytes) -> Payload:
    """Read a form, or the query of a URL, which is written like one."""
    pairs = parse_qsl(body.decode("ascii", "surrogateescape"), keep_blank_values=True, errors="surrogateescape")
    return Payload(Kind.FORM, body, pairs=tuple(pairs))


def _form_pointer(name: str) -> str:
    """Return the pointer of a form name: `card[address][line1]` → `/card/address/line1`."""
    head, bracket, rest = name.partition("[")
    inner = rest.removesuffix("]").split("][") if bracket else []
    return "/" + "/".join(_escape(part) for part in (head, *inner))


def _form_list(pairs: tuple[tuple[str, str], ...], pointer: str) -> list[Node]:
    """A list in a form is one value: `to[]=a&to[]=b`, or `to[0]=a&to[1]=b`."""
    items: list[Node] = [v for name, v in pairs if _form_pointer(name).rpartition("/")[0] == pointer]
    return [items] if items else []


# ── Multipart (RFC 7578, RFC 2046 section 5.1) ────────────────────────────────────────────────────────────────────────


def _read_multipart(declared: str, body: bytes) -> Payload:
    parts = parts_of(declared, body)
    if parts is None:
        return Payload(Kind.BYTES, body)
    pairs = tuple((name, f"{_digest(head)}:{_digest(content)}") for name, head, content in parts)
    return Payload(Kind.MULTIPART, body, pairs=pairs)


def parts_of(declared: str, body: bytes) -> list[tuple[str, bytes, bytes]] | None:
    """Return name, head and content of each part; None where the body is not as its Content-Type declares it."""
    boundary = _boundary(declared)
    if boundary is None:
        return None
    delimiter = b"\r\n--" + boundary
    pieces = (b"\r\n" + body).split(delimiter)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        return None
    parts = []
    for piece in pieces[1:-1]:
        padding, line, part = piece.partition(b"\r\n")
        head, blank, content = (line + part).partition(b"\r\n\r\n")
        if padding.strip(b" \t") or not line or not blank:
            return None
        parts.append((_part_name(head), head, content))
    return parts


def _boundary(declared: str) -> bytes | None:
    for parameter in declared.split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.strip().lower() == "boundary":
            return value.strip().strip('"').encode("latin-1") or None
    return None


def _part_name(head: bytes) -> str:
    for parameter in head.decode("latin-1").split(";")[1:]:
        name, _, value = parameter.strip().partition("=")
        if name.lower() == "name":
            return value.partition("\r\n")[0].strip('"')
    return ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ── Canonical JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


def _write(node: "object", out: bytearray, here: str, volatile: frozenset[str]) -> None:
    """Write a node by value: keys sorted, numbers literal, strings decoded and length-framed by quoting."""
    match node:
        case Members():
            members = [m for m in node if f"{here}/{_escape(m[0])}" not in volatile]
            members.sort(key=lambda member: member[0])  # Stable: duplicates keep their order.
            out += b"{"
            for name, value in members:
                out += json.dumps(name).encode() + b":"
                _write(value, out, f"{here}/{_escape(name)}", volatile)
                out += b","
            out += b"}"
        case list():
            out += b"["
            for index, value in enumerate(node):
                _write(value, out, f"{here}/{index}", volatile)
                out += b","
            out += b"]"
        case Number():
            out += node.encode()
        case _:
            out += json.dumps(node).encode()


def _escape(token: str) -> str:
    return token.replace("~", "~0").replace("/", "~1")


def _add(out: dict[str, bytes], name: str, data: bytes) -> None:
    """Add a field. What is no plain name may be a value in a name's place, and is not shown."""
    name = name if _NAME.fullmatch(name) else UNNAMED
    out[name] = out.get(name, b"") + b"\0" + data


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _utf8(text: str) -> bytes:
    """Encode for comparison. The length in front keeps two fields from running into one another."""
    return b"%d:" % len(_raw(text)) + _raw(text)
