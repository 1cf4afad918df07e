"""The operators' API (CONTRACT 6). Every path needs a token; an agent's side has none of this."""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from proxy.core import view
from proxy.core.adapter import Adapter
from proxy.core.answers import KINDS, Code
from proxy.core.limits import Limit
from proxy.core.model import Grade, Status
from proxy.core.records import Filter, Reservation
from proxy.engine import Engine
from proxy.ports import Forgotten, StoreUnavailable
from proxy.reconciler import Reconciler, Refused

LIMIT_DEFAULT: Final = 50
LIMIT_MOST: Final = 200
_RAISED: Final = {404: "not_found", 405: "not_found", 413: "body_too_large"}
_CURSOR: Final = re.compile(r"[0-9a-f-]{36}")
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}
_VALUES: Final = {
    "status": (*(status.value for status in Status), "unknown"),
    "grade": tuple(grade.value for grade in Grade),
}


class Person(msgspec.Struct, frozen=True):
    """Who asks, and what they may do."""

    name: str
    operator: bool


class Tokens:
    """The tokens that are taken."""

    def __init__(self, known: "list[tuple[str, bool, str]]") -> None:
        self._known = [(name, operator, token.encode()) for name, operator, token in known]

    def of(self, header: str | None) -> Person | None:
        """Return whose token this is. Every one is compared, in constant time."""
        scheme, _, given = (header or "").partition(" ")
        found = None
        for name, operator, token in self._known:
            same = hmac.compare_digest(token, given.strip().encode("utf-8", "surrogateescape"))
            if same and scheme.lower() == "bearer":
                found = Person(name, operator)
        return found


class Failed(Exception):
    """An answer of the API that is no success."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """The application on the admin port."""

    def __init__(
        self,
        *,
        engine: Engine,
        reconciler: Reconciler,
        adapters: Mapping[str, Adapter],
        limits: tuple[Limit, ...],
        tokens: Tokens,
        proxy_base: Callable[[], str],
    ) -> None:
        self._engine = engine
        self._store = engine.applier.store
        self._reconciler = reconciler
        self._adapters = adapters
        self._limits = limits
        self._tokens = tokens
        self._base = proxy_base

    def application(self) -> web.Application:
        """Return the application, with its routes."""
        app = web.Application(middlewares=[self._guard], client_max_size=256 << 10)
        app.add_routes(
            [
                web.get("/api/v1/actions", self._list),
                web.get("/api/v1/actions/{id}", self._show),
                web.post("/api/v1/actions/{id}/reconcile", self._reconcile),
                web.get("/api/v1/exposure", self._exposure),
                web.get("/api/v1/limits", self._limits_use),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Let in whom a token names, and turn every failure into one shape."""
        try:
            person = self._tokens.of(request.headers.get("Authorization"))
            if person is None:
                return _json({"code": "unauthorized", "message": "A token is needed: Authorization: Bearer …"}, 401)
            if request.method not in ("GET", "HEAD") and not person.operator:
                raise Failed(403, "forbidden", f"{person.name} is a viewer and may not change anything.")
            return await handler(request)
        except Failed as failed:
            return _json({"code": failed.code, "message": str(failed)}, failed.status)
        except Refused as refused:
            until = {"until": view.iso(refused.until_ms)} if refused.until_ms is not None else {}
            return _json({"code": refused.code, "message": str(refused), **until}, 409)
        except Forgotten:
            return _json({"code": "not_found", "message": "There is no action of this ID."}, 404)
        except StoreUnavailable:
            kind = KINDS[Code.STORE_UNAVAILABLE]
            return _json({"code": "store_unavailable", "message": "The store does not answer now."}, kind.status)
        except web.HTTPException as raised:
            return _json({"code": _RAISED.get(raised.status, "bad_request"), "message": raised.reason}, raised.status)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        chosen, cursor, limit = _query(request.query)
        page = await self._store.page(chosen, cursor, limit)
        rows = [self._row(stored.action, view.row) for stored in page.rows]
        return _json({"data": rows, "next_cursor": page.cursor})

    async def _show(self, request: web.Request) -> web.StreamResponse:
        stored = await self._store.get(request.match_info["id"])
        if stored is None:
            raise Forgotten(request.match_info["id"])
        return _json(self._row(stored.action, view.detail))

    async def _reconcile(self, request: web.Request) -> web.StreamResponse:
        stored = await self._reconciler.reconcile(request.match_info["id"])
        return _json(self._row(stored.action, view.detail))

    async def _exposure(self, request: web.Request) -> web.StreamResponse:
        del request
        rows = [msgspec.to_builtins(row) for row in await self._store.exposure()]
        return _json({"data": rows})

    async def _limits_use(self, request: web.Request) -> web.StreamResponse:
        del request
        asked = [Reservation(limit.name, limit.period, limit.cap, 0) for limit in self._limits]
        uses = {use.name: use for use in await self._store.limit_use(asked)}
        rows = []
        for limit in self._limits:
            use = uses[limit.name]
            rows.append(
                {
                    "name": limit.name,
                    "match": limit.match,
                    "currency": limit.currency,
                    "period": limit.period.value,
                    "cap": limit.cap,
                    "consumed": use.consumed,
                    "reserved": use.reserved,
                    "unknown": use.unknown,
                    "available": max(0, limit.cap - use.consumed - use.reserved - use.unknown),
                }
            )
        return _json({"data": rows})

    def _row(self, action: Any, shape: Callable[[Any, Adapter | None, str], view.View]) -> view.View:
        return shape(action, self._adapters.get(action.identity.provider), self._base())


def _query(query: "Mapping[str, str]") -> tuple[Filter, str | None, int]:
    """Read the query of a list. Raises Failed: it says what is wrong with it."""
    known = {*Filter.__struct_fields__, "cursor", "limit"}
    for name in query:
        if name not in known:
            raise Failed(400, "bad_request", f"There is no such filter; there are {', '.join(sorted(known))}.")
    limit = query.get("limit", str(LIMIT_DEFAULT))
    if not limit.isdecimal() or not 1 <= int(limit) <= LIMIT_MOST:
        raise Failed(400, "bad_request", f"limit is 1 to {LIMIT_MOST}.")
    values: dict[str, Any] = {name: query[name] for name in Filter.__struct_fields__ if query.get(name)}
    for name, known_values in _VALUES.items():
        if name in values and values[name] not in known_values:
            raise Failed(400, "bad_request", f"{name} is one of {', '.join(known_values)}.")
    for name in ("needs_operator", "contradicted"):
        if name in values:
            if values[name] not in _FLAGS:
                raise Failed(400, "bad_request", f"{name} is true or false.")
            values[name] = _FLAGS[values[name]]
    cursor = query.get("cursor") or None
    if cursor is not None and _CURSOR.fullmatch(cursor) is None:
        raise Failed(400, "bad_request", "cursor is what next_cursor of the page before says.")
    return Filter(**values), cursor, int(limit)


def _json(body: "Mapping[str, Any]", status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")
