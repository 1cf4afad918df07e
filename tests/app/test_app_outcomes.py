"""Every row of CONTRACT 2.1 over real sockets: what the agent gets, what is recorded, and how often it was executed."""

from dataclasses import dataclass
from typing import Any

import pytest

from proxy.edges.standin import Chunk
from tests.app.bench import event
from tests.app.line import Heard
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {"BOUNDS__RESPONSE_BYTES": "65536"}


@dataclass(frozen=True)
class Row:
    """One thing that can happen, and what becomes of it. `told`: a status, and a code of ours."""

    fault: str
    fields: dict[str, Any]
    recorded: tuple[str, str, str, str | None]  # delivery, acceptance, status, cause
    told: tuple[int, str | None]
    grade: str
    executed: int
    retry: str = "never"
    upstream: int | None = None
    proxy_status: str | None = None


def unknown(
    fault: str,
    *,
    cause: str,
    delivery: str = "pending",
    executed: int = 0,
    upstream: int | None = None,
    error: str = "proxy_internal_response",
    **fields: Any,
) -> Row:
    """A row whose outcome is unknown: always 423, never retried."""
    received = f"; received-status={upstream}" if upstream is not None else ""
    return Row(
        fault,
        fields,
        (delivery, "pending", "denied_unresolved", cause),
        (423, "outcome_unknown"),
        "unknown",
        executed,
        upstream=upstream,
        proxy_status=f'doubtless; error={error}; details="outcome_unknown"{received}',
    )


def rejected(status: int, cause: str = "rejected", *, retry: str = "new-run", **fields: Any) -> Row:
    """A row where the provider says that it did not act: its own answer goes to the agent."""
    recorded = ("confirmed", "rejected", "failed", cause)
    return Row(SAID, fields | {"status": status}, recorded, (status, None), "failed", 0, retry=retry, upstream=status)


def raw(head: str, body: bytes = b"", *, close: bool = True) -> dict[str, Any]:
    """The fields of a raw answer with a mark, unless its head says otherwise."""
    data = f"HTTP/1.1 {head}\r\n\r\n".encode() + body
    return {"chunks": (Chunk(data),), "close": close, "commit": True}


SAME = ("action_id", "status", "delivery", "acceptance", "cause", "grade", "upstream_status", "amount", "currency")
REFUND = b'{"id": "re_1", "object": "refund", "amount": 5400, "currency": "usd", "status": "succeeded"}'
MARKED = f"200 OK\r\nRequest-Id: req_1\r\nContent-Type: application/json\r\nContent-Length: {len(REFUND)}"
ALREADY = b'{"error": {"type": "invalid_request_error", "code": "charge_already_refunded"}}'
LOCKED = b'{"error": {"type": "invalid_request_error", "code": "lock_timeout"}}'
ANY: dict[str, Any] = {"method": None, "path": None}
LOST: dict[str, Any] = {"cause": "connection_lost", "error": "connection_terminated"}
FAILED: dict[str, Any] = {"cause": "server_error"}
BROKEN: dict[str, Any] = {
    "cause": "malformed_response",
    "error": "http_protocol_error",
    "delivery": "confirmed",
    "executed": 1,
    "upstream": 200,
}
ODD: dict[str, Any] = {"cause": "unrecognised_response"}
SAID = "status_without_commit"
LARGE = raw("200 OK\r\nRequest-Id: req_1\r\nContent-Length: 70000", b" " * 70_000)
SHORT = raw("400 Bad Request\r\nRequest-Id: req_1\r\nContent-Length: 400", b'{"error"')
SWITCH = raw("101 Switching Protocols\r\nRequest-Id: req_1\r\nUpgrade: x\r\nConnection: upgrade")
HINTED = raw(f"103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 {MARKED}", REFUND)
DONE = ("confirmed", "accepted", "confirmed", None)
ROWS = {
    # Reset or close before a whole response head.
    "refused at once": unknown("refuse_connection", **ANY, **LOST),
    "dropped at its first byte": unknown("drop_before_read", **ANY, **LOST),
    "dropped after its head": unknown("drop_after_head", **LOST),
    "dropped before it was executed": unknown("drop_after_read", how="rst", **LOST),
    "dropped after it was executed": unknown("drop_after_commit", executed=1, **LOST),
    "reset after it was executed": unknown("drop_after_commit", executed=1, how="rst", **LOST),
    "half a head": unknown("half_head_after_commit", executed=1, **LOST),
    "no http": unknown("garbage_after_commit", executed=1, where="head", **ODD),
    # 5xx.
    "500 of the provider's": unknown("status_after_commit", delivery="confirmed", executed=1, upstream=500, **FAILED),
    "500 and not executed": unknown(SAID, delivery="confirmed", upstream=500, **FAILED),
    "502 of a middlebox": unknown("html_502", executed=1, upstream=502, commit=True, **FAILED),
    "503 of a middlebox": unknown(SAID, upstream=503, status=503, marked=False, **FAILED),
    # The provider's idempotent-write conflict.
    "409": unknown(SAID, cause="idempotent_conflict", delivery="confirmed", upstream=409, status=409),
    # 2xx that is not whole, or not what it should be.
    "cut short": unknown("truncate_after_commit", **BROKEN),
    "cut short in chunks": unknown("truncate_after_commit", framing="chunked", **BROKEN),
    "chunks that are none": unknown("garbage_after_commit", where="chunk", **BROKEN),
    "no json": unknown("garbage_after_commit", **BROKEN),
    "no object id": unknown("without_object_id_after_commit", **BROKEN),
    "trailing bytes": unknown("trailing_bytes_after_commit", **BROKEN),
    "a second response": unknown("second_response_after_commit", **BROKEN),
    "over the size bound": unknown("raw", **BROKEN, **LARGE),
    # What the provider says that it did not execute.
    "429": rejected(429, "not_executed", retry="safe"),
    "401": rejected(401, "not_executed", retry="safe"),
    # Definite rejections.
    "402": rejected(402),
    "400": rejected(400),
    "403": rejected(403),
    "404": rejected(404),
    "already refunded": rejected(400, body=ALREADY),
    # Anything else.
    "408": unknown(SAID, upstream=408, status=408, **ODD),
    "418": unknown(SAID, upstream=418, status=418, **ODD),
    "424": unknown(SAID, upstream=424, status=424, **ODD),
    "429 for a lock": unknown(SAID, upstream=429, status=429, body=LOCKED, **ODD),
    "307": unknown("redirect", upstream=307, **ODD),
    "301 after it was executed": unknown("redirect", executed=1, upstream=301, status=301, commit=True, **ODD),
    "a 400 without the mark": unknown(SAID, upstream=400, status=400, marked=False, **ODD),
    "a 200 without the mark": unknown("unmarked_after_commit", executed=1, upstream=200, **ODD),
    "a 400 cut short": unknown("raw", executed=1, upstream=400, **ODD, **SHORT),
    "a change of protocol": unknown("raw", executed=1, upstream=101, **ODD, **SWITCH),
    # 2xx otherwise.
    "200": Row("delay_after_commit", {}, DONE, (200, None), "acknowledged", 1, upstream=200),
    "200 after 103": Row("raw", HINTED, DONE, (200, None), "acknowledged", 1, upstream=200),
}


@pytest.mark.parametrize("name", ROWS)
async def test_what_happens_to_a_write_becomes_what_the_contract_says(rig: Rig, name: str) -> None:
    row, named = ROWS[name], event()
    rig.fault(row.fault, **row.fields)
    heard = await rig.refunded(rig.charge(), event=named)
    action = await rig.action(heard.action_id)
    check(row, heard, action)
    assert action["idempotency_key"] == f"{named}:stripe.refund.create"
    assert rig.standin.executions() == len(rig.standin.refunds()) == row.executed
    assert len(rig.writes) == (0 if name == "refused at once" else 1)
    if action["status"] == "denied_unresolved":
        again = await rig.refunded(str(action["event_id"]), event=named)
        assert (again.status, again.code) == (423, "outcome_unknown")
        assert len(rig.writes) <= 1


def check(row: Row, heard: Heard, action: dict[str, Any]) -> None:
    """The agent's answer and the record say what the row says, and the same."""
    assert (action["delivery"], action["acceptance"], action["status"], action["cause"]) == row.recorded
    assert (heard.status, heard.code) == row.told
    assert heard.field("Doubtless-Status") == action["status"]
    assert heard.field("Doubtless-Grade") == action["grade"] == row.grade
    assert heard.field("Doubtless-Retry") == row.retry
    assert heard.field("Proxy-Status") == row.proxy_status
    assert action["upstream_status"] == row.upstream
    assert action["was_unknown"] is (row.grade == "unknown")
    assert action["unknown_cause"] == (row.recorded[3] if row.grade == "unknown" else None)
    assert not any(action[flag] for flag in ("needs_operator", "partial", "prior_execution", "contradicted"))
    if heard.code is not None:
        assert heard.field("Stripe-Should-Retry") == heard.field("x-should-retry") == "false"
        assert heard.field("Retry-After") is None
        told = heard.json["doubtless"]
        assert {name: told[name] for name in SAME} == {name: action[name] for name in SAME}
        assert "Do not call this tool again" in heard.json["message"]
