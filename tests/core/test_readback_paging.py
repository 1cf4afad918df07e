"""Reading a list to its end: what is cut short is unreadable, never absent; one scan serves every action due."""

from typing import Any
from urllib.parse import parse_qsl

import pytest
from msgspec import structs

from proxy.core.events import Absent, Candidates, Found, Several, Unreadable
from proxy.core.http import Answered, Integrity
from proxy.core.readback import PAGES_MOST, TYPES_MOST, Inquiry, Subject
from tests.core.pure_adapters import STRIPE
from tests.core.pure_http import stripe
from tests.core.pure_record import (
    EVENTS,
    REFUNDED,
    START_S,
    VAULT,
    Json,
    Record,
    asked,
    converse,
    event,
    foreign,
    key,
    one,
    refund,
)

SUBJECT = asked(REFUNDED)
OURS = event(1, key(SUBJECT), refund())
FIRST_S, LAST_S = START_S - 600, START_S + 300


def events(*items: Json, **options: Any) -> Record:
    return Record({EVENTS: items, "/v1/refunds": ()}, **options)


def query(target: str) -> list[tuple[str, str]]:
    return parse_qsl(target.partition("?")[2])


def pages_asked(record: Record) -> int:
    return sum(target.startswith(EVENTS) for target in record.asked)


def test_ours_is_found_on_page_three() -> None:
    record = events(*foreign(5), OURS, *foreign(2), per_page=2)

    assert isinstance(one(STRIPE, record, SUBJECT), Found)
    assert pages_asked(record) == 4


def test_every_page_repeats_the_question_and_goes_on_after_the_last_item() -> None:
    record = events(*foreign(5), per_page=2)
    one(STRIPE, record, SUBJECT)
    first, second, third = (query(target) for target in record.asked if target.startswith(EVENTS))

    assert second == [*first, ("starting_after", "evt_1004")]
    assert third == [*first, ("starting_after", "evt_1002")]


BROKEN: dict[str, tuple[Answered | None, str]] = {
    "500": (stripe(500, {"error": {}}), "status_500"),
    "401": (stripe(401, {"error": {}}), "status_401"),
    "403": (stripe(403, {"error": {}}), "status_403"),
    "404": (stripe(404, {"error": {}}), "status_404"),
    "429": (stripe(429, {"error": {}}), "status_429"),
    "a redirect": (stripe(302, b""), "status_302"),
    "no answer": (None, "no_answer"),
    "cut short": (stripe(200, {"data": [], "has_more": False}, integrity=Integrity.CUT), "cut_short"),
    "bytes after it": (stripe(200, {"data": [], "has_more": False}, integrity=Integrity.TRAILING), "cut_short"),
    "no JSON": (stripe(200, b"<html>"), "not_understood"),
    "half of the JSON": (stripe(200, b'{"data": [{"id"'), "not_understood"),
    "no list": (stripe(200, {"object": "list"}), "not_understood"),
    "an object in place of the list": (stripe(200, {"data": {}}), "not_understood"),
    "two lists": (stripe(200, b'{"data":[],"data":[],"has_more":false}'), "not_understood"),
    "206": (stripe(206, {"data": [], "has_more": False}), "status_206"),
}


@pytest.mark.parametrize(("broken", "why"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("page", [1, 2])
def test_a_page_that_cannot_be_read_makes_the_list_unreadable(page: int, broken: Answered | None, why: str) -> None:
    record = events(*foreign(4), OURS, per_page=2, faults={page: broken})

    assert one(STRIPE, record, SUBJECT) == Unreadable(why)
    assert pages_asked(record) == page


def test_what_was_found_before_a_page_broke_is_found() -> None:
    record = events(OURS, *foreign(4), per_page=2, faults={2: stripe(500, b"")})

    assert isinstance(one(STRIPE, record, SUBJECT), Found)


def test_two_of_ours_before_a_page_broke_are_several() -> None:
    second = event(2, key(SUBJECT), refund(2))
    record = events(second, OURS, *foreign(4), per_page=2, faults={2: stripe(500, b"")})

    assert one(STRIPE, record, SUBJECT) == Several(("re_2", "re_1"))


def lying(page: Json) -> Record:
    """A list that says the same on every page."""
    return Record({}, {EVENTS: page, "/v1/refunds": {"data": [], "has_more": False}})


@pytest.mark.parametrize(
    ("page", "asked_at_most"),
    [
        ({"data": [], "has_more": True}, 1),
        ({"data": foreign(2), "has_more": True}, 2),
        ({"data": [{"object": "event"}], "has_more": True}, 1),
        ({"data": [{"id": {}}], "has_more": True}, 1),
    ],
    ids=["more, and nothing there", "the same page again", "no cursor", "a cursor that is none"],
)
def test_a_list_that_lies_about_what_follows_is_unreadable(page: Json, asked_at_most: int) -> None:
    record = lying(page)

    assert one(STRIPE, record, SUBJECT) == Unreadable("paging")
    assert pages_asked(record) == asked_at_most


def test_a_list_without_end_is_left_unreadable() -> None:
    turns: list[str] = []

    def endless(target: str) -> Answered:
        turns.append(target)
        if not target.startswith(EVENTS):
            return stripe(200, {"data": [], "has_more": False})
        return stripe(200, {"data": [{"id": f"evt_{len(turns)}"}], "has_more": True})

    assert one(STRIPE, endless, SUBJECT) == Unreadable("paging")
    assert len(turns) == PAGES_MOST + 1


def test_a_list_is_read_until_its_window_is_passed() -> None:
    late, old = foreign(2, created=LAST_S), foreign(6, created=FIRST_S - 1)
    record = events(*late, *old, OURS, per_page=2)

    assert one(STRIPE, record, SUBJECT) == Absent()
    assert pages_asked(record) == 2


def test_the_window_begins_ten_minutes_before_the_dispatch() -> None:
    record = events()
    one(STRIPE, record, SUBJECT)

    assert ("created[gte]", str(FIRST_S)) in query(record.asked[0])


def test_an_event_at_the_very_beginning_of_the_window_is_read() -> None:
    record = events(*foreign(1), event(1, key(SUBJECT), refund(), created=FIRST_S), *foreign(1), per_page=2)

    assert isinstance(one(STRIPE, record, SUBJECT), Found)
    assert pages_asked(record) == 2


def test_one_scan_serves_ten_actions() -> None:
    subjects = [asked({"charge": f"ch_{n}"}, number=n) for n in range(1, 11)]
    ours = [event(n, key(subject), refund(n, charge=f"ch_{n}")) for n, subject in enumerate(subjects, 1) if n != 4]
    record = events(*reversed(ours), *foreign(3), per_page=5)
    findings = converse(STRIPE, record, *subjects)

    assert [type(findings[subject.action.action_id]) for subject in subjects] == [Found] * 3 + [Absent] + [Found] * 6
    assert pages_asked(record) == 3


def test_a_shared_scan_begins_with_the_earliest_of_its_actions() -> None:
    dispatch = structs.replace(SUBJECT.action.dispatches[0], dispatched_at_ms=(START_S - 3600) * 1000)
    earlier = asked({"charge": "ch_2"}, number=2)
    earlier = structs.replace(earlier, action=structs.replace(earlier.action, dispatches=(dispatch,)))
    for subjects in ([SUBJECT, earlier], [earlier, SUBJECT]):
        record = events()
        converse(STRIPE, record, *subjects)
        assert ("created[gte]", str(START_S - 3600 - 600)) in query(record.asked[0])


def test_the_window_counts_from_the_first_dispatch() -> None:
    first = structs.replace(SUBJECT.action.dispatches[0], dispatched_at_ms=(START_S - 7200) * 1000)
    action = structs.replace(SUBJECT.action, dispatches=(first, *SUBJECT.action.dispatches))
    record = events()
    one(STRIPE, record, structs.replace(SUBJECT, action=action))

    assert ("created[gte]", str(START_S - 7200 - 600)) in query(record.asked[0])


def types_asked(*subjects: Subject) -> list[str]:
    record = events()
    record.objects |= {"/v1/charges": {"data": []}, "/v1/payment_intents": {"data": []}, "/v1/transfers": {"data": []}}
    converse(STRIPE, record, *subjects)
    return [value for name, value in query(record.asked[0]) if name == "types[]"]


def test_only_the_events_that_matter_are_asked_for() -> None:
    assert types_asked(SUBJECT) == ["charge.refunded", "refund.created", "refund.failed"]
    assert types_asked(SUBJECT, asked({}, "transfer.create", number=2)) == [
        "charge.refunded",
        "refund.created",
        "refund.failed",
        "transfer.created",
    ]


def test_more_types_than_stripe_takes_are_not_named_at_all() -> None:
    many = [asked({}, route.type, number=n) for n, route in enumerate(STRIPE.doc.action, 1) if route.events]

    assert len({event for subject in many for event in subject.route.events}) > TYPES_MOST
    assert types_asked(*many) == []


def test_an_action_that_wants_every_event_takes_the_filter_from_all() -> None:
    assert types_asked(SUBJECT, asked({}, "post./v1/coupons", number=2)) == []


def test_objects_that_look_like_ours_are_candidates_and_no_more() -> None:
    alike = refund(7, created=START_S)
    old, other, elsewhere = refund(8, created=FIRST_S - 1), refund(9, amount=1), refund(10, charge="ch_2")
    record = Record({EVENTS: (), "/v1/refunds": [alike, other, elsewhere, old]})

    assert one(STRIPE, record, SUBJECT) == Candidates(("re_7",))
    assert ("charge", "ch_1") in query(record.asked[1])
    assert not [name for name, _ in query(record.asked[1]) if name == "payment_intent"]


def test_candidates_of_a_broken_scan_stay_unreadable() -> None:
    record = Record({EVENTS: (), "/v1/refunds": [refund(7)]}, faults={1: stripe(500, b"")})

    assert one(STRIPE, record, SUBJECT) == Unreadable("status_500")


def test_a_broken_list_of_candidates_hides_nothing() -> None:
    assert one(STRIPE, events(faults={2: stripe(500, b"")}), SUBJECT) == Absent()


def test_where_nothing_is_known_of_an_action_nothing_is_like_it() -> None:
    record = Record({EVENTS: (), "/v1/refunds": [refund(7)]})

    assert one(STRIPE, record, asked({})) == Absent()


def test_an_answer_to_no_question_is_a_mistake_of_ours() -> None:
    inquiry = Inquiry(STRIPE, (), VAULT.digests)

    assert inquiry.ask() is None
    assert inquiry.findings() == {}
    with pytest.raises(RuntimeError):
        inquiry.hear(None)
