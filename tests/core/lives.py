"""The states that an action can be in, each led to by what happened, and everything that can happen to it there."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import fields, replace

from proxy.core.events import (
    Absent,
    AskersGone,
    Candidates,
    Delivered,
    Event,
    Folded,
    Found,
    Lost,
    Moment,
    Noted,
    Noticed,
    OwnerLost,
    Priced,
    ReadBack,
    Redispatched,
    Refused,
    Replayed,
    Resolved,
    Responded,
    Rules,
    Several,
    Suspected,
    Unreadable,
    Unsendable,
)
from proxy.core.http import Unsent
from proxy.core.lifecycle import step
from proxy.core.model import Action, Amount, Cause
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear, Verdict
from tests.fakes.actions import RULES, after, make_action, make_dispatch
from tests.fakes.clock import START_MS

NOW_MS: Final = START_MS + 130_000  # After the harvest end of a dispatch made at the start.
D1: Final = "d1-1"  # The dispatch of `make_action()`.
D2: Final = "d1-2"
OWNER: Final = "proxy-1"

RE_1: Final = Accepted(("re_1",))
RE_2: Final = Accepted(("re_2",))
SERVER_ERROR: Final = Unclear(Cause.SERVER_ERROR)
MARKED_ERROR: Final = Unclear(Cause.SERVER_ERROR, delivered=True)
NON_TERMINAL: Final = Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("re_1",))
KEY_REUSED: Final = Unclear(Cause.KEY_REUSED, delivered=True)
REJECTED: Final = Rejected()
BEFORE_EXECUTION: Final = Rejected(before_execution=True)
NOT_EXECUTED: Final = Rejected(not_executed=True)
ALREADY_DONE: Final = Rejected(already_done=True)


def whole(status: int, *, replayed: bool = False) -> Reply:
    """Return what is kept of an answer that was read to its end."""
    return Reply(status=status, request_id="req_1", digest="sha256:1", whole=True, replayed=replayed)


def answer(verdict: Verdict, status: int = 200, *, dispatch: str = D1, replayed: bool = False) -> Responded:
    """Return the provider's whole answer to a dispatch, kept where the engine would keep it for an agent."""
    kept = not isinstance(verdict, Unclear) or verdict.cause is Cause.NON_TERMINAL
    return Responded(dispatch, verdict, whole(status, replayed=replayed), kept)


def lost(cause: Cause = Cause.TIMEOUT, dispatch: str = D1) -> Lost:
    return Lost(dispatch, cause)


def unsent(dispatch: str = D1) -> Unsendable:
    return Unsendable(dispatch, Unsent.REFUSED)


def read(finding: Found | Several | Candidates | Absent | Unreadable, *, scheduled: bool = True) -> ReadBack:
    return ReadBack(finding, scheduled)


def says(happened: bool, **more: object) -> Resolved:
    """Return a person's word."""
    return replace(Resolved("ann", happened, "looked it up"), **more)


def again(action: Action, *, dispatch: str = D2, now_ms: int = NOW_MS) -> Redispatched:
    """Return the event of sending an action again."""
    return Redispatched(make_dispatch(now_ms, dispatch), action.amount, action.identity)


def never_dispatched() -> Action:
    """Return an action that is about to be refused: nothing of it was sent."""
    return replace(make_action(), dispatches=())


def at(now_ms: int = NOW_MS) -> Moment:
    return Moment(now_ms, f"{now_ms:016x}")


def then(action: Action, *events: Event, now_ms: int = NOW_MS, rules: Rules = RULES) -> Action:
    """Return what the events make of the action, after its harvest end."""
    return after(action, *events, now_ms=now_ms, rules=rules)


_PENDING: Final = make_action()
_UNKNOWN: Final = after(_PENDING, lost())
_REACHED: Final = after(_PENDING, answer(MARKED_ERROR, 500))
_NOT_SENT: Final = after(_PENDING, unsent())

STATES: Final[dict[str, Action]] = {
    "pending": _PENDING,
    "unknown": _UNKNOWN,
    "reached": _REACHED,
    "key_reused": after(_PENDING, answer(KEY_REUSED, 400)),
    "by_response": after(_PENDING, answer(RE_1)),
    "by_read_back": after(_UNKNOWN, read(Found(RE_1))),
    "by_person": after(_UNKNOWN, says(True, reference="re_1")),
    "confirmed_contradicted": after(_UNKNOWN, read(Found(RE_1)), answer(REJECTED, 402)),
    "not_sent": _NOT_SENT,
    "not_executed": after(_PENDING, answer(NOT_EXECUTED, 429)),
    "before_execution": after(_PENDING, answer(BEFORE_EXECUTION, 400)),
    "rejected": after(_PENDING, answer(REJECTED, 402)),
    "person_unsent": then(_UNKNOWN, says(False)),
    "person_rejected": then(_REACHED, says(False)),
    "refused": after(never_dispatched(), Refused(Cause.LIMIT_EXHAUSTED)),
    "failed_contradicted": after(_NOT_SENT, answer(RE_1)),
}

OPEN: Final = ("pending", "unknown", "reached", "key_reused")
CONFIRMED: Final = ("by_response", "by_read_back", "by_person", "confirmed_contradicted")
FAILED: Final = (
    "not_sent", "not_executed", "before_execution", "rejected", "person_unsent", "person_rejected", "refused",
    "failed_contradicted",
)  # fmt: skip

EVENTS: Final[dict[str, Callable[[Action], Event]]] = {
    "sent_again": again,
    "refused": lambda _: Refused(Cause.LIMIT_EXHAUSTED),
    "not_sent": lambda _: unsent(),
    "not_sent_of_another": lambda _: unsent("d9"),
    "timeout": lambda _: lost(),
    "timeout_of_another": lambda _: lost(dispatch="d9"),
    "accepted": lambda _: answer(RE_1),
    "accepted_another_object": lambda _: answer(RE_2),
    "accepted_in_part": lambda _: answer(Accepted(("re_1",), partial=True)),
    "accepted_as_replay": lambda _: answer(RE_1, replayed=True),
    "accepted_of_another": lambda _: answer(RE_1, dispatch="d9"),
    "rejected": lambda _: answer(REJECTED, 402),
    "rejected_before_execution": lambda _: answer(BEFORE_EXECUTION, 400),
    "not_executed": lambda _: answer(NOT_EXECUTED, 429),
    "already_done": lambda _: answer(ALREADY_DONE, 400),
    "error_marked": lambda _: answer(MARKED_ERROR, 500),
    "error_replayed": lambda _: answer(MARKED_ERROR, 500, replayed=True),
    "error_unmarked": lambda _: answer(SERVER_ERROR, 502),
    "conflict": lambda _: answer(Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True), 409),
    "malformed": lambda _: answer(Unclear(Cause.MALFORMED_RESPONSE, delivered=True)),
    "unrecognised": lambda _: answer(Unclear(Cause.UNRECOGNISED_RESPONSE), 418),
    "non_terminal": lambda _: answer(NON_TERMINAL, 202),
    "key_reused": lambda _: answer(KEY_REUSED, 400),
    "found": lambda _: read(Found(RE_1)),
    "found_another_object": lambda _: read(Found(RE_2)),
    "found_failed": lambda _: read(Found(REJECTED)),
    "found_several": lambda _: read(Several(("re_1", "re_2"))),
    "candidates": lambda _: read(Candidates(("re_8", "re_9"))),
    "absent": lambda _: read(Absent()),
    "absent_on_demand": lambda _: read(Absent(), scheduled=False),
    "unreadable": lambda _: read(Unreadable("status_500")),
    "webhook_accepted": lambda _: Noticed(RE_1, whole(200)),
    "webhook_rejected": lambda _: Noticed(REJECTED, whole(200)),
    "webhook_unclear": lambda _: Noticed(Unclear(Cause.NON_TERMINAL, delivered=True), whole(200)),
    "webhook_aftermath": lambda _: Noticed(REJECTED, whole(200), aftermath=True),
    "replay_accepted": lambda _: Replayed(RE_1, whole(200)),
    "replay_rejected": lambda _: Replayed(REJECTED, whole(402, replayed=True)),
    "replay_unclear": lambda _: Replayed(MARKED_ERROR, whole(500)),
    "person_yes": lambda _: says(True),
    "person_no": lambda _: says(False),
    "person_no_retry": lambda _: says(False, allow_retry=True),
    "owner_lost": lambda _: OwnerLost(OWNER),
    "another_owner_lost": lambda _: OwnerLost("proxy-9"),
    "folded": lambda _: Folded("alias-1"),
    "delivered": lambda _: Delivered(folded=False),
    "delivered_folded": lambda _: Delivered(folded=True),
    "askers_gone": lambda _: AskersGone(),
    "suspected": lambda _: Suspected(),
    "priced": lambda _: Priced(Amount(9900, "eur")),
    "noted": lambda _: Noted("ann", "asked the provider"),
}

_FLAGS: Final = tuple(f.name for f in fields(Action) if f.type is bool and f.name != "awaited")


def axes(action: Action) -> tuple[str, str, str, str]:
    """Return delivery, acceptance, status and cause (`-`: none), as CONTRACT 2.1 writes them."""
    delivery = str(action.delivery.__struct_config__.tag)
    return delivery, action.acceptance.value, action.status.value, action.cause.value if action.cause else "-"


def flags(action: Action) -> frozenset[str]:
    """Return every flag that is set, and `due` where a read-back is scheduled."""
    due = frozenset({"due"} if action.next_readback_ms is not None else ())
    return due | {name for name in _FLAGS if getattr(action, name)}


def check(state: str, event: str, answer: str) -> None:
    """Hold one pair of the table against the machine.

    An answer is `=` (the very same record comes back), or `seen` (the record grew; axes and cause stand), or delivery,
    acceptance, status and cause; then the flags that change, and no other does.
    """
    before = STATES[state]
    result = step(before, EVENTS[event](before), at(), RULES).action
    if answer == "=":
        assert result == before
        return
    words = answer.split()
    told = [word for word in words if word[0] in "+-" and len(word) > 1]
    expected = axes(before) if words[0] == "seen" else tuple(words[: len(words) - len(told)])
    changes = {f"+{name}" for name in flags(result) - flags(before)}
    changes |= {f"-{name}" for name in flags(before) - flags(result)}
    assert result != before
    assert axes(result) == expected
    assert changes == set(told)
    assert result.evidence[: len(before.evidence)] == before.evidence
