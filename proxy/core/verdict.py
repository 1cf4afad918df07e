"""What an answer proves. One table per origin of the answer; what it does not recognise is unknown.

Certainty is earned here: by the provider's mark, a whole message, and a rule of the adapter that cites its page.
"""

import hashlib
import re
import zlib
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proxy.core import money
from proxy.core.adapter import Adapter, holds
from proxy.core.facts import Means, Outcome, Route
from proxy.core.http import Answered, Integrity, Response, Silence, first, values
from proxy.core.model import Amount, Cause
from proxy.core.payload import INVALID, Members, Node, Number, parse_json, text_of, walk


class Accepted(Struct, frozen=True, omit_defaults=True, tag="accepted"):
    """The provider did it. `amount`: what it says it moved, where that is known."""

    object_ids: tuple[str, ...] = ()
    partial: bool = False
    amount: Amount | None = None


class Rejected(Struct, frozen=True, omit_defaults=True, tag="rejected"):
    """The provider did not do it. `before_execution`: the adapter cites that nothing ran at all."""

    not_executed: bool = False
    before_execution: bool = False
    already_done: bool = False


class Unclear(Struct, frozen=True, omit_defaults=True, tag="unclear"):
    """Nobody can tell. `delivered`: the provider itself answered."""

    cause: Cause
    delivered: bool = False
    object_ids: tuple[str, ...] = ()


Verdict = Accepted | Rejected | Unclear


class Reply(Struct, frozen=True, omit_defaults=True):
    """What is kept of an answer as evidence. `replayed`: the provider marks it as a repetition of an earlier one."""

    status: int | None = None
    request_id: str = ""
    digest: str = ""
    whole: bool = False
    replayed: bool = False


# Where no mark is declared: definite with a parseable JSON body (CONTRACT 2.1).
DEFINITE_WITHOUT_FACTS: Final = frozenset({400, 401, 403, 404, 405, 410, 415, 422})
DECODED_BYTES: Final = 64 << 20  # A response that inflates to more is not read: it stays unknown.
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def of_silence(silence: Silence) -> Cause:
    """Return the cause where no whole response head came back."""
    if silence.garbled:
        return Cause.UNRECOGNISED_RESPONSE
    return Cause.TIMEOUT if silence.timed_out else Cause.CONNECTION_LOST


def reply_of(answered: Answered, adapter: Adapter) -> Reply:
    """Return what is kept of an answer."""
    response, mark, key = answered.response, adapter.doc.mark, adapter.doc.key
    request_id = b""
    if mark is not None and mark.request_id:
        request_id = first(response.headers, mark.request_id.lower().encode()) or b""
    name, _, value = (key.replay_mark if key is not None else "").partition(": ")
    return Reply(
        status=response.status,
        request_id=request_id.decode("latin-1")[:128],
        digest="sha256:" + hashlib.sha256(response.body).hexdigest(),
        whole=answered.integrity in (Integrity.WHOLE, Integrity.TRAILING),
        replayed=bool(name) and value.encode() in values(response.headers, name.lower().encode()),
    )


def of_dispatch(answered: Answered, adapter: Adapter, route: Route, *, keyed: bool) -> Verdict:
    """Judge the answer to a dispatch (CONTRACT 2.1). `keyed`: it carried our idempotency key."""
    response, whole = answered.response, answered.integrity is Integrity.WHOLE
    tree = tree_of(response) if whole else INVALID
    marked = is_marked(response, tree, adapter)
    if response.status >= 500:
        # Whatever else is wrong with it: a provider that fails may have acted before it failed.
        return Unclear(Cause.SERVER_ERROR, delivered=marked and adapter.doc.mark is not None)
    if not answered.upload_ended or (adapter.doc.mark is not None and not marked):
        return Unclear(Cause.UNRECOGNISED_RESPONSE)
    success = 200 <= response.status < 300
    if not whole:
        if success:
            return Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
        return Unclear(Cause.UNRECOGNISED_RESPONSE)
    rule = _rule(response, tree, adapter.doc.outcome, keyed=keyed)
    if rule is not None:
        return _by_rule(rule, response, tree, adapter, route)
    if success:
        return _success(response, tree, adapter, route)
    if adapter.doc.mark is None and response.status in DEFINITE_WITHOUT_FACTS and tree is not INVALID:
        return Rejected()
    return Unclear(Cause.UNRECOGNISED_RESPONSE)


def of_replay(answered: Answered, adapter: Adapter, route: Route) -> Verdict:
    """Judge the answer to an operator's replay: only what bears the replay mark speaks of the first dispatch.

    A 2xx settles either way: the action has happened, by the first dispatch or by this one.
    """
    verdict = of_dispatch(answered, adapter, route, keyed=True)
    if isinstance(verdict, Rejected) and not reply_of(answered, adapter).replayed:
        return Unclear(Cause.UNRECOGNISED_RESPONSE)
    return verdict


def of_object(tree: "object", adapter: Adapter, route: Route) -> Accepted | Rejected:
    """Judge an object of the provider's own record by the same terminal rule as a response."""
    if route.failed_when and holds(tree, route.failed_when):
        return Rejected()
    return Accepted(object_ids=_ids(tree, "/id"), amount=amount_of_object(tree, adapter, route))


def tree_of(response: Response) -> "object":
    """Return the JSON of a response, or INVALID; gzip and deflate are undone for reading, never for passing on."""
    coding = (first(response.headers, b"content-encoding") or b"identity").strip().lower()
    if coding == b"identity":
        return parse_json(response.body)
    if coding not in (b"gzip", b"x-gzip", b"deflate"):
        return INVALID
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # Either header (RFC 1950, RFC 1952).
    try:
        body = inflate.decompress(response.body, DECODED_BYTES)
    except zlib.error:
        return INVALID
    return parse_json(body) if inflate.eof and not inflate.unused_data else INVALID


def amount_of_object(tree: "object", adapter: Adapter, route: Route) -> Amount | None:
    """Return what the object says was moved, in minor units; None where it does not say."""
    rule = route.amount
    if rule is None or not rule.moved:
        return None
    currency = money.currency_code(_one(tree, rule.moved_currency))
    minor = money.minor(_one(tree, rule.moved), rule.unit, currency, adapter)
    return None if minor is None or currency is None else Amount(minor, currency)


def is_marked(response: Response, tree: "object", adapter: Adapter) -> bool:
    """Does the answer bear the provider's own mark? True where none is declared."""
    mark = adapter.doc.mark
    if mark is None:
        return True
    if any(first(response.headers, name.lower().encode()) is not None for name in mark.headers):
        return True
    return any(_has_shape(tree, shape) for shape in mark.shapes)


def _has_shape(tree: "object", shape: dict[str, str]) -> bool:
    return all(_is_kind(next(walk(tree, pointer), None), kind) for pointer, kind in shape.items())


def _is_kind(node: Node, kind: str) -> bool:
    match kind:
        case "integer":
            return isinstance(node, Number) and node.lstrip("-").isdecimal()
        case "string":
            return isinstance(node, str) and not isinstance(node, Number)
        case "uuid":
            return isinstance(node, str) and _UUID.fullmatch(node) is not None
        case "object":
            return isinstance(node, Members)
        case "array":
            return isinstance(node, list)
        case _:
            return False


def _rule(response: Response, tree: "object", rules: tuple[Outcome, ...], *, keyed: bool) -> Outcome | None:
    for rule in rules:
        if rule.keyed and not keyed:
            continue
        if rule.status and response.status not in rule.status:
            continue
        if rule.json and not holds(tree, rule.json):
            continue
        if all(want.encode() in values(response.headers, name.lower().encode()) for name, want in rule.header.items()):
            return rule
    return None


def _by_rule(rule: Outcome, response: Response, tree: "object", adapter: Adapter, route: Route) -> Verdict:
    match rule.means:
        case Means.ACCEPTED:
            return _success(response, tree, adapter, route)
        case Means.PARTIAL:
            found = _success(response, tree, adapter, route)
            return replace(found, partial=True) if isinstance(found, Accepted) else found
        case Means.REJECTED_BEFORE_EXECUTION:
            return Rejected(before_execution=True)
        case Means.REJECTED:
            return Rejected()
        case Means.ALREADY_DONE:
            return Rejected(already_done=True)
        case Means.NOT_EXECUTED:
            return Rejected(not_executed=True)
        case Means.IN_CONFLICT:
            return Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True)
        case Means.KEY_REUSED:
            return Unclear(Cause.KEY_REUSED, delivered=True)
        case Means.UNKNOWN:
            return Unclear(Cause.UNRECOGNISED_RESPONSE)
        case Means.NOT_TERMINAL:
            return Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=_ids(tree, route.object_id or "/id"))


def _success(response: Response, tree: "object", adapter: Adapter, route: Route) -> Verdict:
    """A whole, marked 2xx: accepted, if it is what the route says its success looks like."""
    if not route.object_id:
        if tree is INVALID and response.body and b"json" in (first(response.headers, b"content-type") or b""):
            return Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
        return Accepted(object_ids=_ids(tree, "/id"))
    object_ids = _ids(tree, route.object_id)
    if not object_ids:
        return Unclear(Cause.MALFORMED_RESPONSE, delivered=True)
    if route.object and _one(tree, "/object") in route.answers_with:
        return Accepted()  # An older spelling of the operation answers with another object: it did happen.
    if route.failed_when and holds(tree, route.failed_when):
        return Rejected()  # The object was created as failed: it never came to be.
    return Accepted(object_ids, amount=amount_of_object(tree, adapter, route))


def is_id(node: "object") -> bool:
    """Is it an object's ID? A non-empty JSON string of text; half a surrogate pair is none (RFC 8259, section 8.2)."""
    if not isinstance(node, str) or isinstance(node, Number) or not 0 < len(node) <= 255:
        return False
    return not any("\ud800" <= char <= "\udfff" for char in node)


def _ids(tree: "object", pointer: str) -> tuple[str, ...]:
    """Return the IDs at a pointer; none where one of them is missing, or is not a non-empty string."""
    if tree is INVALID:
        return ()
    found = list(walk(tree, pointer))
    items, each, _ = pointer.rpartition("/*")
    if each and len(found) != sum(1 for _ in walk(tree, items + each)):
        return ()
    if not all(is_id(node) for node in found):
        return ()
    return tuple(str(n) for n in found)


def _one(tree: "object", pointer: str) -> str | None:
    found = list(walk(tree, pointer)) if tree is not INVALID else []
    return text_of(found[0]) if len(found) == 1 else None
