"""An agent with an ordinary HTTP client, and providers that only their adapter file knows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.sdk.stage import CHARGE, RESEND_KEY, STRIPE_KEY, Stage

REFUND: Final = {"charge": CHARGE, "amount": "5400"}
MAIL: Final[dict[str, Any]] = {
    "from": "Acme <hello@acme.example>",
    "to": ["ada@example.com"],
    "subject": "Your refund",
    "html": "<p>It is on its way.</p>",
}

GMAIL: Final = """
schema = 1
[provider]
name = "gmail"
hosts = ["gmail.googleapis.com"]
upstream = "https://gmail.googleapis.com"

[[action]]
type = "message.send"
method = "POST"
path = "/gmail/v1/users/{user}/messages/send"
effect = "message"
tier = "blind"
object_id = "/id"
"""

TWILIO: Final = """
schema = 1
[provider]
name = "twilio"
hosts = ["api.twilio.com"]
upstream = "https://api.twilio.com"

[key]
header = "I-Twilio-Idempotency-Token"
max_length = 255
retention = "24h"
where = [{ methods = ["POST"], path = "/2010-04-01/*" }]
source = "https://github.com/twilio/twilio-ruby/issues/519, read 2026-11-30"

[[action]]
type = "message.create"
method = "POST"
path = "/2010-04-01/Accounts/{account}/Messages.json"
effect = "message"
tier = "blind"
object_id = "/sid"
"""


def own_provider(folder: Path, name: str, text: str, port: int) -> dict[str, str]:
    """Return the settings of a provider of the user's own, whose adapter file lies in the folder."""
    path = folder / f"{name}.toml"
    path.write_text(text, "utf-8")
    prefix = f"PROVIDERS__{name.upper()}"
    return {f"{prefix}__ADAPTER": str(path), f"{prefix}__UPSTREAM": f"http://127.0.0.1:{port}"}


@dataclass
class Agent:
    """Sends requests to one sidecar, at `base`."""

    http: httpx.AsyncClient
    base: str

    async def send(
        self,
        provider: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        event: str | None = None,
        key: str | None = None,
        secret: str | None = None,
        **headers: str,
    ) -> httpx.Response:
        """Send one request; headers are written with `_` for `-`."""
        named = {"Doubtless-Event-Id": event, "Idempotency-Key": key}
        secret = secret or {"stripe": STRIPE_KEY, "resend": RESEND_KEY}.get(provider, "ya29.token")
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent |= {name: value for name, value in named.items() if value is not None}
        sent["Authorization"] = f"Bearer {secret}"
        url, form = f"{self.base}/{provider}{path}", provider in ("stripe", "twilio")
        if body is None or form:
            return await self.http.request(method, url, headers=sent, data=body)
        return await self.http.request(method, url, headers=sent, json=body)

    async def refund(self, amount: int = 5400, **more: Any) -> httpx.Response:
        """Ask Stripe for a refund."""
        return await self.send("stripe", "POST", "/v1/refunds", REFUND | {"amount": str(amount)}, **more)

    async def mail(self, html: str = "<p>It is on its way.</p>", **more: Any) -> httpx.Response:
        """Send a mail by Resend."""
        return await self.send("resend", "POST", "/emails", MAIL | {"html": html}, **more)


def agent_on(stage: Stage) -> Agent:
    """Return an agent before a sidecar in this process."""
    return Agent(stage.http, stage.door.url)


def told(answer: httpx.Response) -> dict[str, Any]:
    """Return the `doubtless` object of an answer of our own."""
    found: dict[str, Any] = answer.json()["doubtless"]
    return found


def is_unknown(answer: httpx.Response) -> bool:
    """Is the agent told, in a way that no client takes for success or for leave to repeat, that nobody knows?"""
    body = answer.json()
    return (
        answer.status_code == 423
        and body["error"]["code"] == "outcome_unknown"
        and body["type"] == "urn:doubtless:problem:outcome_unknown"
        and answer.headers["Doubtless-Retry"] == "never"
    )
