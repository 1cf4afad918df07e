"""One world of Stripe: the objects and events of one account in one mode, which no other can see."""

import copy
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from proxy.edges.standin.provider import Clock, Identifiers, Json
from proxy.edges.standin.stripe_errors import no_such

PREFIXES: Final = {
    "charge": "ch",
    "refund": "re",
    "payment_intent": "pi",
    "customer": "cus",
    "transfer": "tr",
    "transfer_reversal": "trr",
    "payout": "po",
    "invoice": "in",
    "invoiceitem": "ii",
    "credit_note": "cn",
    "subscription": "sub",
    "product": "prod",
    "price": "price",
    "topup": "tu",
    "checkout.session": "cs",
    "payment_link": "plink",
    "payment_method": "pm",
    "setup_intent": "seti",
    "webhook_endpoint": "we",
    "event": "evt",
}
_WITHOUT_LIVEMODE: Final = frozenset({"refund", "transfer_reversal"})  # stripe/openapi fixtures3.json, 2026-08-21.


class Origin(Struct, frozen=True):
    """The request that caused an event, as `event.request` shows it (facts, section 3: stripe/_event.py)."""

    request_id: str | None = None
    key: str | None = None


class Forced:
    """States that the next created objects take, instead of the usual ones."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[str]] = {}

    def add(self, kind: str, status: str, times: int) -> None:
        """Give the next `times` objects of a kind this status."""
        self._waiting.setdefault(kind, []).extend([status] * times)

    def take(self, kind: str, usual: str) -> str:
        """Return the status of an object that is created now."""
        waiting = self._waiting.get(kind)
        return waiting.pop(0) if waiting else usual


class World:
    """The objects and events of one account in one mode."""

    def __init__(
        self, *, mode: str, account: str | None, ids: Identifiers, clock: Clock, forced: Forced | None = None
    ) -> None:
        self.mode = mode
        self.account = account
        self.forced = forced or Forced()
        self.objects: dict[str, Json] = {}
        self.deleted: dict[str, Json] = {}
        self.events: list[Json] = []
        self._ids = ids
        self._clock = clock

    @property
    def now_s(self) -> int:
        """Seconds since the epoch, as Stripe writes its times."""
        return self._clock() // 1000

    def create(self, kind: str, fields: Json, *, object_id: str | None = None) -> Json:
        """Make an object. `created`, `livemode` and `metadata` are every object's."""
        made: Json = {"id": object_id or self._ids.make(PREFIXES.get(kind, kind[:3])), "object": kind}
        made |= {"created": self.now_s, "metadata": {}}
        if kind not in _WITHOUT_LIVEMODE:
            made["livemode"] = self.mode == "live"
        made |= fields
        self.objects[made["id"]] = made
        return made

    def find(self, kind: str, object_id: str, *, param: str = "id") -> Json:
        """Return an object, or refuse as Stripe does."""
        found = self.objects.get(object_id)
        if found is None or found["object"] != kind:
            raise no_such(kind, object_id, param=param)
        return found

    def of(self, kind: str) -> list[Json]:
        """Return the objects of a kind, the oldest first."""
        return [item for item in self.objects.values() if item["object"] == kind]

    def emit(self, event_type: str, about: Json, *, origin: Origin, previous: Json | None = None) -> Json:
        """Record an event: a snapshot of the object as it is now."""
        data: Json = {"object": copy.deepcopy(about)}
        if previous is not None:
            data["previous_attributes"] = previous
        event: Json = {
            "id": self._ids.make("evt"),
            "object": "event",
            "api_version": "2026-10-28.endive",
            "created": self.now_s,
            "data": data,
            "livemode": self.mode == "live",
            "pending_webhooks": 0,
            "request": {"id": origin.request_id, "idempotency_key": origin.key},
            "type": event_type,
        }
        if self.account:
            event["account"] = self.account
        self.events.append(event)
        return event


class Act(Struct, frozen=True):
    """One execution of an endpoint: where, with what, on whose behalf."""

    world: World
    params: Json
    origin: Origin = Origin()

    def emit(self, event_type: str, about: Json, previous: Json | None = None) -> None:
        """Record an event that this request caused."""
        self.world.emit(event_type, about, origin=self.origin, previous=previous)

    def fields(self, *names: str) -> Json:
        """Return parameters that an object takes over as they are; absent ones are null."""
        return {name: self.params.get(name) for name in names}

    @property
    def metadata(self) -> Json:
        """The metadata that was sent."""
        value = self.params.get("metadata")
        return dict(value) if isinstance(value, dict) else {}


class Done(Struct, frozen=True):
    """An endpoint's answer. `object_id`: what it made or changed, which is not always what it shows."""

    body: Json
    object_id: str | None


def done(shown: Json) -> Done:
    """Answer with the object that was made or changed."""
    return Done(shown, shown["id"])


Handler = Callable[..., Done]
"""Called with an Act and the identifiers in the path."""
