"""Customers, transfers, payouts and invoices, and every endpoint that has no rules of its own here."""

import re
from typing import Any, Final

from proxy.edges.standin.provider import Json
from proxy.edges.standin.stripe_errors import invalid, wrong_state
from proxy.edges.standin.stripe_forms import integer, required
from proxy.edges.standin.stripe_world import Act, Done, done

_CUSTOMER_FIELDS: Final = ("address", "balance", "description", "email", "name", "phone")
_NOT_FIELDS: Final = frozenset({"expand", "metadata"})
_NUMBER: Final = re.compile(r"-?\d{1,15}")
_NUMBERS: Final = frozenset({"quantity", "balance"})  # And every name that speaks of an amount.
_NAMESPACES: Final = frozenset(
    {
        "apps",
        "billing",
        "billing_portal",
        "checkout",
        "climate",
        "entitlements",
        "financial_connections",
        "forwarding",
        "identity",
        "issuing",
        "radar",
        "reporting",
        "sigma",
        "tax",
        "terminal",
        "test_helpers",
        "treasury",
    }
)


def split(path: str) -> tuple[str, list[str]]:
    """Split a path below /v1/ into its collection and what follows: `checkout/sessions/cs_1/expire`."""
    first, *rest = path.split("/")
    return (f"{first}/{rest[0]}", rest[1:]) if first in _NAMESPACES and rest else (first, rest)


def kind_of(collection: str) -> str:
    """Return the object's name of a collection: `coupons` holds `coupon`."""
    return collection.removesuffix("s").replace("/", ".")


def create_customer(act: Act) -> Done:
    """POST /v1/customers."""
    fields: Json = dict.fromkeys(_CUSTOMER_FIELDS) | _sent(act) | {"metadata": act.metadata}
    customer = act.world.create("customer", fields)
    act.emit("customer.created", customer)
    return done(customer)


def create_transfer(act: Act) -> Done:
    """POST /v1/transfers."""
    fields = {"amount": integer(act.params, "amount"), "currency": required(act.params, "currency").lower()}
    fields |= {"destination": required(act.params, "destination"), "amount_reversed": 0, "reversed": False}
    fields |= act.fields("description", "transfer_group", "source_transaction") | {"metadata": act.metadata}
    transfer = act.world.create("transfer", fields)
    act.emit("transfer.created", transfer)
    return done(transfer)


def reverse_transfer(act: Act, transfer_id: str) -> Done:
    """POST /v1/transfers/{id}/reversals."""
    transfer = act.world.find("transfer", transfer_id, param="transfer")
    left = transfer["amount"] - transfer["amount_reversed"]
    amount = integer(act.params, "amount", left)
    if not left or amount > left:
        raise wrong_state(f"Transfer {transfer_id} has {left} left to reverse.", None, "amount")
    fields = {"amount": amount, "currency": transfer["currency"], "transfer": transfer_id, "metadata": act.metadata}
    reversal = act.world.create("transfer_reversal", fields)
    transfer["amount_reversed"] += amount
    transfer["reversed"] = transfer["amount_reversed"] == transfer["amount"]
    act.emit("transfer.reversed", transfer)
    return done(reversal)


def create_payout(act: Act) -> Done:
    """POST /v1/payouts."""
    fields = {"amount": integer(act.params, "amount"), "currency": required(act.params, "currency").lower()}
    fields |= act.fields("description", "destination", "statement_descriptor") | {"metadata": act.metadata}
    fields |= {"arrival_date": act.world.now_s, "automatic": False, "method": act.params.get("method", "standard")}
    payout = act.world.create("payout", fields | {"status": act.world.forced.take("payout", "pending")})
    act.emit("payout.created", payout)
    return done(payout)


def cancel_payout(act: Act, payout_id: str) -> Done:
    """POST /v1/payouts/{id}/cancel."""
    payout = act.world.find("payout", payout_id, param="payout")
    if payout["status"] != "pending":
        raise wrong_state(f"Payout {payout_id} cannot be canceled: its status is {payout['status']}.")
    payout["status"] = "canceled"
    act.emit("payout.canceled", payout)
    return done(payout)


def create_invoice(act: Act) -> Done:
    """POST /v1/invoices. `amount_due` is taken from the request: line items are not modelled."""
    due = integer(act.params, "amount_due", 0)
    fields = act.fields("customer", "subscription", "description") | {"metadata": act.metadata}
    fields |= {"amount_due": due, "amount_paid": 0, "amount_remaining": due, "paid": False, "status": "draft"}
    fields |= {"currency": act.params.get("currency", "usd"), "collection_method": "charge_automatically"}
    invoice = act.world.create("invoice", fields)
    act.emit("invoice.created", invoice)
    return done(invoice)


def pay_invoice(act: Act, invoice_id: str) -> Done:
    """POST /v1/invoices/{id}/pay."""
    invoice = act.world.find("invoice", invoice_id, param="invoice")
    if invoice["status"] == "paid":
        raise wrong_state("Invoice is already paid.")
    invoice.update(amount_paid=invoice["amount_due"], amount_remaining=0, paid=True, status="paid")
    act.emit("invoice.paid", invoice)
    act.emit("invoice.payment_succeeded", invoice)
    return done(invoice)


def write_other(act: Act, path: str) -> Done:
    """POST to any other path: create, update, add to an object's own collection, or do something to it."""
    match split(path):
        case [collection, []]:
            return _create(act, kind_of(collection), {})
        case [collection, [object_id]]:
            return _update(act, kind_of(collection), object_id)
        case [collection, [object_id, below]] if below.endswith("s"):
            owner = act.world.find(kind_of(collection), object_id)
            return _create(act, kind_of(below), {owner["object"]: object_id})
        case [collection, [object_id, verb]]:
            return _do(act, kind_of(collection), object_id, verb)
        case _:
            raise invalid(f"Unrecognized request URL (POST: /v1/{path}).", status=404)


def _create(act: Act, kind: str, fields: Json) -> Done:
    made = act.world.create(kind, fields | _sent(act) | {"metadata": act.metadata})
    act.emit(f"{kind}.created", made)
    return done(made)


def _update(act: Act, kind: str, object_id: str) -> Done:
    """Update an object. What changes nothing makes no event (facts, section 3)."""
    found = act.world.find(kind, object_id)
    sent = _sent(act) | ({"metadata": found["metadata"] | act.metadata} if act.metadata else {})
    before = {name: found.get(name) for name, value in sent.items() if found.get(name) != value}
    found.update(sent)
    if before:
        act.emit(f"{kind}.updated", found, before)
    return done(found)


def _do(act: Act, kind: str, object_id: str, verb: str) -> Done:
    found = act.world.find(kind, object_id)
    found.update(_sent(act))
    act.emit(f"{kind}.{verb}", found)
    return done(found)


def delete_other(act: Act, path: str) -> Done:
    """DELETE: from now on only `deleted: true` is shown of the object.

    The event's `request.idempotency_key` is null: a key has no effect on a DELETE (facts, section 1).
    """
    collection, rest = split(path)
    if len(rest) != 1:
        raise invalid(f"Unrecognized request URL (DELETE: /v1/{path}).", status=404)
    kind, object_id = kind_of(collection), rest[0]
    found = act.world.find(kind, object_id)
    del act.world.objects[object_id]
    stub: Json = {"id": object_id, "object": kind, "deleted": True}
    act.world.deleted[object_id] = stub
    act.emit(f"{kind}.deleted", found)
    return done(stub)


def _sent(act: Act) -> Json:
    return {name: _typed(name, value) for name, value in act.params.items() if name not in _NOT_FIELDS}


def _typed(name: str, value: Any) -> Any:
    is_number = "amount" in name or name in _NUMBERS
    return int(value) if is_number and isinstance(value, str) and _NUMBER.fullmatch(value) else value
