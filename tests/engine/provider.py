"""The providers' own records, as read-backs and quotes ask for them."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.engine.asks import refund_object
from tests.fakes.upstream import Call, Script, answers, silence


@dataclass
class StripeRecord:
    """Events, refunds and single objects. `down`: it answers nothing; `refuses`: with this status instead."""

    events: list[dict[str, Any]] = field(default_factory=list)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    down: bool = False
    refuses: int | None = None
    thinking: int = 0

    def made(self, key: str | None, refund: dict[str, Any] | None = None, *, live: bool = True) -> None:
        """A refund was made under a key: it is listed, and an event names it."""
        thing = refund or refund_object()
        self.objects[f"/v1/refunds/{thing['id']}"] = thing
        self.events.insert(
            0,
            {
                "id": f"evt_{len(self.events)}",
                "object": "event",
                "type": "refund.created",
                "created": 1_792_065_600,
                "livemode": live,
                "request": {"id": "req_1", "idempotency_key": key},
                "data": {"object": thing},
            },
        )

    def charge(self, charge: str = "ch_1", **fields: Any) -> None:
        """There is a charge of 54.00 USD."""
        thing = {"id": charge, "object": "charge", "amount": 5400, "amount_refunded": 0, "currency": "usd"} | fields
        self.objects[f"/v1/charges/{charge}"] = thing

    def __call__(self, call: Call) -> Script:
        """Answer a GET."""
        if self.down:
            return silence(thinking=self.thinking)
        if self.refuses is not None:
            return answers(self.refuses, {"error": {"type": "api_error"}}, thinking=self.thinking)
        url = urlsplit(call.request.target)
        if url.path == "/v1/events":
            return answers(200, {"data": self.events, "has_more": False}, thinking=self.thinking)
        if url.path == "/v1/refunds":
            charge = parse_qs(url.query).get("charge", [""])[0]
            made = [o for path, o in self.objects.items() if "/refunds/" in path and o["charge"] == charge]
            return answers(200, {"data": made, "has_more": False}, thinking=self.thinking)
        thing = self.objects.get(url.path)
        return answers(200 if thing else 404, thing or {"error": {}}, thinking=self.thinking)


@dataclass
class ResendRecord:
    """Messages that were sent."""

    mails: list[dict[str, Any]] = field(default_factory=list)
    down: bool = False

    def sent(self, mail_id: str, created_at: str, **message: Any) -> None:
        """A message went out."""
        shown = {"from": "a@x.com", "to": ["b@y.com"], "subject": "Your invoice", "text": "It is attached."} | message
        self.mails.append({"id": mail_id, "created_at": created_at, **shown})

    def __call__(self, call: Call) -> Script:
        """Answer a GET: the list without texts, or one in full."""
        if self.down:
            return silence()
        path = urlsplit(call.request.target).path
        if path == "/emails":
            listed = [{name: mail[name] for name in mail if name != "text"} for mail in self.mails]
            return answers(200, {"data": listed, "has_more": False})
        full = next((mail for mail in self.mails if path == f"/emails/{mail['id']}"), None)
        return answers(200 if full else 404, full or {"name": "not_found"})
