"""Resend's objects: emails, the log of calls, and everything else that its API can hold."""

import json
from typing import Any, Final

from msgspec import Struct

from proxy.edges.standin.provider import Call, Clock, Identifiers, Json, moment
from proxy.edges.standin.wire import Answer

_LIMIT: Final = 20  # resend.com/docs; the SDK's docstring says 10 (facts, section 5).
_LIMIT_MAX: Final = 100
_BATCH_MAX: Final = 100  # resend-python 2.52, Batch.send: "up to 100 batch emails at once".
_ROW: Final = (
    "id",
    "message_id",
    "to",
    "from",
    "created_at",
    "subject",
    "bcc",
    "cc",
    "reply_to",
    "last_event",
    "scheduled_at",
)
"""A list's fields: no html, no text, no tags, no headers, no key (facts, section 5)."""
_LOG_ROW: Final = ("id", "created_at", "endpoint", "method", "response_status", "user_agent")


class Refused(Exception):
    """Resend says no."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(body["message"])
        self.status = status
        self.body = body


def refused(status: int, name: str, message: str) -> Refused:
    """Return a refusal in Resend's shape (facts, section 5: resend.com/docs/api-reference/errors)."""
    return Refused(status, {"statusCode": status, "name": name, "message": message})


class Sent(Struct, frozen=True):
    """What an endpoint answers."""

    body: Json
    executed: bool = False
    object_id: str | None = None


class Mailbox:
    """Everything that one Resend account holds, the oldest first."""

    def __init__(self, *, clock: Clock, ids: Identifiers) -> None:
        self.emails: dict[str, Json] = {}
        self.logs: dict[str, Json] = {}
        self.others: dict[str, dict[str, Json]] = {}
        self._clock = clock
        self._ids = ids

    def send(self, body: Any) -> Sent:
        """POST /emails."""
        complaint = _complaint(body)
        if complaint:
            raise complaint
        email = self.add(body)
        return Sent({"id": email["id"]}, executed=True, object_id=email["id"])

    def send_batch(self, body: Any, *, permissive: bool) -> Sent:
        """POST /emails/batch: all or none, unless `x-batch-validation: permissive`."""
        if not isinstance(body, list) or not 1 <= len(body) <= _BATCH_MAX:
            raise refused(422, "validation_error", f"The body must be an array of 1 to {_BATCH_MAX} emails.")
        complaints = [_complaint(item) for item in body]
        wrong = [(index, complaint) for index, complaint in enumerate(complaints) if complaint]
        if wrong and not permissive:
            raise wrong[0][1]
        made = [self.add(item)["id"] for item, complaint in zip(body, complaints, strict=True) if not complaint]
        answer: Json = {"data": [{"id": email_id} for email_id in made]}
        if permissive:
            answer["errors"] = [{"index": index, "message": str(complaint)} for index, complaint in wrong]
        return Sent(answer, executed=bool(made), object_id=made[0] if made else None)

    def add(self, body: Json) -> Json:
        """Put an email into the mailbox, whoever sent it."""
        email_id = self._ids.uuid()
        scheduled = body.get("scheduled_at") or body.get("scheduledAt")
        email = {
            "id": email_id,
            "object": "email",
            "message_id": f"<{email_id}@standin.example>",
            "to": _addresses(body["to"]),
            "from": body["from"],
            "created_at": self._now(),
            "subject": body.get("subject"),
            "html": body.get("html"),
            "text": body.get("text"),
            "bcc": _addresses(body.get("bcc")),
            "cc": _addresses(body.get("cc")),
            "reply_to": _addresses(body.get("reply_to", body.get("replyTo"))),
            "last_event": "scheduled" if scheduled else "sent",
            "scheduled_at": scheduled,
            "tags": body.get("tags") or [],
            "headers": body.get("headers") or {},
        }
        self.emails[email_id] = email
        return email

    def find(self, email_id: str) -> Json:
        """Return an email, or refuse as Resend does."""
        try:
            return self.emails[email_id]
        except KeyError:
            raise refused(404, "not_found", "Email not found") from None

    def retrieve(self, email_id: str) -> Sent:
        """GET /emails/{id}. Tags and headers are not in the documented answer (facts, section 5)."""
        email = self.find(email_id)
        return Sent({name: value for name, value in email.items() if name not in ("tags", "headers")})

    def reschedule(self, email_id: str, body: Any) -> Sent:
        """PATCH /emails/{id}."""
        email = self._scheduled(email_id)
        email["scheduled_at"] = _object(body).get("scheduled_at")
        return Sent({"object": "email", "id": email_id}, executed=True, object_id=email_id)

    def cancel(self, email_id: str) -> Sent:
        """POST /emails/{id}/cancel."""
        self._scheduled(email_id)["last_event"] = "canceled"
        return Sent({"object": "email", "id": email_id}, executed=True, object_id=email_id)

    def _scheduled(self, email_id: str) -> Json:
        email = self.find(email_id)
        if email["last_event"] != "scheduled":
            raise refused(422, "validation_error", "This email is not scheduled.")
        return email

    def page(self, kind: str, query: dict[str, str]) -> Sent:
        """GET /emails and GET /logs: newest first, a cursor by ID, no filters; unknown parameters do nothing."""
        kept, fields = (self.emails, _ROW) if kind == "email" else (self.logs, _LOG_ROW)
        page, has_more = _cut(list(reversed(kept.values())), query)
        rows = [{name: row.get(name) for name in fields} for row in page]
        return Sent({"object": "list", "has_more": has_more, "data": rows})

    def log(self, call: Call, answer: Answer) -> None:
        """Keep a call for GET /logs."""
        log_id = self._ids.uuid()
        self.logs[log_id] = {
            "object": "log",
            "id": log_id,
            "created_at": self._now(),
            "endpoint": call.path,
            "method": call.method,
            "response_status": answer.status,
            "user_agent": call.header(b"user-agent"),
            "request_body": _json_or_none(call.body),
            "response_body": _json_or_none(answer.body),
        }

    def retrieve_log(self, log_id: str) -> Sent:
        """GET /logs/{id}."""
        if log_id not in self.logs:
            raise refused(404, "not_found", "Log not found")
        return Sent(self.logs[log_id])

    def other(self, method: str, collection: str, rest: list[str], body: Any) -> Sent:
        """Domains, contacts, broadcasts and the rest: objects that hold what was sent."""
        kept, kind = self.others.setdefault(collection, {}), collection.removesuffix("s")
        match method, rest:
            case "POST", []:
                object_id = self._ids.uuid()
                kept[object_id] = {"object": kind, "id": object_id, "created_at": self._now()} | _object(body)
                return Sent({"object": kind, "id": object_id}, executed=True, object_id=object_id)
            case "GET" | "HEAD", []:
                rows = list(reversed(kept.values()))
                return Sent({"object": "list", "has_more": False, "data": rows})
            case _, [object_id, *_] if object_id not in kept:
                raise refused(404, "not_found", f"{kind.capitalize()} not found")
            case "GET" | "HEAD", [object_id]:
                return Sent(kept[object_id])
            case "PATCH" | "PUT", [object_id]:
                kept[object_id] |= _object(body)
                return Sent({"object": kind, "id": object_id}, executed=True, object_id=object_id)
            case "DELETE", [object_id]:
                del kept[object_id]
                return Sent({"object": kind, "id": object_id, "deleted": True}, executed=True, object_id=object_id)
            case "POST", [object_id, _]:
                return Sent({"object": kind, "id": object_id}, executed=True, object_id=object_id)
            case _:
                raise refused(405, "method_not_allowed", "Method is not allowed for the requested path")

    def _now(self) -> str:
        return moment(self._clock()).isoformat(sep=" ", timespec="microseconds").removesuffix(":00")


def _addresses(value: Any) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def _object(body: Any) -> Json:
    if not isinstance(body, dict):
        raise refused(422, "validation_error", "The request body must be an object.")
    return body


def _complaint(body: Any) -> Refused | None:
    """Say what is wrong with an email, before anything is done."""
    if not isinstance(body, dict):
        return refused(422, "validation_error", "An email must be an object.")
    for name in ("from", "to", "subject"):
        if not body.get(name) and not (name == "subject" and body.get("template")):
            return refused(422, "missing_required_field", f"Missing `{name}` field.")
    if not any(body.get(name) for name in ("html", "text", "template")):
        return refused(422, "missing_required_field", "Missing `html` or `text` field.")
    return None


def _cut(rows: list[Json], query: dict[str, str]) -> tuple[list[Json], bool]:
    text, after, before = query.get("limit", str(_LIMIT)), query.get("after"), query.get("before")
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LIMIT_MAX):
        raise refused(422, "validation_error", f"The limit must be between 1 and {_LIMIT_MAX}.")
    if after and before:
        raise refused(422, "validation_error", "Only one of `after` and `before` can be used.")
    limit = int(text)
    if before:
        end = _index(rows, before)
        start = max(0, end - limit)
        return rows[start:end], start > 0
    start = _index(rows, after) + 1 if after else 0
    return rows[start : start + limit], len(rows) > start + limit


def _index(rows: list[Json], object_id: str) -> int:
    for index, row in enumerate(rows):
        if row["id"] == object_id:
            return index
    raise refused(422, "validation_error", "The cursor does not exist.")


def _json_or_none(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None
