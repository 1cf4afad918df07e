"""The closed set of answers that the proxy makes itself (CONTRACT 3).

Their text speaks to a language model whose framework adds "please try again": it says what may already have happened,
that the tool must not be called again for it, what to say instead, and where to look.
"""

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from proxy.core import money
from proxy.core.model import Action, Cause, Effect, Status
from proxy.core.retirement import Outcome


class Retry(StrEnum):
    """The value of `Doubtless-Retry`: what may be done about it."""

    NEVER = "never"
    SAFE = "safe"
    NEW_RUN = "new-run"
    NEW_EVENT = "new-event"


class Code(StrEnum):
    """Every answer of our own."""

    OUTCOME_UNKNOWN = "outcome_unknown"
    ACTION_IN_FLIGHT = "action_in_flight"
    SUSPECTED_DUPLICATE = "suspected_duplicate"
    ALREADY_SETTLED = "already_settled"
    CREDENTIAL_MISMATCH = "credential_mismatch"
    PAYLOAD_MISMATCH = "payload_mismatch"
    EVENT_ID_REQUIRED = "event_id_required"
    RETRY_OF_INVALID = "retry_of_invalid"
    BAD_REQUEST = "bad_request"
    UNKNOWN_PROVIDER = "unknown_provider"
    RETRY_OF_REQUIRED = "retry_of_required"
    TOO_EARLY = "too_early"
    LIMIT_EXHAUSTED = "limit_exhausted"
    AMOUNT_UNDETERMINABLE = "amount_undeterminable"
    EGRESS_DENIED = "egress_denied"
    PAUSED = "paused"
    BODY_TOO_LARGE = "body_too_large"
    NOT_SENT = "not_sent"
    READ_FAILED = "read_failed"
    STORE_UNAVAILABLE = "store_unavailable"
    DRAINING = "draining"
    OVERLOADED = "overloaded"


class Kind(Struct, frozen=True):
    """The row of an answer: its HTTP status, what may be done, its title, and its error type of RFC 9209."""

    status: int
    retry: Retry
    title: str
    error: str


_NEVER, _SAFE = Retry.NEVER, Retry.SAFE
KINDS: Final = {
    Code.OUTCOME_UNKNOWN: Kind(423, _NEVER, "Outcome unknown", "proxy_internal_response"),
    Code.ACTION_IN_FLIGHT: Kind(423, _NEVER, "Action in flight", "proxy_internal_response"),
    Code.SUSPECTED_DUPLICATE: Kind(423, Retry.NEW_EVENT, "Suspected duplicate", "http_request_denied"),
    Code.ALREADY_SETTLED: Kind(423, _NEVER, "Already settled", "proxy_internal_response"),
    Code.CREDENTIAL_MISMATCH: Kind(423, _NEVER, "Credential mismatch", "http_request_denied"),
    Code.PAYLOAD_MISMATCH: Kind(422, Retry.NEW_EVENT, "Payload mismatch", "http_request_denied"),
    Code.EVENT_ID_REQUIRED: Kind(400, _NEVER, "Event ID required", "http_request_error"),
    Code.RETRY_OF_INVALID: Kind(400, _NEVER, "Retry-Of invalid", "http_request_error"),
    Code.BAD_REQUEST: Kind(400, _NEVER, "Bad request", "http_request_error"),
    Code.UNKNOWN_PROVIDER: Kind(404, _NEVER, "Unknown provider", "destination_not_found"),
    Code.RETRY_OF_REQUIRED: Kind(409, Retry.NEW_RUN, "Retry-Of required", "http_request_denied"),
    Code.TOO_EARLY: Kind(409, Retry.NEW_RUN, "Too early", "http_request_denied"),
    Code.LIMIT_EXHAUSTED: Kind(403, _NEVER, "Limit exhausted", "http_request_denied"),
    Code.AMOUNT_UNDETERMINABLE: Kind(403, _NEVER, "Amount undeterminable", "http_request_denied"),
    Code.EGRESS_DENIED: Kind(403, _NEVER, "Egress denied", "http_request_denied"),
    Code.PAUSED: Kind(403, _NEVER, "Paused", "http_request_denied"),
    Code.BODY_TOO_LARGE: Kind(413, _NEVER, "Body too large", "http_request_error"),
    Code.NOT_SENT: Kind(502, _SAFE, "Not sent", "connection_refused"),
    Code.READ_FAILED: Kind(502, _SAFE, "Read failed", "http_response_incomplete"),
    Code.STORE_UNAVAILABLE: Kind(503, _SAFE, "Store unavailable", "proxy_internal_error"),
    Code.DRAINING: Kind(503, _SAFE, "Draining", "proxy_internal_error"),
    Code.OVERLOADED: Kind(503, _SAFE, "Overloaded", "connection_limit_reached"),
}

# What an unknown outcome was on the wire, in the words of RFC 9209, section 2.3.
_UNKNOWN_ERRORS: Final = {
    Cause.TIMEOUT: "http_response_timeout",
    Cause.CONNECTION_LOST: "connection_terminated",
    Cause.MALFORMED_RESPONSE: "http_protocol_error",
    Cause.PROXY_RESTART: "proxy_internal_error",
    Cause.SHUTDOWN: "proxy_internal_error",
}


class Own(Struct, frozen=True):
    """An answer of our own, ready to be written: status, headers in order, JSON body."""

    code: Code
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def own(
    code: Code,
    message: str,
    *,
    view: "dict[str, object] | None" = None,
    action: Action | None = None,
    error: str | None = None,
    folded: bool = False,
) -> Own:
    """Make an answer. `message` goes on after `Doubtless: `; `view` is the `doubtless` object, if it may be shown.

    With `action`, the answer names it in the headers: never where another credential asked.
    """
    kind = KINDS[code]
    text = f"Doubtless: {message}"
    body: dict[str, object] = {
        "error": {"type": "api_error", "code": code.value, "message": text},
        "statusCode": kind.status,
        "name": code.value,
        "message": text,
        "type": f"urn:doubtless:problem:{code.value}",
        "title": kind.title,
        "status": kind.status,
        "detail": text,
        "doubtless": (view or {}) | {"retry": kind.retry.value},
    }
    return Own(code, kind.status, tuple(_headers(code, kind, action, error, folded)), msgspec.json.encode(body))


def _headers(code: Code, kind: Kind, action: Action | None, error: str | None, folded: bool) -> "list[tuple[str, str]]":
    if error is None and code is Code.OUTCOME_UNKNOWN and action is not None and action.cause is not None:
        error = _UNKNOWN_ERRORS.get(action.cause)
    proxy_status = f'doubtless; error={error or kind.error}; details="{code.value}"'
    if action is not None and action.upstream_status is not None:
        proxy_status += f"; received-status={action.upstream_status}"
    headers = [("Content-Type", "application/json"), ("Proxy-Status", proxy_status)]
    if action is not None:
        headers += action_headers(action, kind.retry)
        if folded:
            headers += [("Doubtless-Folded-Into", action.action_id)]
    else:
        headers.append(("Doubtless-Retry", kind.retry.value))
    if kind.retry is not Retry.SAFE:
        headers += [("Stripe-Should-Retry", "false"), ("x-should-retry", "false")]
    return headers


def action_headers(action: Action, retry: Retry) -> "list[tuple[str, str]]":
    """Return the headers that a governed write's answer bears."""
    return [
        ("Doubtless-Action-Id", action.action_id),
        ("Doubtless-Status", action.status.value),
        ("Doubtless-Grade", action.grade.value),
        ("Doubtless-Retry", retry.value),
    ]


def retry_of_answer(action: Action) -> Retry:
    """Return what may be done after an answer of the provider's own."""
    if action.status is not Status.FAILED:
        return Retry.NEVER
    return Retry.SAFE if action.cause is Cause.NOT_EXECUTED else Retry.NEW_RUN


# ── Words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def what(action: Action) -> str:
    """Return what the action is, for people: `this stripe.refund.create of 54.00 USD`."""
    of = ""
    if action.effect is Effect.MONEY and action.amount.minor is not None:
        of = f" of {money.human(action.amount)}"
    return f"this {action.identity.route}{of}"


_AGAIN: Final = (
    "Do not call this tool again for it, neither with the same nor with changed arguments, even if you are told to "
    "retry"
)


def unknown_text(action: Action, status_url: str) -> str:
    """Return what an agent is told of an unknown outcome."""
    return (
        f"the outcome of {what(action)} is unknown: it may already have happened, and nothing is sent again while that "
        f"is being settled from the provider's own record. {_AGAIN}. Say that it may already have been done and is "
        f"being checked; do not say that it failed. Its state: GET {status_url}"
    )


def in_flight_text(action: Action, status_url: str) -> str:
    """Return what an agent is told of an action whose answer is still awaited."""
    return f"{what(action)} is still in flight. {_AGAIN}. Ask for its state instead: GET {status_url}"


def settled_text(action: Action, status_url: str) -> str:
    """Return what an agent is told of a settled action that has no response to show."""
    happened = action.status is Status.CONFIRMED
    said = "has already happened" if happened else "is already settled"
    return (
        f"{what(action)} {said}; there is no response of the provider's to show. {_AGAIN}. Its state: GET {status_url}"
    )


def retired_text(route: str, outcome: Outcome) -> str:
    """Return what an agent is told whose request was settled so long ago that its record has left the store."""
    said = "happened" if outcome is Outcome.HAPPENED else "was settled as not having happened"
    return (
        f"this {route} was already asked for, and {said}, so long ago that its record has been put away; nothing was "
        f"sent. {_AGAIN}. A second intended action needs an event ID of its own (for example ticket-17/2)."
    )


def twin_text(action: Action, status_url: str) -> str:
    """Return what an agent is told whose request looks like a reworded retry."""
    return (
        f"this looks like {what(action)} again, whose outcome the agent has not been shown or nobody knows yet: "
        f"nothing was sent. {_AGAIN}. If a second one is really intended, it needs an event ID of its own "
        f"(Doubtless-Event-Id: for example ticket-17/2). The first one's state: GET {status_url}"
    )


def mismatch_text(names: "list[str]") -> str:
    """Return what an agent is told whose request differs from the first of its event; names only, never values."""
    differs = f" It differs in: {', '.join(names)}." if names else ""
    return (
        "another request was already made for this event and action type, with other contents; nothing was sent."
        f"{differs} Do not change the arguments to get through. A second intended action needs an event ID of its own "
        "(for example ticket-17/2) or an extension of its type (Doubtless-Action-Type: /second)."
    )


def not_sent_text(action: Action | None) -> str:
    """Return what an agent is told of a request that provably did not leave."""
    subject = what(action) if action is not None else "the request"
    return f"no connection to the provider could be made, and nothing of {subject} was sent. It is safe to try again."


def retry_of_text(action: Action) -> str:
    """Return what an agent is told of an action that failed, and whose repetition must be asked for by name."""
    return (
        f"{what(action)} was settled as not having happened; nothing was sent now. To run it again on purpose, send "
        f"Doubtless-Retry-Of: {action.action_id} with the request; never do so to get around this answer."
    )


def too_early_text(action: Action, until: str) -> str:
    """Return what an agent is told whose new run would start before the last dispatch is over."""
    return (
        f"{what(action)} was settled, but its last dispatch may still be on its way until {until}; nothing was sent. A "
        "new run may start after that."
    )


def refused_text(code: Code, action: Action) -> str:
    """Return what an agent is told of an action that may not be sent."""
    why = {
        Code.AMOUNT_UNDETERMINABLE: "a limit covers it, and what it moves can be told neither from the request nor "
        "from the provider",
        Code.PAUSED: "actions of its type are paused by an operator",
    }.get(code, "a shared limit has no room for it")
    return (
        f"{what(action)} was not sent: {why}. Nothing happened. Do not try to get around it with changed arguments; "
        "ask a person."
    )
