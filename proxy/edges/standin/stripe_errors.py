"""Stripe's refusals: status, error object, and whether the endpoint had begun to execute."""

from proxy.edges.standin.provider import Json


class Refused(Exception):
    """Stripe says no. `executing`: the endpoint had begun, so the answer is kept under the key.

    Facts, section 1 (docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-low-level): the first answer is
    saved once execution begins, an executed 400 among them; a failed validation of parameters is not. Where
    the line runs for an object that is not found is not documented; here the endpoint has begun to look.
    """

    def __init__(self, status: int, error: Json, *, executing: bool) -> None:
        super().__init__(error.get("message"))
        self.status = status
        self.error = {name: value for name, value in error.items() if value is not None}
        self.executing = executing


def invalid(
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    status: int = 400,
    executing: bool = False,
) -> Refused:
    """Return an `invalid_request_error`."""
    error = {"code": code, "message": message, "param": param, "type": "invalid_request_error"}
    return Refused(status, error, executing=executing)


def missing(param: str) -> Refused:
    """A required parameter is absent."""
    return invalid(f"Missing required param: {param}.", code="parameter_missing", param=param)


def unknown(param: str) -> Refused:
    """A parameter that the endpoint does not have."""
    return invalid(f"Received unknown parameter: {param}", code="parameter_unknown", param=param)


def bad_integer(param: str, value: str) -> Refused:
    """No integer, or one out of bounds."""
    return invalid(f"Invalid integer: {value}", code="parameter_invalid_integer", param=param)


def no_such(kind: str, object_id: str, *, param: str = "id", status: int = 404) -> Refused:
    """An object that does not exist in this account and mode."""
    message = f"No such {kind}: '{object_id}'"
    return invalid(message, code="resource_missing", param=param, status=status, executing=True)


def wrong_state(message: str, code: str | None = None, param: str | None = None) -> Refused:
    """The object is in no state for this: a 400 of an endpoint that executed."""
    return invalid(message, code=code, param=param, executing=True)


def declined(charge_id: str, code: str, *, intent: Json | None = None) -> Refused:
    """The card was declined: 402, kept under the key."""
    error = {
        "charge": charge_id,
        "code": "card_declined",
        "decline_code": code,
        "message": "Your card was declined.",
        "payment_intent": intent,
        "type": "card_error",
    }
    return Refused(402, error, executing=True)


FORCED: dict[int, Json] = {
    401: {"type": "invalid_request_error", "message": "Invalid API Key provided."},
    402: {"type": "card_error", "code": "card_declined", "message": "Your card was declined."},
    403: {"type": "invalid_request_error", "message": "This key does not have the required permissions."},
    404: {"type": "invalid_request_error", "code": "resource_missing", "message": "No such object."},
    409: {
        "type": "invalid_request_error",
        "code": "idempotency_key_in_use",
        "message": "Another request with this idempotency key is still in progress.",
    },
    429: {"type": "invalid_request_error", "code": "rate_limit", "message": "Too many requests."},
}
"""What Stripe says with a status that a fault forces on it; the rest by `forced_error`."""


def forced_error(status: int) -> Json:
    """Return the error object for a status that a fault asks for."""
    if status in FORCED:
        return FORCED[status]
    if status >= 500:
        return {"type": "api_error", "message": "An unknown error occurred."}
    return {"type": "invalid_request_error", "message": f"Refused with status {status}."}
