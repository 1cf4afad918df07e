"""Providers that keep a record: one like Stripe (keys, events, lists of objects), one like Resend (messages)."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, parse_qsl, urlsplit

import msgspec

from proxy.core.http import Headers, Request, Response, first
from tests.simulation.chance import Chance
from tests.simulation.journal import Deed, Journal

PAGE: Final = 3  # Items on a page, whatever the client asks for: the record is always longer than one.
CHARGE: Final = 20_000


def text(request: Request, name: bytes) -> str:
    """Return a header's value, or nothing."""
    return (first(request.headers, name) or b"").decode("latin-1")


class Provider(Protocol):
    """What the network needs of one."""

    idempotent: bool

    def act(self, request: Request, *, failed: bool = False, by_others: bool = False) -> Response:
        """Do what a write asks for, and return the answer. `failed`: what it makes comes to nothing at once."""
        ...

    def read(self, target: str) -> Response:
        """Answer a GET."""
        ...

    def says(self, status: int, *, code: str = "") -> Response:
        """Answer without having done anything."""
        ...


@dataclass
class Base:
    """What both have in common. `idempotent`: a key is honoured."""

    name: str
    journal: Journal
    chance: Chance
    now_ms: Callable[[], int]
    idempotent: bool
    results: dict[str, tuple[bytes, Response]] = field(default_factory=dict)
    made: int = 0

    def number(self) -> int:
        """Return a number for the next object."""
        self.made += 1
        return self.made

    def earlier(self, request: Request) -> Response | None:
        """Return the first answer under the same key, or the complaint that the key was used for something else."""
        known = self.results.get(text(request, b"idempotency-key")) if self.idempotent else None
        if known is None:
            return None
        digest, response = known
        if digest != _digest(request):
            return self.says(400, code="key_reused")
        return msgspec.structs.replace(response, headers=(*response.headers, (b"Idempotent-Replayed", b"true")))

    def keep(self, request: Request, response: Response) -> Response:
        """Remember an answer for its key."""
        if key := text(request, b"idempotency-key"):
            self.results[key] = (_digest(request), response)
        return response

    def deed(self, request: Request, object_id: str, *, by_others: bool) -> None:
        """Write down that something was done."""
        key, errand, number = (text(request, n) for n in (b"idempotency-key", b"x-errand", b"x-request"))
        key = key or f"{self.name} {request.method} {errand}"
        self.journal.write(Deed(self.now_ms(), key, errand, number, object_id, by_others))

    def says(self, status: int, *, code: str = "") -> Response:
        """See the protocol."""
        raise NotImplementedError


@dataclass
class StripeLike(Base):
    """Refunds and customers. Events show a few seconds late; others' events stand between ours."""

    charges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)  # From when it shows; the oldest first.

    def act(self, request: Request, *, failed: bool = False, by_others: bool = False) -> Response:
        """See the protocol."""
        if (known := self.earlier(request)) is not None:
            return known
        form = dict(parse_qsl(request.body.decode()))
        failed = failed and request.target == "/v1/refunds"  # Nothing else comes to nothing by itself.
        if request.target == "/v1/customers":
            thing: dict[str, Any] = {"id": f"cus_{self.number()}", "object": "customer", "name": form.get("name")}
            self.objects[f"/v1/customers/{thing['id']}"] = thing
            kind = "customer.created"
        else:
            charge = form["charge"]
            left = CHARGE - sum(r["amount"] for r in self.charges.get(charge, ()) if r["status"] == "succeeded")
            amount = int(form.get("amount", left))
            if amount > left or left == 0:
                return self.keep(request, self.says(400, code="charge_already_refunded"))
            thing = self.refund(charge, amount, failed=failed)
            kind = "refund.created"
        if not failed:
            self.deed(request, thing["id"], by_others=by_others)
        self.event(kind, thing, text(request, b"idempotency-key"))
        if failed:
            self.event("refund.failed", thing, None)
        return self.keep(request, _json(200, thing, ((b"Request-Id", b"req_1"),)))

    def refund(self, charge: str, amount: int, *, failed: bool = False) -> dict[str, Any]:
        """Make a refund."""
        status = "failed" if failed else "succeeded"
        thing = {"id": f"re_{self.number()}", "object": "refund", "amount": amount, "currency": "usd"}
        thing |= {"charge": charge, "status": status, "created": self.now_ms() // 1000}
        self.objects[f"/v1/refunds/{thing['id']}"] = thing
        self.charges.setdefault(charge, []).append(thing)
        return thing

    def by_hand(self, charge: str, amount: int) -> None:
        """Somebody refunds the same charge at the dashboard: it looks like ours, and is not."""
        self.event("refund.created", self.refund(charge, amount), None)

    def event(self, kind: str, thing: dict[str, Any], key: str | None) -> None:
        """Let an event show in a while."""
        shown = {
            "id": f"evt_{len(self.events)}",
            "object": "event",
            "type": kind,
            "created": self.now_ms() // 1000,
            "livemode": True,
            "request": {"id": f"req_{len(self.events)}" if key else None, "idempotency_key": key or None},
            "data": {"object": thing},
        }
        self.events.append((self.now_ms() + self.chance.between(0, 8_000), shown))

    def read(self, target: str) -> Response:
        """See the protocol."""
        url = urlsplit(target)
        query = parse_qs(url.query)
        if url.path == "/v1/events":
            since, kinds = int(query["created[gte]"][0]), query.get("types[]")
            listed = [e for at_ms, e in reversed(self.events) if at_ms <= self.now_ms() and e["created"] >= since]
            return self._page([e for e in listed if kinds is None or e["type"] in kinds], query)
        if url.path == "/v1/refunds":
            return self._page(self.charges.get(query["charge"][0], [])[::-1], query)
        if url.path.startswith("/v1/charges/"):
            charge = url.path.rpartition("/")[2]
            back = sum(r["amount"] for r in self.charges.get(charge, ()) if r["status"] == "succeeded")
            thing = {"id": charge, "object": "charge", "amount": CHARGE, "amount_refunded": back, "currency": "usd"}
            return _json(200, thing, ((b"Request-Id", b"req_1"),))
        known = self.objects.get(url.path)
        return _json(200, known, ((b"Request-Id", b"req_1"),)) if known else self.says(404)

    def _page(self, listed: list[dict[str, Any]], query: dict[str, list[str]]) -> Response:
        shown, more = _part(listed, query.get("starting_after"))
        return _json(200, {"object": "list", "data": shown, "has_more": more}, ((b"Request-Id", b"req_1"),))

    def says(self, status: int, *, code: str = "") -> Response:
        """See the protocol."""
        kinds = {429: "rate_limit_error", 402: "card_error", 409: "idempotency_error", 500: "api_error"}
        kind = "idempotency_error" if code == "key_reused" else kinds.get(status, "invalid_request_error")
        return _json(status, {"error": {"type": kind, "code": code, "message": "No."}}, ((b"Request-Id", b"req_1"),))


@dataclass
class ResendLike(Base):
    """Messages, and changes of messages, which nothing shows afterwards."""

    mails: list[dict[str, Any]] = field(default_factory=list)  # The oldest first.

    def act(self, request: Request, *, failed: bool = False, by_others: bool = False) -> Response:
        """See the protocol."""
        if (known := self.earlier(request)) is not None:
            return known
        if request.method == "PATCH":
            mail_id = request.target.rpartition("/")[2]
            self.deed(request, mail_id, by_others=by_others)
            return self._json(200, {"id": mail_id, "object": "email"})
        mail_id = f"00000000-0000-4000-8000-{self.number():012d}"
        made = datetime.fromtimestamp(self.now_ms() / 1000, UTC).isoformat()
        self.mails.append({"id": mail_id, "created_at": made, **msgspec.json.decode(request.body)})
        self.deed(request, mail_id, by_others=by_others)
        return self.keep(request, self._json(200, {"id": mail_id}))

    def read(self, target: str) -> Response:
        """See the protocol."""
        url = urlsplit(target)
        if url.path == "/emails":
            listed = [{n: m[n] for n in m if n != "text"} for m in reversed(self.mails)]
            shown, more = _part(listed, parse_qs(url.query).get("after"))
            return self._json(200, {"object": "list", "data": shown, "has_more": more})
        full = next((m for m in self.mails if url.path == f"/emails/{m['id']}"), None)
        return self._json(200, full) if full else self.says(404)

    def says(self, status: int, *, code: str = "") -> Response:
        """See the protocol."""
        names = {401: "restricted_api_key", 429: "rate_limit_exceeded", 409: "concurrent_idempotent_requests"}
        name = names.get(status, "validation_error" if status < 500 else "application_error")
        if code == "key_reused":
            status, name = 409, "invalid_idempotent_request"
        return self._json(status, {"statusCode": status, "name": name, "message": "No."})

    def _json(self, status: int, body: object) -> Response:
        return _json(status, body, ((b"ratelimit-limit", b"2"),))


def _digest(request: Request) -> bytes:
    return hashlib.blake2b(request.target.encode() + b"\0" + request.body).digest()


def _part(listed: list[dict[str, Any]], after: list[str] | None) -> tuple[list[dict[str, Any]], bool]:
    """Return a page of a list, and whether there is more."""
    at = next((n + 1 for n, thing in enumerate(listed) if after and thing["id"] == after[0]), 0)
    return listed[at : at + PAGE], len(listed) > at + PAGE


def _json(status: int, body: object, headers: Headers) -> Response:
    return Response(status, b"", ((b"Content-Type", b"application/json"), *headers), msgspec.json.encode(body))
