"""Histories of an action, for Hypothesis: letters that become events on the state they meet, and the walk along."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

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
from proxy.core.model import Action, Amount, Cause, Effect, Tier
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear, Verdict
from tests.core.lives import STATES, never_dispatched
from tests.fakes.actions import make_action, make_dispatch
from tests.fakes.clock import START_MS

# What an answer may say; every kind of verdict, with everything that another rule hangs on.
VERDICTS: Final[tuple[Verdict, ...]] = (
    Accepted(("re_1",)),
    Accepted(("re_2",), amount=Amount(9900, "usd")),
    Accepted((), partial=True),
    Rejected(),
    Rejected(before_execution=True),
    Rejected(not_executed=True),
    Rejected(already_done=True),
    Unclear(Cause.SERVER_ERROR),
    Unclear(Cause.SERVER_ERROR, delivered=True),
    Unclear(Cause.MALFORMED_RESPONSE, delivered=True, object_ids=("re_1",)),
    Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("re_1",)),
    Unclear(Cause.IDEMPOTENT_CONFLICT, delivered=True),
    Unclear(Cause.KEY_REUSED, delivered=True),
    Unclear(Cause.UNRECOGNISED_RESPONSE),
)
FINDINGS: Final = (
    Found(Accepted(("re_1",))),
    Found(Accepted(("re_2",))),
    Found(Rejected()),
    Several(("re_1", "re_2")),
    Candidates(("re_9",)),
    Absent(),
    Unreadable("status_500"),
)
RULES: Final = (
    Rules(scheduled=True),
    Rules(scheduled=True, attempts=3, min_age_ms=60_000, settle_within_ms=120_000, look_back_ms=600_000),
    Rules(scheduled=False, by_object=True),
    Rules(scheduled=False),
)

Letter = Callable[[Action, int], Event]


class Walked(NamedTuple):
    """One step of a history."""

    before: Action
    event: Event
    after: Action
    now_ms: int


def _id(action: Action, which: int) -> str:
    """Return the ID of the last dispatch (0), of the first (1), or of none."""
    if which == 2 or not action.dispatches:
        return "d-none"
    return action.dispatches[-1 if which == 0 else 0].dispatch_id


def _again(action: Action, now_ms: int) -> Event:
    dispatch = make_dispatch(now_ms, f"d{len(action.dispatches) + 1}")
    return Redispatched(dispatch, action.amount, action.identity)


_WHICH: Final = st.sampled_from((0, 0, 0, 0, 1, 2))  # Mostly the last: that is what happens.
_REPLY: Final = st.builds(Reply, status=st.just(200), whole=st.booleans(), replayed=st.booleans())


def _responded(verdict: Verdict, reply: Reply, which: int, kept: bool) -> Letter:
    return lambda action, _: Responded(_id(action, which), verdict, reply, kept)


def _resolved(happened: bool, allow_retry: bool) -> Letter:
    return lambda *_: Resolved("ann", happened, "looked it up", "re_7", allow_retry)


LETTERS: Final[st.SearchStrategy[Letter]] = st.one_of(
    *(st.just(_again),) * 3,  # As often as agents do.
    st.just(lambda action, _: Unsendable(_id(action, 0), Unsent.CLOSED)),
    st.just(lambda *_: ReadBack(Absent(), scheduled=True)),
    st.builds(_responded, st.sampled_from(VERDICTS), _REPLY, _WHICH, st.booleans()),
    st.builds(_resolved, st.booleans(), st.booleans()),
    _WHICH.map(lambda which: lambda action, _: Unsendable(_id(action, which), Unsent.REFUSED)),
    st.tuples(_WHICH, st.sampled_from((Cause.TIMEOUT, Cause.CONNECTION_LOST, Cause.SHUTDOWN))).map(
        lambda drawn: lambda action, _: Lost(_id(action, drawn[0]), drawn[1])
    ),
    st.builds(ReadBack, st.sampled_from(FINDINGS), st.booleans()).map(lambda event: lambda *_: event),
    st.builds(Noticed, st.sampled_from(VERDICTS), _REPLY, st.booleans()).map(lambda event: lambda *_: event),
    st.builds(Replayed, st.sampled_from(VERDICTS), _REPLY).map(lambda event: lambda *_: event),
    st.sampled_from(
        (
            Refused(Cause.LIMIT_EXHAUSTED),
            OwnerLost("proxy-1"),
            OwnerLost("proxy-2"),
            Folded("alias-1"),
            Folded(None),
            Delivered(folded=False),
            Delivered(folded=True),
            AskersGone(),
            Suspected(),
            Priced(Amount(5400, "usd")),
            Noted("ann", "looking"),
        )
    ).map(lambda event: lambda *_: event),
)
PAUSES_MS: Final = st.sampled_from((0, 1, 30_000, 60_000, 125_000, 3_600_000))
TALE: Final = st.lists(st.tuples(LETTERS, PAUSES_MS), min_size=2, max_size=16)


@st.composite
def starts(draw: st.DrawFn) -> Action:
    """Return an action: just dispatched, about to be refused, or anywhere in its life; of any effect and run."""
    begun = (make_action(), never_dispatched())
    action = draw(st.one_of(st.sampled_from(begun), st.sampled_from([*begun, *STATES.values()])))
    second = {"run": 2, "retry_of": "action-before"} if draw(st.booleans()) else {}
    return replace(
        action,
        identity=replace(action.identity, payload="digest-p", targets=("digest-t",), **second),
        effect=draw(st.sampled_from(Effect)),
        tier=draw(st.sampled_from(Tier)),
        amount=draw(st.sampled_from((Amount(5400, "usd"), Amount(5400), Amount()))),
    )


def walk(action: Action, tale: list[tuple[Letter, int]], rules: Rules) -> Iterator[Walked]:
    """Step through a tale."""
    now_ms = START_MS
    for number, (letter, pause_ms) in enumerate(tale):
        now_ms += pause_ms
        event = letter(action, now_ms)
        after = step(action, event, Moment(now_ms, f"{number:016x}"), rules).action
        yield Walked(action, event, after, now_ms)
        action = after
