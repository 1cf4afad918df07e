"""Charges, captures and refunds, with their balances. Amounts are integers in minor units."""

from typing import Final

from msgspec.structs import replace

from proxy.edges.standin.provider import Json
from proxy.edges.standin.stripe_errors import declined, invalid, wrong_state
from proxy.edges.standin.stripe_forms import integer, only, required, true
from proxy.edges.standin.stripe_world import Act, Done, World, done

DECLINES: Final = {
    "tok_chargeDeclined": "generic_decline",
    "tok_chargeDeclinedInsufficientFunds": "insufficient_funds",
    "pm_card_chargeDeclined": "generic_decline",
    "pm_card_visa_chargeDeclined": "generic_decline",
}
_SPENT: Final = frozenset({"failed", "canceled"})
_REFUND_PARAMS: Final = (
    "amount",
    "charge",
    "currency",
    "customer",
    "expand",
    "instructions_email",
    "metadata",
    "origin",
    "payment_intent",
    "reason",
    "refund_application_fee",
    "reverse_transfer",
)  # stripe-python 16.1.0, stripe/params/_refund_create_params.py.


def new_charge(world: World, fields: Json, *, captured: bool = True, object_id: str | None = None) -> Json:
    """Make a charge that succeeded."""
    usual: Json = {
        "amount_captured": fields["amount"] if captured else 0,
        "amount_refunded": 0,
        "captured": captured,
        "customer": None,
        "description": None,
        "failure_code": None,
        "failure_message": None,
        "paid": True,
        "payment_intent": None,
        "refunded": False,
        "status": fields.get("status") or world.forced.take("charge", "succeeded"),
        "transfer_group": None,
    }
    return world.create("charge", usual | fields, object_id=object_id)


def decline(act: Act, fields: Json, decline_code: str) -> Json:
    """Make the failed charge that a decline leaves behind, with its event."""
    failed = {"amount_captured": 0, "captured": False, "paid": False, "status": "failed"}
    failed |= {"failure_code": "card_declined", "failure_message": "Your card was declined."}
    charge = new_charge(act.world, fields | failed | {"outcome": {"type": "issuer_declined", "reason": decline_code}})
    act.emit("charge.failed", charge)
    return charge


def create_charge(act: Act) -> Done:
    """POST /v1/charges."""
    fields = {"amount": integer(act.params, "amount"), "currency": required(act.params, "currency").lower()}
    fields |= act.fields("customer", "description", "transfer_group") | {"metadata": act.metadata}
    source = act.params.get("source")
    if source is None and fields["customer"] is None:
        raise invalid("Must provide source or customer.", code="parameter_missing", param="source")
    if source in DECLINES:
        raise declined(decline(act, fields, DECLINES[source])["id"], DECLINES[source])
    charge = new_charge(act.world, fields, captured=true(act.params, "capture", default=True))
    act.emit("charge.succeeded" if charge["status"] != "pending" else "charge.pending", charge)
    return done(charge)


def capture_charge(act: Act, charge_id: str) -> Done:
    """POST /v1/charges/{id}/capture."""
    charge = act.world.find("charge", charge_id, param="charge")
    amount = integer(act.params, "amount", charge["amount"])
    if charge["captured"]:
        raise wrong_state(f"Charge {charge_id} has already been captured.", "charge_already_captured")
    if amount > charge["amount"]:
        raise wrong_state("The capture amount is greater than the charge.", "amount_too_large", "amount")
    charge.update(captured=True, amount_captured=amount, amount_refunded=0)
    act.emit("charge.captured", charge)
    return done(charge)


def refunded_amount(world: World, charge_id: str) -> int:
    """What has been given back of a charge, or is on its way; a refund that failed gives nothing back."""
    mine = (item for item in world.of("refund") if item["charge"] == charge_id)
    return sum(item["amount"] for item in mine if item["status"] not in _SPENT)


def settle_charge(world: World, charge: Json) -> None:
    """Bring a charge's own figures in line with its refunds."""
    charge["amount_refunded"] = refunded_amount(world, charge["id"])
    charge["refunded"] = charge["amount_refunded"] >= charge["amount_captured"] > 0


def create_refund(act: Act) -> Done:
    """POST /v1/refunds."""
    only(act.params, *_REFUND_PARAMS)
    amount = integer(act.params, "amount") if "amount" in act.params else None
    charge = _charge_of(act)
    room = charge["amount_captured"] - refunded_amount(act.world, charge["id"])
    if room <= 0 and charge["captured"]:
        raise wrong_state(f"Charge {charge['id']} has already been refunded.", "charge_already_refunded")
    if amount is not None and amount > room:
        raise wrong_state(
            f"Refund amount ({amount}) is greater than the unrefunded amount on the charge ({room})", None, "amount"
        )
    return done(add_refund(act, charge, room if amount is None else amount))


def _charge_of(act: Act) -> Json:
    charge_id, intent_id = act.params.get("charge"), act.params.get("payment_intent")
    if not charge_id and not intent_id:
        raise invalid("One of the following params should be provided: payment_intent or charge.")
    if charge_id:
        charge = act.world.find("charge", charge_id, param="charge")
    else:
        intent = act.world.find("payment_intent", str(intent_id), param="payment_intent")
        if not intent["latest_charge"]:
            raise wrong_state(f"PaymentIntent {intent_id} does not have a successful charge to refund.")
        charge = act.world.find("charge", intent["latest_charge"])
    if charge["status"] == "failed" or not charge["captured"]:
        raise wrong_state(f"Charge {charge['id']} cannot be refunded: it holds no money.")
    return charge


def add_refund(act: Act, charge: Json, amount: int) -> Json:
    """Make a refund, without asking whether there is room for it, and both of its events.

    Stripe emits `charge.refunded` about the charge and `refund.created` about the refund: one refund, two
    events with one key (facts, section 4; a reader must not count two).
    """
    status = act.world.forced.take("refund", "succeeded")
    fields = act.fields("reason") | {"metadata": act.metadata, "failure_reason": None, "receipt_number": None}
    fields |= {"amount": amount, "charge": charge["id"], "currency": charge["currency"], "status": status}
    refund = act.world.create("refund", fields | {"payment_intent": charge["payment_intent"]})
    before = {"amount_refunded": charge["amount_refunded"], "refunded": charge["refunded"]}
    settle_charge(act.world, charge)
    if status not in _SPENT:
        act.emit("charge.refunded", charge, before)
    act.emit("refund.created", refund)
    return refund


def refund_charge(act: Act, charge_id: str) -> Done:
    """POST /v1/charges/{id}/refunds, the alias that answers with the refund."""
    return create_refund(replace(act, params=act.params | {"charge": charge_id}))


def refund_charge_legacy(act: Act, charge_id: str) -> Done:
    """POST /v1/charges/{id}/refund, the alias that answers with the *charge*.

    docs.rs/crate/stripe2 32.0.0, generated from Stripe's OpenAPI: `PostChargesChargeRefundRequest` returns a
    Charge, `PostChargesChargeRefundsRequest` a Refund (read 2026-11-30).
    """
    refund = refund_charge(act, charge_id)
    return Done(act.world.find("charge", charge_id), refund.object_id)


def update_refund(act: Act, refund_id: str) -> Done:
    """POST /v1/refunds/{id}: only its metadata can change."""
    only(act.params, "metadata", "expand")
    refund = act.world.find("refund", refund_id, param="refund")
    refund["metadata"] = refund["metadata"] | act.metadata
    act.emit("refund.updated", refund)
    return done(refund)


def cancel_refund(act: Act, refund_id: str) -> Done:
    """POST /v1/refunds/{id}/cancel: only one that requires action."""
    refund = act.world.find("refund", refund_id, param="refund")
    if refund["status"] != "requires_action":
        raise wrong_state(f"Refund {refund_id} cannot be canceled: its status is {refund['status']}.")
    refund["status"] = "canceled"
    settle_charge(act.world, act.world.objects[refund["charge"]])
    act.emit("refund.updated", refund)
    return done(refund)


def balance(world: World) -> Json:
    """GET /v1/balance: what came in less what went out, by currency."""
    sums: dict[str, int] = {}
    for item in world.objects.values():
        sums.setdefault(item.get("currency") or "usd", 0)
        sums[item.get("currency") or "usd"] += _worth(item)
    rows = [{"amount": amount, "currency": currency} for currency, amount in sums.items()]
    available = rows or [{"amount": 0, "currency": "usd"}]
    pending = [{"amount": 0, "currency": row["currency"]} for row in available]
    return {"object": "balance", "available": available, "livemode": world.mode == "live", "pending": pending}


def _worth(item: Json) -> int:
    match item["object"]:
        case "charge":
            return int(item["amount_captured"]) if item["status"] != "failed" else 0
        case "refund" | "payout" | "transfer":
            return 0 if item.get("status") in _SPENT else -int(item["amount"])
        case "transfer_reversal":
            return int(item["amount"])
        case _:
            return 0
