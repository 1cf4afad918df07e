"""What the store must know of an action: claims, lists, exposure, its bucket, when it is due, and whose it is."""

from typing import Final

import pytest
from msgspec.structs import replace

from proxy.core.events import AskersGone, Folded, Found, Several
from proxy.core.identity import content_index, event_index, key_index, object_index
from proxy.core.model import FOREVER_MS, Amount, Effect
from proxy.core.records import WAITED_FOR_MS, Bucket, Filter, Period, period_label, project
from tests.core.lives import FAILED, OPEN, RE_1, STATES, answer, lost, read, then
from tests.fakes.actions import RULES, after, make_action
from tests.fakes.clock import START_MS

# state → bucket, exposed, due, owner, in the list of its status, needs_operator, contradicted
PROJECTED: Final = {
    "pending":                (Bucket.RESERVED, False, 15_000, "proxy-1", {"status:pending"}),
    "unknown":                (Bucket.UNKNOWN,  True,  30_000, "", {"status:denied_unresolved"}),
    "reached":                (Bucket.UNKNOWN,  True,  30_000, "", {"status:denied_unresolved"}),
    "key_reused":             (Bucket.UNKNOWN,  True,  None,   "", {"status:denied_unresolved", "needs_operator"}),
    "by_response":            (Bucket.CONSUMED, False, None,   "", set()),
    "by_read_back":           (Bucket.CONSUMED, False, None,   "", set()),
    "by_person":              (Bucket.CONSUMED, False, None,   "", set()),
    "confirmed_contradicted": (Bucket.CONSUMED, False, None,   "", {"contradicted"}),
    "not_sent":               (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "not_executed":           (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "before_execution":       (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "rejected":               (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "person_unsent":          (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "person_rejected":        (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "refused":                (Bucket.RELEASED, False, None,   "", {"status:failed"}),
    "failed_contradicted":    (Bucket.CONSUMED, False, None,   "", {"status:failed", "contradicted"}),
}  # fmt: skip
LISTS: Final = {"status:pending", "status:denied_unresolved", "status:failed", "needs_operator", "contradicted"}


def test_the_projections_leave_no_state_out() -> None:
    assert set(PROJECTED) == set(STATES)


@pytest.mark.parametrize("state", PROJECTED)
def test_each_state_projects_its_bucket_exposure_due_time_owner_and_lists(state: str) -> None:
    bucket, exposed, due_ms, owner, lists = PROJECTED[state]
    projected = project(STATES[state], RULES)
    assert projected.bucket is bucket
    assert projected.exposed == (("stripe", "test", "usd", 5400) if exposed else None)
    assert projected.due_ms == (None if due_ms is None else START_MS + due_ms)
    assert projected.owner == owner
    assert projected.index & LISTS == lists
    assert projected.unresolved is exposed
    assert projected.settled is (bucket in (Bucket.CONSUMED, Bucket.RELEASED) and "contradicted" not in lists)
    assert projected.actual == 5400


# ── Exposure ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("amount", [Amount(), Amount(5400), Amount(None, "usd")])
def test_an_unknown_amount_that_is_not_priced_counts_and_adds_to_no_sum(amount: Amount) -> None:
    assert project(after(make_action(amount=amount), lost()), RULES).exposed == ("stripe", "test", "", 0)


@pytest.mark.parametrize("effect", [Effect.MESSAGE, Effect.RECORD])
def test_only_money_is_exposed(effect: Effect) -> None:
    unknown = after(make_action(effect=effect), lost())
    assert (project(unknown, RULES).exposed, project(unknown, RULES).unresolved) == (None, True)


@pytest.mark.parametrize("state", OPEN)
def test_settling_lets_go_of_the_exposure(state: str) -> None:
    settled = then(make_action(), lost(), read(Found(RE_1)))
    assert project(settled, RULES).exposed is None
    assert (project(STATES[state], RULES).exposed is not None) is STATES[state].unresolved


def test_the_hold_of_an_unknown_action_becomes_consumption_when_it_is_found() -> None:
    unknown = after(make_action(), lost())
    buckets = [project(a, RULES).bucket for a in (make_action(), unknown, after(unknown, read(Found(RE_1))))]
    assert buckets == [Bucket.RESERVED, Bucket.UNKNOWN, Bucket.CONSUMED]


@pytest.mark.parametrize("state", [name for name in FAILED if name != "refused"])
def test_contrary_evidence_consumes_what_was_released(state: str) -> None:
    assert project(then(STATES[state], answer(RE_1)), RULES).bucket is Bucket.CONSUMED


# ── Claims ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_agents_own_key_names_its_action_for_ever() -> None:
    action = after(make_action(aliases=("alias-0",)), Folded("alias-1"), Folded("alias-1"), Folded(None))
    assert project(action, RULES).claims == {("alias", "alias-0"): FOREVER_MS, ("alias", "alias-1"): FOREVER_MS}


def test_a_flood_of_keys_does_not_grow_the_record_without_bound() -> None:
    action = after(make_action(), *(Folded(f"alias-{n}") for n in range(500)))
    assert len(action.aliases) == 64
    assert action.unanswered_folded == 500


def test_an_open_action_claims_its_payload_and_its_targets_for_all_only_where_nobody_waits() -> None:
    waiting = make_action(payload="digest-p", targets=("digest-t", "digest-u+900000"))
    assert project(waiting, RULES).claims == {
        ("payload", "digest-p"): FOREVER_MS,
        ("target", "digest-t"): WAITED_FOR_MS,
        ("target", "digest-u"): WAITED_FOR_MS,
    }
    waiting = make_action(payload="digest-p", targets=("digest-t",))
    assert project(after(waiting, AskersGone()), RULES).claims == {
        ("payload", "digest-p"): FOREVER_MS,
        ("target", "digest-t"): FOREVER_MS,
    }


def test_an_action_without_a_payload_or_target_claims_none() -> None:
    assert project(after(make_action(), lost()), RULES).claims == {}


# ── What is due, and whose it is ──────────────────────────────────────────────────────────────────────────────────────


def test_a_pending_action_is_due_when_the_lease_of_its_dispatch_runs_out() -> None:
    projected = project(make_action(owner="proxy-7"), RULES, lease_ms=9_000)
    assert (projected.due_ms, projected.owner) == (START_MS + 9_000, "proxy-7")


def test_a_pending_action_is_its_owners_until_a_minute_after_its_answer_deadline() -> None:
    assert project(make_action(), RULES).owned_until_ms == START_MS + 25_000 + 60_000
    assert project(STATES["unknown"], RULES).owned_until_ms == 0


def test_an_unknown_action_is_due_for_its_read_back_and_nobodys() -> None:
    action = after(make_action(owner="proxy-7"), lost(), now_ms=START_MS + 25_000)
    assert (project(action, RULES).due_ms, project(action, RULES).owner) == (START_MS + 55_000, "")


# ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_action_is_found_by_its_event_its_key_its_objects_and_the_content_of_its_messages() -> None:
    message = {"/to": "d1", "/subject": "d2"}
    action = after(make_action(content=(message,)), lost(), read(Found(RE_1)))
    ident = action.identity
    assert ident.idempotency_key is not None
    assert project(action, RULES).index == {
        "all",
        f"event:{event_index('default', ident.event_id)}",
        f"key:{key_index('default', 'stripe', 'test', ident.idempotency_key)}",
        f"object:{object_index('default', 'stripe', 're_1')}",
        f"content:{content_index('default', message)}",
    }


def test_an_action_without_a_key_is_not_listed_under_one() -> None:
    action = make_action()
    keyless = replace(action, identity=replace(action.identity, idempotency_key=None))
    assert not [name for name in project(keyless, RULES).index if name.startswith("key:")]


def test_objects_that_only_might_be_ours_are_not_listed_as_ours() -> None:
    action = then(STATES["unknown"], read(Several(("re_1", "re_2"))))
    assert not [name for name in project(action, RULES).index if name.startswith("object:")]


@pytest.mark.parametrize(
    ("wanted", "states"),  # By number in the output: a set has no order that two runs share.
    [
        (Filter(status="unknown"), {"unknown", "reached", "key_reused"}),
        (Filter(status="denied_unresolved"), {"unknown", "reached", "key_reused"}),
        (Filter(status="pending"), {"pending"}),
        (Filter(needs_operator=True), {"key_reused"}),
        (Filter(contradicted=True), {"confirmed_contradicted", "failed_contradicted"}),
        (Filter(grade="refused"), {"refused"}),
        (Filter(grade="acknowledged"), {"by_response", "by_person"}),
        (Filter(status="confirmed", contradicted=False), {"by_response", "by_read_back", "by_person"}),
        (Filter(action_type="stripe.refund.create", provider="stripe", account="test"), set(STATES)),
        (Filter(event_id="ticket-1"), set(STATES)),
        (Filter(account="live"), set()),
    ],
)
def test_a_filter_takes_what_every_field_of_it_holds_for(wanted: Filter, states: set[str]) -> None:
    assert {name for name, action in STATES.items() if wanted.takes(action)} == states


@pytest.mark.parametrize(
    ("period", "label"), [(Period.DAY, "2026-10-15"), (Period.MONTH, "2026-10"), (Period.TOTAL, "total")]
)
def test_the_period_of_a_moment_is_of_utc(period: Period, label: str) -> None:
    midnight_ms = START_MS + 12 * 3_600_000
    assert period_label(period, START_MS) == label
    assert period_label(Period.DAY, midnight_ms - 1) == "2026-10-15"
    assert period_label(Period.DAY, midnight_ms) == "2026-10-16"
