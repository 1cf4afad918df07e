"""What can happen to an action, as values: the events that `lifecycle.step` answers."""

from dataclasses import dataclass

from msgspec import Struct

from proxy.core.http import Unsent
from proxy.core.model import Amount, Cause, Dispatch, Identity
from proxy.core.verdict import Accepted, Rejected, Reply, Verdict


class Rules(Struct, frozen=True):
    """What the action's type and the configuration say of its time. All in milliseconds but `attempts`."""

    scheduled: bool  # Are read-backs scheduled at all?
    by_object: bool = False  # Only once the provider's ID of the object is known (tier `partial`).
    first_ms: int = 30_000
    max_ms: int = 3_600_000
    attempts: int = 12
    min_age_ms: int = 0
    settle_within_ms: int = 0
    look_back_ms: int = 30 * 86_400_000
    retry_window_ms: int = 20 * 3_600_000


@dataclass(frozen=True, slots=True)
class Moment:
    """When an event is applied (the store's time), and an identifier for what it leaves behind."""

    now_ms: int
    token: str


# ── Findings of a read-back ───────────────────────────────────────────────────────────────────────────────────────────


class Found(Struct, frozen=True, tag="found"):
    """The provider's record names our action, and what it names was judged like a response."""

    verdict: Accepted | Rejected
    digest: str = ""


class Several(Struct, frozen=True, tag="several"):
    """More than one object of the action's own type bears our identity."""

    object_ids: tuple[str, ...]


class Candidates(Struct, frozen=True, tag="candidates"):
    """Objects that look like ours but do not bear our identity. They never settle."""

    object_ids: tuple[str, ...]


class Absent(Struct, frozen=True, tag="absent"):
    """The record was read to the end of the window and does not name our action. That proves nothing."""


class Unreadable(Struct, frozen=True, tag="unreadable"):
    """The record could not be read, or not to the end."""

    why: str


Finding = Found | Several | Candidates | Absent | Unreadable


# ── Events ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Redispatched(Struct, frozen=True, tag="redispatched"):
    """It is to be sent again under the same key, after a proof that nothing was executed.

    `identity` is the action's own but for what the request says now: its payload may be another.
    """

    dispatch: Dispatch
    amount: Amount
    identity: Identity


class Refused(Struct, frozen=True, tag="refused"):
    """It may not be sent: a limit has no room, its amount cannot be told, or its type is paused."""

    cause: Cause


class Unsendable(Struct, frozen=True, tag="not_sent"):
    """Provably no byte of the dispatch left."""

    dispatch_id: str
    why: Unsent


class Lost(Struct, frozen=True, tag="lost"):
    """A byte of the dispatch may have left, and its answer did not come, did not come in time, or is no answer."""

    dispatch_id: str
    cause: Cause


class Responded(Struct, frozen=True, tag="responded"):
    """The provider, or something in its place, answered the dispatch."""

    dispatch_id: str
    verdict: Verdict
    reply: Reply
    kept: bool = False  # The response is kept beside the action, for the agent that asks again.


class ReadBack(Struct, frozen=True, tag="read_back"):
    """The provider's own record was asked."""

    finding: Finding
    scheduled: bool


class Noticed(Struct, frozen=True, tag="webhook"):
    """The provider told us by itself. `aftermath`: what became of an object after it had existed."""

    verdict: Verdict
    reply: Reply
    aftermath: bool = False


class Replayed(Struct, frozen=True, tag="replayed"):
    """An operator sent the same bytes under the same key again; `verdict` is of the replay's own table."""

    verdict: Verdict
    reply: Reply


class Resolved(Struct, frozen=True, tag="resolved"):
    """A person vouches for the outcome."""

    by: str
    happened: bool
    text: str
    reference: str = ""
    allow_retry: bool = False


class OwnerLost(Struct, frozen=True, tag="owner_lost"):
    """The instance that awaited the answer is dead."""

    owner: str


class Folded(Struct, frozen=True, tag="folded"):
    """Another request was taken for this action; it waits for an answer. `alias` is the digest of its own key."""

    alias: str | None = None


class Delivered(Struct, frozen=True, tag="delivered"):
    """An agent showed that it got the provider's own answer; `folded`: one of a folded request."""

    folded: bool


class AskersGone(Struct, frozen=True, tag="askers_gone"):
    """Every agent that waited for the answer hung up."""


class Suspected(Struct, frozen=True, tag="suspected"):
    """Something came to light that makes a double execution possible."""


class Priced(Struct, frozen=True, tag="priced"):
    """What the request did not carry was read from the provider."""

    amount: Amount


class Noted(Struct, frozen=True, tag="noted"):
    """A person left a remark."""

    by: str
    text: str


Event = (
    Redispatched
    | Refused
    | Unsendable
    | Lost
    | Responded
    | ReadBack
    | Noticed
    | Replayed
    | Resolved
    | OwnerLost
    | Folded
    | Delivered
    | AskersGone
    | Suspected
    | Priced
    | Noted
)
