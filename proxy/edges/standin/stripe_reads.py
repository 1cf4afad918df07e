"""Stripe's reads: objects by ID, lists with their filters and cursors, events, the balance.

Filters: facts, section 3 (stripe-python 16.1.0, stripe/params/_*_list_params.py). A parameter that a list
does not have is refused, so that a read-back cannot lean on a filter that Stripe does not offer.
"""

import copy
from fnmatch import fnmatchcase
from typing import Any, Final

from proxy.edges.standin.provider import Json
from proxy.edges.standin.stripe_errors import bad_integer, invalid, no_such, unknown
from proxy.edges.standin.stripe_forms import nest
from proxy.edges.standin.stripe_money import balance
from proxy.edges.standin.stripe_records import kind_of, split
from proxy.edges.standin.stripe_world import World

_PAGING: Final = ("limit", "starting_after", "ending_before", "expand")
_LIMIT: Final = 10
_LIMIT_MAX: Final = 100
_TYPES_MAX: Final = 20
_DAY_S: Final = 24 * 60 * 60
_EVENTS_KEPT_S: Final = 30 * _DAY_S  # "Last 30 days": facts, section 3, GET /v1/events.
_BOUNDS: Final = ("gt", "gte", "lt", "lte")
FILTERS: Final[dict[str, tuple[str, ...]]] = {
    "events": ("created", "delivery_success", "type", "types"),
    "refunds": ("charge", "payment_intent", "created"),
    "charges": ("customer", "payment_intent", "transfer_group", "created"),
    "payment_intents": ("customer", "customer_account", "created"),
    "transfers": ("destination", "transfer_group", "created"),
    "payouts": ("status", "destination", "arrival_date", "created"),
    "invoices": (
        "customer",
        "customer_account",
        "subscription",
        "status",
        "collection_method",
        "due_date",
        "created",
    ),
    "invoiceitems": ("customer", "invoice", "pending", "created"),
    "credit_notes": ("customer", "invoice", "created"),
    "customers": ("email", "test_clock", "created"),
    "subscriptions": (
        "customer",
        "price",
        "plan",
        "status",
        "collection_method",
        "current_period_start",
        "current_period_end",
        "created",
    ),
    "checkout/sessions": (
        "payment_intent",
        "subscription",
        "customer",
        "customer_details",
        "payment_link",
        "status",
        "created",
    ),
    "topups": ("amount", "status", "created"),
    "balance_transactions": ("source", "payout", "type", "currency", "created"),
    "disputes": ("charge", "payment_intent", "created"),
    "application_fees": ("charge", "created"),
    "setup_intents": ("customer", "payment_method", "created"),
    "payment_links": ("active",),
}


def read(world: World, path: str, query: list[tuple[str, str]]) -> Json:
    """Answer a GET."""
    params = nest(query)
    match path.removeprefix("/v1/").split("/"):
        case ["balance"]:
            return balance(world)
        case ["account"]:
            return {"id": world.account or "acct_standin", "object": "account"}
        case ["charges", charge_id, "refunds"]:
            world.find("charge", charge_id, param="charge")
            rows = [item for item in world.of("refund") if item["charge"] == charge_id]
            return listing(rows, params, path=path, filters=("created",))
        case ["events", event_id]:
            return _event(world, event_id)
        case ["events"]:
            return _events(world, params, path)
        case _:
            return _read(world, params, path)


def _read(world: World, params: Json, path: str) -> Json:
    collection, rest = split(path.removeprefix("/v1/"))
    kind = kind_of(collection)
    if not path.startswith("/v1/") or len(rest) > 1:
        raise invalid(f"Unrecognized request URL (GET: {path}).", status=404)
    if not rest:
        filters = FILTERS.get(collection, ("created",))
        page = listing(_filtered(world.of(kind), params, filters), params, path=path, filters=filters)
        return expanded(world, page, params)
    for name in params:
        if name != "expand":
            raise unknown(name)
    stub = world.deleted.get(rest[0])
    return stub if stub and stub["object"] == kind else expanded(world, world.find(kind, rest[0]), params)


def _filtered(rows: list[Json], params: Json, filters: tuple[str, ...]) -> list[Json]:
    """Keep the rows that equal every filter; times are left to `listing`."""
    wanted = {name: params[name] for name in filters if name in params and name != "created"}
    return [row for row in rows if all(_equals(row.get(name), value) for name, value in wanted.items())]


def _equals(have: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and wanted.keys() <= set(_BOUNDS):
        return isinstance(have, int) and _within(have, wanted, "arrival_date")
    if isinstance(wanted, dict):
        return isinstance(have, dict) and all(_equals(have.get(name), value) for name, value in wanted.items())
    if isinstance(have, bool):
        return str(have).lower() == str(wanted).lower()
    return have is not None and str(have) == wanted


def listing(rows: list[Json], params: Json, *, path: str, filters: tuple[str, ...]) -> Json:
    """Return a page, newest first. `rows` come oldest first, as v1 lists have them at once (facts, section 3)."""
    for name in params:
        if name not in filters and name not in _PAGING:
            raise unknown(name)
    limit = _limit(params)
    _within(0, params.get("created"), "created")  # A bound that is none is refused even where there are no rows.
    newest = [row for row in reversed(rows) if _within(row["created"], params.get("created"), "created")]
    page, has_more = _page(newest, params, limit)
    return {"object": "list", "data": page, "has_more": has_more, "url": path}


def _page(rows: list[Json], params: Json, limit: int) -> tuple[list[Json], bool]:
    after, before = params.get("starting_after"), params.get("ending_before")
    if after and before:
        raise invalid("You can only use one of starting_after and ending_before.", param="ending_before")
    if before:
        end = _index(rows, before, "ending_before")
        start = max(0, end - limit)
        return rows[start:end], start > 0
    start = _index(rows, after, "starting_after") + 1 if after else 0
    return rows[start : start + limit], len(rows) > start + limit


def _index(rows: list[Json], object_id: str, param: str) -> int:
    for index, row in enumerate(rows):
        if row["id"] == object_id:
            return index
    raise no_such("object", object_id, param=param, status=400)


def _limit(params: Json) -> int:
    text = str(params.get("limit", _LIMIT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LIMIT_MAX):
        raise bad_integer("limit", text)
    return int(text)


def _within(time_s: int, bounds: Any, param: str) -> bool:
    """Is a time what a filter asks for: one instant, or within bounds?"""
    wanted = bounds if isinstance(bounds, dict) else {} if bounds is None else {"gte": bounds, "lte": bounds}
    for name, text in wanted.items():
        if name not in _BOUNDS:
            raise unknown(f"{param}[{name}]")
        if not str(text).isdigit():
            raise bad_integer(f"{param}[{name}]", str(text))
    edges = {name: int(text) for name, text in wanted.items()}
    return (
        time_s > edges.get("gt", time_s - 1)
        and time_s >= edges.get("gte", time_s)
        and time_s < edges.get("lt", time_s + 1)
        and time_s <= edges.get("lte", time_s)
    )


def _event(world: World, event_id: str) -> Json:
    for event in world.events:
        if event["id"] == event_id and event["created"] > world.now_s - _EVENTS_KEPT_S:
            return event
    raise no_such("event", event_id)


def _events(world: World, params: Json, path: str) -> Json:
    """GET /v1/events: no filter by key or request ID (facts, section 3)."""
    one, several = params.get("type"), params.get("types")
    if one is not None and not isinstance(one, str):
        raise invalid("type is one event name.", param="type")
    if one and several:
        raise invalid("You may pass either type or types, but not both.", param="types")
    if several is not None and not _are_types(several):
        raise invalid(f"types is an array of at most {_TYPES_MAX} event names.", param="types")
    patterns = [one] if one else several
    kept = [event for event in world.events if event["created"] > world.now_s - _EVENTS_KEPT_S]
    if params.get("delivery_success") == "false":
        kept = [event for event in kept if event["pending_webhooks"]]
    if patterns:
        kept = [event for event in kept if any(fnmatchcase(event["type"], pattern) for pattern in patterns)]
    return listing(kept, params, path=path, filters=FILTERS["events"])


def _are_types(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _TYPES_MAX and all(isinstance(item, str) for item in value)


def expanded(world: World, shown: Json, params: Json) -> Json:
    """Replace identifiers by their objects where `expand` asks for it."""
    asked = params.get("expand")
    if not asked:
        return shown
    shown = copy.deepcopy(shown)
    for name in asked if isinstance(asked, list) else [asked]:
        _expand(world, shown, str(name).split("."))
    return shown


def _expand(world: World, node: Any, steps: list[str]) -> None:
    if isinstance(node, list):
        for item in node:
            _expand(world, item, steps)
    elif isinstance(node, dict) and steps and steps[0] in node:
        value = node[steps[0]]
        if isinstance(value, str) and value in world.objects:
            node[steps[0]] = copy.deepcopy(world.objects[value])
        _expand(world, node[steps[0]], steps[1:])
