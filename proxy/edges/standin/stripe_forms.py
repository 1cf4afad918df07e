"""Stripe's v1 parameters: form pairs to nested values, and the checks made before an endpoint executes."""

import re
from typing import Any, Final
from urllib.parse import parse_qsl

from proxy.edges.standin.provider import Json
from proxy.edges.standin.stripe_errors import bad_integer, missing, unknown

_DIGITS_MAX: Final = 15  # Below 2^53: what JSON carries exactly.
_BRACKETS: Final = re.compile(r"\[([^\]]*)\]")


def form(body: bytes) -> Json:
    """Read a form body."""
    return nest(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def nest(pairs: list[tuple[str, str]]) -> Json:
    """Turn `metadata[a]=b`, `expand[]=c` and `expand[0]=c` into nested values.

    SDKs index their arrays; the API takes empty brackets too (facts, section 3, encoding).
    """
    top: Json = {}
    for name, value in pairs:
        root = name.partition("[")[0]
        _place(top, [root, *_BRACKETS.findall(name[len(root) :])], value)
    return {name: value if name == "metadata" else _listed(value) for name, value in top.items()}


def _place(node: Json, steps: list[str], value: str) -> None:
    for step in steps[:-1]:
        inner = node.get(step or str(len(node)))
        if not isinstance(inner, dict):
            inner = node[step or str(len(node))] = {}
        node = inner
    node[steps[-1] or str(len(node))] = value


def _listed(value: Any) -> Any:
    """Turn dictionaries whose names are 0, 1, 2… into lists."""
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(item) for name, item in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def required(params: Json, name: str) -> str:
    """Return a parameter that must be there."""
    value = params.get(name)
    if value in (None, ""):
        raise missing(name)
    return str(value)


def integer(params: Json, name: str, default: int | None = None) -> int:
    """Return a positive integer; money is never anything else. No default: it must be there."""
    value = params.get(name)
    if value is None and default is not None:
        return default
    text = required(params, name)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and int(text) > 0):
        raise bad_integer(name, text)
    return int(text)


def only(params: Json, *allowed: str) -> None:
    """Refuse parameters that the endpoint does not know."""
    for name in params:
        if name not in allowed:
            raise unknown(name)


def true(params: Json, name: str, *, default: bool = False) -> bool:
    """Read a boolean."""
    value = params.get(name)
    return default if value is None else value in ("true", "True", "1", True)
