"""Messages are settled by equal content: exactly one, every field, in the window, and no twin of ours (CONTRACT 4)."""

from typing import Any

import pytest

from proxy.core.events import Absent, Candidates, Finding, Found, Unreadable
from proxy.core.http import Answered, Integrity
from proxy.core.readback import Subject
from proxy.core.verdict import Accepted
from tests.core.pure_adapters import RESEND
from tests.core.pure_http import resend
from tests.core.pure_record import MAIL, Json, Record, mailbox, mailed, one, shown

SUBJECT = mailed(MAIL)
OURS = shown(1, MAIL)
HARVEST_S = 120
SKEW_S = 60


def found_in(*mails: Json, subject: Subject = SUBJECT, **options: Any) -> Finding:
    return one(RESEND, mailbox(*mails, **options), subject)


def ids(finding: Finding) -> tuple[str, ...]:
    assert isinstance(finding, Found)
    assert isinstance(finding.verdict, Accepted)
    return finding.verdict.object_ids


def test_exactly_one_equal_message_is_found() -> None:
    others = [shown(n, MAIL | {"subject": f"Other {n}"}) for n in range(2, 5)]

    assert ids(found_in(*others, OURS)) == ("mail-1",)


def test_the_evidence_bears_the_digest_of_the_message_in_full() -> None:
    finding = found_in(OURS)

    assert isinstance(finding, Found)
    assert finding.digest.startswith("sha256:")


def test_only_likely_messages_are_read_in_full() -> None:
    record = mailbox(shown(2, MAIL | {"to": "c@x.example"}), OURS, shown(3, MAIL, after_s=-3600))
    one(RESEND, record, SUBJECT)

    assert record.asked == ["/emails?limit=100", "/emails/mail-1"]


EQUAL = {
    "a single address in the request": (MAIL | {"to": "b@x.example"}, OURS),
    "a single address in the record": (MAIL, OURS | {"to": "b@x.example"}),
    "copies": (MAIL | {"cc": ["c@x.example"]}, shown(1, MAIL | {"cc": ["c@x.example"]})),
    "a text beside the HTML": (MAIL | {"text": "1"}, shown(1, MAIL | {"text": "1"})),
    "text that the provider made of the HTML": (MAIL, OURS | {"text": "1"}),
    "fields that are null in the record": (MAIL, OURS | {"cc": None, "bcc": "", "reply_to": None}),
    "fields that the record leaves out": (MAIL, {n: v for n, v in OURS.items() if n not in ("cc", "bcc", "text")}),
    "HTML of another encoding": (MAIL | {"html": "<p>é😀</p>"}, shown(1, MAIL | {"html": "<p>é😀</p>"})),
}


@pytest.mark.parametrize(("mail", "row"), EQUAL.values(), ids=EQUAL)
def test_a_message_is_equal_with(mail: Json, row: Json) -> None:
    assert ids(found_in(row, subject=mailed(mail))) == ("mail-1",)


@pytest.mark.parametrize("row", [MAIL | {"html": "<p>2</p>"}, MAIL | {"html": "<p>1</p> "}], ids=["text", "space"])
def test_a_message_with_another_body_is_a_candidate(row: Json) -> None:
    assert found_in(shown(1, row)) == Candidates(("mail-1",))


@pytest.mark.parametrize(
    "row",
    [
        MAIL | {"to": ["c@x.example"]},
        MAIL | {"to": ["b@x.example", "c@x.example"]},
        MAIL | {"to": []},
        MAIL | {"subject": "hello"},
        MAIL | {"from": "a@acme.example"},
        MAIL | {"cc": ["c@x.example"]},
        MAIL | {"bcc": "c@x.example"},
        MAIL | {"reply_to": ["c@x.example"]},
    ],
    ids=["recipient", "one more recipient", "no recipient", "subject", "sender", "copy", "blind copy", "reply to"],
)
def test_a_message_with_another_envelope_is_not_like_ours(row: Json) -> None:
    assert found_in(shown(1, row)) == Absent()


def test_a_request_with_more_than_the_record_shows_is_not_settled_by_the_rest() -> None:
    mail = MAIL | {"text": "1"}

    assert found_in(shown(1, mail | {"text": "2"}), subject=mailed(mail)) == Candidates(("mail-1",))
    assert found_in(shown(1, MAIL), subject=mailed(mail)) == Candidates(("mail-1",))


@pytest.mark.parametrize("hidden", ["html", "to", "subject", "from"])
def test_a_record_that_does_not_show_a_field_of_ours_in_full_settles_nothing(hidden: str) -> None:
    record = mailbox(OURS)
    record.objects["/emails/mail-1"] = {name: value for name, value in OURS.items() if name != hidden}

    assert one(RESEND, record, SUBJECT) == Candidates(("mail-1",))


def test_a_record_that_shows_nothing_at_all_settles_nothing() -> None:
    record = Record({"/emails": [{"id": "mail-1", "created_at": OURS["created_at"]}]}, {"/emails/mail-1": {"id": "x"}})

    assert one(RESEND, record, SUBJECT) == Candidates(("mail-1",))


@pytest.mark.parametrize(
    "unseen",
    [
        {"attachments": [{"filename": "a.pdf", "content": "AA=="}]},
        {"template": {"id": "t_1"}},
        {"tags": [{"name": "a", "value": "b"}]},
        {"headers": {"X-A": "b"}},
        {"scheduled_at": "in 1 min"},
    ],
    ids=["attachments", "a template", "tags", "headers", "a schedule"],
)
def test_a_field_that_the_record_never_shows_leaves_a_candidate(unseen: Json) -> None:
    assert found_in(OURS, subject=mailed(MAIL | unseen)) == Candidates(("mail-1",))


def test_a_second_equal_message_makes_both_candidates() -> None:
    assert found_in(shown(2, MAIL, after_s=30), OURS) == Candidates(("mail-2", "mail-1"))


def test_a_twin_of_ours_makes_an_equal_message_a_candidate() -> None:
    assert found_in(OURS, subject=mailed(MAIL, twins=True)) == Candidates(("mail-1",))


@pytest.mark.parametrize(
    ("after_s", "inside"),
    [
        (-SKEW_S, True),
        (-SKEW_S - 1, False),
        (HARVEST_S + SKEW_S, True),
        (HARVEST_S + SKEW_S + 1, False),
    ],
)
def test_only_the_window_of_the_dispatch_counts(after_s: int, inside: bool) -> None:
    finding = found_in(shown(1, MAIL, after_s=after_s))

    assert isinstance(finding, Found) if inside else finding == Absent()


def test_an_equal_message_outside_the_window_is_no_second_one() -> None:
    assert ids(found_in(shown(2, MAIL, after_s=3600), OURS)) == ("mail-1",)


def test_a_message_without_a_readable_time_is_not_ours() -> None:
    assert found_in(OURS | {"created_at": "lately"}) == Absent()


# ── Batches ───────────────────────────────────────────────────────────────────────────────────────────────────────────

ONE, TWO = MAIL | {"to": ["one@x.example"]}, MAIL | {"to": ["two@x.example"]}


def test_a_batch_is_found_when_every_message_is() -> None:
    subject = mailed(ONE, TWO, type_="email.batch")

    assert ids(found_in(shown(2, TWO), shown(1, ONE), subject=subject)) == ("mail-1", "mail-2")


def test_a_batch_of_which_one_is_missing_is_a_candidate() -> None:
    subject = mailed(ONE, TWO, type_="email.batch")

    assert found_in(shown(1, ONE), subject=subject) == Candidates(("mail-1",))
    assert found_in(shown(1, ONE), shown(2, TWO | {"html": "2"}), subject=subject) == Candidates(("mail-1", "mail-2"))
    assert found_in(subject=subject) == Absent()


def test_a_batch_that_has_a_message_twice_is_found_when_the_record_has_it_twice() -> None:
    subject = mailed(ONE, ONE, type_="email.batch")

    assert set(ids(found_in(shown(2, ONE), shown(1, ONE), subject=subject))) == {"mail-1", "mail-2"}
    assert isinstance(found_in(shown(1, ONE), subject=subject), Candidates)
    assert isinstance(found_in(*[shown(n, ONE) for n in (1, 2, 3)], subject=subject), Candidates)


def test_a_request_that_could_not_be_read_is_like_nothing() -> None:
    assert found_in(OURS, subject=mailed({})) == Absent()


# ── What cannot be read ───────────────────────────────────────────────────────────────────────────────────────────────


def test_ours_is_found_on_page_three() -> None:
    others = [shown(n, MAIL | {"subject": f"Other {n}"}) for n in range(2, 6)]
    record = mailbox(*others, OURS, per_page=2)

    assert ids(one(RESEND, record, SUBJECT)) == ("mail-1",)
    assert record.asked[1] == "/emails?limit=100&after=mail-3"


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (resend(500, {}), "status_500"),
        (resend(401, {"name": "restricted_api_key"}), "status_401"),
        (resend(200, {"data": []}, integrity=Integrity.CUT), "cut_short"),
        (None, "no_answer"),
    ],
)
def test_a_list_or_a_message_that_cannot_be_read_leaves_it_open(broken: Answered | None, why: str) -> None:
    others = [shown(n, MAIL | {"subject": f"Other {n}"}) for n in (2, 3)]

    assert found_in(OURS, *others, per_page=2, faults={2: broken}) == Unreadable(why)
    assert found_in(OURS, faults={2: broken}) == Unreadable(why)


def test_a_message_that_the_list_shows_and_nobody_can_read_is_a_candidate() -> None:
    assert found_in(OURS, faults={2: resend(404, {"name": "not_found"})}) == Candidates(("mail-1",))


def test_the_list_is_read_no_further_than_the_window() -> None:
    old = [shown(n, MAIL, after_s=-121 - n) for n in range(2, 8)]
    record = mailbox(OURS, *old, per_page=2)

    assert ids(one(RESEND, record, SUBJECT)) == ("mail-1",)
    assert record.asked == ["/emails?limit=100", "/emails/mail-1"]
