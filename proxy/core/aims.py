"""What a request is aimed at, in a form that rewording does not change (CONTRACT 2.3, rule 3).

Two requests of one target need not be equal, so nothing here has to read a body for certain: it reads what a provider
may read. Whatever names the target counts: in the body or the query, under a name that is there twice, in a body whose
type is not said. What counts as *equal* is `payload`'s to say, and only what its content type says counts there.
"""

import re
import zlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from proxy.core.http import Headers, first
from proxy.core.payload import Kind, Payload, flat, parts_of, read, read_form

MOST: Final = 16  # A request has a target or two; a flood of values must not become a flood of claims.
INFLATED_BYTES: Final = 1 << 20
VALUE_BYTES: Final = 4_096
_ADDRESS: Final = re.compile(r"[^<>]*<([^<>@\s]+@[^<>@\s]+)>")
_FORM: Final = (b"Content-Type", b"application/x-www-form-urlencoded")
_JSON: Final = (b"Content-Type", b"application/json")


def readings(headers: Headers, query: str, body: Payload) -> tuple[Payload, ...]:
    """Return the request's parameters in every place where a provider may look for them. `body`: as it was read."""
    in_query = (read_form(query.encode("utf-8", "surrogateescape")),) if query else ()
    return (_whatever_it_is(headers, body), *in_query)


def _whatever_it_is(headers: Headers, body: Payload) -> Payload:
    if body.kind is Kind.BYTES:
        raw = _inflated(headers, body.raw)
        tries = (tuple(h for h in headers if h[0].lower() == b"content-type"), (_JSON,), (_FORM,))
        body = next((found for names in tries if (found := read(names, raw)).kind is not Kind.BYTES), body)
    return _multipart(headers, body.raw) if body.kind is Kind.MULTIPART else body


def aims(
    of: tuple[str, ...], facts: Mapping[str, str], parameters: Mapping[str, str], looked: tuple[Payload, ...]
) -> list[bytes]:
    """Return what the request is aimed at by one of the adapter's targets: MOST at most, none where it names nothing.

    `of` names facts (whose pointers are `facts`, and path parameters, which hold whatever the body says), or points
    into the body. One part: each value is an aim of its own. Several: all of them together are one. Order and case do
    not count, nor does the name that a mail address is dressed in.
    """
    found = [_named(part, facts, parameters, looked) for part in of]
    if len(found) == 1:
        return [_raw(value) for value in found[0]][:MOST]
    return [_raw("\1".join("\0".join(sorted({*values})) for values in found))] if any(found) else []


def _named(
    part: str, facts: Mapping[str, str], parameters: Mapping[str, str], looked: tuple[Payload, ...]
) -> list[str]:
    if part in parameters:
        return [_plain(unquote(parameters[part], errors="surrogateescape"))]
    pointer = part if part.startswith("/") else facts.get(part, "")
    nodes = [node for payload in looked for node in payload.values(pointer)] if pointer else []
    lists = ["\0".join(sorted({_plain(text) for text in flat(node)})) for node in nodes]
    return list(dict.fromkeys(value for value in lists if value))


def _plain(text: str) -> str:
    text = text.strip().lower()
    dressed = _ADDRESS.fullmatch(text)
    return dressed[1] if dressed is not None else text


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _inflated(headers: Headers, body: bytes) -> bytes:
    coding = (first(headers, b"content-encoding") or b"").strip().lower()
    if coding not in (b"gzip", b"x-gzip", b"deflate"):
        return body
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, INFLATED_BYTES)
    except zlib.error:
        return body


def _multipart(headers: Headers, body: bytes) -> Payload:
    parts = parts_of((first(headers, b"content-type") or b"").decode("latin-1"), body) or []
    short = [(name, text.decode("utf-8", "surrogateescape")) for name, _, text in parts if len(text) <= VALUE_BYTES]
    return Payload(Kind.FORM, body, pairs=tuple(short))
