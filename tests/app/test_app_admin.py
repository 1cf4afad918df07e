"""The operators' API: who may ask, lists and their pages, one action, reconciling on demand, exposure (CONTRACT 6)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.app.bench import RESEND_SECRET, SECRET, TOKEN, VIEWER, event, nothing_sent, reached
from tests.app.line import Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {
    "LIMITS": '[{"name": "refunds", "match": "stripe.refund.*", "amount": 1000000, "currency": "usd", "period": "day"},'
    ' {"name": "payouts", "match": "stripe.payout.*", "count": 1, "period": "total"}]'
}
EVERY_PATH = [
    ("GET", "actions"),
    ("GET", "actions/x"),
    ("POST", "actions/x/reconcile"),
    ("GET", "exposure"),
    ("GET", "limits"),
    ("GET", "nothing"),
    ("DELETE", "actions/x"),
]
GIVEN = [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"]
AGENTS = {
    *("action_id", "event_id", "action_type", "provider", "account", "idempotency_key", "status", "delivery"),
    *("acceptance", "grade", "cause", "upstream_status", "amount", "currency", "retry", "readbacks"),
    *("next_readback_at", "last_safe_replay_at", "contradicted", "status_url"),
}
KEPT = {
    *("was_unknown", "unknown_since", "unknown_cause", "settled_at", "settled_by", "confirmed_at", "retry_of", "tier"),
    *("provider_object_id", "eligible_for_reconciliation_at", "duplicate_suspected", "prior_execution", "partial"),
    *("over_reserved", "needs_operator", "evidence"),
}


# ── Who may ask ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
@pytest.mark.parametrize("given", GIVEN)
async def test_without_a_token_nothing_is_told(rig: Rig, method: str, path: str, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given}
    async with await Line.open(rig.ports["admin"]) as line:
        heard = await line.ask(request(method, f"/api/v1/{path}", headers=headers))
    assert (heard.status, heard.json["code"], set(heard.json)) == (401, "unauthorized", {"code", "message"})
    assert TOKEN not in heard.json["message"]


async def test_a_viewer_sees_everything_and_changes_nothing(rig: Rig) -> None:
    for path in ("actions", "exposure", "limits"):
        assert (await rig.admin("GET", path, token=VIEWER)).status == 200
    async with nothing_sent(rig):
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            heard = await rig.admin(method, "actions/x/reconcile", token=VIEWER)
            assert (heard.status, heard.json["code"]) == (403, "forbidden")
    async with await Line.open(rig.ports["admin"]) as line:
        data = request("HEAD", "/api/v1/actions", headers={"Authorization": f"bearer  {VIEWER}"})
        assert (await line.ask(data, head_only=True)).status == 200


async def test_what_is_not_there_is_told_in_the_same_form(rig: Rig) -> None:
    for method, path, status in (("GET", "nothing", 404), ("DELETE", "actions/x", 405), ("GET", "actions/x", 404)):
        heard = await rig.admin(method, path)
        assert (heard.status, heard.json["code"], set(heard.json)) == (status, "not_found", {"code", "message"})
        assert (heard.field("Content-Type") or "").startswith("application/json")


async def test_the_api_is_on_no_other_port(rig: Rig) -> None:
    for port in ("proxy", "providers.stripe", "health"):
        async with await Line.open(rig.ports[port]) as line:
            heard = await line.ask(request("GET", "/api/v1/actions", headers={"Authorization": f"Bearer {TOKEN}"}))
            assert heard.status in (401, 404)
            assert b'"data"' not in heard.body


# ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Made:
    """Actions of every kind, by what became of them."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.events: dict[str, str] = {}


async def made_on(rig: Rig) -> Made:
    made = Made()
    for name in ("confirmed", "rejected", "unknown", "settled", "extended"):
        named, charge = event(), rig.charge()
        if name == "rejected":
            rig.fault("status_without_commit", status=402)
        elif name in ("unknown", "settled"):
            rig.fault("drop_after_commit")
        more = {"Doubtless-Action-Type": "/second"} if name == "extended" else {}
        heard = await rig.refunded(charge, event=named, headers=more)
        made.ids[name], made.events[name] = heard.action_id, named
    assert (await rig.reconcile(made.ids["settled"]))["status"] == "confirmed"
    live = {"Authorization": "Bearer sk_live_" + "rig" * 8, "Stripe-Account": "acct_1", "Doubtless-Event-Id": event()}
    form = {"amount": "100", "currency": "eur"}
    made.ids["payout"] = (await rig.ask("POST", "/stripe/v1/payouts", form=form, headers=live)).action_id
    live["Doubtless-Event-Id"] = event()
    made.ids["refused"] = (await rig.ask("POST", "/stripe/v1/payouts", form=form, headers=live)).action_id
    rig.fault("status_after_commit", provider="resend", method="PATCH", path=None)
    mail = {"Authorization": f"Bearer {RESEND_SECRET}", "Doubtless-Event-Id": event()}
    made.ids["blind"] = (await rig.ask("PATCH", "/resend/emails/x1", body=b"{}", headers=mail)).action_id
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(shared: Rig) -> AsyncIterator[Made]:
    shared.standin.reset()
    yield await made_on(shared)


FILTERS: list[tuple[str, set[str]]] = [
    ("", {"confirmed", "rejected", "unknown", "settled", "extended", "payout", "refused", "blind"}),
    ("status=confirmed", {"confirmed", "settled", "extended", "payout"}),
    ("status=failed", {"rejected", "refused"}),
    ("status=denied_unresolved", {"unknown", "blind"}),
    ("status=unknown", {"unknown", "blind"}),
    ("status=pending", set()),
    ("grade=confirmed", {"settled"}),
    ("grade=acknowledged", {"confirmed", "extended", "payout"}),
    ("grade=refused", {"refused"}),
    ("grade=failed", {"rejected"}),
    ("grade=unknown", {"unknown", "blind"}),
    ("provider=resend", {"blind"}),
    ("provider=nobody", set()),
    ("action_type=stripe.refund.create", {"confirmed", "rejected", "unknown", "settled", "extended"}),
    ("action_type=stripe.refund.create/second", {"extended"}),
    ("account=test", {"confirmed", "rejected", "unknown", "settled", "extended"}),
    ("account=live/acct_1", {"payout", "refused"}),
    ("needs_operator=true", {"blind"}),
    ("needs_operator=false&status=unknown", {"unknown"}),
    ("contradicted=true", set()),
    ("contradicted=false&status=failed", {"rejected", "refused"}),
    ("status=confirmed&grade=confirmed&provider=stripe&account=test", {"settled"}),
]


@pytest.mark.parametrize(("query", "names"), FILTERS)
async def test_a_list_has_what_its_filters_say(shared: Rig, made: Made, query: str, names: set[str]) -> None:
    heard = await shared.admin("GET", f"actions?limit=200&{query}")
    listed = {row["action_id"] for row in heard.json["data"]}
    mine = {action_id: name for name, action_id in made.ids.items()}
    assert {mine[action_id] for action_id in listed & mine.keys()} == names
    assert heard.json["next_cursor"] is None


async def test_an_event_has_its_actions(shared: Rig, made: Made) -> None:
    for name in ("unknown", "extended"):
        listed = await shared.actions(event_id=made.events[name])
        assert [row["action_id"] for row in listed] == [made.ids[name]]
    assert await shared.actions(event_id="no-such-event") == []


WRONG = [
    *("limit=0", "limit=201", "limit=x", "limit=", "limit=-1"),
    *("state=unknown", "status=lost", "grade=A", "contradicted=maybe", "cursor=zzz"),
]


@pytest.mark.parametrize("query", WRONG)
async def test_a_list_says_what_is_wrong_with_its_query(shared: Rig, query: str) -> None:
    heard = await shared.admin("GET", f"actions?{query}")
    assert (heard.status, heard.json["code"]) == (400, "bad_request")


@pytest.mark.parametrize("query", ["", "status=unknown&", "provider=stripe&status=confirmed&"])
async def test_pages_follow_each_other_newest_first_and_leave_nothing_out(shared: Rig, made: Made, query: str) -> None:
    whole = [row["action_id"] for row in (await shared.admin("GET", f"actions?{query}limit=200")).json["data"]]
    assert whole == sorted(whole, reverse=True)
    paged: list[str] = []
    cursor = ""
    while True:
        page = (await shared.admin("GET", f"actions?{query}limit=2{cursor}")).json
        assert len(page["data"]) <= 2
        paged += [row["action_id"] for row in page["data"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert paged == whole


async def test_each_action_has_all_that_it_keeps(shared: Rig, made: Made) -> None:
    row: dict[str, Any]
    for row in (await shared.admin("GET", "actions")).json["data"]:
        assert row.keys() >= AGENTS | KEPT
    unknown = await shared.action(made.ids["unknown"])
    assert unknown.keys() >= AGENTS | KEPT | {"dispatches", "attempts", "notes"}
    assert (unknown["was_unknown"], unknown["unknown_cause"], unknown["tier"]) == (True, "connection_lost", "full")
    assert unknown["unknown_since"].endswith("Z")
    assert unknown["settled_at"] is None
    settled = await shared.action(made.ids["settled"])
    assert (settled["cause"], settled["unknown_cause"]) == (None, "connection_lost")
    assert settled["settled_by"] == {"source": "read_back", "by": None}
    assert settled["confirmed_at"] == settled["settled_at"]
    assert settled["readbacks"] == 0  # An on-demand one does not count.
    assert [a["scheduled"] for a in settled["attempts"]] == [False]
    assert (await shared.action(made.ids["blind"]))["needs_operator"] is True


# ── Reconciling ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_settled_in_flight_or_unknown_to_us_is_not_reconciled(rig: Rig) -> None:
    fault, named = rig.fault("hold_after_commit"), event()
    async with await rig.line() as line:
        await line.send(rig.refund(rig.charge(), event=named))
        await reached(fault)
        [pending] = await rig.actions(event_id=named)
        early = await rig.admin("POST", f"actions/{pending['action_id']}/reconcile")
        fault.release()
        await line.hear()
    assert (early.status, early.json["code"]) == (409, "too_early")
    assert early.json["until"].endswith("Z")
    done = await rig.admin("POST", f"actions/{pending['action_id']}/reconcile")
    assert (done.status, done.json["code"]) == (409, "already_settled")
    nobody = await rig.admin("POST", "actions/no-such-action/reconcile")
    assert (nobody.status, nobody.json["code"]) == (404, "not_found")
    assert not [a for a in rig.standin.journal if a.target.startswith("/v1/events")]


async def test_before_the_record_may_show_it_nobody_asks(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"PROVIDERS__STRIPE__MIN_AGE": "1h"}) as rig:
        rig.fault("drop_after_commit")
        heard = await rig.refunded(rig.charge(), event=event())
        asked = await rig.admin("POST", f"actions/{heard.action_id}/reconcile")
        action = await rig.action(heard.action_id)
        assert (asked.status, asked.json["code"]) == (409, "too_early")
        assert asked.json["until"] == action["eligible_for_reconciliation_at"] <= action["next_readback_at"]
        assert not [a for a in rig.standin.journal if a.target.startswith("/v1/events")]


async def test_an_answer_of_the_record_that_cannot_be_read_changes_nothing(rig: Rig) -> None:
    rig.fault("drop_after_commit")
    heard = await rig.refunded(rig.charge(), event=event())
    rig.fault("status_without_commit", method="GET", path="/v1/events", status=500)
    asked = await rig.reconcile(heard.action_id)
    assert (asked["status"], asked["readbacks"]) == ("denied_unresolved", 0)
    assert asked["attempts"][-1]["result"] == "unreadable"
    assert (await rig.reconcile(heard.action_id))["status"] == "confirmed"


# ── Exposure and limits ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_unknown_is_held_by_account_and_currency_until_it_is_settled(tmp_path: Path) -> None:
    async with Rig(tmp_path, SETTINGS) as rig:
        rig.fault("drop_after_commit", path=None, times=4)
        ids = [(await rig.refunded(rig.charge(), event=event(), amount=amount)).action_id for amount in ("100", "23")]
        live = {"Authorization": "Bearer sk_live_" + "rig" * 8, "Doubtless-Event-Id": event()}
        form = {"amount": "7", "currency": "eur", "destination": "acct_9"}
        await rig.ask("POST", "/stripe/v1/transfers", form=form, headers=live)
        named = {"Authorization": f"Bearer {SECRET}", "Doubtless-Event-Id": event()}
        await rig.ask("POST", "/stripe/v1/unheard_of", form={}, headers=named)
        rows = (await rig.admin("GET", "exposure")).json["data"]
        assert sorted(rows, key=str) == sorted(
            [
                {"provider": "stripe", "account": "live", "currency": "eur", "amount": 7, "actions": 1},
                {"provider": "stripe", "account": "test", "currency": "usd", "amount": 123, "actions": 2},
                {"provider": "stripe", "account": "test", "currency": None, "amount": 0, "actions": 1},
            ],
            key=str,
        )
        refunds = next(row for row in (await rig.admin("GET", "limits")).json["data"] if row["name"] == "refunds")
        assert refunds == {
            "name": "refunds",
            "match": "stripe.refund.*",
            "currency": "usd",
            "period": "day",
            "cap": 1_000_000,
            "consumed": 0,
            "reserved": 0,
            "unknown": 123,
            "available": 999_877,
        }
        for action_id in ids:
            await rig.reconcile(action_id)
        rows = (await rig.admin("GET", "exposure")).json["data"]
        assert [row for row in rows if row["currency"] == "usd"] == []
        refunds = next(row for row in (await rig.admin("GET", "limits")).json["data"] if row["name"] == "refunds")
        assert (refunds["consumed"], refunds["unknown"], refunds["available"]) == (123, 0, 999_877)
