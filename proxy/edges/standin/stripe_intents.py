"""PaymentIntents: created, confirmed, captured, canceled. Money moves only by a confirmation."""

from typing import Final

from proxy.edges.standin.provider import Json
from proxy.edges.standin.stripe_errors import declined, missing, wrong_state
from proxy.edges.standin.stripe_forms import integer, required, true
from proxy.edges.standin.stripe_money import DECLINES, decline, new_charge
from proxy.edges.standin.stripe_world import Act, Done, done

_NEEDS_A_PERSON: Final = frozenset({"pm_card_authenticationRequired", "pm_card_threeDSecureRequired"})
_CONFIRMABLE: Final = frozenset({"requires_confirmation", "requires_payment_method", "requires_action"})
_CANCELABLE: Final = _CONFIRMABLE | {"requires_capture", "processing"}


def create_intent(act: Act) -> Done:
    """POST /v1/payment_intents."""
    amount, currency = integer(act.params, "amount"), required(act.params, "currency").lower()
    method = act.params.get("payment_method")
    fields = act.fields("customer", "description", "transfer_group", "payment_method") | {"metadata": act.metadata}
    fields |= {
        "amount": amount,
        "amount_capturable": 0,
        "amount_received": 0,
        "capture_method": act.params.get("capture_method", "automatic"),
        "currency": currency,
        "last_payment_error": None,
        "latest_charge": None,
        "status": "requires_confirmation" if method else "requires_payment_method",
    }
    intent = act.world.create("payment_intent", fields)
    intent["client_secret"] = f"{intent['id']}_secret_standin"
    act.emit("payment_intent.created", intent)
    return done(_pay(act, intent) if true(act.params, "confirm") else intent)


def confirm_intent(act: Act, intent_id: str) -> Done:
    """POST /v1/payment_intents/{id}/confirm."""
    intent = act.world.find("payment_intent", intent_id, param="intent")
    if intent["status"] not in _CONFIRMABLE:
        raise _unexpected(intent, "confirm")
    intent["payment_method"] = act.params.get("payment_method") or intent["payment_method"]
    return done(_pay(act, intent))


def _pay(act: Act, intent: Json) -> Json:
    """Charge the payment method, or learn that a person has to authenticate first."""
    method = intent["payment_method"]
    if not method:
        raise missing("payment_method")
    if method in DECLINES:
        raise _declined(act, intent, DECLINES[method])
    forced = act.world.forced.take("payment_intent", "")
    if method in _NEEDS_A_PERSON or forced in ("requires_action", "processing"):
        intent["status"] = forced or "requires_action"
        act.emit(f"payment_intent.{intent['status']}", intent)
        return intent
    manual = intent["capture_method"] == "manual"
    charge = new_charge(act.world, _charge_fields(intent), captured=not manual)
    intent["latest_charge"] = charge["id"]
    if manual:
        intent.update(status="requires_capture", amount_capturable=intent["amount"])
    else:
        intent.update(status="succeeded", amount_received=intent["amount"])
    act.emit("charge.succeeded", charge)
    act.emit("payment_intent.amount_capturable_updated" if manual else "payment_intent.succeeded", intent)
    return intent


def _charge_fields(intent: Json) -> Json:
    taken = ("amount", "currency", "customer", "description", "transfer_group", "payment_method")
    return {name: intent[name] for name in taken} | {"payment_intent": intent["id"]}


def _declined(act: Act, intent: Json, decline_code: str) -> Exception:
    charge = decline(act, _charge_fields(intent), decline_code)
    refusal = declined(charge["id"], decline_code, intent=intent)
    last = {name: value for name, value in refusal.error.items() if name != "payment_intent"}
    intent.update(status="requires_payment_method", latest_charge=charge["id"], last_payment_error=last)
    act.emit("payment_intent.payment_failed", intent)
    return refusal


def capture_intent(act: Act, intent_id: str) -> Done:
    """POST /v1/payment_intents/{id}/capture."""
    intent = act.world.find("payment_intent", intent_id, param="intent")
    amount = integer(act.params, "amount_to_capture", intent["amount"])
    if intent["status"] != "requires_capture":
        raise _unexpected(intent, "capture")
    if amount > intent["amount_capturable"]:
        raise wrong_state("The amount to capture is greater than what is capturable.", "amount_too_large")
    charge = act.world.objects[intent["latest_charge"]]
    charge.update(captured=True, amount_captured=amount)
    intent.update(status="succeeded", amount_received=amount, amount_capturable=0)
    act.emit("charge.captured", charge)
    act.emit("payment_intent.succeeded", intent)
    return done(intent)


def cancel_intent(act: Act, intent_id: str) -> Done:
    """POST /v1/payment_intents/{id}/cancel."""
    intent = act.world.find("payment_intent", intent_id, param="intent")
    if intent["status"] not in _CANCELABLE:
        raise _unexpected(intent, "cancel")
    intent.update(status="canceled", amount_capturable=0, canceled_at=act.world.now_s)
    intent["cancellation_reason"] = act.params.get("cancellation_reason")
    act.emit("payment_intent.canceled", intent)
    return done(intent)


def _unexpected(intent: Json, verb: str) -> Exception:
    message = f"You cannot {verb} this PaymentIntent because it has a status of {intent['status']}."
    return wrong_state(message, "payment_intent_unexpected_state")
