"""The promise, against a provider that knows the truth.

Whatever is seen of it, an action that happened is never called failed, one that did not is never called confirmed, and
no second request makes it happen twice. The provider decides what becomes of each dispatch; what is then observed is
true, but may be late, lost, or nothing.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import pytest
from hypothesis import Phase, find, given, settings
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
    Noticed,
    OwnerLost,
    ReadBack,
    Redispatched,
    Replayed,
    Resolved,
    Responded,
    Rules,
    Unreadable,
    Unsendable,
)
from proxy.core.http import Unsent
from proxy.core.lifecycle import step
from proxy.core.model import Action, Cause, Status
from proxy.core.second import Asking, Verb, decide
from proxy.core.verdict import Accepted, Rejected, Reply, Unclear, Verdict
from tests.fakes.actions import make_action, make_dispatch
from tests.fakes.clock import START_MS

EVERY: Final = settings(derandomize=True, deadline=None, database=None, max_examples=600)
RULES: Final = Rules(scheduled=True, attempts=4)
WHOLE: Final = Reply(status=200, whole=True)
REPEATED: Final = Reply(status=200, whole=True, replayed=True)


class Fate(StrEnum):
    """What becomes of a dispatch, in truth."""

    UNSENT = "unsent"
    LIMITED = "limited"
    BEFORE = "rejected before execution"
    REJECTED = "rejected"
    EXECUTED = "executed"


HAPPENED: Final = Accepted(("re_1",))
ANSWERS: Final[dict[Fate, tuple[Verdict, ...]]] = {
    Fate.UNSENT: (),
    Fate.LIMITED: (Rejected(not_executed=True),),
    Fate.BEFORE: (Rejected(before_execution=True),),
    Fate.REJECTED: (Rejected(),),
    Fate.EXECUTED: (
        HAPPENED,
        Unclear(Cause.SERVER_ERROR, delivered=True),
        Unclear(Cause.MALFORMED_RESPONSE, delivered=True),
        Unclear(Cause.NON_TERMINAL, delivered=True, object_ids=("re_1",)),
    ),
}
# A machine between us and the provider may answer in its place, whatever became of the dispatch.
BETWEEN: Final = (Unclear(Cause.SERVER_ERROR), Unclear(Cause.UNRECOGNISED_RESPONSE))

Observe = Callable[[Action, Fate, int], Event | None]


def _answered(index: int, kept: bool) -> Observe:
    def see(action: Action, fate: Fate, _: int) -> Event | None:
        possible = ANSWERS[fate]
        if not possible:
            return None
        return Responded(action.dispatches[-1].dispatch_id, possible[index % len(possible)], WHOLE, kept)

    return see


def _between(verdict: Unclear) -> Observe:
    return lambda action, fate, _: (
        None if fate is Fate.UNSENT else Responded(action.dispatches[-1].dispatch_id, verdict, WHOLE)
    )


def _unsent(action: Action, fate: Fate, _: int) -> Event | None:
    return Unsendable(action.dispatches[-1].dispatch_id, Unsent.CLOSED) if fate is Fate.UNSENT else None


def _lost(cause: Cause) -> Observe:
    return lambda action, *_: Lost(action.dispatches[-1].dispatch_id, cause)


def _record(_: Action, fate: Fate, __: int) -> Event:
    return ReadBack(Found(HAPPENED) if fate is Fate.EXECUTED else Absent(), scheduled=True)


def _webhook(_: Action, fate: Fate, __: int) -> Event | None:
    return Noticed(HAPPENED, WHOLE) if fate is Fate.EXECUTED else None


def _replay(action: Action, fate: Fate, now_ms: int) -> Event | None:
    """Only a replay of what is over; what the provider stored comes back."""
    if not action.unresolved or action.over_at_ms(now_ms) is not None:
        return None
    return {Fate.EXECUTED: Replayed(HAPPENED, REPEATED), Fate.REJECTED: Replayed(Rejected(), REPEATED)}.get(fate)


def _person(action: Action, fate: Fate, now_ms: int) -> Event | None:
    """A person who looked it up, once the last dispatch is over."""
    if action.over_at_ms(now_ms) is not None:
        return None
    return Resolved("ann", fate is Fate.EXECUTED, "looked it up")


def _heard(action: Action, fate: Fate, now_ms: int) -> Event | None:
    """The plain course of things."""
    return _unsent(action, fate, now_ms) or _answered(0, kept=True)(action, fate, now_ms)


SEEN: Final[st.SearchStrategy[Observe]] = st.one_of(
    st.just(_heard),
    st.builds(_answered, st.integers(0, 3), st.booleans()),
    st.sampled_from([_between(verdict) for verdict in BETWEEN]),
    st.sampled_from([_lost(c) for c in (Cause.TIMEOUT, Cause.CONNECTION_LOST, Cause.SHUTDOWN)]),
    st.sampled_from([_unsent, _record, _webhook, _replay, _person]),
    st.sampled_from(
        (
            OwnerLost("proxy-1"),
            ReadBack(Absent(), scheduled=True),  # A record that lags proves nothing.
            ReadBack(Candidates(("re_9",)), scheduled=True),
            ReadBack(Unreadable("status_500"), scheduled=False),
            AskersGone(),
            Folded("alias-1"),
            Delivered(folded=False),
        )
    ).map(lambda event: lambda *_: event),
)
ASKED: Final = st.builds(Asking, st.booleans(), st.booleans(), st.just(value=False), st.just(0), st.booleans())
PAUSES_MS: Final = st.sampled_from((0, 1_000, 61_000, 130_000))
TALE: Final = st.lists(st.tuples(st.one_of(SEEN, ASKED), PAUSES_MS, st.sampled_from(Fate)), max_size=16)
Tale = list[tuple[Observe | Asking, int, Fate]]


class Scope:
    """One scope: its latest run, and the fate of its last dispatch. `executed`: how often it happened, in truth."""

    def __init__(self, fate: Fate) -> None:
        self.action = make_action()
        self.fate = fate
        self.now_ms = START_MS
        self.executed = int(fate is Fate.EXECUTED)
        self.sent = 1

    def see(self, observe: Observe) -> None:
        """Let something be observed of the last dispatch."""
        event = observe(self.action, self.fate, self.now_ms)
        if event is not None:
            self.action = step(self.action, event, Moment(self.now_ms, f"{self.now_ms:016x}"), RULES).action

    def ask(self, asking: Asking, fate: Fate) -> None:
        """Make a second request in the scope, and do what is decided."""
        decision = decide(self.action, replace(asking, now_ms=self.now_ms))
        if decision.verb not in (Verb.SEND_AGAIN, Verb.NEW_RUN):
            return
        self.sent += 1
        self.fate = fate
        self.executed += fate is Fate.EXECUTED
        dispatch = make_dispatch(self.now_ms, f"d{self.sent}")
        if decision.verb is Verb.NEW_RUN:
            run = make_action(now_ms=self.now_ms)
            identity = replace(run.identity, run=self.action.identity.run + 1, retry_of=self.action.action_id)
            self.action = replace(run, identity=identity, dispatches=(dispatch,))
        else:
            again = Redispatched(dispatch, self.action.amount, self.action.identity)
            self.action = step(self.action, again, Moment(self.now_ms, "0"), RULES).action


def told(fate: Fate, tale: Tale) -> Scope:
    """Return what a tale makes of a scope."""
    scope = Scope(fate)
    for happening, pause_ms, next_fate in tale:
        scope.now_ms += pause_ms
        if isinstance(happening, Asking):
            scope.ask(happening, next_fate)
        else:
            scope.see(happening)
    return scope


REACHED: Final[dict[str, Callable[[Scope], bool]]] = {
    "a third dispatch, executed": lambda s: s.sent >= 3 and s.executed == 1,
    "a second run": lambda s: s.action.identity.run == 2,
    "a second run, unknown": lambda s: s.action.identity.run == 2 and s.action.unresolved,
    "confirmed after an unknown outcome": lambda s: s.action.was_unknown and s.action.status is Status.CONFIRMED,
    "failed after an unknown outcome": lambda s: s.action.was_unknown and s.action.status is Status.FAILED,
    "a person called": lambda s: s.action.needs_operator,
}


@pytest.mark.parametrize("end", REACHED)
def test_the_histories_do_get_to(end: str) -> None:
    unshrunk = settings(EVERY, phases=[Phase.generate])
    tale = find(st.tuples(st.sampled_from(Fate), TALE), lambda drawn: REACHED[end](told(*drawn)), settings=unshrunk)
    assert REACHED[end](told(*tale))


@EVERY
@given(st.sampled_from(Fate), TALE)
def test_no_history_contradicts_the_truth_or_makes_it_happen_twice(fate: Fate, tale: Tale) -> None:
    scope = Scope(fate)
    for happening, pause_ms, next_fate in tale:
        scope.now_ms += pause_ms
        if isinstance(happening, Asking):
            scope.ask(happening, next_fate)
        else:
            scope.see(happening)
        assert scope.executed <= 1
        assert scope.action.status is not Status.FAILED or scope.fate is not Fate.EXECUTED
        assert scope.action.status is not Status.CONFIRMED or scope.fate is Fate.EXECUTED
        assert not scope.action.contradicted
        assert len({d.dispatch_id for d in scope.action.dispatches}) == len(scope.action.dispatches)


@EVERY
@given(st.sampled_from([fate for fate in Fate if fate is not Fate.UNSENT]), TALE)
def test_whatever_was_seen_the_truth_settles_what_is_open_in_the_end(fate: Fate, tale: Tale) -> None:
    scope = told(fate, tale)
    scope.now_ms += 130_000
    scope.see(_lost(Cause.TIMEOUT))
    scope.see(_person)
    assert scope.action.status is (Status.CONFIRMED if scope.fate is Fate.EXECUTED else Status.FAILED)
    assert not scope.action.contradicted
