"""Asking the provider's own record about actions whose outcome is unknown (CONTRACT 4), as a conversation without I/O.

An `Inquiry` serves all due actions of one account: `ask` names the next GET, `hear` takes its answer, and when there is
nothing more to ask `findings` says what was learnt of each. What was cut short is unreadable, never absent; what only
looks like ours is a candidate, never found. Longer than 300 lines: one conversation, and what each part of it proves.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from proxy.core.adapter import Adapter, holds
from proxy.core.durations import parse_ms
from proxy.core.events import Absent, Candidates, Finding, Found, Several, Unreadable
from proxy.core.facts import Read, ReadKind, Route
from proxy.core.http import Answered, Integrity
from proxy.core.identity import message_field
from proxy.core.model import Action
from proxy.core.payload import INVALID, text_of, walk
from proxy.core.verdict import Accepted, Rejected, is_id, is_marked, of_object, reply_of, tree_of

PAGES_MOST: Final = 200
TYPES_MOST: Final = 20  # Stripe takes at most 20 event types in one query; more, and none are named.
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_NO_SEGMENTS: Final = frozenset({"", ".", ".."})  # They would lead elsewhere.
SKEW_MS: Final = 60_000  # How far the provider's clock may be from ours.

Digests = Callable[[bytes], tuple[str, ...]]


class Subject(Struct, frozen=True):
    """One action to be asked about. `twins`: other actions of ours sent an equal message at about the same time."""

    action: Action
    route: Route
    twins: bool = False


class _List(Struct):
    """A list under way: everything in its window, newest first. `broken` says why it could not be read to the end."""

    read: Read
    path: str
    query: list[tuple[str, str]]
    since_ms: int
    items: list[object] = []
    digests: list[str] = []  # Of the page that each item stands on.
    pages: int = 0
    cursor: str | None = None
    done: bool = False
    broken: str = ""


class _Named(Struct, frozen=True):
    """An item that bears our key, and the object that it names. `type`, `request`: the item's own, where it says."""

    thing: object
    object_id: str
    type: str | None
    request: str | None
    digest: str


class _One(Struct):
    """One object under way."""

    path: str
    tree: object = INVALID
    digest: str = ""
    done: bool = False
    broken: str = ""
    missing: bool = False


class Inquiry:
    """A conversation with one account's record."""

    def __init__(self, adapter: Adapter, subjects: Iterable[Subject], digests: Digests) -> None:
        self._adapter = adapter
        self._subjects = tuple(subjects)
        self._digests = digests
        self._lists: dict[tuple[str, ...], _List] = {}
        self._ones: dict[str, _One] = {}
        self._now: _List | _One | None = None
        for subject in self._subjects:
            for name in subject.route.readback:
                self._plan(subject, name, adapter.doc.read[name])

    # ── The conversation ──────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self) -> str | None:
        """Return the next target to GET, or None where everything has been asked."""
        asked: list[_List | _One] = [*self._lists.values(), *self._ones.values()]
        self._now = next((one for one in asked if not one.done), None)
        if self._now is None:
            self._plan_details()
            self._now = next((one for one in self._ones.values() if not one.done), None)
        match self._now:
            case None:
                return None
            case _One(path):
                return path
            case _List() as listing:
                return _target(listing)

    def hear(self, answered: Answered | None) -> None:
        """Take the answer to what was asked last; None where none came."""
        match self._now:
            case _List() as listing:
                self._hear_page(listing, answered)
            case _One() as one:
                self._hear_one(one, answered)
            case None:
                raise RuntimeError("nothing was asked")

    def _hear_page(self, listing: _List, answered: Answered | None) -> None:
        tree = self._readable(answered)
        items = list(walk(tree, listing.read.items)) if tree is not INVALID else []
        if len(items) != 1 or not isinstance(items[0], list):
            listing.broken, listing.done = self._why(answered), True
            return
        page = items[0]
        listing.items += page
        listing.digests += [reply_of(answered, self._adapter).digest] * len(page) if answered is not None else []
        listing.pages += 1
        cursor = listing.read.cursor
        more = cursor is not None and next(walk(tree, cursor.more), None) is True
        passed = bool(page) and (created_ms(page[-1], listing.read.created) or listing.since_ms) < listing.since_ms
        if not more or passed or cursor is None:
            listing.done = True
            return
        after = text_of(next(walk(page[-1], cursor.item), None)) if page else None
        if after is None or after == listing.cursor or listing.pages >= PAGES_MOST:
            listing.broken, listing.done = "paging", True  # Cut short: what is missing may be ours.
        listing.cursor = after

    def _hear_one(self, one: _One, answered: Answered | None) -> None:
        one.done = True
        tree = self._readable(answered)
        if tree is not INVALID and answered is not None:
            one.tree, one.digest = tree, reply_of(answered, self._adapter).digest
        elif answered is not None and answered.response.status == 404 and self._marked(answered):
            one.missing = True  # A bare 404 proves nothing: not that it was deleted, not that it never was.
        else:
            one.broken = self._why(answered)

    def _readable(self, answered: Answered | None) -> object:
        if answered is None or answered.integrity is not Integrity.WHOLE or answered.response.status != 200:
            return INVALID
        return tree_of(answered.response) if self._marked(answered) else INVALID

    def _marked(self, answered: Answered) -> bool:
        """Did the provider itself answer, and not something between?"""
        return is_marked(answered.response, tree_of(answered.response), self._adapter)

    def _why(self, answered: Answered | None) -> str:
        if answered is None:
            return "no_answer"
        if answered.integrity is not Integrity.WHOLE:
            return "cut_short"
        if answered.response.status != 200:
            return f"status_{answered.response.status}"
        return "not_understood" if self._marked(answered) else "unmarked"

    # ── What to ask ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _plan(self, subject: Subject, name: str, read: Read) -> None:
        if read.kind is ReadKind.OBJECT:
            path = _object_path(subject)
            if path is not None:
                self._ones.setdefault(path, _One(path))
            return
        key = self._list_key(subject, name, read)
        if key is None:
            return
        since_ms = subject.action.dispatches[0].dispatched_at_ms - (parse_ms(read.before) or 0)
        listing = self._lists.get(key)
        if listing is None:
            self._lists[key] = _List(read, key[1], [], since_ms)
            listing = self._lists[key]
        listing.since_ms = min(listing.since_ms, since_ms)
        listing.query = self._query(read, subject, listing.since_ms)

    def _list_key(self, subject: Subject, name: str, read: Read) -> tuple[str, ...] | None:
        """Return what makes two subjects share a list; None where the request lacks a value that the query needs."""
        values = _values(subject)
        path = fill(read.path, values)
        own = [fill(v, values) for v in read.query.values() if "{since}" not in v and "{events}" not in v]
        if path is None or (own and all(v is None for v in own)):
            return None
        return (name, path, *(v or "" for v in own))

    def _query(self, read: Read, subject: Subject, since_ms: int) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        values = _values(subject) | {"since": str(since_ms // 1000)}
        for name, template in read.query.items():
            if template == "{events}":
                types = self._event_types(read)
                out += [(name, t) for t in types] if len(types) <= TYPES_MOST else []
            else:
                value = fill(template, values)
                out += [(name, value)] if value else []
        return out

    def _event_types(self, read: Read) -> list[str]:
        """Return the event types that matter to any subject of this read; none where one of them wants all."""
        asking = [s.route for s in self._subjects if read in (self._adapter.doc.read[n] for n in s.route.readback)]
        if any(not route.events for route in asking):
            return []
        return sorted({event for route in asking for event in (*route.events, *route.failed_events)})

    def _plan_details(self) -> None:
        """Ask for likely messages in full, once the lists are read."""
        for subject in self._subjects:
            for listing in self._lists_of(subject, ReadKind.CONTENT):
                for item in self._likely(subject, listing):
                    path = fill(listing.read.detail, {"object": _id(item, listing.read)})
                    if path is not None:
                        self._ones.setdefault(path, _One(path))

    # ── What was learnt ───────────────────────────────────────────────────────────────────────────────────────────────

    def findings(self) -> dict[str, Finding]:
        """Return what was learnt of each action, once everything has been asked."""
        return {subject.action.action_id: self._finding(subject) for subject in self._subjects}

    def _finding(self, subject: Subject) -> Finding:
        """Identity settles; else anything unread leaves it open; else what looks like ours is shown."""
        looks_like: list[str] = []
        broken: list[str] = []
        for kind, judge in (
            (ReadKind.SCAN, self._by_identity),
            (ReadKind.OBJECT, self._by_object),
            (ReadKind.CONTENT, self._by_content),
            (ReadKind.SIMILAR, self._by_likeness),
        ):
            found = judge(subject)
            match found:
                case Found() | Several():
                    return found
                case Candidates(object_ids):
                    looks_like += object_ids
                case Unreadable(why) if kind is not ReadKind.SIMILAR:
                    broken.append(why)
                case _:
                    pass
        if broken:
            return Unreadable(broken[0])
        return Candidates(tuple(dict.fromkeys(looks_like))) if looks_like else Absent()

    def _lists_of(self, subject: Subject, kind: ReadKind) -> list[_List]:
        out = []
        for name in subject.route.readback:
            read = self._adapter.doc.read[name]
            key = self._list_key(subject, name, read) if read.kind is kind else None
            if key is not None:
                out.append(self._lists[key])
        return out

    def _by_identity(self, subject: Subject) -> Finding:
        """An item that names our key. Events of other objects under the same key belong to the same action."""
        own: dict[str, list[_Named]] = {}  # Newest first: the last is the object as it was created.
        others: list[str] = []
        broken = ""
        for listing in self._lists_of(subject, ReadKind.SCAN):
            broken = broken or listing.broken
            for named, kind in self._bearing_our_key(subject, listing):
                if not named.object_id:
                    continue
                if subject.route.object in ("", kind) and _tells(named, subject.route):
                    own.setdefault(named.object_id, []).append(named)
                else:
                    others.append(named.object_id)
        if len(own) > 1 and subject.route.object:
            return Several(tuple(own))
        if own:
            return self._of_one(subject, list(own.values())[-1])
        if broken:
            return Unreadable(broken)
        return Candidates(tuple(dict.fromkeys(others))) if others else Absent()

    def _bearing_our_key(self, subject: Subject, listing: _List) -> Iterator[tuple[_Named, str | None]]:
        """Yield each item of a list that names our key, with the type of the object that it is about."""
        read, key = listing.read, subject.action.identity.idempotency_key
        for item, digest in zip(listing.items, listing.digests, strict=True):
            if key is None or _text(item, read.identity) != key or not self._of_account(item, subject):
                continue
            thing = next(walk(item, read.object), item) if read.object else item
            named = _Named(thing, _id(thing, read), _text(item, read.type), _text(item, read.request), digest)
            yield named, _text(thing, read.object_type)

    def _of_one(self, subject: Subject, named: list[_Named]) -> Finding:
        """Judge one object as it was created, or as failed where the same request says that it came to nothing.

        What the provider did to it later, by itself or asked by another request, is not what was asked for.
        """
        born = named[-1]
        for item in named:
            same = item is born or (item.request is not None and item.request == born.request)
            if same and item.type in subject.route.failed_events:
                return self._found(subject, item.object_id, item.thing, item.digest, failed=True)
        return self._found(subject, born.object_id, born.thing, born.digest)

    def _by_object(self, subject: Subject) -> Finding:
        """The object itself, by an ID that we were given."""
        if not any(self._adapter.doc.read[n].kind is ReadKind.OBJECT for n in subject.route.readback):
            return Absent()
        path = _object_path(subject)
        one = self._ones.get(path) if path is not None else None
        if one is None or one.missing:
            return Absent()
        if one.broken:
            return Unreadable(one.broken)
        if subject.route.found_when and not holds(one.tree, subject.route.found_when):
            return Absent()
        if not self._agrees(one.tree, subject):
            return Absent()
        return self._found(subject, _text(one.tree, "/id") or "", one.tree, one.digest)

    def _found(self, subject: Subject, object_id: str, thing: object, digest: str, *, failed: bool = False) -> Finding:
        """Identity alone does not do: what differs from the request in amount, currency or target is a candidate."""
        for pointer, fact in subject.route.same.items():
            want, have = subject.action.identity.facts.get(fact), _text(thing, pointer)
            if want is not None and have is not None and want.lower() != have.lower():
                return Candidates((object_id,))
        verdict = Rejected() if failed else of_object(thing, self._adapter, subject.route)
        if isinstance(verdict, Accepted):
            # Where the route declares no type of object, what the record shows may be another one, with its own amount.
            amount = verdict.amount if subject.route.object else None
            verdict = Accepted((object_id,) if object_id else verdict.object_ids, amount=amount)
        return Found(verdict, digest)

    def _by_likeness(self, subject: Subject) -> Finding:
        """Objects that a person should look at. They never settle."""
        out = []
        for listing in self._lists_of(subject, ReadKind.SIMILAR):
            for item in listing.items:
                made_ms = created_ms(item, listing.read.created)
                late_enough = made_ms is None or made_ms >= listing.since_ms
                if late_enough and (object_id := _id(item, listing.read)) and self._alike(subject, item):
                    out.append(object_id)
        return Candidates(tuple(out[:20])) if out else Absent()

    def _alike(self, subject: Subject, item: object) -> bool:
        facts = subject.action.identity.facts
        pairs = [(facts.get(f), _text(item, p)) for p, f in subject.route.same.items()]
        known = [(want, have) for want, have in pairs if want is not None]
        return bool(known) and all(have is not None and want.lower() == have.lower() for want, have in known)

    # ── Messages: content equality ────────────────────────────────────────────────────────────────────────────────────

    def _by_content(self, subject: Subject) -> Finding:
        """Exactly one message for each of ours, every field equal, inside the dispatch window, and no twin of ours."""
        messages = subject.action.identity.content
        found: dict[str, str] = {}
        broken, likely = "", {}
        for listing in self._lists_of(subject, ReadKind.CONTENT):
            broken = broken or listing.broken
            for item in self._likely(subject, listing):
                one = self._ones.get(fill(listing.read.detail, {"object": _id(item, listing.read)}) or "")
                if one is not None:
                    broken = broken or one.broken
                    likely[_id(item, listing.read)] = one
        if not messages or broken:
            return Unreadable(broken) if broken else Absent()
        for message in messages:
            equal = {i: one.digest for i, one in likely.items() if self._equal(subject, message, one.tree, whole=True)}
            wanted = sum(1 for other in messages if other == message)
            verifiable = set(message) <= set(subject.route.content)
            if len(equal) != wanted or subject.twins or not verifiable:
                return Candidates(tuple(likely)) if likely else Absent()
            found |= equal
        return Found(Accepted(tuple(found)), next(iter(found.values())) if len(found) == 1 else "")

    def _likely(self, subject: Subject, listing: _List) -> list[object]:
        first, last = subject.action.dispatches[0], subject.action.dispatches[-1]
        out = []
        for item in listing.items:
            made_ms = created_ms(item, listing.read.created)
            inside = made_ms is not None and first.dispatched_at_ms - SKEW_MS <= made_ms <= last.harvest_ms + SKEW_MS
            if inside and any(self._equal(subject, m, item, whole=False) for m in subject.action.identity.content):
                out.append(item)
        return out

    def _equal(self, subject: Subject, message: Mapping[str, str], tree: object, *, whole: bool) -> bool:
        """Does the record equal the message? A list shows less than the item in full (`whole`), which decides."""
        if tree is INVALID:
            return False
        for name, pointer in subject.route.content.items():
            shown = list(walk(tree, pointer))
            if not shown:
                if whole and name in message:
                    return False  # A body that the record does not show may be any.
                continue
            if name in message:
                if message[name] not in self._digests(message_field(shown[0])):
                    return False
            elif name not in subject.route.derived and shown[0] not in (None, "", []):
                return False
        return True

    def _of_account(self, item: object, subject: Subject) -> bool:
        """Is an item that names our key of the action's account and mode? Keys of two accounts may read the same."""
        account = self._adapter.doc.account
        named = _text(item, account.connected) if account is not None else None
        connected = subject.action.identity.account.split("/")[1:]
        return (not named or named in connected) and self._agrees(item, subject)

    def _agrees(self, item: object, subject: Subject) -> bool:
        """Does the record agree with the action's account and mode, in what it says of them?

        What is left of a deleted object says nothing; it was read with the credential of that account.
        """
        account = self._adapter.doc.account
        mode = subject.action.identity.account.partition("/")[0]
        wanted = account.agree.get(mode, {}) if account is not None else {}
        said = {pointer: want for pointer, want in wanted.items() if any(True for _ in walk(item, pointer))}
        return holds(item, said)


# ── Parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tells(named: _Named, route: Route) -> bool:
    """Does an item of this type say whether the action came to be? An update of a declined invoice, say, does not."""
    return named.type is None or not route.events or named.type in (*route.events, *route.failed_events)


def _values(subject: Subject) -> dict[str, str]:
    ident = subject.action.identity
    return ident.facts | ({"key": ident.idempotency_key} if ident.idempotency_key else {})


def _object_path(subject: Subject) -> str | None:
    values = _values(subject)
    if subject.action.object_ids:
        values = {**values, "object": subject.action.object_ids[0]}
    return fill(subject.route.object_path, values) if subject.route.object_path else None


def fill(template: str, values: Mapping[str, str]) -> str | None:
    """Fill a template; None where a value is missing. In a path the values are percent-encoded, each one segment."""
    names = _PLACE.findall(template)
    path = template.startswith("/")
    if any(name not in values or (path and values[name] in _NO_SEGMENTS) for name in names):
        return None
    return _PLACE.sub(lambda m: quote(values[m[1]], safe="") if path else values[m[1]], template)


def _target(listing: _List) -> str:
    query = list(listing.query)
    if listing.cursor is not None and listing.read.cursor is not None:
        query.append((listing.read.cursor.query, listing.cursor))
    text = "&".join(f"{quote(name, safe='[]')}={quote(value, safe='')}" for name, value in query)
    return f"{listing.path}?{text}" if text else listing.path


def _id(item: object, read: Read) -> str:
    node = next(walk(item, read.object_id), None)
    return str(node) if is_id(node) else ""


def _text(item: object, pointer: str) -> str | None:
    return text_of(next(walk(item, pointer), None)) if pointer else None


def created_ms(item: object, pointer: str) -> int | None:
    """Return when the provider says an item was made: from seconds since the epoch, or from RFC 3339 text."""
    text = _text(item, pointer)
    if text is None:
        return None
    if text.isdecimal():
        return int(text) * 1000 if len(text) <= 12 else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
