"""What happens at the providers without a request of ours: other people's objects, twins, later changes, webhooks."""

import copy
from typing import Any, Final

from proxy.edges.standin.provider import Clock, Identifiers, Json, moment
from proxy.edges.standin.resend import Resend
from proxy.edges.standin.stripe import Stripe
from proxy.edges.standin.stripe_money import add_refund, new_charge, settle_charge
from proxy.edges.standin.stripe_world import Act, Origin, World
from proxy.edges.standin.webhooks import Delivery, email_payload, resend_delivery, stripe_delivery

_TELLS_ITS_STATUS: Final = frozenset({"payout", "payment_intent"})  # payout.paid, payment_intent.canceled, …


class Scenes:
    """Changes the providers' worlds from behind."""

    def __init__(self, stripe: Stripe, resend: Resend, *, ids: Identifiers, clock: Clock) -> None:
        self._stripe = stripe
        self._resend = resend
        self._ids = ids
        self._clock = clock

    def seed(self, kind: str, fields: Json, *, mode: str, account: str | None, object_id: str | None) -> Json:
        """Put an object into a world, with no event."""
        world = self._stripe.world(mode, account)
        if kind == "charge":
            return new_charge(world, fields, captured=fields.get("captured", True), object_id=object_id)
        return world.create(kind, fields, object_id=object_id)

    def foreign_refund(self, charge_id: str, amount: int, *, key: str | None, metadata: Json) -> Json:
        """Let somebody else refund a part of a charge."""
        world = self._world_of(charge_id)
        act = Act(world, {"metadata": metadata}, Origin(self._ids.request(), key))
        return add_refund(act, world.find("charge", charge_id), amount)

    def foreign_email(self, fields: Json) -> Json:
        """Let somebody else send an email from this account."""
        return self._resend.mailbox.add(fields)

    def duplicate(self, object_id: str) -> Json:
        """Make a second object of the same content under the same key, as a provider that executed twice would."""
        if object_id in self._resend.mailbox.emails:
            return self._resend.mailbox.add(self._resend.mailbox.emails[object_id])
        world = self._world_of(object_id)
        first = world.objects[object_id]
        events = [event for event in world.events if event["data"]["object"]["id"] == object_id]
        request: Json = events[0]["request"] if events else {}
        origin = Origin(self._ids.request(), request.get("idempotency_key"))
        if first["object"] == "refund":
            kept = {"metadata": first["metadata"], "reason": first["reason"]}
            return add_refund(Act(world, kept, origin), world.objects[first["charge"]], first["amount"])
        fields = {name: value for name, value in copy.deepcopy(first).items() if name not in ("id", "created")}
        twin = world.create(first["object"], fields)
        for event in events:
            if event["request"]["id"] == request["id"]:
                world.emit(event["type"], twin, origin=origin)
        return twin

    def mutate(self, object_id: str, fields: Json) -> Json:
        """Change an object later on, by nobody's request: a refund that fails, a mail that bounces."""
        if object_id in self._resend.mailbox.emails:
            email = self._resend.mailbox.emails[object_id]
            email.update(fields)
            return email
        world = self._world_of(object_id)
        changed = world.objects[object_id]
        before = {name: changed.get(name) for name in fields}
        changed.update(fields)
        self._tell(world, changed, before)
        return changed

    def _tell(self, world: World, changed: Json, before: Json) -> None:
        """Emit the events of a change; those that nobody asked for have no request (facts, section 3)."""
        kind, automatic = changed["object"], Origin()
        if kind == "refund":
            settle_charge(world, world.objects[changed["charge"]])
        world.emit(f"{kind}.updated", changed, origin=automatic, previous=before)
        if changed.get("status") == before.get("status", changed.get("status")):
            return
        if kind == "refund" and changed["status"] == "failed":
            world.emit("refund.failed", changed, origin=automatic)
        elif kind in _TELLS_ITS_STATUS:
            world.emit(f"{kind}.{changed['status']}", changed, origin=automatic)

    def stripe_webhook(self, subject: str, event_type: str | None, *, secret: str, timestamp: int | None) -> Delivery:
        """Sign an event, or the newest one about an object."""
        for world in self._stripe.worlds:
            for event in reversed(world.events):
                if subject in (event["id"], event["data"]["object"]["id"]) and event_type in (None, event["type"]):
                    return stripe_delivery(event, secret=secret, timestamp=self._at(timestamp))
        raise LookupError(f"no event {event_type or ''} about {subject}")

    def resend_webhook(
        self, email_id: str, event_type: str | None, *, secret: str, timestamp: int | None, delivery_id: str | None
    ) -> Delivery:
        """Sign what Resend would tell about an email."""
        created_at = moment(self._clock()).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        payload = email_payload(self._resend.mailbox.emails[email_id], event_type or "email.sent", created_at)
        delivery_id = delivery_id or self._ids.make("msg")
        return resend_delivery(payload, secret=secret, timestamp=self._at(timestamp), delivery_id=delivery_id)

    def objects(self) -> Json:
        """Show everything that exists."""
        worlds: list[Any] = []
        for world in self._stripe.worlds:
            row = {"mode": world.mode, "account": world.account, "objects": list(world.objects.values())}
            worlds.append(row | {"deleted": list(world.deleted.values()), "events": list(world.events)})
        mailbox = self._resend.mailbox
        mail = {"emails": list(mailbox.emails.values()), "logs": list(mailbox.logs.values()), "others": mailbox.others}
        return copy.deepcopy({"stripe": worlds, "resend": mail})

    def _world_of(self, object_id: str) -> World:
        for world in self._stripe.worlds:
            if object_id in world.objects:
                return world
        raise LookupError(f"no object {object_id}")

    def _at(self, timestamp: int | None) -> int:
        return self._clock() // 1000 if timestamp is None else timestamp
