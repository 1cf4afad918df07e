"""CONTRACT 2.1, where the row needs more than a fault: keys, limits, earlier executions, and providers of one's own."""

import pytest

from proxy.edges.standin import Chunk
from tests.app.bench import RESEND_SECRET, SECRET, event, reached
from tests.app.line import Heard, Line, request
from tests.app.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")
SOURCE = 'source = "the tests, 2026-11-30"'
FILES = {
    "acme.toml": f"""
schema = 1
[provider]
name = "acme"
hosts = ["api.acme.example"]
upstream = "https://api.acme.example"
[[outcome]]
status = [200]
json = {{ "/ok" = false }}
means = "rejected"
{SOURCE}
[[outcome]]
status = [200]
json = {{ "/failed" = ["1", "2"] }}
means = "partial"
{SOURCE}
[[outcome]]
status = [202]
means = "not_terminal"
{SOURCE}
[[action]]
type = "job.create"
method = "POST"
path = "/jobs"
object_id = "/id"
"""
}
SETTINGS = {
    "PROVIDERS__ACME__ADAPTER": "{folder}/acme.toml",
    "PROVIDERS__ACME__UPSTREAM": "{stripe}",
    "LIMITS": '[{"name": "out", "match": "stripe.payout.create", "amount": 9000, "currency": "usd", "period": "total"},'
    ' {"name": "captured", "match": "stripe.charge.capture", "amount": 9000, "currency": "usd", "period": "total"}]',
}
STRIPE = {"Authorization": f"Bearer {SECRET}"}
MAIL = b'{"from": "a@acme.example", "to": "b@acme.example", "subject": "%b", "html": "hello"}'
JSON = {"Content-Type": "application/json"}


async def straight(rig: Rig, key: str, charge: str, amount: str = "5400", fault: str | None = None) -> Heard:
    """Use a key at the provider itself, past the proxy."""
    if fault is not None:
        rig.fault(fault)
    form = {"charge": charge, "amount": amount}
    async with await Line.open(rig.standin.port("stripe")) as line:
        return await line.ask(request("POST", "/v1/refunds", form=form, headers={**STRIPE, "Idempotency-Key": key}))


async def job(rig: Rig, answer: str, body: str = "", *, named: str | None = None) -> Heard:
    """Create a job at Acme, which answers what it is told to."""
    framed = f"Content-Length: {len(body)}\r\nContent-Type: application/json"
    data = f"HTTP/1.1 {answer}\r\n{framed}\r\n\r\n{body}".encode()
    rig.fault("raw", path="/jobs", chunks=(Chunk(data),), close=False)
    return await rig.ask("POST", "/acme/jobs", body=b"{}", headers={"Doubtless-Event-Id": named or event()})


async def mail(rig: Rig, subject: str, **headers: str) -> Heard:
    """Send an email."""
    fields = {
        "Authorization": f"Bearer {RESEND_SECRET}",
        **JSON,
        **{n.replace("_", "-"): v for n, v in headers.items()},
    }
    return await rig.ask("POST", "/resend/emails", body=MAIL % subject.encode(), headers=fields)


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_that_stripe_knows_with_other_parameters_is_for_a_person_at_once(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    await straight(rig, f"{named}:stripe.refund.create", charge, amount="1")
    heard = await rig.refunded(charge, event=named)
    action = await rig.action(heard.action_id)
    assert (heard.status, heard.code, action["cause"]) == (423, "outcome_unknown", "key_reused")
    assert (action["needs_operator"], action["delivery"], action["next_readback_at"]) == (True, "confirmed", None)
    assert (action["upstream_status"], rig.standin.executions()) == (400, 1)


async def test_a_key_that_resend_knows_with_another_payload_is_for_a_person_at_once(rig: Rig) -> None:
    named = event()
    async with await Line.open(rig.standin.port("resend")) as line:
        fields = {"Authorization": f"Bearer {RESEND_SECRET}", **JSON, "Idempotency-Key": f"{named}:resend.email.send"}
        await line.ask(request("POST", "/emails", body=MAIL % b"first", headers=fields))
    heard = await mail(rig, "second", Doubtless_Event_Id=named)
    action = await rig.action(heard.action_id)
    assert (heard.status, action["cause"], action["needs_operator"]) == (423, "key_reused", True)
    assert len(rig.standin.emails()) == 1


async def test_a_key_that_is_in_flight_at_the_provider_leaves_the_outcome_unknown(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    fault = rig.fault("hold_before_commit")
    async with await Line.open(rig.standin.port("stripe")) as other:
        fields = {**STRIPE, "Idempotency-Key": f"{named}:stripe.refund.create"}
        await other.send(request("POST", "/v1/refunds", form={"charge": charge, "amount": "5400"}, headers=fields))
        await reached(fault)
        heard = await rig.refunded(charge, event=named)
        fault.release()
        assert (await other.hear()).status == 200
    action = await rig.action(heard.action_id)
    assert (heard.status, action["cause"], action["delivery"]) == (423, "idempotent_conflict", "confirmed")
    assert (await rig.reconcile(heard.action_id))["status"] == "confirmed"
    assert rig.standin.executions() == 1


async def test_what_somebody_executed_before_us_under_the_key_is_flagged(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    first = await straight(rig, f"{named}:stripe.refund.create", charge)
    heard = await rig.refunded(charge, event=named)
    action = await rig.action(heard.action_id)
    assert (heard.status, heard.body, heard.field("Idempotent-Replayed")) == (200, first.body, "true")
    assert (action["status"], action["prior_execution"]) == ("confirmed", True)
    assert rig.standin.executions() == 1


async def test_a_replayed_500_stays_unknown(rig: Rig) -> None:
    charge, named = rig.charge(), event()
    assert (await straight(rig, f"{named}:stripe.refund.create", charge, fault="status_after_commit")).status == 500
    heard = await rig.refunded(charge, event=named)
    action = await rig.action(heard.action_id)
    assert (heard.code, action["cause"], action["status"]) == ("outcome_unknown", "server_error", "denied_unresolved")
    assert action["prior_execution"] is True
    assert rig.standin.executions() == 1


# ── A provider of one's own ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_2xx_that_the_adapter_calls_a_rejection_failed(rig: Rig) -> None:
    heard = await job(rig, "200 OK", '{"ok": false}')
    action = await rig.action(heard.action_id)
    assert (heard.status, heard.json, heard.field("Doubtless-Retry")) == (200, {"ok": False}, "new-run")
    assert (action["status"], action["acceptance"], action["cause"]) == ("failed", "rejected", "rejected")


async def test_a_batch_that_was_accepted_in_part_happened_and_says_so(rig: Rig) -> None:
    action = await rig.action((await job(rig, "200 OK", '{"id": "job_1", "failed": 1}')).action_id)
    assert (action["status"], action["partial"], action["provider_object_id"]) == ("confirmed", True, "job_1")


async def test_a_job_that_may_still_fail_is_unknown_and_its_first_asker_gets_the_providers_answer(rig: Rig) -> None:
    named = event()
    heard = await job(rig, "202 Accepted", '{"id": "job_2", "status": "queued"}', named=named)
    assert (heard.status, heard.json["id"], heard.code) == (202, "job_2", None)
    assert (heard.field("Doubtless-Status"), heard.field("Doubtless-Retry")) == ("denied_unresolved", "never")
    action = await rig.action(heard.action_id)
    assert (action["delivery"], action["acceptance"], action["cause"]) == ("confirmed", "pending", "non_terminal")
    again = await rig.ask("POST", "/acme/jobs", body=b"{}", headers={"Doubtless-Event-Id": named})
    assert (again.status, again.body, again.field("Idempotent-Replayed")) == (202, heard.body, "true")
    assert len(rig.writes) == 1


@pytest.mark.parametrize(
    ("answer", "body", "status", "cause"),
    [
        ("201 Created", '{"id": "job_3"}', "confirmed", None),
        ("201 Created", '{"name": "job_3"}', "denied_unresolved", "malformed_response"),
        *(
            (f"{code} X", '{"message": "no"}', "failed", "rejected")
            for code in (400, 401, 403, 404, 405, 410, 415, 422)
        ),
        ("422 X", "no json", "denied_unresolved", "unrecognised_response"),
        ("409 X", '{"message": "no"}', "denied_unresolved", "unrecognised_response"),
        ("429 X", '{"message": "no"}', "denied_unresolved", "unrecognised_response"),
        ("500 X", '{"message": "no"}', "denied_unresolved", "server_error"),
    ],
)
async def test_without_a_declared_mark_a_few_statuses_are_definite_and_the_rest_is_unknown(
    rig: Rig, answer: str, body: str, status: str, cause: str | None
) -> None:
    heard = await job(rig, answer, body)
    action = await rig.action(heard.action_id)
    assert (action["status"], action["cause"]) == (status, cause)
    assert heard.status == (423 if status == "denied_unresolved" else int(answer[:3]))
    if cause == "server_error":
        assert action["delivery"] == "pending"  # No mark is declared: nobody knows who answered.


async def test_a_blind_action_that_is_unknown_needs_a_person_at_once(rig: Rig) -> None:
    action = await rig.action((await job(rig, "500 X")).action_id)
    assert (action["tier"], action["needs_operator"], action["next_readback_at"]) == ("blind", True, None)


# ── Resend ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_mail_goes_out_once_is_unknown_when_its_answer_is_lost_and_is_found_by_its_content(rig: Rig) -> None:
    rig.fault("drop_after_commit", path="/emails")
    named = event()
    heard = await mail(rig, named, Doubtless_Event_Id=named)
    assert (heard.status, heard.json["doubtless"]["cause"], heard.field("Content-Type")) == (
        423,
        "connection_lost",
        "application/json",
    )
    assert heard.json["statusCode"] == 423
    assert heard.json["name"] == heard.json["error"]["code"] == "outcome_unknown"
    settled = await rig.reconcile(heard.action_id)
    assert (settled["status"], settled["settled_by"]["source"]) == ("confirmed", "read_back")
    assert [m["id"] for m in rig.standin.emails()] == [settled["provider_object_id"]]


# ── What we refuse ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_without_room_in_a_limit_nothing_is_sent_and_it_is_recorded(rig: Rig) -> None:
    form = {"amount": "9001", "currency": "usd"}
    heard = await rig.ask("POST", "/stripe/v1/payouts", form=form, headers={**STRIPE, "Doubtless-Event-Id": event()})
    action = await rig.action(heard.action_id)
    assert (heard.status, heard.code, heard.field("Doubtless-Retry")) == (403, "limit_exhausted", "never")
    assert (action["status"], action["grade"], action["cause"]) == ("failed", "refused", "limit_exhausted")
    assert (action["delivery"], action["acceptance"], action["evidence"]) == (None, None, [])
    assert rig.writes == []
    assert heard.action_id in [a["action_id"] for a in await rig.actions(grade="refused")]


async def test_an_amount_that_cannot_be_told_is_not_sent_where_a_limit_covers_it(rig: Rig) -> None:
    headers = {**STRIPE, "Doubtless-Event-Id": event()}
    heard = await rig.ask("POST", "/stripe/v1/charges/ch_nobody/capture", form={}, headers=headers)
    action = await rig.action(heard.action_id)
    assert (heard.status, heard.code) == (403, "amount_undeterminable")
    assert (action["grade"], action["cause"]) == ("denied", "amount_undeterminable")
    assert rig.writes == []
