"""Signed webhook deliveries, as the providers make them. Nothing is sent from here: a test posts what it gets."""

import base64
import binascii
import hmac
from hashlib import sha256
from typing import Final

from proxy.edges.standin.provider import Json, dump

Delivery = tuple[dict[str, str], bytes]
"""Headers and body."""

_MAIL_FIELDS: Final = ("message_id", "created_at", "from", "to", "subject")


def stripe_delivery(event: Json, *, secret: str, timestamp: int) -> Delivery:
    """Sign an event as Stripe does: HMAC-SHA256 by the whole secret over `{t}.{raw body}`.

    Facts, section 4 (stripe-python 16.1.0, stripe/_webhook.py).
    """
    body = dump(event, indent=2)
    signature = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, sha256).hexdigest()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": f"t={timestamp},v1={signature}",
        "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
    }
    return headers, body


def resend_delivery(payload: Json, *, secret: str, timestamp: int, delivery_id: str) -> Delivery:
    """Sign a payload as Svix does: base64 of HMAC-SHA256 over `{id}.{timestamp}.{raw body}`.

    The secret is `whsec_` and base64 (facts, section 5: resend/webhooks/_webhooks.py).
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("a Svix secret is whsec_ and base64") from None
    body = dump(payload)
    signed = f"{delivery_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    headers = {
        "content-type": "application/json",
        "svix-id": delivery_id,
        "svix-timestamp": str(timestamp),
        "svix-signature": f"v1,{signature}",
    }
    return headers, body


def email_payload(email: Json, event_type: str, created_at: str) -> Json:
    """Return the payload about an email. Tags come back in webhooks, as an object, and headers as a list."""
    data: Json = {"email_id": email["id"]} | {name: email[name] for name in _MAIL_FIELDS}
    if email["tags"]:
        data["tags"] = {tag["name"]: tag["value"] for tag in email["tags"]}
    if email["headers"]:
        data["headers"] = [{"name": name, "value": value} for name, value in email["headers"].items()]
    return {"type": event_type, "created_at": created_at, "data": data}
