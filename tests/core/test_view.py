"""An action as agents and operators see it: the `doubtless` object of CONTRACT 3, and all that section 1 keeps."""

from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from proxy.core.events import Candidates, Found, Lost, Moment, Noted, ReadBack, Resolved, Responded, Unsendable
from proxy.core.http import Unsent
from proxy.core.lifecycle import step
from proxy.core.model import Action, Amount, Cause, NotDispatched, Tier
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear
from proxy.core.view import detail, doubtless, iso, last_safe_replay_ms, retry_of, row, word
from tests.core.pure_adapters import HOST_ONLY, RESEND, STRIPE
from tests.fakes.actions import RULES, after, make_action
from tests.fakes.clock import START_MS

BASE: Final = "http://127.0.0.1:7411"
HOUR_MS: Final = 3_600_000
SENT: Final = make_action()
LOST: Final = after(SENT, Lost("d1-1", Cause.TIMEOUT))
WHOLE: Final = Reply(status=200, request_id="req_1", digest="sha256:00", whole=True)
DONE: Final = after(SENT, Responded("d1-1", Accepted(("re_1", "re_2")), WHOLE))
NOON: Final = "2026-10-15T12:00:00Z"


def test_the_object_of_the_contract_has_all_its_members() -> None:
    assert doubtless(LOST, STRIPE, BASE) == {
        "action_id": LOST.action_id,
        "event_id": "ticket-1",
        "action_type": "stripe.refund.create",
        "provider": "stripe",
        "account": "test",
        "idempotency_key": "ticket-1:stripe.refund.create",
        "status": "denied_unresolved",
        "delivery": "pending",
        "acceptance": "pending",
        "grade": "unknown",
        "cause": "timeout",
        "upstream_status": None,
        "amount": 5400,
        "currency": "usd",
        "retry": "never",
        "readbacks": 0,
        "next_readback_at": "2026-10-15T12:00:30Z",
        "last_safe_replay_at": "2026-10-16T11:00:00Z",
        "contradicted": False,
        "status_url": f"{BASE}/_doubtless/actions/{LOST.action_id}",
    }


def test_a_confirmed_action_has_no_cause_but_keeps_why_it_was_unknown() -> None:
    settled = after(LOST, ReadBack(Found(Accepted(("re_1",))), scheduled=True), now_ms=START_MS + 60_500)
    seen = row(settled, STRIPE, BASE)

    assert (seen["status"], seen["delivery"], seen["acceptance"]) == ("confirmed", "confirmed", "accepted")
    assert (seen["cause"], seen["unknown_cause"], seen["grade"]) == (None, "timeout", "confirmed")
    assert (seen["was_unknown"], seen["unknown_since"]) == (True, NOON)
    assert seen["settled_at"] == seen["confirmed_at"] == "2026-10-15T12:01:00.500Z"
    assert seen["settled_by"] == {"source": "read_back", "by": None}
    assert seen["readbacks"] == 1
    assert seen["next_readback_at"] is None


def test_what_was_never_dispatched_has_neither_axis() -> None:
    refused = replace(SENT, delivery=NotDispatched(), awaited=False, dispatches=(), cause=Cause.LIMIT_EXHAUSTED)
    seen = doubtless(refused, STRIPE, BASE)

    assert (seen["status"], seen["delivery"], seen["acceptance"]) == ("failed", None, None)
    assert (seen["grade"], seen["cause"], seen["last_safe_replay_at"]) == ("refused", "limit_exhausted", None)


def test_all_that_the_contract_keeps_for_good_is_in_a_row() -> None:
    kept = {
        "was_unknown", "unknown_since", "unknown_cause", "settled_at", "settled_by", "confirmed_at",
        "provider_object_id", "eligible_for_reconciliation_at", "retry_of", "duplicate_suspected", "contradicted",
        "prior_execution", "partial", "over_reserved", "needs_operator", "tier", "evidence",
    }  # fmt: skip

    assert kept <= set(row(SENT, STRIPE, BASE))
    assert set(doubtless(SENT, STRIPE, BASE)) < set(row(SENT, STRIPE, BASE)) < set(detail(SENT, STRIPE, BASE))


def test_a_row_shows_objects_evidence_and_the_person() -> None:
    resolved = after(LOST, Resolved(by="ops", happened=True, text="seen in the dashboard", reference="re_9"))
    seen: dict[str, Any] = row(resolved, STRIPE, BASE)

    assert seen["settled_by"] == {"source": "manual", "by": "ops"}
    assert (seen["provider_object_id"], seen["provider_object_ids"]) == ("re_9", ["re_9"])
    assert seen["grade"] == "acknowledged"
    transport, manual = seen["evidence"]
    assert (transport["source"], transport["verdict"], transport["detail"]) == ("transport", "unclear", "timeout")
    assert (manual["source"], manual["by"], manual["text"]) == ("manual", "ops", "seen in the dashboard")
    assert manual["reference"] == "re_9"
    assert manual["digest"] is None


def test_evidence_bears_time_digest_upstream_status_and_request_id() -> None:
    seen: dict[str, Any] = row(DONE, STRIPE, BASE)
    (evidence,) = seen["evidence"]

    assert (evidence["at"], evidence["source"], evidence["verdict"]) == (NOON, "response", "accepted")
    assert (evidence["digest"], evidence["upstream_status"], evidence["request_id"]) == ("sha256:00", 200, "req_1")
    assert evidence["object_ids"] == ["re_1", "re_2"]
    assert seen["provider_object_id"] == "re_1"


def test_a_detail_shows_dispatches_attempts_and_remarks() -> None:
    looked = ReadBack(Candidates(("re_7",)), scheduled=False)
    seen: dict[str, Any] = detail(after(LOST, looked, Noted("ops", "asked them")), STRIPE, BASE)

    assert seen["dispatches"] == [
        {
            "dispatch_id": "d1-1",
            "owner": "proxy-1",
            "dispatched_at": NOON,
            "send_before": "2026-10-15T12:00:10Z",
            "harvest_end": "2026-10-15T12:02:00Z",
            "ended_at": None,
        }
    ]
    assert seen["attempts"] == [
        {"at": NOON, "result": "candidates", "scheduled": False, "detail": None, "candidates": ["re_7"]}
    ]
    assert seen["notes"] == [{"at": NOON, "by": "ops", "text": "asked them"}]


STATES: Final = {
    "in flight": (SENT, "never", "in flight"),
    "unknown": (LOST, "never", "unknown"),
    "confirmed": (DONE, "never", "happened (not verified)"),
    "confirmed by the record": (
        after(LOST, ReadBack(Found(Accepted(("re_1",))), scheduled=True)),
        "never",
        "happened (verified)",
    ),
    "not sent": (after(SENT, Unsendable("d1-1", Unsent.DNS)), "safe", "did not happen"),
    "not executed": (after(SENT, Responded("d1-1", Rejected(not_executed=True), WHOLE)), "safe", "did not happen"),
    "rejected": (after(SENT, Responded("d1-1", Rejected(), WHOLE)), "new-run", "did not happen"),
    "a person says no": (after(LOST, Resolved(by="ops", happened=False, text="no")), "new-run", "did not happen"),
    "refused": (
        replace(SENT, delivery=NotDispatched(), awaited=False, dispatches=(), cause=Cause.LIMIT_EXHAUSTED),
        "never",
        "blocked",
    ),
    "paused": (
        replace(SENT, delivery=NotDispatched(), awaited=False, dispatches=(), cause=Cause.PAUSED),
        "never",
        "blocked",
    ),
    "contradicted": (
        after(
            SENT,
            Responded("d1-1", Rejected(), WHOLE),
            ReadBack(Found(Accepted(("re_1",))), scheduled=False),
        ),
        "never",
        "did not happen",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("action", "retry", "said"), STATES.values(), ids=STATES)
def test_a_state_says_what_may_be_done_and_has_one_word_for_people(action: Action, retry: str, said: str) -> None:
    seen = doubtless(action, STRIPE, BASE)

    assert seen["retry"] == retry_of(action).value == retry
    assert word(str(seen["status"]), str(seen["grade"])).lower() == said


def test_every_view_is_json_whatever_the_state() -> None:
    for action, _, _ in STATES.values():
        seen = detail(action, STRIPE, BASE)
        assert msgspec.json.decode(msgspec.json.encode(seen)) == seen
        assert seen["action_id"] == action.action_id


def test_a_provider_that_was_taken_out_since_leaves_the_rest_readable() -> None:
    assert doubtless(LOST, None, BASE) == doubtless(LOST, STRIPE, BASE) | {"last_safe_replay_at": None}


# ── Until when a replay is safe ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("action_type", "hours"),
    [
        ("stripe.refund.create", 23),
        ("stripe.post./v1/coupons", 23),
        ("stripe.post./v2/core/accounts", 30 * 24 - 1),
        ("stripe.delete./v2/core/accounts/*", 30 * 24 - 1),
        ("stripe.customer.delete", None),
        ("stripe.invoice.preview", None),
    ],
)
def test_a_replay_is_safe_as_long_as_the_key_is_kept_less_a_margin(action_type: str, hours: int | None) -> None:
    action = make_action(action_type=action_type)

    assert last_safe_replay_ms(action, STRIPE) == (None if hours is None else START_MS + hours * HOUR_MS)


def test_a_replay_is_counted_from_the_keys_first_dispatch() -> None:
    later = replace(SENT.dispatches[0], dispatched_at_ms=START_MS + HOUR_MS, dispatch_id="d1-2")

    assert last_safe_replay_ms(replace(SENT, dispatches=(SENT.dispatches[0], later)), STRIPE) == START_MS + 23 * HOUR_MS


def test_where_no_key_was_sent_no_replay_is_safe() -> None:
    keyless = replace(SENT, identity=replace(SENT.identity, idempotency_key=None))

    assert last_safe_replay_ms(keyless, STRIPE) is None
    assert last_safe_replay_ms(SENT, HOST_ONLY) is None
    assert last_safe_replay_ms(SENT, None) is None
    assert last_safe_replay_ms(make_action(provider="resend", action_type="resend.email.cancel"), RESEND) is None
    assert last_safe_replay_ms(make_action(provider="resend", action_type="resend.email.send"), RESEND) is not None


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00Z"),
        (START_MS, NOON),
        (START_MS + 5, "2026-10-15T12:00:00.005Z"),
        (START_MS + 120, "2026-10-15T12:00:00.120Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_rfc_3339_in_utc(at_ms: int | None, text: str | None) -> None:
    assert iso(at_ms) == text


def test_flags_are_shown_as_they_are() -> None:
    action = replace(
        SENT, duplicate_suspected=True, prior_execution=True, partial=True, over_reserved=True, needs_operator=True,
        tier=Tier.BLIND, amount=Amount(None, "usd"), assignee="ops",
    )  # fmt: skip
    seen = row(action, STRIPE, BASE)

    assert all(seen[flag] is True for flag in ("duplicate_suspected", "prior_execution", "partial", "over_reserved"))
    assert (seen["needs_operator"], seen["tier"], seen["assignee"]) == (True, "blind", "ops")
    assert (seen["amount"], seen["currency"]) == (None, "usd")


def test_a_job_that_may_still_run_shows_what_it_is_called() -> None:
    unclear = Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("job_1",))
    seen = row(step(SENT, Responded("d1-1", unclear, WHOLE), Moment(START_MS, "t"), RULES).action, STRIPE, BASE)

    assert (seen["cause"], seen["delivery"], seen["acceptance"]) == ("non_terminal", "confirmed", "pending")
    assert seen["provider_object_id"] == "job_1"
