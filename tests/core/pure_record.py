"""A provider's own record, asked page by page, and the actions that are asked about."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl

from msgspec.structs import replace

from proxy.core.adapter import Adapter
from proxy.core.events import Finding
from proxy.core.http import Answered
from proxy.core.identity import content
from proxy.core.model import Action
from proxy.core.readback import Inquiry, Subject
from tests.core.pure_adapters import RESEND, STRIPE, route
from tests.core.pure_bodies import json_
from tests.core.pure_http import REFUND, RESEND_MARK, STRIPE_MARK, answered
from tests.fakes.actions import make_action
from tests.fakes.clock import START_MS
from tests.fakes.vault import PlainVault

VAULT: Final = PlainVault()
START_S: Final = START_MS // 1000
Json = dict[str, Any]


def _marked(status: int, body: object) -> Answered:
    """Answer as either provider does; the mark of the other one means nothing to it."""
    return answered(status, body, STRIPE_MARK, RESEND_MARK)


class Record:
    """Lists by path, newest first, `per_page` at a time, and objects by path. `faults`: instead of the nth answer."""

    def __init__(
        self,
        lists: Mapping[str, Sequence[object]] | None = None,
        objects: Mapping[str, object] | None = None,
        *,
        per_page: int = 100,
        faults: Mapping[int, Answered | None] | None = None,
    ) -> None:
        self.lists = dict(lists or {})
        self.objects = dict(objects or {})
        self.per_page = per_page
        self.faults = dict(faults or {})
        self.asked: list[str] = []

    def __call__(self, target: str) -> Answered | None:
        """Answer one GET."""
        self.asked.append(target)
        if len(self.asked) in self.faults:
            return self.faults[len(self.asked)]
        path, _, query = target.partition("?")
        if path in self.lists:
            return _marked(200, self._page(self.lists[path], dict(parse_qsl(query))))
        return _marked(200, self.objects[path]) if path in self.objects else _marked(404, {"error": {}})

    def _page(self, items: Sequence[Any], query: dict[str, str]) -> Json:
        after = query.get("starting_after") or query.get("after")
        start = 0
        if after is not None:
            start = next(n for n, item in enumerate(items) if item["id"] == after) + 1
        page = items[start : start + self.per_page]
        return {"object": "list", "data": page, "has_more": len(items) > start + self.per_page}


def converse(adapter: Adapter, record: Callable[[str], Answered | None], *subjects: Subject) -> dict[str, Finding]:
    """Ask about the subjects until there is nothing more to ask."""
    inquiry = Inquiry(adapter, subjects, VAULT.digests)
    for _ in range(1000):
        target = inquiry.ask()
        if target is None:
            return inquiry.findings()
        inquiry.hear(record(target))
    raise AssertionError("the conversation has no end")


def one(adapter: Adapter, record: Callable[[str], Answered | None], subject: Subject) -> Finding:
    """Ask about one subject."""
    return converse(adapter, record, subject)[subject.action.action_id]


# ── Stripe ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def asked(
    facts: Mapping[str, str],
    type_: str = "refund.create",
    *,
    number: int = 1,
    account: str = "test",
    object_ids: tuple[str, ...] = (),
) -> Subject:
    """Return an action of Stripe's whose outcome is unknown."""
    action = make_action(number, action_type=f"stripe.{type_}", account=account)
    action = replace(action, identity=replace(action.identity, facts=dict(facts)), object_ids=object_ids)
    return Subject(action, STRIPE.route(f"stripe.{type_}"))


REFUNDED: Final = {"charge": "ch_1", "amount": "5400", "currency": "usd"}


def key(subject: Subject) -> str:
    """Return the key that the action was sent under."""
    found = subject.action.identity.idempotency_key
    assert found is not None
    return found


def event(
    number: int,
    bearing: str | None,
    thing: Json,
    type_: str = "refund.created",
    *,
    request: str | None = "req_1",
    created: int = START_S,
    **other: Any,
) -> Json:
    """Return an event of Stripe's; a higher number is newer."""
    return {
        "id": f"evt_{number}",
        "object": "event",
        "created": created,
        "data": {"object": thing},
        "livemode": False,
        "request": {"id": request, "idempotency_key": bearing},
        "type": type_,
    } | other


def refund(number: int = 1, **other: Any) -> Json:
    """Return a refund."""
    return REFUND | {"id": f"re_{number}"} | other


def foreign(count: int, *, created: int = START_S) -> list[Json]:
    """Return events of other refunds under other keys, the newest first."""
    return [event(1000 + n, f"ticket-{n}:x.y", refund(1000 + n), created=created) for n in range(count, 0, -1)]


EVENTS: Final = "/v1/events"


# ── Resend ────────────────────────────────────────────────────────────────────────────────────────────────────────────

MAIL: Final[Json] = {"from": "Acme <a@acme.example>", "to": ["b@x.example"], "subject": "Hello", "html": "<p>1</p>"}


def mailed(*messages: Json, type_: str = "email.send", twins: bool = False) -> Subject:
    """Return a mail whose outcome is unknown, as a request with these fields made it."""
    body = json_(json.dumps(messages[0] if type_ == "email.send" else list(messages)).encode())
    digested = tuple(
        {name: VAULT.digest(data) for name, data in message.items()} for message in content(body, route(RESEND, type_))
    )
    action: Action = make_action(1, provider="resend", account="default", action_type=f"resend.{type_}")
    return Subject(
        replace(action, identity=replace(action.identity, content=digested)), route(RESEND, type_), twins=twins
    )


def shown(number: int, mail: Json, *, after_s: float = 0, **other: Any) -> Json:
    """Return a mail as Resend's record shows it in full."""
    made = datetime.fromtimestamp(START_S + after_s, UTC)
    to = mail.get("to", [])
    return {
        "object": "email",
        "id": f"mail-{number}",
        "created_at": made.isoformat(sep=" ", timespec="microseconds").removesuffix(":00"),
        "from": mail.get("from"),
        "to": [to] if isinstance(to, str) else to,
        "subject": mail.get("subject"),
        "html": mail.get("html"),
        "text": mail.get("text"),
        "cc": mail.get("cc", []),
        "bcc": mail.get("bcc", []),
        "reply_to": mail.get("reply_to", []),
        "last_event": "sent",
    } | other


def mailbox(*mails: Json, per_page: int = 100, faults: Mapping[int, Answered | None] | None = None) -> Record:
    """Return Resend's record: a list without bodies, and each mail in full."""
    rows = [{name: value for name, value in mail.items() if name not in ("html", "text")} for mail in mails]
    return Record(
        {"/emails": rows}, {f"/emails/{mail['id']}": mail for mail in mails}, per_page=per_page, faults=faults
    )
