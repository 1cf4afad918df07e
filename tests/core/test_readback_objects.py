"""Reading one object by its ID, and the parts that every read is made of."""

from typing import Any

import pytest
from msgspec.structs import replace

from proxy.core.events import Absent, Candidates, Finding, Found, Unreadable
from proxy.core.http import Answered, Integrity
from proxy.core.payload import parse_json
from proxy.core.readback import Subject, created_ms, fill
from proxy.core.verdict import Accepted, Rejected
from tests.core.pure_adapters import STRIPE, THINGS, route
from tests.core.pure_http import stripe
from tests.core.pure_record import Record, asked, converse, one
from tests.fakes.actions import make_action

DELETED = {"id": "cus_1", "object": "customer", "deleted": True}
SUBJECT = asked({"customer": "cus_1"}, "customer.delete")


def read(answer: Answered | None) -> Finding:
    record = Record(faults={1: answer})
    finding = one(STRIPE, record, SUBJECT)
    assert record.asked == ["/v1/customers/cus_1"]
    return finding


@pytest.mark.parametrize("further", [{}, {"livemode": False}])
def test_what_says_that_it_is_deleted_is_found(further: dict[str, object]) -> None:
    finding = read(stripe(200, DELETED | further))

    assert isinstance(finding, Found)
    assert finding.verdict == Accepted(("cus_1",))
    assert finding.digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        (stripe(404, {"error": {"code": "resource_missing"}}), Absent()),
        (stripe(404, b"<html>"), Absent()),
        (stripe(200, {"id": "cus_1", "object": "customer"}), Absent()),
        (stripe(200, DELETED | {"deleted": False}), Absent()),
        (stripe(200, DELETED | {"livemode": True}), Absent()),
        (stripe(200, b"[]"), Absent()),
        (stripe(410, {}), Unreadable("status_410")),
        (stripe(401, {}), Unreadable("status_401")),
        (stripe(500, {}), Unreadable("status_500")),
        (stripe(200, DELETED, integrity=Integrity.CUT), Unreadable("cut_short")),
        (stripe(200, b"<html>"), Unreadable("not_understood")),
        (None, Unreadable("no_answer")),
    ],
    ids=[
        "a bare 404",
        "a 404 of something between",
        "it is still there",
        "it says that it is not deleted",
        "the other mode",
        "no object",
        "410",
        "401",
        "500",
        "cut short",
        "no JSON",
        "no answer",
    ],
)
def test_anything_else_proves_no_deletion(answer: Answered | None, finding: Finding) -> None:
    assert read(answer) == finding


def test_an_object_whose_id_nobody_knows_is_not_asked_for() -> None:
    record = Record()

    assert one(STRIPE, record, asked({}, "customer.delete")) == Absent()
    assert record.asked == []


@pytest.mark.parametrize("customer", ["", ".", ".."])
def test_an_id_that_would_lead_elsewhere_is_not_asked_for(customer: str) -> None:
    record = Record()

    assert one(STRIPE, record, asked({"customer": customer}, "customer.delete")) == Absent()
    assert record.asked == []


def test_two_actions_on_one_object_ask_for_it_once() -> None:
    record = Record(objects={"/v1/customers/cus_1": DELETED})
    findings = converse(STRIPE, record, SUBJECT, asked({"customer": "cus_1"}, "customer.delete", number=2))

    assert len(record.asked) == 1
    assert all(isinstance(finding, Found) for finding in findings.values())


# ── By an ID that we were given, and lists that need what the request lacks ───────────────────────────────────────────


def thing(type_: str, **other: Any) -> Subject:
    action = make_action(provider="things", account="default", action_type=f"things.{type_}")
    facts = other.pop("facts", {})
    action = replace(action, identity=replace(action.identity, facts=facts, **other.pop("identity", {})), **other)
    return Subject(action, route(THINGS, type_))


@pytest.mark.parametrize(
    ("job", "verdict"),
    [
        ({"id": "job_1", "state": "done"}, Accepted(("job_1",))),
        ({"id": "job_1", "state": "failed"}, Rejected()),
        ({"state": "done"}, Accepted()),
    ],
)
def test_an_object_is_read_by_the_id_that_the_response_gave(job: dict[str, str], verdict: object) -> None:
    record = Record(objects={"/jobs/job_1": job})
    finding = one(THINGS, record, thing("thing.start", object_ids=("job_1", "job_2")))

    assert isinstance(finding, Found)
    assert finding.verdict == verdict
    assert record.asked == ["/jobs/job_1"]


def test_an_object_that_nobody_named_is_read_nowhere() -> None:
    record = Record()

    assert one(THINGS, record, thing("thing.start")) == Absent()
    assert record.asked == []


def test_a_list_is_asked_for_by_our_key_and_by_what_the_request_says() -> None:
    record = Record({"/by-key/ticket-1%3Athings.thing.make": [], "/things": [{"id": "th_1", "owner": "me"}]})

    assert one(THINGS, record, thing("thing.make", facts={"owner": "me"})) == Candidates(("th_1",))
    assert record.asked == ["/by-key/ticket-1%3Athings.thing.make", "/things?owner=me"]


def test_a_list_that_needs_what_the_request_lacks_is_not_asked_for() -> None:
    record = Record()

    assert one(THINGS, record, thing("thing.make", identity={"idempotency_key": None})) == Absent()
    assert record.asked == []


# ── Parts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("/v1/charges/{charge}", "/v1/charges/ch_1"),
        ("/v1/{odd}/x", "/v1/a%2Fb%3Fc%20%25/x"),
        ("{odd}", "a/b?c %"),
        ("{since}", None),
        ("/v1/{charge}/{since}", None),
        ("plain", "plain"),
        ("", ""),
        ("/v1/{empty}", None),
        ("{empty}", ""),
        ("/v1/{up}", None),
    ],
)
def test_a_template_is_filled_with_whole_segments_or_not_at_all(template: str, filled: str | None) -> None:
    assert fill(template, {"charge": "ch_1", "odd": "a/b?c %", "empty": "", "up": ".."}) == filled


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (b"1792065600", 1_792_065_600_000),
        (b'"1792065600"', 1_792_065_600_000),
        (b'"2026-10-15T12:00:00Z"', 1_792_065_600_000),
        (b'"2026-10-15T14:00:00.250+02:00"', 1_792_065_600_250),
        (b'"2026-10-15 12:00:00.123456+00"', 1_792_065_600_123),
        (b'"2026-10-15 12:00:00"', 1_792_065_600_000),
        (b'"yesterday"', None),
        (b'""', None),
        (b"null", None),
        (b"[]", None),
        (b"true", None),
        (b"1792065600.5", None),
        (b"-1", None),
        (b"9" * 5000, None),
        (b'"0001-01-01T00:00:00+23:59"', -62135683140000),
        (b'"9999-12-31T23:59:59-23:59"', 253402387139000),
    ],
)
def test_a_time_is_read_from_seconds_and_from_rfc_3339_and_never_fails(written: bytes, ms: int | None) -> None:
    assert created_ms(parse_json(b'{"at":' + written + b"}"), "/at") == ms


def test_a_time_that_no_pointer_names_is_none() -> None:
    assert created_ms(parse_json(b"1792065600"), "") is None
