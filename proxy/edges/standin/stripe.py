"""The stand-in for Stripe's v1 API: who asks, the idempotency layer, and which endpoint runs.

What it does is what the facts say (docs.stripe.com pages, read 2026-11-30), and where they are silent, the
less kind of the readings: it must not hide a duplicate that Stripe might let through.
"""

import base64
import binascii
import json
import re
from collections.abc import Hashable
from typing import Final

from msgspec import Struct

from proxy.core.http import Headers
from proxy.edges.standin import stripe_intents as intents
from proxy.edges.standin import stripe_money as money
from proxy.edges.standin import stripe_records as records
from proxy.edges.standin.keys import Clash, Keys
from proxy.edges.standin.provider import Call, Caller, Clock, Identifiers, Json, Reply, Work, dump, http_date
from proxy.edges.standin.stripe_errors import Refused, forced_error, invalid
from proxy.edges.standin.stripe_forms import form
from proxy.edges.standin.stripe_reads import expanded, read
from proxy.edges.standin.stripe_world import Act, Forced, Handler, Origin, World
from proxy.edges.standin.wire import Answer

VERSION: Final = "2026-10-28.endive"  # What both SDKs send: facts, "Versions tested".
KEY_LENGTH_MAX: Final = 255  # docs.stripe.com/api/idempotent_requests: facts, section 1.
_SECRET: Final = re.compile(r"(sk|rk)_(test|live)_\w+")  # facts, section 3, keys.
_ID: Final = r"([^/]+)"
ROUTES: Final[tuple[tuple[str, re.Pattern[str], Handler], ...]] = tuple(
    (method, re.compile(pattern), handler)
    for method, pattern, handler in (
        ("POST", "/v1/refunds", money.create_refund),
        ("POST", f"/v1/refunds/{_ID}", money.update_refund),
        ("POST", f"/v1/refunds/{_ID}/cancel", money.cancel_refund),
        ("POST", "/v1/charges", money.create_charge),
        ("POST", f"/v1/charges/{_ID}/capture", money.capture_charge),
        ("POST", f"/v1/charges/{_ID}/refund", money.refund_charge_legacy),
        ("POST", f"/v1/charges/{_ID}/refunds", money.refund_charge),
        ("POST", "/v1/payment_intents", intents.create_intent),
        ("POST", f"/v1/payment_intents/{_ID}/confirm", intents.confirm_intent),
        ("POST", f"/v1/payment_intents/{_ID}/capture", intents.capture_intent),
        ("POST", f"/v1/payment_intents/{_ID}/cancel", intents.cancel_intent),
        ("POST", "/v1/customers", records.create_customer),
        ("POST", "/v1/transfers", records.create_transfer),
        ("POST", f"/v1/transfers/{_ID}/reversals", records.reverse_transfer),
        ("POST", "/v1/payouts", records.create_payout),
        ("POST", f"/v1/payouts/{_ID}/cancel", records.cancel_payout),
        ("POST", "/v1/invoices", records.create_invoice),
        ("POST", f"/v1/invoices/{_ID}/pay", records.pay_invoice),
        ("POST", "/v1/(.+)", records.write_other),
        ("DELETE", "/v1/(.+)", records.delete_other),
    )
)


class _Asked(Struct, frozen=True):
    """A request that was let in."""

    call: Call
    world: World
    request_id: str
    key: str | None  # As it counts: only on a POST.


class Stripe:
    """Every account and mode, and the keys of each."""

    name = "stripe"
    mark = frozenset({b"request-id", b"original-request"})

    def __init__(self, *, clock: Clock, ids: Identifiers, idempotency: bool) -> None:
        self._clock = clock
        self._ids = ids
        self._idempotency = idempotency
        self.reset()

    def reset(self) -> None:
        """Forget every object, event and key. What is in flight ends in what was forgotten."""
        self.forced = Forced()
        self._worlds: dict[tuple[str, str | None], World] = {}
        self._keys = Keys(self._clock)

    def world(self, mode: str = "test", account: str | None = None) -> World:
        """Return the world of an account in a mode; each is apart from every other."""
        found = self._worlds.get((mode, account))
        if found is None:
            found = World(mode=mode, account=account, ids=self._ids, clock=self._clock, forced=self.forced)
            self._worlds[mode, account] = found
        return found

    @property
    def worlds(self) -> tuple[World, ...]:
        """Every world that has been asked for."""
        return tuple(self._worlds.values())

    def caller(self, call: Call) -> Caller:
        """Say who asks."""
        secret = _secret(call)
        known = _SECRET.fullmatch(secret) if secret else None
        mode = known[2] if known else None
        return Caller(key=call.header(b"idempotency-key"), account=call.header(b"stripe-account"), mode=mode)

    def begin(self, call: Call) -> Reply | Work:
        """Let the request in, or not; claim its key."""
        request_id = self._ids.request()
        try:
            asked = self._asked(call, request_id)
        except Refused as refused:
            return self._refused(call, refused, request_id)
        if not (asked.key and self._idempotency):
            return Work(lambda: self._run(asked), lambda _: None)
        scope, fingerprint = (asked.world.mode, asked.world.account), _fingerprint(call)
        slot = self._keys.claim(scope, asked.key, fingerprint)
        if isinstance(slot, Clash):
            return self._refused(call, _CLASHES[slot], request_id)
        if isinstance(slot, Reply):
            return self._replayed(call, slot, request_id)
        keys, key = self._keys, asked.key
        return Work(lambda: self._run(asked), lambda reply: keys.settle(scope, key, slot, reply))

    def refusal(self, call: Call, status: int) -> Reply:
        """Return Stripe's own answer of a status."""
        request_id = self._ids.request()
        return Reply(self._answer(call, status, {"error": forced_error(status)}, request_id), request_id=request_id)

    def keeps(self, status: int, *, executed: bool) -> bool:
        """Saved once execution began, 500 included; not 429 nor 401 (limiter and keys come first), nor 409."""
        return status not in (401, 403, 409, 429) and (executed or status == 402 or status >= 500)

    def answered(self, call: Call, reply: Reply) -> None:
        """Stripe's request log is not in its API (facts, section 3)."""

    def _asked(self, call: Call, request_id: str) -> _Asked:
        """Check the credential, before anything is looked up."""
        secret = _secret(call)
        if not secret:
            raise invalid("You did not provide an API key.", status=401)
        known = _SECRET.fullmatch(secret)
        if known is None:
            raise invalid("Invalid API Key provided.", status=401)
        if known[1] == "rk" and "noread" in secret and call.is_read:
            raise invalid("The provided key does not have the required permissions for this endpoint.", status=403)
        key = call.header(b"idempotency-key") if call.method == "POST" else None  # Elsewhere it has no effect.
        if key and len(key) > KEY_LENGTH_MAX:
            raise invalid(f"Idempotency keys are at most {KEY_LENGTH_MAX} characters long.")
        return _Asked(call, self.world(known[2], call.header(b"stripe-account")), request_id, key)

    def _run(self, asked: _Asked) -> Reply:
        """Run the endpoint."""
        call = asked.call
        try:
            if call.is_read:
                body = read(asked.world, call.path, call.query)
                answer = self._answer(call, 200, body, asked.request_id)
                return Reply(answer, object_id=body.get("id"), request_id=asked.request_id)
            return self._execute(asked)
        except Refused as refused:
            return self._refused(call, refused, asked.request_id)

    def _execute(self, asked: _Asked) -> Reply:
        call = asked.call
        handler, arguments = _route(call)
        act = Act(asked.world, form(call.body), Origin(asked.request_id, asked.key))
        result = handler(act, *arguments)
        answer = self._answer(call, 200, expanded(asked.world, result.body, act.params), asked.request_id)
        return Reply(answer, executed=True, kept=True, object_id=result.object_id, request_id=asked.request_id)

    def _refused(self, call: Call, refused: Refused, request_id: str) -> Reply:
        answer = self._answer(call, refused.status, {"error": refused.error}, request_id)
        return Reply(answer, kept=refused.executing, request_id=request_id)

    def _replayed(self, call: Call, first: Reply, request_id: str) -> Reply:
        """Replay the first status and body, marked as such (docs.stripe.com/error-low-level: facts, section 1)."""
        original = (first.request_id or "").encode()
        marks = ((b"Idempotent-Replayed", b"true"), (b"Original-Request", original))
        headers = (*self._headers(call, request_id), *marks)
        answer = Answer(first.answer.status, headers, first.answer.body)
        return Reply(answer, replayed=True, object_id=first.object_id, request_id=request_id)

    def _answer(self, call: Call, status: int, body: Json, request_id: str) -> Answer:
        return Answer(status, self._headers(call, request_id), dump(body, indent=2))

    def _headers(self, call: Call, request_id: str) -> Headers:
        headers = [
            (b"Server", b"nginx"),
            (b"Date", http_date(self._clock())),
            (b"Content-Type", b"application/json"),
            (b"Cache-Control", b"no-cache, no-store"),
            (b"Request-Id", request_id.encode()),
            (b"Stripe-Version", (call.header(b"stripe-version") or VERSION).encode("latin-1")),
        ]
        key = call.header(b"idempotency-key")
        if key is not None:
            headers.append((b"Idempotency-Key", key.encode("latin-1")))
        return tuple(headers)


_CLASHES: Final = {
    Clash.IN_FLIGHT: Refused(409, forced_error(409), executing=False),
    Clash.OTHER_PAYLOAD: Refused(
        400,
        {
            "type": "idempotency_error",
            "message": "This idempotency key was first used with other parameters, and serves only those.",
        },
        executing=False,
    ),
}


def _secret(call: Call) -> str | None:
    """Return the API key: a bearer token, or the user name of Basic (facts, section 3)."""
    scheme, _, value = (call.header(b"authorization") or "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode("latin-1").partition(":")[0] or None
    except binascii.Error:
        return None


def _fingerprint(call: Call) -> Hashable:
    """What has to be the same for a key to be the same request: the endpoint and its parameters."""
    return call.path, json.dumps(form(call.body), sort_keys=True)


def _route(call: Call) -> tuple[Handler, tuple[str, ...]]:
    for method, pattern, handler in ROUTES:
        found = pattern.fullmatch(call.path)
        if found and method == call.method:
            return handler, found.groups()
    raise invalid(f"Unrecognized request URL ({call.method}: {call.path}).", status=404)
