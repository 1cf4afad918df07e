"""Answers of providers for tests: real-looking, and as broken as a test wants them."""

import json
from typing import Final

from proxy.core.http import Answered, Headers, Integrity, Response

JSON: Final = (b"Content-Type", b"application/json")
STRIPE_MARK: Final = (b"Request-Id", b"req_Qz1w2e3r4t5y6u")
RESEND_MARK: Final = (b"ratelimit-limit", b"10")
REPLAYED: Final = (b"Idempotent-Replayed", b"true")


def headers(**named: str) -> Headers:
    """Return headers from names with underscores."""
    return tuple((name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in named.items())


def answered(
    status: int,
    body: object = b"",
    *further: tuple[bytes, bytes],
    integrity: Integrity = Integrity.WHOLE,
    upload_ended: bool = True,
) -> Answered:
    """Return an answer; a body that is no bytes is written as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answered(Response(status, b"", (JSON, *further), raw), integrity, upload_ended)


def stripe(
    status: int, body: object, *further: tuple[bytes, bytes], integrity: Integrity = Integrity.WHOLE
) -> Answered:
    """Return an answer that bears Stripe's mark."""
    return answered(status, body, STRIPE_MARK, *further, integrity=integrity)


def resend(status: int, body: object, *, integrity: Integrity = Integrity.WHOLE) -> Answered:
    """Return an answer that bears Resend's mark."""
    return answered(status, body, RESEND_MARK, integrity=integrity)


def stripe_error(type_: str, code: str | None = None, message: str = "No.") -> dict[str, object]:
    """Return Stripe's error object."""
    return {"error": {"type": type_, "message": message} | ({"code": code} if code else {})}


def resend_error(status: int, name: str) -> dict[str, object]:
    """Return Resend's error object."""
    return {"statusCode": status, "name": name, "message": "No."}


REFUND: Final = {
    "id": "re_1",
    "object": "refund",
    "amount": 5400,
    "charge": "ch_1",
    "created": 1791115200,
    "currency": "usd",
    "payment_intent": "pi_1",
    "status": "succeeded",
}
MAIL_ID: Final = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"
