"""The record of an action: what it is, where its two axes stand, and the evidence for that.

Times are milliseconds since the epoch by the store's clock; amounts are integers in minor units.
Longer than 300 lines because it is the vocabulary: every word of CONTRACT 1 stands here once.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

FOREVER_MS: Final = 2**53 - 1  # The largest integer that Lua, JSON and JavaScript all hold exactly.


class Acceptance(StrEnum):
    """Did the provider act?"""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class DeliveryPending(Struct, frozen=True, tag="pending"):
    """Nobody knows whether the request reached the provider."""

    if TYPE_CHECKING:  # Without it the type checker takes any argument for a struct that has no fields.

        def __init__(self) -> None: ...


class DeliveryFailed(Struct, frozen=True, tag="failed"):
    """The request provably did not reach the provider, or a person vouches that it did not."""

    if TYPE_CHECKING:

        def __init__(self) -> None: ...


class DeliveryConfirmed(Struct, frozen=True, tag="confirmed"):
    """The request reached the provider. Only here can acceptance be anything but pending."""

    acceptance: Acceptance = Acceptance.PENDING


class NotDispatched(Struct, frozen=True, tag="none"):
    """Refused by us before any dispatch: neither axis applies."""

    if TYPE_CHECKING:

        def __init__(self) -> None: ...


Delivery = DeliveryPending | DeliveryFailed | DeliveryConfirmed | NotDispatched


class Status(StrEnum):
    """Follows from the two axes and from whether a dispatch is awaited."""

    PENDING = "pending"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    DENIED_UNRESOLVED = "denied_unresolved"


class Cause(StrEnum):
    """Why an action is not confirmed."""

    NOT_SENT = "not_sent"
    TIMEOUT = "timeout"
    CONNECTION_LOST = "connection_lost"
    SERVER_ERROR = "server_error"
    IDEMPOTENT_CONFLICT = "idempotent_conflict"
    KEY_REUSED = "key_reused"
    MALFORMED_RESPONSE = "malformed_response"
    NON_TERMINAL = "non_terminal"
    REJECTED = "rejected"
    NOT_EXECUTED = "not_executed"
    UNRECOGNISED_RESPONSE = "unrecognised_response"
    PROXY_RESTART = "proxy_restart"
    SHUTDOWN = "shutdown"
    LIMIT_EXHAUSTED = "limit_exhausted"
    PAUSED = "paused"
    AMOUNT_UNDETERMINABLE = "amount_undeterminable"
    MANUAL = "manual"


class Source(StrEnum):
    """Where a piece of evidence comes from. `manual` never becomes provider-verified."""

    TRANSPORT = "transport"
    RESPONSE = "response"
    LATE_RESPONSE = "late_response"
    READ_BACK = "read_back"
    WEBHOOK = "webhook"
    REPLAY = "replay"
    MANUAL = "manual"


class Grade(StrEnum):
    """What the receipt vouches for."""

    CONFIRMED = "confirmed"
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    FAILED = "failed"
    REFUSED = "refused"
    DENIED = "denied"
    PENDING = "pending"


class Tier(StrEnum):
    """How an unknown outcome of this action type can be settled; it decides what is scheduled."""

    FULL = "full"
    RECONCILABLE = "reconcilable"
    PARTIAL = "partial"
    BLIND = "blind"


class Effect(StrEnum):
    """What the action moves."""

    MONEY = "money"
    MESSAGE = "message"
    RECORD = "record"


class Proof(StrEnum):
    """What a piece of evidence says of the action."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NOT_EXECUTED = "not_executed"
    NOT_SENT = "not_sent"
    UNCLEAR = "unclear"
    AFTERMATH = "aftermath"


class Evidence(Struct, frozen=True, omit_defaults=True):
    """One thing that was learnt; appended, never changed.

    `digest` is the SHA-256 of the bytes it was read from; `detail` names the cause or the finding in one word.
    """

    evidence_id: str
    at_ms: int
    source: Source
    proof: Proof
    detail: str = ""
    digest: str = ""
    upstream_status: int | None = None
    request_id: str = ""
    object_ids: tuple[str, ...] = ()
    dispatch_id: str = ""
    by: str = ""
    text: str = ""
    reference: str = ""


class Attempt(Struct, frozen=True, omit_defaults=True):
    """One read-back in the attempt log. `result`: found, candidates, absent, several or unreadable."""

    at_ms: int
    result: str
    scheduled: bool
    detail: str = ""
    candidates: tuple[str, ...] = ()


class Dispatch(Struct, frozen=True, omit_defaults=True):
    """One attempt to send: nothing of it is written after `send_before_ms`, or heard after `harvest_ms`."""

    dispatch_id: str
    owner: str
    dispatched_at_ms: int
    send_before_ms: int
    answer_by_ms: int
    harvest_ms: int
    ended_at_ms: int | None = None  # Its whole response was read, or nothing of it was sent.


class Note(Struct, frozen=True):
    """A person's remark; it changes nothing else."""

    at_ms: int
    by: str
    text: str


class Settled(Struct, frozen=True):
    """Who or what settled an action that had been unknown."""

    source: Source
    by: str = ""


class Amount(Struct, frozen=True):
    """What an action moves, in minor units. Without a currency it is unpriced: it counts, but adds to no sum."""

    minor: int | None = None
    currency: str | None = None  # ISO 4217, lower case.

    @property
    def priced(self) -> bool:
        """Are both the number and the currency known?"""
        return self.minor is not None and self.currency is not None


class Identity(Struct, frozen=True, omit_defaults=True):
    """What an action is, fixed when it is made.

    Digests are of `Vault.digest`: keyed, so that the store gives nothing away. `facts` are the request's values
    that a read-back's query needs; `content` are digests of what a found object must equal.
    """

    action_id: str
    ledger: str
    provider: str
    account: str
    event_id: str
    action_type: str
    route: str
    method: str
    run: int = 1
    explicit: bool = True
    idempotency_key: str | None = None
    agent_key: str | None = None
    agent: str | None = None
    credential: str = ""
    payload: str = ""
    fields: dict[str, str] = {}
    targets: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    content: tuple[dict[str, str], ...] = ()
    retry_of: str | None = None


class Action(Struct, frozen=True, omit_defaults=True):
    """One action: identity, both axes, evidence and dispatches."""

    identity: Identity
    effect: Effect
    tier: Tier
    created_at_ms: int
    delivery: Delivery = DeliveryPending()
    awaited: bool = False
    cause: Cause | None = None
    amount: Amount = Amount()
    dispatches: tuple[Dispatch, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[Note, ...] = ()
    aliases: tuple[str, ...] = ()  # Further keys of the agent's that name this action.
    upstream_status: int | None = None
    object_ids: tuple[str, ...] = ()
    # Kept for good:
    was_unknown: bool = False
    unknown_since_ms: int | None = None
    unknown_cause: Cause | None = None
    answered_at_ms: int | None = None  # When the provider's own answer was recorded.
    settled_at_ms: int | None = None
    settled_by: Settled | None = None
    confirmed_at_ms: int | None = None
    eligible_at_ms: int | None = None
    # Flags:
    duplicate_suspected: bool = False
    contradicted: bool = False
    prior_execution: bool = False
    partial: bool = False
    over_reserved: bool = False
    needs_operator: bool = False
    # Read-backs:
    readbacks: int = 0
    reads_tried: int = 0
    next_readback_ms: int | None = None
    # The agent's side:
    answer_kept: bool = False
    before_execution: bool = False  # A rejection that the adapter cites as made before anything ran.
    unanswered_first: bool = True
    unanswered_folded: int = 0
    askers_gone: bool = False
    # People:
    allow_retry: bool = False
    assignee: str = ""

    @property
    def action_id(self) -> str:
        """The action's ID."""
        return self.identity.action_id

    @property
    def acceptance(self) -> Acceptance:
        """Pending for as long as delivery is not confirmed: the type leaves no other way."""
        return self.delivery.acceptance if isinstance(self.delivery, DeliveryConfirmed) else Acceptance.PENDING

    @property
    def status(self) -> Status:
        """Derived; nothing sets it."""
        match self.delivery:
            case NotDispatched() | DeliveryFailed():
                return Status.FAILED
            case DeliveryConfirmed(Acceptance.ACCEPTED):
                return Status.CONFIRMED
            case DeliveryConfirmed(Acceptance.REJECTED):
                return Status.FAILED
            case _:
                return Status.PENDING if self.awaited else Status.DENIED_UNRESOLVED

    @property
    def unresolved(self) -> bool:
        """Is the outcome unknown?"""
        return self.status is Status.DENIED_UNRESOLVED

    @property
    def grade(self) -> Grade:
        """What a receipt would say now (CONTRACT 1)."""
        match self.status:
            case Status.PENDING:
                return Grade.PENDING
            case Status.DENIED_UNRESOLVED:
                return Grade.UNKNOWN
            case Status.CONFIRMED:
                return Grade.CONFIRMED if self._verified else Grade.ACKNOWLEDGED
            case Status.FAILED:
                if not isinstance(self.delivery, NotDispatched):
                    return Grade.FAILED
                return Grade.REFUSED if self.cause is Cause.LIMIT_EXHAUSTED else Grade.DENIED

    @property
    def _verified(self) -> bool:
        provider_record = (Source.READ_BACK, Source.WEBHOOK, Source.REPLAY)
        return any(e.proof is Proof.ACCEPTED and e.source in provider_record for e in self.evidence)

    @property
    def dispatch(self) -> Dispatch | None:
        """The last dispatch, if there was one."""
        return self.dispatches[-1] if self.dispatches else None

    def over_at_ms(self, now_ms: int) -> int | None:
        """Return None once the last dispatch is over, else when it will be (CONTRACT 2.2, 2.4)."""
        last = self.dispatch
        if last is None or last.ended_at_ms is not None or now_ms >= last.harvest_ms:
            return None
        return last.harvest_ms

    @property
    def last_safe_dispatch_ms(self) -> int | None:
        """When the key was first sent: what a provider's key retention counts from."""
        return self.dispatches[0].dispatched_at_ms if self.dispatches else None
