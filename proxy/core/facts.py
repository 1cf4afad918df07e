"""What is known of a provider, as frozen values: the schema of `adapters/*.toml`.

Facts that safety rests on carry `source`: the page they were read on, and the date.
"""

from enum import StrEnum

from msgspec import Struct

from proxy.core.model import Effect, Tier


class Means(StrEnum):
    """What an answer of the provider means. What no rule matches is unknown."""

    ACCEPTED = "accepted"
    PARTIAL = "partial"
    REJECTED_BEFORE_EXECUTION = "rejected_before_execution"
    REJECTED = "rejected"
    ALREADY_DONE = "already_done"
    NOT_EXECUTED = "not_executed"
    IN_CONFLICT = "in_conflict"
    KEY_REUSED = "key_reused"
    NOT_TERMINAL = "not_terminal"
    UNKNOWN = "unknown"  # An exception to a later, wider rule.


class Unit(StrEnum):
    """How a request writes an amount: in minor units (5400) or in major ones ("54.00")."""

    MINOR = "minor"
    MAJOR = "major"


class ReadKind(StrEnum):
    """How a read-back looks for an action; a closed set."""

    SCAN = "scan"  # A list whose items name our key: identity.
    OBJECT = "object"  # One object, by an ID that we know.
    CONTENT = "content"  # A list, then each likely item in full: declared equality of messages.
    SIMILAR = "similar"  # A list whose items look like ours: candidates for a person.


Json = dict[str, bool | int | str | list[bool | int | str]]


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """`hosts` stay the provider's, whatever `upstream` the configuration sets."""

    name: str
    hosts: tuple[str, ...]
    upstream: str
    title: str = ""
    sdk_lines: dict[str, str] = {}  # A part of `User-Agent` → the line to write for that SDK; {base} is our address.


class Account(Struct, frozen=True, forbid_unknown_fields=True):
    """Which account and mode a request is for.

    `modes`: mode → patterns of the credential; `headers` name a connected account; `agree`: what a record of that mode
    says of itself. `connected`: where an item that names our key says for which connected account it is, if for one.
    """

    source: str
    connected: str = ""
    modes: dict[str, tuple[str, ...]] = {}
    headers: tuple[str, ...] = ()
    agree: dict[str, Json] = {}


class Mark(Struct, frozen=True, forbid_unknown_fields=True):
    """What shows that the provider itself answered: any of these headers, or a JSON body of one of these shapes."""

    source: str
    headers: tuple[str, ...] = ()
    shapes: tuple[dict[str, str], ...] = ()  # pointer → string | integer | uuid | object | array
    request_id: str = ""  # The header that names the request at the provider.


class Where(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests for which the provider documents an idempotency key. `path` is a pattern of the normal form."""

    methods: tuple[str, ...]
    path: str
    retention: str = ""


class Key(Struct, frozen=True, forbid_unknown_fields=True):
    """The provider's idempotency key: a header, where it is taken, and for how long it is remembered."""

    source: str
    header: str
    where: tuple[Where, ...]
    max_length: int
    retention: str
    margin: str = "1h"
    replay_mark: str = ""  # "Header: value" of an answer that repeats the first one.
    sdk_key_patterns: tuple[str, ...] = ()  # What SDKs make by themselves; a bare UUID always counts as that.


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """Status, and a header or JSON value → meaning. Ordered; the first that matches holds."""

    means: Means
    source: str
    status: tuple[int, ...] = ()
    json: Json = {}
    header: dict[str, str] = {}
    keyed: bool = False  # Only for requests that carry our key.


class Cursor(Struct, frozen=True, forbid_unknown_fields=True):
    """How the next page is asked for: `query` takes the `item` pointer's value of the last item, while `more` holds."""

    query: str
    item: str
    more: str


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    """One way to ask the provider's record: GETs. Templates take {facts}, {key}, {object}, {since} and {events}."""

    kind: ReadKind
    source: str
    path: str = ""  # An object is read at its route's `object_path`.
    query: dict[str, str] = {}
    items: str = ""
    cursor: Cursor | None = None
    created: str = ""  # Pointer to an item's time: seconds since the epoch, or RFC 3339 text.
    before: str = "10m"  # The window starts this long before the dispatch.
    look_back: str = "30d"  # How far the provider's record goes back.
    identity: str = ""  # scan: pointer to our key.
    object: str = ""  # scan: pointer to the object that an item names; "" is the item itself.
    object_type: str = ""  # scan: pointer within that object to its type.
    object_id: str = "/id"
    type: str = ""  # scan: pointer to the item's own type, which `events` and `failed_events` name.
    request: str = ""  # scan: pointer to the request that caused the item; null where the provider acted by itself.
    detail: str = ""  # content: the path of one item in full, {object} being its ID.


class Quote(Struct, frozen=True, forbid_unknown_fields=True):
    """A GET for what the request does not carry. `amount` less `less` is what remains; `facts` feed the next quote."""

    needs: str
    path: str
    currency: str = ""
    amount: str = ""
    less: str = ""
    facts: dict[str, str] = {}


class AmountRule(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the request writes what it moves, and where the object that came of it does ("": it does not say)."""

    value: str
    currency: str = ""
    unit: Unit = Unit.MINOR
    moved: str = "/amount"
    moved_currency: str = "/currency"


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """What the action is aimed at: the request's values at these pointers. `within`: for so long after it was made."""

    of: tuple[str, ...]
    within: str = ""


class Route(Struct, frozen=True, forbid_unknown_fields=True):
    """One operation of the provider.

    `type` is without the provider's name; `extends` names the path parameters whose values extend it.
    """

    type: str
    method: str
    path: str
    aliases: tuple[str, ...] = ()
    extends: tuple[str, ...] | None = None  # None: every parameter of the path.
    harmless: bool = False
    effect: Effect = Effect.RECORD
    tier: Tier = Tier.BLIND
    echo: bool = False
    replay: bool = False
    volatile: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    targets: tuple[Target, ...] = ()
    amount: AmountRule | None = None
    moves_when: Json = {}
    quotes: tuple[Quote, ...] = ()
    object: str = ""  # The type of the object that it makes or changes, as the provider writes it.
    answers_with: tuple[str, ...] = ()  # Other types of object that an alias answers with.
    object_id: str = ""  # Pointer into a 2xx; "/data/*/id" for a batch.
    object_path: str = ""  # Where that object is read, {object} being its ID.
    same_shape: bool = False  # The object read has the shape of the first response.
    same: dict[str, str] = {}  # Pointer into a found object → fact that it must equal.
    found_when: Json = {}
    failed_when: Json = {}
    content: dict[str, str] = {}  # What a found message must equal: name → pointer, in request and record alike.
    derived: tuple[str, ...] = ()  # Fields of `content` that the provider fills in where the request lacks them.
    items: str = ""  # Pointer to the items of a batch; "" with content: the body is one item, "/": it is a list.
    events: tuple[str, ...] = ()
    failed_events: tuple[str, ...] = ()  # Those which say, of the same request, that it did not come to be.
    readback: tuple[str, ...] = ()
    min_age: str = "0s"
    settle_within: str = "0s"

    @property
    def paths(self) -> tuple[str, ...]:
        """Every spelling of the operation."""
        return (self.path, *self.aliases)


class Document(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole adapter file."""

    schema: int
    provider: Provider
    account: Account | None = None
    mark: Mark | None = None
    key: Key | None = None
    repeat_headers: tuple[str, ...] = ()  # Headers of the write that a read repeats.
    payload_headers: tuple[str, ...] = ()  # Headers that count in payload equality.
    minor_units: dict[str, int] = {}  # Where the provider's minor unit is not ISO 4217's: currency → decimals.
    outcome: tuple[Outcome, ...] = ()
    read: dict[str, Read] = {}
    generic: Route | None = None
    action: tuple[Route, ...] = ()
