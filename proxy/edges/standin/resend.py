"""The stand-in for Resend: who asks, the idempotency of its two sending endpoints, and routing.

Sources: facts, section 5 (resend.com/docs pages and resend-openapi 1.5.0, read 2026-11-30).
"""

import json
from collections.abc import Hashable
from typing import Any, Final

from msgspec import Struct

from proxy.core.http import Headers
from proxy.edges.standin.keys import Clash, Keys, Slot
from proxy.edges.standin.provider import Call, Caller, Clock, Identifiers, Json, Reply, Work, dump, http_date
from proxy.edges.standin.resend_mail import Mailbox, Refused, Sent, refused
from proxy.edges.standin.wire import Answer

KEY_LENGTH_MAX: Final = 256  # resend.com/docs/dashboard/emails/idempotency-keys; resend-openapi: maxLength 256.
SENDING: Final = frozenset({"/emails", "/emails/batch"})  # Keys work on these alone.
_NAMES: Final = {
    400: "validation_error",
    401: "restricted_api_key",
    403: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    409: "concurrent_idempotent_requests",
    422: "validation_error",
    429: "rate_limit_exceeded",
}


class _Claim(Struct, frozen=True):
    scope: Hashable
    key: str
    slot: Slot


class Resend:
    """One account: every `re_…` key sees the same mail."""

    name = "resend"
    mark = frozenset({b"ratelimit-limit", b"ratelimit-remaining", b"ratelimit-reset"})

    def __init__(self, *, clock: Clock, ids: Identifiers, idempotency: bool) -> None:
        self._clock = clock
        self._ids = ids
        self._idempotency = idempotency
        self.reset()

    def reset(self) -> None:
        """Forget every email, log and key. What is in flight ends in what was forgotten."""
        self.mailbox = Mailbox(clock=self._clock, ids=self._ids)
        self._keys = Keys(self._clock)

    def caller(self, call: Call) -> Caller:
        """Say who asks: Resend knows neither modes nor connected accounts."""
        return Caller(key=call.header(b"idempotency-key"))

    def begin(self, call: Call) -> Reply | Work:
        """Let the request in, or not; claim its key."""
        try:
            self._admit(call)
            claim = self._claim(call)
        except Refused as refusal:
            return self._refused(refusal)
        if isinstance(claim, Reply):
            return Reply(self._answer(claim.answer.status, claim.answer.body), replayed=True, object_id=claim.object_id)
        mailbox = self.mailbox
        if claim is None:
            return Work(lambda: self._run(call, mailbox), lambda _: None)
        held, keys = claim, self._keys
        return Work(lambda: self._run(call, mailbox), lambda reply: keys.settle(held.scope, held.key, held.slot, reply))

    def refusal(self, call: Call, status: int) -> Reply:
        """Return Resend's own answer of a status."""
        name = _NAMES.get(status, "application_error" if status >= 500 else "validation_error")
        return self._refused(refused(status, name, f"{call.method} {call.path} was refused."))

    def keeps(self, status: int, *, executed: bool) -> bool:
        """Only what succeeded: whether an error is kept is not documented, and to keep it would be kind."""
        return executed and status < 300

    def answered(self, call: Call, reply: Reply) -> None:
        """Log the call, as `GET /logs` shows it; what had no valid key has no account to be logged in."""
        if _secret(call) and not call.path.startswith("/logs"):
            self.mailbox.log(call, reply.answer)

    def _admit(self, call: Call) -> None:
        secret = _secret(call)
        if not secret:
            raise refused(401, "missing_api_key", "Missing API key in the authorization header.")
        if not secret.startswith("re_"):
            raise refused(403, "invalid_api_key", "API key is invalid.")
        if secret.startswith("re_sending") and not (call.method == "POST" and call.path in SENDING):
            raise refused(401, "restricted_api_key", "This API key is restricted to only send emails.")

    def _claim(self, call: Call) -> _Claim | Reply | None:
        key = call.header(b"idempotency-key")
        if key is None or not self._idempotency or call.method != "POST" or call.path not in SENDING:
            return None
        if not 1 <= len(key) <= KEY_LENGTH_MAX:
            message = f"The idempotency key must be between 1 and {KEY_LENGTH_MAX} characters."
            raise refused(400, "invalid_idempotency_key", message)
        match self._keys.claim(call.path, key, _canonical(call.body)):
            case Clash.IN_FLIGHT:
                message = "Another request with this idempotency key is in progress."
                raise refused(409, "concurrent_idempotent_requests", message)
            case Clash.OTHER_PAYLOAD:
                message = "This idempotency key was used with another payload."
                raise refused(409, "invalid_idempotent_request", message)
            case Reply() as reply:
                return reply
            case slot:
                return _Claim(call.path, key, slot)

    def _run(self, call: Call, mailbox: Mailbox) -> Reply:
        try:
            sent = _route(call, mailbox)
        except Refused as refusal:
            return self._refused(refusal)
        answer = self._answer(200, dump(sent.body))
        return Reply(answer, executed=sent.executed, kept=sent.executed, object_id=sent.object_id)

    def _refused(self, refusal: Refused) -> Reply:
        return Reply(self._answer(refusal.status, dump(refusal.body)))

    def _answer(self, status: int, body: bytes) -> Answer:
        """Answer with the rate limit's headers, on errors too: they show that Resend itself answered."""
        headers: Headers = (
            (b"date", http_date(self._clock())),
            (b"content-type", b"application/json; charset=utf-8"),
            (b"ratelimit-limit", b"10"),
            (b"ratelimit-remaining", b"9"),
            (b"ratelimit-reset", b"1"),
        )
        return Answer(status, headers, body)


def _route(call: Call, mailbox: Mailbox) -> Sent:
    body = _parsed(call.body)
    match call.method, call.path.strip("/").split("/"):
        case "POST", ["emails"]:
            return mailbox.send(body)
        case "POST", ["emails", "batch"]:
            return mailbox.send_batch(body, permissive=call.header(b"x-batch-validation") == "permissive")
        case "GET" | "HEAD", ["emails"]:
            return mailbox.page("email", dict(call.query))
        case "GET" | "HEAD", ["emails", email_id]:
            return mailbox.retrieve(email_id)
        case "PATCH", ["emails", email_id]:
            return mailbox.reschedule(email_id, body)
        case "POST", ["emails", email_id, "cancel"]:
            return mailbox.cancel(email_id)
        case "GET" | "HEAD", ["logs"]:
            return mailbox.page("log", dict(call.query))
        case "GET" | "HEAD", ["logs", log_id]:
            return mailbox.retrieve_log(log_id)
        case method, [collection, *rest] if collection:
            return mailbox.other(method, collection, rest, body)
        case _:
            raise refused(404, "not_found", "The requested endpoint does not exist.")


def _secret(call: Call) -> str | None:
    scheme, _, value = (call.header(b"authorization") or "").partition(" ")
    return value.strip() or None if scheme.lower() == "bearer" else None


def _parsed(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return json.loads(body)
    except ValueError:
        raise refused(422, "validation_error", "The request body is no valid JSON.") from None


def _canonical(body: bytes) -> str:
    """What has to be the same for a key to be the same request."""
    value: Json | list[Json] = _parsed(body)
    return json.dumps(value, sort_keys=True)
