"""The clients that agents use, each called as its README line says, at its own default number of retries.

A client is a function (base, wish) → what the library returns, or whatever the library raises; `Client.call` turns both
into one `Told`. Synchronous libraries run in a thread. `clients_node` has those of Node.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import httpx
import openai
import requests
import resend
import stripe
from urllib3.util.retry import Retry

from tests.sdk.stage import CHARGE, RESEND_KEY, STRIPE_KEY, Stage

T = TypeVar("T")
REFUND_MINOR: Final = 5400
EVENT_HEADER: Final = "Doubtless-Event-Id"
RESENT: Final = (429, 500, 502, 503, 504)
ROUTE: Final = {"stripe": "stripe.refund.create", "resend": "resend.email.send"}
WRITE: Final = {"stripe": "/v1/refunds", "resend": "/emails"}


_THREADS: Final = ThreadPoolExecutor(32)  # The event loop's own has few, and the proxy resolves names in them.


async def in_a_thread(run: Callable[..., T], *arguments: Any) -> T:
    """Run what blocks."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, run, *arguments)


@dataclass(frozen=True)
class Wish:
    """What the agent wants: 54.00 back, or a mail sent; `reworded` means the same, `other` is something else."""

    event: str | None = None
    reworded: bool = False
    other: bool = False

    def refund(self) -> dict[str, Any]:
        form = {"charge": CHARGE, "amount": 1000 if self.other else REFUND_MINOR}
        return form | ({"reason": "requested_by_customer"} if self.reworded else {})

    def mail(self) -> dict[str, Any]:
        return {
            "from": "Acme <hello@acme.example>",
            "to": ["ada@example.com"],
            "subject": "Your invoice" if self.other else "Your refund",
            "html": "<p>It is on its way, Ada.</p>" if self.reworded else "<p>It is on its way.</p>",
        }

    def headers(self) -> dict[str, str]:
        return {EVENT_HEADER: self.event} if self.event else {}


@dataclass(frozen=True)
class Told:
    """What a call came to. `text` is what the library's own error says; None where there was none."""

    made: Any = None
    text: str | None = None
    status: int | None = None
    error: str = ""
    code: str | None = None  # Of an answer of ours, and which action it is about, where the library shows them.
    action_id: str | None = None

    @property
    def object_id(self) -> str:
        """The ID of the object that the library returned."""
        return str(self.made["id"])


def speaks_to_the_model(told: Told) -> bool:
    """Is it our message that the library hands over: what may have happened, and what not to do?"""
    text = told.text or ""
    return told.made is None and "Doubtless: " in text and "even if you are told to retry" in text


# ── Stripe ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def stripe_module(base: str, wish: Wish) -> Any:
    """The module's API: two retries."""
    stripe.api_key, stripe.api_base = STRIPE_KEY, f"{base}/stripe"
    return stripe.Refund.create(**wish.refund(), **_stripe_options(wish))


async def stripe_module_async(base: str, wish: Wish) -> Any:
    """The same in asyncio."""
    stripe.api_key, stripe.api_base = STRIPE_KEY, f"{base}/stripe"
    if stripe.default_http_client is None:  # One for the event loop of the test, which the test's fixture closes.
        stripe.default_http_client = stripe.HTTPXClient(timeout=30)
    return await stripe.Refund.create_async(**wish.refund(), **_stripe_options(wish))


def stripe_client(base: str, wish: Wish) -> Any:
    """A client object: no retries by default."""
    client = stripe.StripeClient(STRIPE_KEY, base_addresses={"api": f"{base}/stripe"})
    params: Any = wish.refund()
    options: Any = _stripe_options(wish)
    return client.v1.refunds.create(params, options)


def _stripe_options(wish: Wish) -> dict[str, Any]:
    return {"headers": wish.headers()} if wish.event else {}


# ── Resend ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def resend_module(base: str, wish: Wish) -> Any:
    """The module's API. It takes no headers: the event ID goes where it takes an idempotency key."""
    resend.api_key, resend.api_url = RESEND_KEY, f"{base}/resend"
    return resend.Emails.send(*_mail_arguments(wish))


async def resend_module_async(base: str, wish: Wish) -> Any:
    """The same in asyncio."""
    resend.api_key, resend.api_url = RESEND_KEY, f"{base}/resend"
    return await resend.Emails.send_async(*_mail_arguments(wish))


def _mail_arguments(wish: Wish) -> Any:
    return (wish.mail(), {"idempotency_key": wish.event}) if wish.event else (wish.mail(),)


# ── HTTP clients and others ───────────────────────────────────────────────────────────────────────────────────────────


def openai_client(base: str, wish: Wish) -> Any:
    """OpenAI's client, which obeys `x-should-retry`, sent to a path of Resend's: two retries."""
    with openai.OpenAI(api_key=RESEND_KEY, base_url=f"{base}/resend") as client:
        options: Any = {"headers": wish.headers()}
        return client.post("/emails", body=wish.mail(), options=options, cast_to=object)


def requests_plain(base: str, wish: Wish) -> Any:
    """`requests` as it is."""
    with requests.Session() as session:
        return _requests(session, base, wish)


def requests_resending(base: str, wish: Wish, *, raise_on_status: bool = True) -> Any:
    """`requests` as platform teams set it up: it repeats POSTs that were answered 429 or 5xx."""
    limits: Any = {"status_forcelist": RESENT, "allowed_methods": None, "raise_on_status": raise_on_status}
    retry = Retry(2, backoff_factor=0.1, **limits)
    with requests.Session() as session:
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        return _requests(session, base, wish)


def _requests(session: requests.Session, base: str, wish: Wish) -> Any:
    session.trust_env = False
    headers = {"Authorization": f"Bearer {STRIPE_KEY}", **wish.headers()}
    return session.post(f"{base}/stripe/v1/refunds", data=wish.refund(), headers=headers, timeout=30)


async def httpx_plain(base: str, wish: Wish) -> Any:
    """`httpx` as it is."""
    headers = {"Authorization": f"Bearer {RESEND_KEY}", **wish.headers()}
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(f"{base}/resend/emails", json=wish.mail(), headers=headers)


# ── One face for all ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Client:
    """One library. `resends`: it repeats by itself what is answered 5xx. `makes`: the type of what it returns."""

    name: str
    provider: Literal["stripe", "resend"]
    run: Callable[[str, Wish], Any | Awaitable[Any]]
    resends: bool = False
    makes: type = dict
    needs: tuple[str, ...] = ()
    own_port: bool = False  # It cannot take a path: it speaks to the provider's own port.

    async def call(self, stage: Stage, wish: Wish = Wish(), base: str | None = None) -> Told:
        """Call once, through the tap before the proxy unless told otherwise."""
        if base is None:
            base = stage.stripe_door.url if self.own_port else stage.door.url
        try:
            if inspect.iscoroutinefunction(self.run):
                made = await self.run(base, wish)
            else:
                made = await in_a_thread(self.run, base, wish)
        except (stripe.StripeError, resend.exceptions.ResendError, openai.APIError, requests.RequestException) as error:
            return _of_error(error)
        if isinstance(made, requests.Response | httpx.Response):
            return _of_response(made)
        return made if isinstance(made, Told) else Told(made=made)


def _of_error(error: Exception) -> Told:
    text, name = str(error), type(error).__name__
    match error:
        case stripe.StripeError(http_status=int(status), headers=headers, error=said):
            code = said.code if said is not None else None
            return Told(None, text, status, name, code, _action_id(headers))
        case resend.exceptions.ResendError(code=status, headers=headers, error_type=code):
            return Told(None, text, int(status), name, code, _action_id(headers))
        case openai.APIStatusError(status_code=status, response=response, code=code):
            return Told(None, text, status, name, code, _action_id(response.headers))
        case _:
            return Told(None, text, None, name)


def _action_id(headers: Mapping[str, str] | None) -> str | None:
    """Return the header; resend-python's are a plain dict, in lower case where it is asynchronous."""
    return next((value for name, value in (headers or {}).items() if name.lower() == "doubtless-action-id"), None)


def _of_response(response: requests.Response | httpx.Response) -> Told:
    body = response.json()
    if response.status_code < 400:
        return Told(made=body)
    text = body["message"] if "message" in body else body["error"]["message"]
    return Told(None, text, response.status_code, "", body.get("name"), _action_id(response.headers))


PYTHON: Final = (
    Client("stripe-python", "stripe", stripe_module, resends=True, makes=stripe.Refund),
    Client("stripe-python-async", "stripe", stripe_module_async, resends=True, makes=stripe.Refund),
    Client("StripeClient", "stripe", stripe_client, makes=stripe.Refund),
    Client("resend-python", "resend", resend_module),
    Client("resend-python-async", "resend", resend_module_async),
    Client("openai-python", "resend", openai_client, resends=True),
    Client("requests", "stripe", requests_plain),
    Client("requests-resending", "stripe", requests_resending, resends=True),
    Client("httpx", "resend", httpx_plain),
)
