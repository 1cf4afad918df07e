"""Governed writes as agents make them, and what the provider answers."""

from typing import Any
from urllib.parse import urlencode

import msgspec

from proxy.engine import Ask
from tests.fakes.upstream import Script, answers

LIVE = "sk_live_1"
BASE = "http://127.0.0.1:7411"


def refund(
    event: str | None = "ticket-17",
    *,
    credential: str = LIVE,
    key: str | None = None,
    retry_of: str | None = None,
    wait_ms: int | None = None,
    headers: dict[str, str] | None = None,
    path: str = "/v1/refunds",
    **fields: Any,
) -> Ask:
    """Return a refund of 54.00 USD of a charge. A field that is None is left out."""
    form = {"charge": "ch_1", "amount": 5400, "currency": "usd"} | fields
    named = {
        "Authorization": f"Bearer {credential}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Doubtless-Event-Id": event,
        "Idempotency-Key": key,
        "Doubtless-Retry-Of": retry_of,
        **(headers or {}),
    }
    return Ask(
        provider="stripe",
        method="POST",
        target=path,
        headers=_raw(named),
        body=urlencode({n: v for n, v in form.items() if v is not None}).encode(),
        base=BASE,
        wait_ms=wait_ms,
    )


def unnamed(number: int = 1, **rest: Any) -> Ask:
    """Return a refund that names no event; only the key tells that an SDK made it."""
    return refund(None, key=f"stripe-node-retry-{number}", **rest)


def mail(event: str | None = None, *, credential: str = "re_1", **fields: Any) -> Ask:
    """Return a message."""
    message = {"from": "a@x.com", "to": ["b@y.com"], "subject": "Your invoice", "text": "It is attached."} | fields
    named = {
        "Authorization": f"Bearer {credential}",
        "Content-Type": "application/json",
        "Doubtless-Event-Id": event,
    }
    return Ask("resend", "POST", "/emails", _raw(named), msgspec.json.encode(message), BASE)


def _raw(named: dict[str, str | None]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((n.encode(), v.encode("latin-1")) for n, v in named.items() if v is not None)


def refunded(refund_id: str = "re_1", amount: int = 5400, **rest: Any) -> Script:
    """Stripe made the refund, and says so."""
    return answers(200, refund_object(refund_id, amount), **rest)


def refund_object(refund_id: str = "re_1", amount: int = 5400, charge: str = "ch_1") -> dict[str, object]:
    """Return a refund as Stripe shows it."""
    return {
        "id": refund_id,
        "object": "refund",
        "amount": amount,
        "currency": "usd",
        "charge": charge,
        "status": "succeeded",
    }


def refused(status: int = 402, kind: str = "card_error", code: str = "card_declined", **rest: Any) -> Script:
    """Stripe says no; the default is a refusal that came of trying."""
    return answers(status, {"error": {"type": kind, "code": code, "message": "No."}}, **rest)


def invalid(**rest: Any) -> Script:
    """Stripe says no before it did anything."""
    return refused(400, "invalid_request_error", "parameter_invalid_integer", **rest)


def limited(**rest: Any) -> Script:
    """Stripe's rate limiter: nothing ran."""
    return refused(429, "rate_limit_error", "rate_limit", **rest)


def broken(**rest: Any) -> Script:
    """Stripe fails, and may have acted before."""
    return refused(500, "api_error", "", **rest)


def mailed(mail_id: str = "3f2b1c00-0000-4000-8000-000000000001", **rest: Any) -> Script:
    """Resend took the message."""
    return answers(200, {"id": mail_id}, headers=(), **rest)
